"""The state machine that is deployed, run with the real tasks: no step twice, no history too long."""

import bisect
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane
from hookkeeper.domain.event import ArchivedEvent
from hookkeeper.domain.recovery import Cursor, Listed, RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.settings import RecoverSettings

from tests.builders import HOUR, MINUTE, NOW, a_health, a_suspended_subscription, an_event
from tests.core import Core
from tests.fakes import FakeRuntimeConfigs, FakeWorkflow
from tests.functions.cold import cold_start
from tests.model.asl import AbortedError, Machine, Run, State

MANY = 150_000
HISTORY_AT_MOST = 20_000
NEW_EXECUTION = "arn:aws:states:eu-west-1:123456789012:execution:recovery:"


@dataclass(frozen=True, slots=True)
class Clock:
    """The World's time, where a handler asks for the machine's."""

    core: Core

    def now(self, _: object) -> datetime:
        return self.core.now


@pytest.fixture(scope="module")
def recover() -> Iterator[Any]:
    required = [name for name, f in RecoverSettings.model_fields.items() if f.is_required()]
    told = {name: 300 if "margin" in name else "a-name" for name in required}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in RecoverSettings.model_validate(told).environment().items():
            patch.setenv(name, value)
        yield cold_start("recover")


@dataclass
class Theatre:
    """The deployed machine over one World: executions started by anyone run one after the other."""

    core: Core
    machine: Machine
    runs: list[Run] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def start(self, key: SubscriptionKey, **options: Any) -> Run:
        """As from the Step Functions console; whatever it starts in turn runs after it."""
        names = {"tenant": key.scope.tenant_id, "mode": str(key.scope.mode)}
        first = self._run(names | {"subscription_id": key.subscription_id} | options)
        self.run_started()
        return first

    def run_started(self) -> None:
        """Run what others have started, and what those start."""
        waiting = self.core.world.executions
        while waiting:
            key, options = waiting.pop(next(iter(waiting)))
            names = {"tenant": key.scope.tenant_id, "mode": str(key.scope.mode)}
            given = {name: value for name, value in options.items() if value is not None}
            self._run(names | {"subscription_id": key.subscription_id} | given)

    def _run(self, state: State) -> Run:
        run = self.machine.run(f"{NEW_EXECUTION}{next(self.numbers)}", state)
        self.runs.append(run)
        if run.status != "SUCCEEDED":
            self.tell_ended(run, state)
        return run

    def tell_ended(self, run: Run, state: State) -> None:
        """What EventBridge's rule on failed, aborted and timed-out executions hands to `recover`."""
        self.machine.functions["Lock"](state | {"action": "failed", "execution": run.id})


@pytest.fixture
def theatre(definition: dict[str, Any], recover: Any) -> Theatre:
    core = Core()
    recover.ports = core.backfill_ports
    recover.runtime = FakeRuntimeConfigs(core.world)
    recover.workflow = FakeWorkflow(core.world)
    recover.ids, recover.margins = core.ids, core.margins
    recover.datetime = Clock(core)

    def invoke(payload: State) -> State:
        answer: State = recover.handler(payload, Context())
        return answer

    def contact(payload: State) -> State:
        core.world.probes = getattr(core.world, "probes", 0) + 1  # type: ignore[attr-defined]
        return payload | {"passed": True, "status_code": 200}

    tasks = [n for n, s in definition["States"].items() if s["Type"] == "Task"]
    functions = {name: contact if name == "Probe" else invoke for name in tasks}
    return Theatre(core, Machine(definition, functions, core.world))


class Context:
    function_name = "recover"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:recover"
    aws_request_id = "a-request"


def suspended_with(theatre: Theatre, number: int) -> SubscriptionKey:
    """A subscription that is suspended, and so many events that it missed, a second apart."""
    core = theatre.core
    key = core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW - HOUR))
    core.world.now = NOW - HOUR
    for n in range(1, number + 1):
        core.later(timedelta(seconds=1))
        core.archived(key, an_event(n))
    core.world.now = NOW
    return key


