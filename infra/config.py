"""The tunables of each stage: what may differ between a laptop and production, on one page."""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hookkeeper.domain.access import STANDARD
from hookkeeper.runtime_document import faults_of

ROUTING_CACHE_SECONDS = 10
"""How long a warm fan_out may believe an old route (SPEC §7)."""

ARCHIVE_DAYS = 16
"""How long its bytes live: longer than any queue, dead-letter queue or recovery may still ask for them."""


MOST_STATIC_IPS = 3
"""One for each availability zone that the VPC spans."""


OPERATORS_PLAN = "operators"
"""The usage plan of operators' keys; no tenant is put on it."""

_PLAN_NAME = re.compile(r"[a-z][a-z0-9]{0,30}")


class StageRefusedError(Exception):
    """The context asks for a stage that must not be synthesised; the sentence says what to change."""


@dataclass(frozen=True, slots=True)
class Size:
    """What one function may use of memory and time."""

    memory_mib: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Feed:
    """How a queue feeds its function.

    `receives` is how often a message may come back before it is dead (SPEC §8: a receive is cheap, a
    dead letter is not); `max_concurrency` is the event source's, 2 to 1,000. A batch of more than ten needs
    a window of a second.
    """

    batch_size: int
    window_seconds: int
    receives: int
    max_concurrency: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How often one tenant may call: a steady rate, a burst above it, and a day's quota, 0 for none."""

    requests_per_second: float
    burst: int
    requests_per_day: int = 0


DEFAULT_PLAN = Plan(50, 100)


@dataclass(frozen=True, slots=True)
class StageConfig:
    """Everything that may differ between stages."""

    stage: str
    sender: str
    """The address that notices come from."""
    sender_domain: str | None = None
    """Its domain, if that is the identity that SES verifies; without it, the address is."""
    hosted_zone_id: str | None = None
    """Of the domain in Route 53, where the stack then puts the DKIM records itself."""
    alarm_topic: str | None = None
    """ARN of an SNS topic that is told of alarms; without it the stack has one of its own."""
    static_ips: int = 0
    """NAT gateways that deliver and contact go out by, so that customers know our addresses; 0 is none."""
    log_level: str = "INFO"

    authorizer: Size = Size(512, 10)
    api: Size = Size(1024, 29)
    console: Size = Size(1024, 29)
    fan_out: Size = Size(512, 120)
    deliver: Size = Size(512, 120)
    """Both wait for most of their time; twice the memory is twice the price of waiting."""
    contact: Size = Size(512, 60)
    recover: Size = Size(1024, 120)
    notify: Size = Size(512, 60)
    sweep: Size = Size(1024, 55)
    validate_config: Size = Size(256, 10)
    watch_audit: Size = Size(256, 30)

    events: Feed = Feed(100, 1, 100, 20)
    deliveries: Feed = Feed(25, 1, 20, 50)
    backfill: Feed = Feed(25, 1, 20, 10)
    notices: Feed = Feed(10, 0, 20, 2)
    contacts: Feed = Feed(5, 0, 20, 5)
    account_concurrency: int = 1000
    """What Lambda lets the account run at once; a new account has 10 until it asks for more."""

    least_margin_seconds: int = 300
    """No outage starts later than this before what began it (SPEC §9: at 30 s events are lost)."""
    keep_data: bool = True
    embedded: bool = False
    """On the embedded AWS: the host's architecture, no third-party layer, the caller's own credentials."""

    allowed_private_cidrs: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    extra_ca_file: str | None = None

    gateway_url: str | None = None
    """Where the embedded AWS serves APIs by id; AWS gives each a name of its own."""
    runtime_document: Mapping[str, Any] = field(default_factory=dict)
    """The first runtime configuration: what differs from the defaults in the code."""

    requests_per_second: int = 200
    burst: int = 400
    """Of all callers together; the account's own limit is 10,000."""
    plans: Mapping[str, Plan] = field(default_factory=lambda: {STANDARD: DEFAULT_PLAN})
    """What one tenant may take of it, by the name of its plan; whoever was put on none is on `standard`."""
    domain_name: str | None = None
    certificate_arn: str | None = None
    """A name of your own for the API, and its certificate in the stack's region."""
    firewall: bool = False
    """A web ACL before the API, about $10 a month and 60 cents a million calls."""

    @property
    def margin_seconds(self) -> int:
        """The outage margin: longer than an event can take from its archiving to its attempt.

        That is one run of fan_out, the life of a cached route, and one batch of deliver.
        """
        path = self.fan_out.timeout_seconds + ROUTING_CACHE_SECONDS + self.deliver.timeout_seconds
        return max(self.least_margin_seconds, path)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """Every event source's."""
        return self.events, self.deliveries, self.backfill, self.notices, self.contacts


def stage_config(context: Callable[[str], Any]) -> StageConfig:
    """The stage that the CDK context asks for. Raises StageRefusedError."""
    stage = context("stage") or "dev"
    if stage not in _STAGES:
        raise StageRefusedError(f"stage is {stage!r}; it must be one of {', '.join(_STAGES)}")
    return _within_the_account(_checked(_STAGES[stage](context)))


def _dev(context: Callable[[str], Any]) -> StageConfig:
    return replace(_on_aws("dev", context), log_level="DEBUG", keep_data=False)


def _prod(context: Callable[[str], Any]) -> StageConfig:
    return replace(_on_aws("prod", context), extra_ca_file=context("extra_ca_file"))


