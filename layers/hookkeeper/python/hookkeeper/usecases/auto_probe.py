"""Ask a suspended endpoint, by its policy's ladder, whether it works again: the state machine does it."""

from datetime import datetime

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.ladder import AutoProbe, next_look_at
from hookkeeper.domain.recovery import RecoveryKind
from hookkeeper.domain.subscription import DisabledReason
from hookkeeper.ports import HealthStore, Standing, Workflow

AUTO_PROBE = Actor(id="auto-probe")
"""Who asked for a re-enablement that nobody asked for."""

_BY_POLICY = frozenset({DisabledReason.PERMANENT_ERROR, DisabledReason.REPEATED_FAILURE})


def auto_probe(
    standing: Standing, *, now: datetime, config: RuntimeConfig, health: HealthStore, workflow: Workflow
) -> str:
    """Start the probe that is due, and set the time of the next. Answers a word for the report.

    An owner's own pause and withdrawn consent are left alone. While the policy asks for no probes, it is
    looked at again as seldom as the ladder's last rung: the operator may turn them on at any time.
    """
    subscription, present = standing.subscription, standing.health
    wanted = config.policy_of(subscription).auto_probe
    if subscription.disabled_reason not in _BY_POLICY:
        health.set_check(present.key, epoch=present.epoch, check_at=None)
        return "probes_ended"
    if wanted is not AutoProbe.OFF and not present.recovery.held:
        moment = int((present.check_at or now).timestamp())
        workflow.start(
            present.key,
            name=f"probe-{subscription.id}-{present.epoch}-{moment}",
            options={
                "kind": str(RecoveryKind.REENABLE),
                "probe": True,
                "resume": wanted is AutoProbe.RESUME,
                "actor": AUTO_PROBE.id,
            },
        )
    since = subscription.disabled_at or now
    next_at = next_look_at(wanted, since, now, goes_round=present.recovery.goes_round)
    health.set_check(present.key, epoch=present.epoch, check_at=next_at)
    return "probes_off" if wanted is AutoProbe.OFF else "probes_started"