def deliver_all(core: Core) -> None:
    """Until every message that is visible now is dealt with."""
    for queue in ("deliveries", "backfill"):
        while parcels := core.take(queue):
            core.deliver(*parcels)


def sent_to(core: Core) -> Counter[str]:
    return Counter(dict(request.headers)["webhook-id"] for request in core.world.requests)


# ── a start by hand, retries, executions that break ──────────────────────────────────────────────


def test_a_start_from_the_console_with_three_names_probes_activates_and_gives_all_back(
    theatre: Theatre,
) -> None:
    key = suspended_with(theatre, 40)
    theatre.machine.between = lambda: deliver_all(theatre.core)
    run = theatre.start(key)
    assert run.status == "SUCCEEDED"
    assert run.states[:6] == ["Lock", "What first?", "Probe", "Passed?", "Activate", "Activated?"]
    assert set(sent_to(theatre.core).values()) == {1}
    (recovery,) = theatre.core.world.recoveries.values()
    assert (recovery.status, recovery.found, recovery.sent, recovery.succeeded, recovery.failed) == (
        RecoveryStatus.COMPLETED,
        40,
        40,
        40,
        0,
    )


def test_every_task_may_run_twice_and_all_is_sent_once(theatre: Theatre) -> None:
    key = suspended_with(theatre, 40)
    theatre.machine.between = lambda: deliver_all(theatre.core)
    theatre.machine.functions = {
        name: _losing_every_other_answer(function) for name, function in theatre.machine.functions.items()
    }
    run = theatre.start(key)
    assert run.status == "SUCCEEDED"
    assert set(sent_to(theatre.core).values()) == {1}
    (recovery,) = theatre.core.world.recoveries.values()
    assert (recovery.sent, recovery.succeeded) == (40, 40)
    assert theatre.core.present(key).status is Status.ACTIVE


def _losing_every_other_answer(function: Any) -> Any:
    turns = itertools.count()

    def invoked(payload: State) -> State:
        answer: State = function(payload)
        if next(turns) % 2 == 0:
            raise TimeoutError("the answer was lost")
        return answer

    return invoked


@pytest.mark.parametrize("broken", ["Lock", "Probe", "Activate", "Slice", "Wait"])
@pytest.mark.parametrize("late", [False, True], ids=["before it did anything", "after it did"])
def test_an_execution_that_breaks_anywhere_is_taken_up_by_the_next_sweep(
    theatre: Theatre, broken: str, *, late: bool
) -> None:
    key = suspended_with(theatre, 40)
    core, machine = theatre.core, theatre.machine
    broke = [False]
    machine.between = lambda: deliver_all(core)

    def breaking(function: Any) -> Any:
        def invoked(payload: State) -> State:
            if broke[0] or not late:
                _abort_once(broke)
                return dict(function(payload))
            function(payload)
            broke[0] = True
            raise AbortedError

        return invoked

    if broken == "Wait":

        def between() -> None:
            _abort_once(broke)
            deliver_all(core)

        machine.between = between
    else:
        machine.functions = {n: breaking(f) if n == broken else f for n, f in machine.functions.items()}
    assert theatre.start(key).status == "ABORTED"
    for _ in range(3):
        core.later(MINUTE)
        core.sweep()
        theatre.run_started()
        deliver_all(core)
    if core.present(key).status is not Status.ACTIVE:
        assert not core.health(key).recovery.held, "nothing stands in the way of another try"
        theatre.start(key)
    assert core.present(key).status is Status.ACTIVE
    assert sorted(sent_to(core)) == sorted(an_event(n).id for n in range(1, 41))
    assert set(sent_to(core).values()) == {1}
    assert not core.health(key).recovery.held


def _abort_once(broke: list[bool]) -> None:
    if not broke[0]:
        broke[0] = True
        raise AbortedError


# ── long recoveries ──────────────────────────────────────────────────────────────────────────────


