"""The AppConfig document: what an operator may change within a minute, checked before it is deployed.

Every field is optional and falls back to the default; an unknown one is refused. Spans are in seconds.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from hookkeeper.domain.circuit import CircuitRules
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.delivery import MAX_KEPT_ATTEMPTS, MAX_QUEUE_DELAY, RetryRules
from hookkeeper.domain.endpoint import EndpointRefusedError, canonical_url
from hookkeeper.domain.fuse import MOST_HOSTS, FuseRules
from hookkeeper.domain.health import PRESETS, AutoSuspend, Limit, Policy
from hookkeeper.domain.ladder import AutoProbe
from hookkeeper.domain.mailbox import MailRules
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Pace

_T = TypeVar("_T")

MAX_SPAN_SECONDS = 7 * 24 * 3600
MAX_RETENTION_DAYS = 14
"""The archive's objects live 16 days."""

Seconds = Annotated[float, Field(gt=0, le=MAX_SPAN_SECONDS)]
Gaps = Annotated[list[Seconds], Field(min_length=1, max_length=MAX_KEPT_ATTEMPTS - 1)]
Rate = Annotated[float, Field(gt=0, le=1000)]
SliceSeconds = Annotated[int, Field(ge=1, le=int(MAX_QUEUE_DELAY.total_seconds()))]
"""A slice is sent by DelaySeconds, which ends at 15 minutes."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LimitPart(_Part):
    """A row of a policy: suspended at this count and this age."""

    count: Annotated[int, Field(ge=1)]
    age_seconds: Annotated[float, Field(ge=0, le=30 * 24 * 3600)]

    def limit(self) -> Limit:
        return Limit(self.count, timedelta(seconds=self.age_seconds))


class LimitsPart(_Part):
    """Rows by class. A row that is left out stays as it is; null takes it away."""

    retryable: LimitPart | None = None
    permanent: LimitPart | None = None
    fatal: LimitPart | None = None

    def over(self, limits: Mapping[Outcome, Limit]) -> dict[Outcome, Limit]:
        rows = {Outcome(name): getattr(self, name) for name in self.model_fields_set}
        kept = {outcome: limit for outcome, limit in limits.items() if outcome not in rows}
        return kept | {outcome: row.limit() for outcome, row in rows.items() if row is not None}


class PresetPart(_Part):
    """A preset changed, or a new one; it starts from `like`, else from itself, else from graded."""

    like: str | None = None
    limits: LimitsPart = LimitsPart()
    auto_suspend: AutoSuspend | None = None
    auto_probe: AutoProbe | None = None
    probe_on_reenable: bool | None = None

    def policy(self, name: str) -> Policy:
        base = PRESETS[self.like or (name if name in PRESETS else "graded")]
        probes, suspends = self.probe_on_reenable, self.auto_suspend
        return replace(
            base,
            name=name,
            limits=self.limits.over(base.limits),
            auto_suspend=base.auto_suspend if suspends is None else suspends,
            auto_probe=self.auto_probe or base.auto_probe,
            probe_on_reenable=base.probe_on_reenable if probes is None else probes,
        )


class CircuitPart(_Part):
    opens_at: Annotated[int, Field(ge=1, le=100)] | None = None
    opens_within_seconds: Seconds | None = None
    first_open_seconds: Seconds | None = None
    longest_open_seconds: Seconds | None = None
    first_wake_seconds: Seconds | None = None
    longest_wake_seconds: Seconds | None = None


class RetriesPart(_Part):
    """The gaps between a sequence's attempts, and when its one automatic recovery comes."""

    live_seconds: Gaps | None = None
    short_seconds: Gaps | None = None
    automatic_recovery_after_seconds: Seconds | None = None


class PacePart(_Part):
    canaries: Annotated[int, Field(ge=0, le=100)] | None = None
    start_per_second: Rate | None = None
    most_per_second: Rate | None = None
    slice_seconds: SliceSeconds | None = None
    longest_slice_seconds: SliceSeconds | None = None
    slow_below_per_second: Rate | None = None


class MailPart(_Part):
    """How owners are written to: see domain/mailbox.py."""

    gather_seconds: Annotated[float, Field(ge=0, le=3600)] | None = None
    mails_a_day: Annotated[int, Field(ge=1, le=1000)] | None = None


