"""Deliver a batch: read the truth once, attempt what is due concurrently, write down how each ended.

Whatever happens between any two calls, an owed delivery stays in a queue, in an owed item, or in its
subscription's outage. Answers which messages may go and which come back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.attempt import attempt
from hookkeeper.usecases.delivery_batch import Batch, DeliverPorts, Fate, Report
from hookkeeper.usecases.feed_circuits import feed_circuits
from hookkeeper.usecases.fuse import ask_canary, host_of, tell_fuse
from hookkeeper.usecases.receive import receive
from hookkeeper.usecases.settle import settle
from hookkeeper.usecases.suspend import Ruled, Ruling, suspend

__all__ = ["DeliverPorts", "Delivered", "Fate", "Report", "deliver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A batch's end: a report for each message in its order, and what it set in motion.

    `latched` says that the batch's failures are evidence against ourselves: the fuse lets no verdict pass.
    `errors` are our own side's, after the messages were dealt with: nothing comes back for them.
    """

    reports: Sequence[Report]
    opened: Sequence[SubscriptionKey]
    closed: Sequence[SubscriptionKey]
    rulings: Mapping[SubscriptionKey, Ruled]
    latched: bool = False
    errors: Sequence[Exception] = ()


def deliver(
    parcels: Sequence[Parcel],
    *,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    ports: DeliverPorts,
    seconds_left: Callable[[], float] | None = None,
) -> Delivered:
    """Deliver what is due of at most 25 messages.

    `seconds_left` is asked what time there is for requests when they begin: all that is read before them
    takes some.
    """
    readings = ports.ledger.read_batch([parcel.key for parcel in parcels])
    batch = Batch.of(parcels, readings, now=now, config=config, margins=margins, ports=ports)
    due = receive(batch)
    tried = attempt(batch, due, seconds_left=seconds_left)
    counted = settle(batch, tried)
    feed_circuits(batch)
    _tell_fuse(batch)
    rulings: dict[SubscriptionKey, Ruled] = {}
    for key in counted:
        with batch.sparing_the_rest():
            rulings[key] = _rule(batch, key)
    if any(ruled.ruling is Ruling.WAITS for ruled in rulings.values()):
        with batch.sparing_the_rest():
            ask_canary(now=now, rules=config.fuse, fuse=ports.fuse, sender=ports.sender)
    return Delivered(
        reports=batch.reports(),
        opened=batch.opened,
        closed=batch.closed,
        rulings=rulings,
        latched=batch.latched,
        errors=batch.errors,
    )


def _tell_fuse(batch: Batch) -> None:
    """Tell what failed by our fault, or may have."""
    with batch.sparing_the_rest():
        batch.latched = tell_fuse(
            [
                (host_of(batch.standing(case).subscription.endpoint_url), case.answer)
                for case in batch.cases
                if case.answer is not None
            ],
            now=batch.now,
            rules=batch.config.fuse,
            fuse=batch.ports.fuse,
        )


def _rule(batch: Batch, key: SubscriptionKey) -> Ruled:
    ports = batch.ports
    return suspend(
        key,
        now=batch.now,
        config=batch.config,
        margins=batch.margins,
        subscriptions=ports.subscriptions,
        health=ports.health,
        fuse=ports.fuse,
        ledger=ports.ledger,
        notices=ports.notices,
        ids=ports.ids,
    )
