"""Ask the fuse before a suspension, and tell it what speaks against ourselves.

Its evidence comes from `deliver`: that very function's way out, resolver and keys are in question, so its
own failures are what is looked at, and it is the one that asks the known-good address. The sweep, which
opens no socket, reads what they left.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from hookkeeper.domain.fuse import (
    FuseRules,
    FuseState,
    Passage,
    passage,
    suspected,
    with_canary,
    with_host,
    with_suspects,
)
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer
from hookkeeper.ports import Fuse, Sender
from hookkeeper.usecases.request import USER_AGENT

TRIES = 10
"""How often a write is made again where another instance was first."""

TOLD_EVERY = timedelta(minutes=1)
"""How often the same hosts are told of: an outage of ours fails every batch of every instance."""

CANARY_SECONDS = 3.0
"""It comes at a batch's end, out of the time that is kept for writing."""


def host_of(endpoint_url: str) -> str:
    """The host of a canonical URL: what the fuse counts."""
    return urlsplit(endpoint_url).hostname or ""


def ask_fuse(host: str, *, failed_at: datetime, now: datetime, rules: FuseRules, fuse: Fuse) -> Passage:
    """Take a place in the bucket for the host, if there is one and nothing speaks against ourselves."""
    found = Passage.FULL

    def change(state: FuseState) -> FuseState:
        nonlocal found
        found = passage(state, rules, host=host, failed_at=failed_at, now=now)
        return with_host(state, rules, host=host, now=now) if found is Passage.OPEN else state

    return found if _write(fuse, change) else Passage.FULL


def tell_fuse(answers: Iterable[tuple[str, Answer]], *, now: datetime, rules: FuseRules, fuse: Fuse) -> bool:
    """Tell of a batch's failures by host; answers whether they, with those of others, are evidence.

    Costs nothing where no failure could be ours.
    """
    seen = list(answers)
    if not suspected(seen, FuseState(), rules, now=now):
        return False
    latched = False

    def change(state: FuseState) -> FuseState:
        nonlocal latched
        hosts = suspected(seen, state, rules, now=now)
        news = hosts and not all(_told(state, host, now) for host in hosts)
        after = with_suspects(state, rules, hosts=hosts, now=now) if news else state
        latched = after.latched(rules, now)
        return after

    return _write(fuse, change) and latched


def ask_canary(*, now: datetime, rules: FuseRules, fuse: Fuse, sender: Sender) -> bool | None:
    """Whether the known-good address answers, whatever it says; None where it need not be asked now."""
    if rules.canary_url is None or not fuse.read().canary_wanted(rules, now):
        return None
    (answer,) = sender.send([_canary(rules.canary_url)])
    answered = answer.status_code is not None
    _write(fuse, lambda state: with_canary(state, answered=answered, now=now))
    return answered


def _told(state: FuseState, host: str, now: datetime) -> bool:
    at = state.suspects.get(host)
    return at is not None and now < at + TOLD_EVERY


def _canary(url: str) -> OutboundRequest:
    return OutboundRequest(
        url=url,
        headers=(("user-agent", USER_AGENT), ("content-type", "application/json")),
        body=b"{}",
        timeout_seconds=CANARY_SECONDS,
        endpoint_key="canary",
    )


def _write(fuse: Fuse, change: Callable[[FuseState], FuseState]) -> bool:
    """Whether the state is as `change` leaves it; it is asked again on what another wrote meanwhile."""
    for _ in range(TRIES):
        state = fuse.read()
        after = change(state)
        if after is state or fuse.write(state, after):
            return True
    return False