class FusePart(_Part):
    """How many hosts may be suspended in a span; a `canary_url` of null asks no address at all."""

    least_hosts: Annotated[int, Field(ge=1, le=MOST_HOSTS)] | None = None
    share_of_hosts: Annotated[float, Field(gt=0, le=1)] | None = None
    span_seconds: Seconds | None = None
    canary_url: str | None = None

    @field_validator("canary_url")
    @classmethod
    def _canary_may_be_asked(cls, url: str | None) -> str | None:
        try:
            return canonical_url(url).text if url is not None else None
        except EndpointRefusedError as error:
            raise ValueError(f"canary_url: {error}") from error

    def rules(self) -> FuseRules:
        rules = _changed(FuseRules(), self)
        return replace(rules, canary_url=None) if self._silenced else rules

    @property
    def _silenced(self) -> bool:
        return "canary_url" in self.model_fields_set and self.canary_url is None


class RuntimeDocument(_Part):
    """The whole document; `{}` is a good one."""

    presets: dict[str, PresetPart] = {}
    subscription_policies: dict[str, str] = {}
    tenant_policies: dict[str, str] = {}
    auto_suspend: AutoSuspend = AutoSuspend.ENFORCE
    fuse: FusePart = FusePart()
    circuit: CircuitPart = CircuitPart()
    retries: RetriesPart = RetriesPart()
    pace: PacePart = PacePart()
    mail: MailPart = MailPart()
    retention_days: Annotated[int, Field(ge=1, le=MAX_RETENTION_DAYS)] | None = None

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for name, preset in self.presets.items():
            if preset.like is not None and preset.like not in PRESETS:
                raise ValueError(
                    f"preset {name} is like {preset.like!r}, which is none of {', '.join(PRESETS)}"
                )
        for held, name in (*self.tenant_policies.items(), *self.subscription_policies.items()):
            if name not in PRESETS and name not in self.presets:
                raise ValueError(f"{held} is held to {name!r}, which is no preset")
        return self

    @model_validator(mode="after")
    def _firsts_are_not_longer_than_the_longest(self) -> Self:
        config = self.config()
        for shorter, longer, what in (
            (config.circuit.first_open, config.circuit.longest_open, "circuit's first_open_seconds"),
            (config.circuit.first_wake, config.circuit.longest_wake, "circuit's first_wake_seconds"),
            (config.pace.slice_seconds, config.pace.longest_slice_seconds, "pace's slice_seconds"),
            (config.pace.start_per_second, config.pace.most_per_second, "pace's start_per_second"),
        ):
            if shorter > longer:  # type: ignore[operator]  # each row compares its own kind
                raise ValueError(f"{what} is more than the most there is")
        return self

    def config(self) -> RuntimeConfig:
        """What it means, defaults filled in."""
        defaults = RuntimeConfig()
        retention = self.retention_days
        return RuntimeConfig(
            policies={**PRESETS, **{name: preset.policy(name) for name, preset in self.presets.items()}},
            subscription_policies=self.subscription_policies,
            tenant_policies=self.tenant_policies,
            auto_suspend=self.auto_suspend,
            fuse=self.fuse.rules(),
            circuit=_changed(CircuitRules(), self.circuit),
            retries=_changed(RetryRules(), self.retries),
            pace=_changed(Pace(), self.pace),
            mail=_changed(MailRules(), self.mail),
            retention=defaults.retention if retention is None else timedelta(days=retention),
        )


def _changed(default: _T, part: _Part) -> _T:
    """The rules with the fields that the part gives; `<field>_seconds` of a span is read as one."""
    changes: dict[str, Any] = {}
    for name, value in part:
        if value is None:
            continue
        if hasattr(default, name):
            changes[name] = value
        elif isinstance(value, list):
            changes[name.removesuffix("_seconds")] = tuple(timedelta(seconds=each) for each in value)
        else:
            changes[name.removesuffix("_seconds")] = timedelta(seconds=value)
    return replace(default, **changes)  # type: ignore[type-var]  # always a dataclass of the domain


def faults_of(text: bytes | str) -> list[str]:
    """Every reason not to take the document, each with its JSON pointer; none of a good one."""
    try:
        RuntimeDocument.model_validate_json(text)
    except ValidationError as error:
        return [_fault(each) for each in error.errors(include_url=False, include_context=False)]
    return []


def _fault(error: ErrorDetails) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in error["loc"])
    return f"{''.join(f'/{step}' for step in steps)} {error['msg']}".strip()
