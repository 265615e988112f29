"""What the functions are struck in: one scene each for every way their calls differ."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases import fan_out

from tests.builders import a_key
from tests.campaign.line import Line
from tests.model.product import DOWN, GONE, HOUR, MINUTE, SECOND, WELL, status

ONE, TWO = a_key(1), a_key(2)


@dataclass(frozen=True, slots=True)
class Scene:
    """`prepare` makes the situation, `act` runs the function whose calls are numbered.

    Not `prompt` is one whose retries are further apart than any delay that a strike can cause.
    """

    function: str
    name: str
    prepare: Callable[[Line], object]
    act: Callable[[Line], object]
    prompt: bool = True


# ── situations ───────────────────────────────────────────────────────────────────────────────────


def two_subscriptions(line: Line) -> None:
    line.subscribe(key=ONE)
    line.subscribe(key=TWO, event_types=("invoice.*",))


def events(line: Line, *types: str) -> None:
    """Emitted and fanned out: their messages wait."""
    for event_type in types:
        line.emit(event_type)
    line.fan_out(100)


def three_events_one_of_them_twice(line: Line) -> None:
    two_subscriptions(line)
    first = line.emit("invoice.paid")
    line.emit("order.sent")
    line.emit("nobody.cares")
    line.incoming.append((line.now, first))


def five_takers_of_one_event(line: Line) -> None:
    for number in range(1, 6):
        line.subscribe(key=a_key(number))
    line.emit()


def three_messages(line: Line) -> None:
    two_subscriptions(line)
    events(line, "invoice.paid", "order.sent")


def endpoint_says(line: Line, answer: Answer, key: SubscriptionKey = ONE) -> None:
    line.endpoint(key).answer = lambda _: answer


def every_way_to_fail(line: Line) -> None:
    """One endpoint is down, one throttles, one does not know the path, one no longer wants the type."""
    for number, answer in enumerate((DOWN, status(429, retry_after="90"), GONE, WELL), 1):
        key = line.subscribe(key=a_key(number))
        endpoint_says(line, answer, key)
    line.emit()
    line.fan_out()
    line.edit_filter(a_key(4), "order.*")


def healed_after_a_failure(line: Line) -> None:
    """A retry waits, and the next attempt will succeed and reset the streak."""
    line.subscribe(key=ONE)
    endpoint_says(line, GONE)
    events(line, "invoice.paid")
    line.deliver()
    endpoint_says(line, DOWN)
    events(line, "order.sent")
    line.deliver()
    endpoint_says(line, WELL)
    line.world.now += MINUTE
    events(line, "order.sent")


def five_messages_for_a_dead_endpoint(line: Line) -> None:
    line.subscribe(key=ONE)
    endpoint_says(line, DOWN)
    events(line, *["order.sent"] * 5)


def an_open_circuit(line: Line) -> None:
    """Five retries and one new event wait; the circuit may be tried."""
    five_messages_for_a_dead_endpoint(line)
    line.deliver()
    events(line, "invoice.paid")


def an_open_circuit_whose_retries_come(line: Line) -> None:
    an_open_circuit(line)
    line.world.now += 10 * SECOND


def a_circuit_to_be_tried(line: Line) -> None:
    an_open_circuit(line)
    line.world.now += 31 * SECOND


def a_circuit_to_be_tried_of_a_healed_endpoint(line: Line) -> None:
    a_circuit_to_be_tried(line)
    endpoint_says(line, WELL)


def failing(line: Line, count: int, since: timedelta) -> None:
    """So many permanent failures are on health; one more is in the queue."""
    line.subscribe(key=ONE)
    began = line.now - since
    line.core.set_health(
        ONE,
        streaks={Outcome.PERMANENT: Streak(count, began)},
        consecutive_failures=count,
        first_failure_at=began,
        last_attempt_at=line.now,
    )
    endpoint_says(line, GONE)
    events(line, "invoice.paid")


def about_to_be_suspended(line: Line) -> None:
    failing(line, 4, 2 * HOUR)


def about_to_be_warned(line: Line) -> None:
    failing(line, 2, 40 * MINUTE)


def suspended(line: Line) -> None:
    """By the policy, with the mail still to be sent."""
    about_to_be_suspended(line)
    line.deliver()
    assert line.present(ONE).status is Status.SUSPENDED


def two_suspended(line: Line) -> None:
    """Two subscriptions of one owner, at once."""
    line.subscribe(key=TWO)
    endpoint_says(line, GONE, TWO)
    suspended(line)
    began = line.now - 2 * HOUR
    line.core.set_health(
        TWO,
        streaks={Outcome.PERMANENT: Streak(4, began)},
        consecutive_failures=4,
        first_failure_at=began,
        last_attempt_at=line.now,
    )
    line.emit()
    line.fan_out()
    line.deliver()
    assert line.present(TWO).status is Status.SUSPENDED


def suspended_and_missing_events(line: Line) -> None:
    suspended(line)
    line.notify()
    line.run(10 * MINUTE)
    for _ in range(8):
        line.emit()
        line.run(20 * SECOND)
    endpoint_says(line, WELL)


def still_down(line: Line) -> None:
    suspended_and_missing_events(line)
    endpoint_says(line, DOWN)


def activated(line: Line) -> None:
    suspended_and_missing_events(line)
    line.reenable(ONE)
    for _ in range(3):
        line.run_executions()
    assert line.present(ONE).status is Status.ACTIVE


def canaries_on_their_way(line: Line) -> None:
    activated(line)
    line.run_executions()


def counted_and_not_ruled(line: Line) -> None:
    """The function died between counting the last failure and asking the policy."""
    about_to_be_suspended(line)
    line.at("Subscriptions.standing", line.kill)
    line.deliver()
    assert line.present(ONE).status is Status.ACTIVE
    line.world.now += 3 * MINUTE


def retries_without_a_message(line: Line) -> None:
    line.subscribe(key=ONE)
    endpoint_says(line, DOWN)
    events(line, "invoice.paid", "order.sent")
    line.deliver()
    line.world.queues["deliveries"].clear()
    endpoint_says(line, WELL)
    line.world.now += 5 * MINUTE


def a_circuit_nobody_tries(line: Line) -> None:
    """No message is left; the sweep must wake it."""
    five_messages_for_a_dead_endpoint(line)
    line.deliver()
    line.world.now += 20 * SECOND
    line.deliver()
    endpoint_says(line, WELL)
    line.world.now += 2 * MINUTE


def a_closed_circuit(line: Line) -> None:
    """Its recovery is small, and the sweep's own."""
    a_circuit_to_be_tried_of_a_healed_endpoint(line)
    line.deliver()


