"""Every minute, move what is due and nothing else moves: owed items, circuits, recoveries, tokens, notices.

The mover of last resort behind the one rule of SPEC §2. Each part takes what is due by a guarded write
before it acts, so that two sweeps, or a sweep and a delivery, do no harm to each other. Whatever goes wrong
with one thing is told, and the others are moved.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Owed, Parcel
from hookkeeper.domain.health import Health
from hookkeeper.domain.notice import NoticeStatus
from hookkeeper.domain.recovery import RecoveryKind
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.ports import Standing
from hookkeeper.usecases import transition
from hookkeeper.usecases.auto_probe import auto_probe
from hookkeeper.usecases.backfill import BackfillPorts
from hookkeeper.usecases.count_hosts import CountPorts, count_hosts
from hookkeeper.usecases.small_recovery import is_the_sweeps, take_steps
from hookkeeper.usecases.stage_url import drop_expired_url
from hookkeeper.usecases.suspend import suspend
from hookkeeper.usecases.sweep_owed import move_owed
from hookkeeper.usecases.sweep_ports import Round, SweepPorts
from hookkeeper.usecases.wake_circuit import wake_circuit
from hookkeeper.usecases.warn_of_expiry import wants_warning, warn_of_expiry

__all__ = ["SweepPorts", "Swept", "sweep"]

GRACE = timedelta(seconds=30)
"""How long after its moment an owed item is taken: its own queued retry comes first."""

STEPPED_AT_MOST = 20
"""Small recoveries whose steps one run of the sweep takes itself: each reads some of the archive."""

AT_MOST = 500
"""Of each kind in one run, but owed items; the rest is due in the next minute."""

OWED_AT_MOST = 3_000
"""Owed items in one run: fifty a second, about a third of what a run has time for."""

READ_AT_ONCE = 25


@dataclass(frozen=True, slots=True)
class Swept:
    """How many of what was done, for the log and the metrics, and what our own side raised."""

    done: Counter[str] = field(default_factory=Counter)
    errors: list[Exception] = field(default_factory=list)
    late: dict[str, timedelta] = field(default_factory=dict)
    """By kind, how far past its moment the latest thing was that this run still found due."""

    def found_late(self, kind: str, by: timedelta) -> None:
        self.late[kind] = max(by, self.late.get(kind, by))

    @contextmanager
    def sparing_the_rest(self) -> Iterator[None]:
        """Whatever goes wrong inside is told, and stays due for the next minute."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # one thing's edge: it stays due, and the error is told
            self.errors.append(error)


def sweep(*, now: datetime, config: RuntimeConfig, margins: Margins, ports: SweepPorts) -> Swept:
    """Move what is due at `now`."""
    run, swept = Round(now, config, margins, ports), Swept()
    for part in (_owed_items, _health, _tokens, _notices):
        with swept.sparing_the_rest():
            part(run, swept)
    if swept.done["policy_waits"]:
        with swept.sparing_the_rest():
            _count_hosts(run, swept)
    return swept


# ── owed items ───────────────────────────────────────────────────────────────────────────────────


def _owed_items(run: Round, swept: Swept) -> None:
    items = run.ports.ledger.due(run.now - GRACE, limit=OWED_AT_MOST)
    for item in items:
        swept.found_late("owed", run.now - item.due_at)
    for start in range(0, len(items), READ_AT_ONCE):
        with swept.sparing_the_rest():
            _move_chunk(run, items[start : start + READ_AT_ONCE], swept)


def _move_chunk(run: Round, items: Sequence[Owed], swept: Swept) -> None:
    readings = run.ports.ledger.read_batch([item.key for item in items])
    parcels: list[Parcel] = []
    for item in items:
        if item.key in readings.unread:
            continue
        with swept.sparing_the_rest():
            standing = readings.standings.get(item.key.subscription)
            word, parcel = move_owed(run, item, readings.deliveries.get(item.key), standing)
            swept.done[word] += 1
            if parcel is not None:
                parcels.append(parcel)
    if parcels:
        run.ports.lanes.send(parcels)


# ── health: circuits to wake, policies to ask, recoveries to start ───────────────────────────────


def _health(run: Round, swept: Swept) -> None:
    for key in run.ports.health.due(run.now, limit=AT_MOST):
        with swept.sparing_the_rest():
            standing = run.ports.subscriptions.standing(key)
            if standing is not None:
                _tend(run, standing, swept)


