"""The fault campaign: each call of each function is struck in each way, and what is left at rest is checked.

The points are the calls that a clean run makes, so a call that is new is struck too.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import cycle

from hookkeeper.domain.notice import NoticeKind, NoticeStatus
from hookkeeper.domain.subscription import Status

from tests.campaign.line import Line, Point, ThrottledError
from tests.campaign.scenes import Scene
from tests.model.product import HOUR, MINUTE, VISIBILITY, WELL
from tests.model.rules import Rules

REPEATEDLY = 5

MOMENTS = 10 * MINUTE
"""How late all may be beyond the visibility of what was struck: the sweep's rounds, and a trial's lease."""


class Strike(StrEnum):
    """What happens at a point (HAZARDS H2 to H4)."""

    KILLED = "killed before"
    KILLED_AFTER = "killed after"
    THROTTLED = "throttled"
    THROTTLED_LONG = "throttled x5"
    LOST = "answer lost"
    TWICE = "made twice"


@dataclass(frozen=True, slots=True)
class Cell:
    """One point struck in one way: what broke (nothing, if it held), and what was done twice for a reason."""

    scene: Scene
    point: Point
    strike: Strike
    broke: str | None = None
    sent_again: int = 0
    mailed_again: int = 0

    @property
    def held(self) -> bool:
        return self.broke is None

    @property
    def word(self) -> str:
        if self.broke is not None:
            return "BROKE"
        again = [
            f"{n} {what}" for n, what in ((self.sent_again, "again"), (self.mailed_again, "mail again")) if n
        ]
        return ", ".join(["held", *again])


@dataclass(frozen=True, slots=True)
class Played:
    """A scene played to its rest, and the calls of its function in their order."""

    line: Line
    points: Sequence[Point]

    @property
    def arrived(self) -> dict[tuple[str, str], datetime]:
        """When each first arrived, by subscription and event."""
        return self.line.arrived_at

    @property
    def ends(self) -> dict[tuple[str, str], str]:
        return {
            (key.subscription.subscription_id, key.event_id): str(delivery.status)
            for key, delivery in self.line.world.deliveries.items()
        }

    @property
    def notices(self) -> Counter[tuple[str, str]]:
        return Counter((key.subscription_id, str(kind)) for key, kind, _ in self.line.world.notices)


def _caller(scene: Scene) -> str:
    """The policy is asked by whoever counts the failure, and by the sweep."""
    if scene.function != "suspend":
        return scene.function
    return "sweep" if scene.act is Line.sweep else "deliver"


def play(scene: Scene, arrange: Callable[[Line], None] = lambda _: None) -> Played:
    """The scene from its beginning, struck as arranged, until all has come to rest."""
    line = Line()
    rules = Rules(line)
    scene.prepare(line)
    line.number_from_here()
    line.after_each_round = rules.hold
    arrange(line)
    scene.act(line)
    points = [point for point in line.points if point.function == _caller(scene)]
    rules.hold()
    _come_to_rest(line, rules)
    return Played(line, points)


def _come_to_rest(line: Line, rules: Rules) -> None:
    """What comes back after its visibility is dealt with, then all is well, then people do their part."""
    line.run((REPEATEDLY + 1) * VISIBILITY)
    for endpoint in line.endpoints.values():
        endpoint.answer = lambda _: WELL
    line.run(3 * HOUR)
    for key in line.endpoints:
        line.reenable(key)
    line.run(3 * HOUR)
    rules.at_rest()
    for key in line.endpoints:
        if line.present(key).status is not Status.REVOKED:
            line.pause(key)
            line.reenable(key)
    line.run(3 * HOUR)
    rules.all_arrived()
    assert line.quiet, "something still lies in a queue"


def struck(scene: Scene, clean: Played, point: Point, strike: Strike) -> Cell:
    """Play the scene struck so, and say what held."""
    try:
        played = play(scene, lambda line: _arrange(line, point, strike))
        sent_again, mailed_again = _check(scene, played, clean)
    except AssertionError as broken:
        rule = traceback.extract_tb(broken.__traceback__)[-1].line
        return Cell(scene, point, strike, broke=str(broken).partition("\n")[0] or rule)
    return Cell(scene, point, strike, sent_again=sent_again, mailed_again=mailed_again)


def _arrange(line: Line, point: Point, strike: Strike) -> None:
    left = [REPEATEDLY]

    def kill() -> None:
        line.strike()
        line.kill()

    def throttle() -> None:
        line.strike()
        raise ThrottledError(f"{point.call}: throttled")

    def throttle_long() -> None:
        left[0] -= 1
        if left[0]:
            line.at(point.call, throttle_long)
        throttle()

    def twice() -> None:
        line.strike()
        line.world.repeats = 1

    happening, after = {
        Strike.KILLED: (kill, False),
        Strike.KILLED_AFTER: (kill, True),
        Strike.THROTTLED: (throttle, False),
        Strike.THROTTLED_LONG: (throttle_long, False),
        Strike.LOST: (throttle, True),
        Strike.TWICE: (twice, False),
    }[strike]
    line.at(point.call, happening, nth=point.nth, after=after)


def _check(scene: Scene, played: Played, clean: Played) -> tuple[int, int]:
    """What arrived, ended and was told is what is on a good day; how often more was sent than was needed."""
    line = played.line
    assert line.strikes, "the point was never reached"
    odd = played.arrived.keys() ^ clean.arrived.keys()
    assert not odd, f"arrived on one day alone: {odd}"
    if scene.prompt:
        late = max((at - clean.arrived[place] for place, at in played.arrived.items()), default=MOMENTS)
        assert late <= len(line.strikes) * VISIBILITY + MOMENTS, f"late by {late}"
    assert played.ends == clean.ends, f"ended otherwise: {set(played.ends.items()) ^ set(clean.ends.items())}"
    assert not line.sent_though_settled, f"sent though settled: {line.sent_though_settled}"
    assert played.notices >= clean.notices, f"not told: {clean.notices - played.notices}"
    _check_notices(line)
    _check_recoveries(line)
    return _sent_again(line), _mailed_again(line)


def _check_notices(line: Line) -> None:
    """Each suspension has one notice, each notice one mail that is counted."""
    world = line.world
    suspensions = [record for record in world.audit.values() if record.action == "subscription.suspended"]
    assert len(suspensions) == len(world.notices_of(NoticeKind.SUSPENDED)), "a suspension without a notice"
    carried = Counter(notice_id for ids in world.carried.values() for notice_id in ids)
    for notice in world.notices.values():
        assert notice.status is NoticeStatus.SENT, f"{notice.id} is {notice.status}"
        assert carried[notice.id] == 1, f"{notice.id} was mailed {carried[notice.id]} times"


def _check_recoveries(line: Line) -> None:
    for recovery in line.world.recoveries.values():
        assert recovery.ended_at is not None, f"{recovery.id} never ended"
        parts = recovery.succeeded + recovery.failed + recovery.expired
        assert parts <= recovery.found, f"{recovery.id} counts {parts} of {recovery.found}"


def _sent_again(line: Line) -> int:
    """Every request too many must come from an invocation that was struck after it had sent one."""
    again = 0
    for key, endpoint in line.endpoints.items():
        for event_id, times in endpoint.accepted.items():
            place = key.subscription_id, event_id
            reasons = {n for n, *sent in line.sent if tuple(sent) == place and n in line.strikes}
            assert times - 1 <= len(reasons), f"{event_id} arrived {times} times without a reason"
            again += max(0, times - 1)
    return again


def _mailed_again(line: Line) -> int:
    """A mail that nobody counted left an invocation that was struck before it could."""
    uncounted = len(line.world.mails) - len(line.world.carried)
    reasons = set(line.mailed).intersection(line.strikes)
    assert uncounted <= len(reasons), f"{uncounted} mails too many"
    return uncounted


def campaign(scene: Scene) -> Iterator[Cell]:
    """Every point of the scene, struck in every way."""
    clean = play(scene)
    for point in clean.points:
        for strike in Strike:
            yield struck(scene, clean, point, strike)


def sample(scene: Scene) -> Iterator[Cell]:
    """Every point of the scene, struck in one way: the next one of the table at each."""
    clean, strikes = play(scene), cycle(Strike)
    for point, strike in zip(clean.points, strikes, strict=False):
        yield struck(scene, clean, point, strike)