# ── acts ─────────────────────────────────────────────────────────────────────────────────────────


def fan_out_wide(line: Line) -> None:
    """With pages of two, as if there were thousands."""
    wide, fan_out.WIDE = fan_out.WIDE, 2
    try:
        line.fan_out()
    finally:
        fan_out.WIDE = wide
    line.fan_out_pages()


def deliver_backfill(line: Line) -> None:
    line.deliver("backfill")


def reenable(line: Line) -> None:
    line.reenable(ONE)
    for _ in range(3):
        line.run_executions()


def run(minutes: int) -> Callable[[Line], None]:
    return lambda line: line.run(minutes * MINUTE)


SCENES = (
    Scene("fan_out", "three events, one twice", three_events_one_of_them_twice, Line.fan_out),
    Scene("fan_out", "pages of a wide one", five_takers_of_one_event, fan_out_wide),
    Scene("deliver", "a clean batch", three_messages, Line.deliver),
    Scene("deliver", "every way to fail", every_way_to_fail, Line.deliver, prompt=False),
    Scene("deliver", "well again", healed_after_a_failure, Line.deliver),
    Scene("deliver", "the circuit opens", five_messages_for_a_dead_endpoint, Line.deliver),
    Scene("deliver", "in an outage", an_open_circuit_whose_retries_come, Line.deliver),
    Scene("deliver", "the trial fails", a_circuit_to_be_tried, Line.deliver),
    Scene("deliver", "the trial is good", a_circuit_to_be_tried_of_a_healed_endpoint, Line.deliver),
    Scene("deliver", "a recovery's canaries", canaries_on_their_way, deliver_backfill),
    Scene("suspend", "the failure that crosses", about_to_be_suspended, Line.deliver),
    Scene("suspend", "the failure that warns", about_to_be_warned, Line.deliver),
    Scene("suspend", "what a crash left", counted_and_not_ruled, Line.sweep),
    Scene("notify", "one notice", suspended, Line.notify),
    Scene("notify", "two share a mail", two_suspended, Line.notify),
    Scene("activate", "the probe passes", suspended_and_missing_events, reenable),
    Scene("activate", "the probe fails", still_down, reenable),
    Scene("backfill", "to the end", activated, run(15)),
    Scene("sweep", "retries without a message", retries_without_a_message, Line.sweep),
    Scene("sweep", "a circuit nobody tries", a_circuit_nobody_tries, Line.sweep),
    Scene("sweep", "a small recovery", a_closed_circuit, run(20)),
)
