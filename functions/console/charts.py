"""Outcomes per hour, ready to be drawn: bars of attempts that went well and of those that did not."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hookkeeper.domain.delivery import Delivery

HOURS = 24
WIDTH, HEIGHT, GAP = 480, 96, 4
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: how many attempts were well and how many failed, and where they stand in the drawing."""

    begins: datetime
    good: int
    bad: int
    x: float
    good_height: float
    bad_height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A day of bars, the highest of `most`. `summary` says it in words, for whoever does not see it."""

    bars: Sequence[Bar]
    good: int
    bad: int
    most: int
    summary: str

    @property
    def bar_width(self) -> float:
        return WIDTH / HOURS - GAP

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def height(self) -> int:
        return HEIGHT


def outcomes_by_hour(deliveries: Sequence[Delivery], *, until: datetime, partial: bool) -> Chart:
    """The attempts of these deliveries in the day up to `until`; `partial` where there may be more."""
    last = until.replace(minute=0, second=0, microsecond=0)
    begins = [last - HOUR * n for n in reversed(range(HOURS))]
    counts = {begin: [0, 0] for begin in begins}
    for delivery in deliveries:
        for attempt in delivery.attempts:
            hour = attempt.at.replace(minute=0, second=0, microsecond=0)
            if hour in counts:
                counts[hour][attempt.error is not None] += 1
    most = max((sum(pair) for pair in counts.values()), default=0) or 1
    bars = [
        _bar(place, begin, counts[begin][0], counts[begin][1], most) for place, begin in enumerate(begins)
    ]
    good, bad = (sum(pair[n] for pair in counts.values()) for n in (0, 1))
    return Chart(bars, good, bad, most, _summary(good, bad, partial=partial))


def _summary(good: int, bad: int, *, partial: bool) -> str:
    if not (good or bad):
        return "No attempt in 24 hours."
    at_least, plural = "At least " if partial else "", "" if good == 1 else "s"
    return f"{at_least}{good} attempt{plural} went well and {bad} failed in 24 hours."


def _bar(place: int, begins: datetime, good: int, bad: int, most: int) -> Bar:
    scale = (HEIGHT - GAP) / most
    return Bar(
        begins, good, bad, round(place * WIDTH / HOURS, 1), round(good * scale, 1), round(bad * scale, 1)
    )
