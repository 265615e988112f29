"""The runtime configuration: every number an operator may change without a deploy, with its default."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from hookkeeper.domain.circuit import CircuitRules
from hookkeeper.domain.delivery import RetryRules
from hookkeeper.domain.fuse import FuseRules
from hookkeeper.domain.health import PRESETS, AutoSuspend, Policy, milder
from hookkeeper.domain.mailbox import MailRules
from hookkeeper.domain.recovery import RETENTION, Pace
from hookkeeper.domain.subscription import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """Presets by name, and which subscriptions and tenants are held to another than their own."""

    policies: Mapping[str, Policy] = field(default_factory=lambda: PRESETS)
    subscription_policies: Mapping[str, str] = field(default_factory=dict)
    tenant_policies: Mapping[str, str] = field(default_factory=dict)
    auto_suspend: AutoSuspend = AutoSuspend.ENFORCE
    fuse: FuseRules = field(default_factory=FuseRules)
    circuit: CircuitRules = field(default_factory=CircuitRules)
    retries: RetryRules = field(default_factory=RetryRules)
    pace: Pace = field(default_factory=Pace)
    mail: MailRules = field(default_factory=MailRules)
    retention: timedelta = RETENTION

    def policy_of(self, subscription: Subscription) -> Policy:
        """The policy in force: the subscription's override, the tenant's, its own preset, else graded.

        Of the document's `auto_suspend` and the preset's the milder holds, whichever it is.
        """
        name = self.tenant_policies.get(subscription.scope.tenant_id, subscription.policy)
        name = self.subscription_policies.get(subscription.id, name)
        policy = self.policies.get(name, self.policies["graded"])
        suspends = milder(policy.auto_suspend, self.auto_suspend)
        return policy if suspends is policy.auto_suspend else replace(policy, auto_suspend=suspends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """Spans that follow from the stage's time-outs, handed over by its settings.

    `outage` is fan_out's time-out + the routing cache's life + one batch of deliver (SPEC §9): every
    outage begins so much earlier and is read so much longer than its two moments. `routing_cache` is
    after what time a new pattern or a first activation is in force everywhere.
    """

    outage: timedelta = timedelta(minutes=5)
    routing_cache: timedelta = timedelta(seconds=10)
