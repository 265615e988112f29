"""Find something for an open circuit's trial where no message comes by itself, or close the circuit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from hookkeeper.domain.circuit import trial_taken, woken
from hookkeeper.domain.delivery import DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.subscription import owes
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import Standing
from hookkeeper.usecases.chunks import chunks
from hookkeeper.usecases.close_circuit import close_circuit
from hookkeeper.usecases.sweep_owed import hold_owed, parcel_of
from hookkeeper.usecases.sweep_ports import Round

ITEMS = 100
"""Owed items of which the least tried is taken: the oldest."""

EVENTS = 10_000
"""How far the window's archive is searched. What lies further in is no reason to stay shut: closing the
circuit puts the recovery that reads it all."""


def wake_circuit(run: Round, standing: Standing) -> str:
    """Send something that is owed, for `deliver` to take the trial with; where nothing is, close."""
    health = standing.health
    parcel = _owed(run, standing) or _unseen(run, standing)
    if parcel is None:
        return _close(run, standing)
    later = woken(health.circuit, run.config.circuit, now=run.now)
    if not run.ports.health.write_circuit(health, later):
        return "wakes_lost"
    run.ports.lanes.send([parcel])
    return "circuits_woken"


def _close(run: Round, standing: Standing) -> str:
    health, ports = standing.health, run.ports
    taken = trial_taken(health.circuit, by=ports.ids.new("trial"), now=run.now)
    if not ports.health.write_circuit(health, taken):
        return "wakes_lost"
    won = close_circuit(
        replace(health, circuit=taken),
        now=run.now,
        subscriptions=ports.subscriptions,
        health_store=ports.health,
        ids=ports.ids,
    )
    return "circuits_closed" if won else "wakes_lost"


def _owed(run: Round, standing: Standing) -> Parcel | None:
    """An owed item of any class, least tried first; a retry becomes held, as it would when it is due."""
    ledger = run.ports.ledger
    items: Sequence[Owed] = ledger.owed(standing.subscription.key, limit=ITEMS)
    deliveries = ledger.read([item.key for item in items]) if items else {}
    for item in sorted(items, key=lambda item: (item.attempt_count, item.archived_at)):
        delivery = deliveries.get(item.key)
        if delivery is None or delivery.final or run.now >= item.expires_at:
            continue
        present = delivery
        if delivery.status is DeliveryStatus.RETRYING:
            held = hold_owed(ledger, item, delivery)
            if held is None:
                continue
            present = held
        return parcel_of(item, present)
    return None


def _unseen(run: Round, standing: Standing) -> Parcel | None:
    """The first archived event of the outage's window that is owed and has no ledger record."""
    subscription, outage_from = standing.subscription, standing.health.outage_from
    if outage_from is None:
        return None
    history = run.ports.subscriptions.filters(subscription.key)
    until = run.now - run.margins.outage
    events = run.ports.archive.events(subscription.scope, start=outage_from, until=until)
    wanted = (
        each
        for each in islice(events, EVENTS)
        if owes(
            subscription,
            history,
            event_type=each.event.type,
            resource_id=each.event.resource_id,
            archived_at=each.archived_at,
            routing_cache=run.margins.routing_cache,
        )
    )
    for chunk in chunks(wanted):
        keys = {event.event.id: DeliveryKey(subscription.key, event.event.id) for event in chunk}
        known = run.ports.ledger.read(list(keys.values()))
        for event in chunk:
            key = keys[event.event.id]
            if key not in known:
                return Parcel(
                    key=key,
                    event_type=event.event.type,
                    archived_at=event.archived_at,
                    pointer=event.pointer,
                    resource_id=event.event.resource_id,
                    lane=Lane.BACKFILL,
                )
    return None
