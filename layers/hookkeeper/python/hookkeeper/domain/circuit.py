"""The seconds-to-minutes breaker of one endpoint; it never touches the subscription's status."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

TRIAL_LEASE = timedelta(minutes=2)
"""Longer than any attempt (30 s) and the batch around it; a crashed trial is free again after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitRules:
    """The breaker's numbers (SPEC §9): 5 failures in a row within 60 s open it, for 30 s to 5 min."""

    opens_at: int = 5
    opens_within: timedelta = timedelta(seconds=60)
    first_open: timedelta = timedelta(seconds=30)
    longest_open: timedelta = timedelta(minutes=5)
    first_wake: timedelta = timedelta(minutes=1)
    longest_wake: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """Closed while `open_until` is None. `version` rises with every write of it and guards the next.

    Closed: `recent_failures` are the moments of the last failures in a row, at most `opens_at` of them.
    Open: shut to all but the holder of the trial, who is `trial_by` until `trial_lease_until`. `wake_at` is
    when the sweep looks for something to try.
    """

    version: int = 0
    recent_failures: tuple[datetime, ...] = ()
    open_until: datetime | None = None
    interval: timedelta = timedelta(seconds=30)
    trial_by: str | None = None
    trial_lease_until: datetime | None = None
    wake_interval: timedelta = timedelta(minutes=1)
    wake_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.open_until is not None

    def trial_free(self, now: datetime) -> bool:
        """Whether whoever comes now may take the trial."""
        return (
            self.open_until is not None
            and now >= self.open_until
            and (self.trial_lease_until is None or now >= self.trial_lease_until)
        )


def closed(circuit: Circuit) -> Circuit:
    """The circuit shut and forgotten."""
    return Circuit(version=circuit.version + 1)


def fed(circuit: Circuit, rules: CircuitRules, *, failures: int, any_success: bool, now: datetime) -> Circuit:
    """A closed circuit after a batch: any success resets it, a batch of failures alone adds them.

    So many in a row within the span open it. Returns the very circuit where nothing changed.
    """
    if any_success:
        return closed(circuit) if circuit.recent_failures else circuit
    if failures == 0:
        return circuit
    recent = (*circuit.recent_failures, *[now] * failures)[-rules.opens_at :]
    if len(recent) == rules.opens_at and now - recent[0] <= rules.opens_within:
        return opened(circuit, rules, now=now)
    return replace(circuit, version=circuit.version + 1, recent_failures=recent)


def opened(circuit: Circuit, rules: CircuitRules, *, now: datetime) -> Circuit:
    """The circuit opened for its first interval."""
    return Circuit(
        version=circuit.version + 1,
        open_until=now + rules.first_open,
        interval=rules.first_open,
        wake_interval=rules.first_wake,
        wake_at=now + rules.first_open + rules.first_wake,
    )


def trial_taken(circuit: Circuit, *, by: str, now: datetime) -> Circuit:
    """The circuit with its one trial in the hands of `by`."""
    return replace(circuit, version=circuit.version + 1, trial_by=by, trial_lease_until=now + TRIAL_LEASE)


def trial_failed(circuit: Circuit, rules: CircuitRules, *, now: datetime) -> Circuit:
    """Open again for twice as long, up to the longest."""
    interval = min(circuit.interval * 2, rules.longest_open)
    return Circuit(
        version=circuit.version + 1,
        open_until=now + interval,
        interval=interval,
        wake_interval=circuit.wake_interval,
        wake_at=now + interval + circuit.wake_interval,
    )


def woken(circuit: Circuit, rules: CircuitRules, *, now: datetime) -> Circuit:
    """The circuit after the sweep sent it something to try: looked at again after twice as long."""
    wake_interval = min(circuit.wake_interval * 2, rules.longest_wake)
    return replace(
        circuit, version=circuit.version + 1, wake_interval=wake_interval, wake_at=now + wake_interval
    )


def trial_returned(circuit: Circuit) -> Circuit:
    """The trial given back unused (our own fault came between): free again at once."""
    return replace(circuit, version=circuit.version + 1, trial_by=None, trial_lease_until=None)
