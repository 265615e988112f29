"""An id is claimed before it is queued, so that one id is one event however often it is sent."""

import threading

from hookkeeper.usecases.emit import Acceptance, Submission, emit

from tests.builders import NOW, a_scope, an_event
from tests.fakes import FakeEventItems, World
from tests.functions.api_bench import FakeEventQueue


def a_submission(number: int = 1, *, content: str = "same", tenant: str = "acme") -> Submission:
    event = an_event(number, scope=a_scope(tenant))
    return Submission(event=event, content_hash=content, text=f"{tenant}/{number}/{content}")


def emitted(world: World, queue: FakeEventQueue, *submissions: Submission) -> list[Acceptance]:
    return list(emit(submissions, now=NOW, events=FakeEventItems(world), queue=queue))


def test_the_first_body_of_an_id_holds_it() -> None:
    world, queue = World(), FakeEventQueue()
    assert emitted(world, queue, a_submission()) == [Acceptance.ACCEPTED]
    assert emitted(world, queue, a_submission(content="other")) == [Acceptance.CONFLICT]
    assert emitted(world, queue, a_submission(content="other", tenant="beta")) == [Acceptance.ACCEPTED]
    assert queue.texts == ["acme/1/same", "beta/1/other"]


def test_an_id_claimed_by_a_call_that_died_is_queued_by_the_next() -> None:
    world, queue = World(), FakeEventQueue(refuses=frozenset({0}))
    assert emitted(world, queue, a_submission()) == [Acceptance.UNAVAILABLE]
    queue.refuses = frozenset()
    assert emitted(world, queue, a_submission()) == [Acceptance.ACCEPTED]
    assert queue.texts == ["acme/1/same"]


def test_one_call_queues_an_id_once_and_judges_each_for_itself() -> None:
    world, queue = World(), FakeEventQueue(refuses=frozenset({1}))
    answers = emitted(
        world,
        queue,
        a_submission(1),
        a_submission(1),
        a_submission(2),
        a_submission(1, content="x"),
        a_submission(3),
    )
    assert answers == [
        Acceptance.ACCEPTED,
        Acceptance.ACCEPTED,
        Acceptance.UNAVAILABLE,
        Acceptance.CONFLICT,
        Acceptance.ACCEPTED,
    ]
    assert queue.texts == ["acme/1/same", "acme/3/same"]


def test_bb10_twenty_parallel_publishes_of_two_bodies_have_one_content() -> None:
    world, queue, barrier = World(), FakeEventQueue(), threading.Barrier(20)
    answers: list[tuple[str, Acceptance]] = []

    def publish(content: str) -> None:
        barrier.wait()
        answers.append((content, emitted(world, queue, a_submission(content=content))[0]))

    threads = [threading.Thread(target=publish, args=("ab"[n % 2],)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted = {content for content, answer in answers if answer is Acceptance.ACCEPTED}
    assert len(accepted) == 1
    assert {text.rpartition("/")[2] for text in queue.texts} == accepted
