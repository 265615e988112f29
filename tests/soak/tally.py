"""The soak's arithmetic: where every event that was owed has gone, and why any arrived more than once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

FUNCTION_SECONDS = 25.0
"""A request may be as old as its function's time-out when that is killed."""

IN_FLIGHT_SECONDS = 5.0
"""Two copies of a message that are in the hands of two functions at once: as long as one request takes."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the ledger says of one delivery: its status, and when each of its attempts failed unanswered."""

    status: str
    unanswered_at: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One subscription's events by how they ended, and those that arrived again by why."""

    name: str
    emitted: int
    delivered: int
    discarded: int
    expired: int
    lost: Sequence[str]
    again_by_kill: int = 0
    again_unanswered: int = 0
    again_in_flight: int = 0
    unexplained: Sequence[str] = ()

    @property
    def good(self) -> bool:
        return not self.lost and not self.unexplained


def account(
    name: str,
    *,
    emitted: AbstractSet[str],
    owed: AbstractSet[str],
    arrivals: Sequence[tuple[str, float]],
    ledger: Mapping[str, Told],
    kills: Sequence[float],
) -> Account:
    """Whatever of `owed` neither arrived nor was discarded nor has expired is lost.

    `emitted` are all that the subscription may get: an event that nobody had to deliver (a filter was being
    narrowed, a subscription ended) counts as discarded where it did not arrive.
    """
    times = defaultdict[str, list[float]](list)
    for event_id, at in arrivals:
        times[event_id].append(at)
    left = [event_id for event_id in sorted(emitted) if event_id not in times]
    expired = [event_id for event_id in left if _status(ledger, event_id) == "expired"]
    discarded = [
        event_id
        for event_id in left
        if _status(ledger, event_id) == "discarded" or (event_id not in owed and event_id not in expired)
    ]
    gone = {*expired, *discarded}
    whys = [
        _why(at, following, told=ledger.get(event_id), kills=kills) or event_id
        for event_id, each in times.items()
        for at, following in zip(sorted(each), sorted(each)[1:], strict=False)
    ]
    return Account(
        name=name,
        emitted=len(emitted),
        delivered=len(emitted & times.keys()),
        discarded=len(discarded),
        expired=len(expired),
        lost=[event_id for event_id in left if event_id not in gone],
        again_by_kill=whys.count("kill"),
        again_unanswered=whys.count("unanswered"),
        again_in_flight=whys.count("in flight"),
        unexplained=[why for why in whys if why not in ("kill", "unanswered", "in flight")],
    )


def _status(ledger: Mapping[str, Told], event_id: str) -> str:
    return ledger[event_id].status if event_id in ledger else ""


def _why(at: float, following: float, *, told: Told | None, kills: Sequence[float]) -> str | None:
    """Why an event that had arrived was sent again; None where nothing explains it."""
    if any(at - 1 <= kill <= at + FUNCTION_SECONDS for kill in kills):
        return "kill"
    if told is not None and any(abs(at - failed) <= FUNCTION_SECONDS for failed in told.unanswered_at):
        return "unanswered"
    return "in flight" if following - at <= IN_FLIGHT_SECONDS else None


def grown(samples: Sequence[tuple[float, float]], *, seconds: float) -> tuple[float, float]:
    """The median of the first third and of the last, of (seconds since the start, MiB)."""
    first = [size for at, size in samples if at <= seconds / 3]
    last = [size for at, size in samples if at >= seconds * 2 / 3]
    return _median(first), _median(last)


def _median(sizes: Sequence[float]) -> float:
    return sorted(sizes)[len(sizes) // 2] if sizes else 0.0