def _on_aws(stage: str, context: Callable[[str], Any]) -> StageConfig:
    return StageConfig(
        stage=stage,
        sender=_sender(context),
        sender_domain=context("sender_domain"),
        hosted_zone_id=context("hosted_zone_id"),
        alarm_topic=context("alarm_topic"),
        static_ips=_number(context, "static_ips", 0),
        account_concurrency=_number(context, "account_concurrency", 1000),
        runtime_document=_document(context("runtime_document")),
        plans={STANDARD: DEFAULT_PLAN} | _plans(context("plans")),
        domain_name=context("domain_name"),
        certificate_arn=context("certificate_arn"),
        firewall=_switch(context, "firewall"),
        allowed_private_cidrs=_words(context("allowed_private_cidrs")),
        allowed_hosts=_words(context("allowed_hosts")),
    )


def _local(context: Callable[[str], Any]) -> StageConfig:
    return StageConfig(
        stage="local",
        sender=context("sender") or "hookkeeper@localhost.example",
        fan_out=Size(512, 10),
        deliver=Size(512, 25),
        contact=Size(512, 20),
        recover=Size(512, 25),
        events=Feed(100, 1, 100, 2),
        deliveries=Feed(25, 1, 20, 2),
        backfill=Feed(25, 1, 20, 2),
        least_margin_seconds=0,
        keep_data=False,
        embedded=True,
        gateway_url=context("gateway_url"),
        allowed_private_cidrs=("127.0.0.0/8", "::1/128"),
        allowed_hosts=("localhost",),
        extra_ca_file=context("extra_ca_file"),
    )


_STAGES: dict[str, Callable[[Callable[[str], Any]], StageConfig]] = {
    "dev": _dev,
    "prod": _prod,
    "local": _local,
}


def _sender(context: Callable[[str], Any]) -> str:
    sender = context("sender")
    if not sender:
        raise StageRefusedError(
            "no sender address: say which address mails its notices, with `-c sender=webhooks@example.com`"
        )
    return str(sender)


def _number(context: Callable[[str], Any], name: str, default: int) -> int:
    value = context(name)
    try:
        return default if value is None else int(value)
    except ValueError:
        raise StageRefusedError(f"{name} is {value!r}; it must be a number") from None


def _switch(context: Callable[[str], Any], name: str) -> bool:
    value = str(context(name) or "off").lower()
    if value not in ("on", "off", "true", "false"):
        raise StageRefusedError(f"{name} is {value!r}; it must be on or off")
    return value in ("on", "true")


def _plans(value: Any) -> dict[str, Plan]:
    """JSON, or the object that cdk.json holds: `{"gold": {"requests_per_second": 200, "burst": 400}}`."""
    try:
        told = json.loads(value) if isinstance(value, str) else value or {}
        plans = {name: Plan(**limits) for name, limits in told.items()}
        mute = [n for n, p in plans.items() if p.requests_per_second <= 0 or p.burst < 1]
    except (ValueError, TypeError, AttributeError) as error:
        raise StageRefusedError(f"plans: {error}") from error
    if mute:
        raise StageRefusedError(f"plans: {', '.join(mute)} lets nobody call")
    for name in plans:
        if not _PLAN_NAME.fullmatch(name) or name == OPERATORS_PLAN:
            raise StageRefusedError(f"plans: {name!r} is no name for a plan of tenants")
    return plans


def _document(value: Any) -> Mapping[str, Any]:
    """The first runtime configuration: JSON, or the object that cdk.json holds."""
    if not value:
        return {}
    text = value if isinstance(value, str) else json.dumps(value)
    if faults := faults_of(text):
        raise StageRefusedError("runtime_document: " + "; ".join(faults))
    document: dict[str, Any] = json.loads(text)
    return document


def _within_the_account(config: StageConfig) -> StageConfig:
    """Event sources that together take at most half of the account's concurrency: people call the API too.

    Two each is the least that Lambda takes, so an account of ten has none to spare.
    """
    asked = sum(feed.max_concurrency for feed in config.feeds)
    share = min(1.0, config.account_concurrency / 2 / asked)

    def within(feed: Feed) -> Feed:
        return replace(feed, max_concurrency=max(2, int(feed.max_concurrency * share)))

    return replace(
        config,
        events=within(config.events),
        deliveries=within(config.deliveries),
        backfill=within(config.backfill),
        notices=within(config.notices),
        contacts=within(config.contacts),
    )


def _words(value: Any) -> tuple[str, ...]:
    return tuple(filter(None, (value or "").split(",")))


def _checked(config: StageConfig) -> StageConfig:
    if config.stage == "prod" and (
        config.allowed_private_cidrs or config.allowed_hosts or config.extra_ca_file
    ):
        raise StageRefusedError(
            "a production stage reaches public addresses only: "
            "remove allowed_private_cidrs, allowed_hosts and extra_ca_file from the context"
        )
    if config.sender_domain and not config.sender.endswith(f"@{config.sender_domain}"):
        raise StageRefusedError(
            f"sender {config.sender} is no address of sender_domain {config.sender_domain}"
        )
    if config.hosted_zone_id and not config.sender_domain:
        raise StageRefusedError("hosted_zone_id is for the records of a sender_domain, which is not given")
    if not 0 <= config.static_ips <= MOST_STATIC_IPS:
        raise StageRefusedError(f"static_ips is {config.static_ips}; it must be 0 to {MOST_STATIC_IPS}")
    if bool(config.domain_name) != bool(config.certificate_arn):
        raise StageRefusedError("domain_name and certificate_arn are given together, or neither is")
    for cidr in config.allowed_private_cidrs:
        try:
            ipaddress.ip_network(cidr)
        except ValueError as error:
            raise StageRefusedError(f"allowed_private_cidrs: {error}") from error
    return config