class LongArchive:
    """150,000 events, a second apart, found as fast as an index finds them."""

    def __init__(self, entries: list[ArchivedEvent]) -> None:
        self._entries = entries
        self._places = [Cursor(e.archived_at, e.event.id) for e in entries]

    def events(
        self, _: Scope, *, start: datetime, until: datetime, after: Cursor | None = None
    ) -> Iterator[ArchivedEvent]:
        first = bisect.bisect_left(self._places, Cursor(start, ""))
        if after is not None:
            first = max(first, bisect.bisect_right(self._places, after))
        last = bisect.bisect_right(self._places, Cursor(until, "\uffff"))
        return itertools.islice(self._entries, first, last)

    def recent(self, _: Scope, *, since: datetime, before: Cursor | None = None) -> Iterator[Listed]:
        last = bisect.bisect_left(self._places, before) if before else len(self._places)
        first = bisect.bisect_left(self._places, Cursor(since, ""))
        return (Listed(self._places[n], self._entries[n].event.type) for n in range(last - 1, first - 1, -1))


@pytest.mark.parametrize(
    "troubled, executions, shortest, longest",
    [
        pytest.param(False, 1, timedelta(minutes=25), timedelta(minutes=40), id="at a hundred a second"),
        pytest.param(True, 2, timedelta(hours=41), timedelta(hours=44), id="at one a second, in trouble"),
    ],
)
def test_f25_150_000_events_are_each_sent_once_and_no_history_passes_20_000(
    theatre: Theatre,
    recover: Any,
    *,
    troubled: bool,
    executions: int,
    shortest: timedelta,
    longest: timedelta,
) -> None:
    key, sent = _long_outage(theatre, recover), Counter[str]()
    theatre.machine.between = lambda: _deliver_in_bulk(theatre.core, key, sent, troubled=troubled)
    theatre.start(key)
    assert len(theatre.runs) == executions
    assert max(run.history for run in theatre.runs) < HISTORY_AT_MOST
    assert {run.status for run in theatre.runs} == {"SUCCEEDED"}
    assert len(sent) == MANY
    assert set(sent.values()) == {1}
    (recovery,) = theatre.core.world.recoveries.values()
    assert (recovery.status, recovery.found, recovery.sent, recovery.succeeded) == (
        RecoveryStatus.COMPLETED,
        MANY,
        MANY,
        MANY,
    )
    assert shortest < sum((run.waited for run in theatre.runs), timedelta()) < longest


def _long_outage(theatre: Theatre, recover: Any) -> SubscriptionKey:
    core = theatre.core
    start = NOW - timedelta(days=3)
    (entry,) = core.archive.put([an_event(1)], now=start)
    entries = [
        ArchivedEvent(event=an_event(n), archived_at=start + timedelta(seconds=n), pointer=entry.pointer)
        for n in range(1, MANY + 1)
    ]
    key = core.subscribe(a_suspended_subscription(first_active_at=start - HOUR), a_health(outage_from=start))
    core.archive = LongArchive(entries)  # type: ignore[assignment]
    recover.ports = core.backfill_ports
    return key


def _deliver_in_bulk(core: Core, key: SubscriptionKey, sent: Counter[str], *, troubled: bool) -> None:
    """Every message that is visible, as deliver would write it down: one clean success each."""
    waiting = core.world.queues["backfill"]
    due = [parcel for at, parcel in waiting if at <= core.now]
    waiting[:] = [entry for entry in waiting if entry[0] > core.now]
    for parcel in due:
        sent[parcel.key.event_id] += 1
        assert parcel.at is not None
        assert core.now - parcel.at <= MINUTE * 15
        core.world.deliveries[parcel.key] = Delivery(
            key=parcel.key,
            event_type=parcel.event_type,
            archived_at=parcel.archived_at,
            pointer=parcel.pointer,
            status=DeliveryStatus.SUCCEEDED,
            lane=Lane.BACKFILL,
            settled=True,
            attempt_count=1,
            recovery_id=parcel.recovery_id,
        )
    lock = core.health(key).recovery
    if due and lock.id:
        core.recoveries.add_counts(key, lock.id, succeeded=len(due), failed=0, troubled=int(troubled))
