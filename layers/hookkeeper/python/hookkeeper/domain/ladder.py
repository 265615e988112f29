"""When a suspended endpoint is asked by itself whether it works again, if its policy has it so."""

from datetime import datetime, timedelta
from enum import StrEnum

RUNGS = (timedelta(minutes=10), timedelta(minutes=30), timedelta(hours=1), timedelta(hours=3))
LAST_RUNG = timedelta(hours=6)
"""Every so often from there on (SPEC §10)."""


class AutoProbe(StrEnum):
    OFF = "off"
    NOTIFY = "notify"
    """Its owner is told when the endpoint passes."""
    RESUME = "resume"
    """It is re-enabled when it passes."""


def next_look_at(wanted: AutoProbe, suspended_at: datetime, now: datetime, *, goes_round: bool) -> datetime:
    """When the sweep comes to a suspended endpoint next: to probe it, or to see whether it should by now."""
    if wanted is AutoProbe.OFF:
        return now + LAST_RUNG
    return next_probe_at(suspended_at, now, goes_round=goes_round)


def next_probe_at(suspended_at: datetime, now: datetime, *, goes_round: bool) -> datetime:
    """The first moment of the ladder after `now`; an endpoint that goes round starts on the last rung."""
    at = suspended_at
    for rung in () if goes_round else RUNGS:
        at += rung
        if at > now:
            return at
    return at + LAST_RUNG * ((now - at) // LAST_RUNG + 1)
