"""The step after the probe: make the subscription active again, or say that another change was first."""

from dataclasses import replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.subscription import Trigger
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import HealthStore, Ids, Ledger, Recoveries, Subscriptions
from hookkeeper.usecases import transition
from hookkeeper.usecases.recover import give_up, is_running, probe_passed


def activate(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    generation: int,
    probed: bool,
    probe_status_code: int | None = None,
    resume: bool,
    actor: Actor,
    now: datetime,
    retention: timedelta,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    ledger: Ledger,
    ids: Ids,
) -> bool:
    """Whether the backfill comes next: the recovery holds the lock of an active subscription.

    `probed` says that a probe passed (answered so), `resume` False that the endpoint was only to be asked.
    Lost to another change (revoked, cancelled, taken over), nothing is sent, and the lock is free if it was
    still this one's.
    """
    recovery = recoveries.get(key.scope, recovery_id)
    if recovery is None or recovery.generation != generation:
        return False
    if not resume:
        probe_passed(
            key,
            recovery_id=recovery_id,
            generation=generation,
            now=now,
            retention=retention,
            subscriptions=subscriptions,
            health=health,
            recoveries=recoveries,
            ledger=ledger,
        )
        return False
    changed = transition.activate(
        key,
        trigger=Trigger.PROBE_PASSED if probed else Trigger.RESUMED_UNPROBED,
        recovery=replace(recovery, probe_status_code=probe_status_code),
        actor=actor,
        now=now,
        subscriptions=subscriptions,
        ids=ids,
    )
    if changed is not None or is_running(key, recovery, subscriptions=subscriptions):
        return True
    give_up(
        key,
        recovery_id=recovery_id,
        now=now,
        subscriptions=subscriptions,
        health=health,
        recoveries=recoveries,
    )
    return False