def _tend(run: Round, standing: Standing, swept: Swept) -> None:
    health = standing.health
    lock, check_at, wake_at = health.recovery, health.check_at, health.circuit.wake_at
    if lock.held and lock.lease_until is not None and run.now >= lock.lease_until:
        swept.found_late("recovery", run.now - lock.lease_until)
        with swept.sparing_the_rest():
            swept.done[_go_on(run, standing, swept)] += 1
    active = standing.subscription.status is Status.ACTIVE
    if check_at is not None and run.now >= check_at:
        with swept.sparing_the_rest():
            if active:
                swept.done[f"policy_{_ask_policy(run, health.key, health.last_attempt_at)}"] += 1
            else:
                swept.done[_auto_probe(run, standing)] += 1
    if wants_warning(run, health):
        with swept.sparing_the_rest():
            swept.done[warn_of_expiry(run, standing)] += 1
    if active and wake_at is not None and run.now >= wake_at and _may_try(health, run.now):
        swept.done[wake_circuit(run, standing)] += 1


def _may_try(health: Health, now: datetime) -> bool:
    return health.circuit.trial_free(now) and not health.quiet(now)


def _ask_policy(run: Round, key: SubscriptionKey, last_attempt_at: datetime | None) -> str:
    """Finish what a crash left; never by the wall clock, since silence is not failure."""
    ports = run.ports
    ruled = suspend(
        key,
        now=run.now,
        judged_at=last_attempt_at,
        config=run.config,
        margins=run.margins,
        subscriptions=ports.subscriptions,
        health=ports.health,
        fuse=ports.fuse,
        ledger=ports.ledger,
        notices=ports.notices,
        ids=ports.ids,
    )
    return str(ruled.ruling)


def _count_hosts(run: Round, swept: Swept) -> None:
    """What the fuse's share is of, now that verdicts wait for it."""
    ports = run.ports
    counting = CountPorts(access=ports.access, subscriptions=ports.subscriptions, fuse=ports.fuse)
    swept.done["hosts_counted"] += count_hosts(now=run.now, rules=run.config.fuse, ports=counting) or 0


def _auto_probe(run: Round, standing: Standing) -> str:
    return auto_probe(
        standing, now=run.now, config=run.config, health=run.ports.health, workflow=run.ports.workflow
    )


def _go_on(run: Round, standing: Standing, swept: Swept) -> str:
    """Take the steps of a small recovery here; of any other start the execution."""
    ports = run.ports
    if is_the_sweeps(standing) and swept.done["recoveries_stepped"] < STEPPED_AT_MOST:
        word = take_steps(
            standing,
            now=run.now,
            config=run.config,
            margins=run.margins,
            ports=BackfillPorts(
                subscriptions=ports.subscriptions,
                health=ports.health,
                recoveries=ports.recoveries,
                ledger=ports.ledger,
                events=ports.events,
                archive=ports.archive,
                lanes=ports.lanes,
            ),
            ids=ports.ids,
        )
        if word is not None:
            return word
    _start(run, standing.health)
    return "recoveries_started"


def _start(run: Round, health: Health) -> None:
    """Start or restart the execution of a recovery that nobody runs; its first state takes the lock."""
    lock = health.recovery
    run.ports.workflow.start(
        health.key,
        name=f"{lock.id}-{lock.generation}-{int(run.now.timestamp()) // 60}",
        options={
            "kind": str(lock.kind or RecoveryKind.AUTOMATIC),
            "recovery_id": lock.id,
            "generation": lock.generation,
            "actor": "sweep",
        },
    )


# ── tokens and notices ───────────────────────────────────────────────────────────────────────────


def _tokens(run: Round, swept: Swept) -> None:
    for key in run.ports.subscriptions.expired_tokens(run.now, limit=AT_MOST):
        with swept.sparing_the_rest():
            expired = transition.expire(
                key, now=run.now, subscriptions=run.ports.subscriptions, ids=run.ports.ids
            )
            swept.done["tokens_expired"] += expired is not None
            dropped = drop_expired_url(
                key, now=run.now, subscriptions=run.ports.subscriptions, ids=run.ports.ids
            )
            swept.done["staged_urls_dropped"] += dropped


def _notices(run: Round, swept: Swept) -> None:
    """Those of one address go together, so that they can share a mail."""
    by_address = defaultdict[tuple[Scope, str], list[str]](list)
    for notice in run.ports.notices.stuck(run.now, limit=AT_MOST):
        if notice.status is NoticeStatus.PENDING:  # one that waits for its address's next day is not late
            swept.found_late("notice", run.now - notice.at)
        by_address[notice.key.scope, notice.owner_email.lower()].append(notice.id)
    for (scope, _), notice_ids in by_address.items():
        with swept.sparing_the_rest():
            run.ports.notice_queue.send(scope, notice_ids)
            swept.done["notices_sent_again"] += len(notice_ids)
