"""Dead letters go back to the queue they came from, whole, and none is lost on the way."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.cli.conftest import Bench

NAMES = ("events", "deliveries")


class Queues:
    """The queues of the stack, in moto, and their dead-letter queues."""

    def __init__(self, sqs: Any, outputs: dict[str, str]) -> None:
        self.sqs = sqs
        self._urls = outputs

    def put(self, queue: str, *bodies: str, **more: Any) -> list[str]:
        sent = [self.sqs.send_message(QueueUrl=self._urls[queue], MessageBody=b, **more) for b in bodies]
        return [each["MessageId"] for each in sent]

    def take(self, queue: str) -> list[Any]:
        """What can be received now."""
        taken: list[Any] = []
        while messages := self._receive(queue):
            taken += messages
        return taken

    def bodies(self, queue: str) -> list[str]:
        return sorted(message["Body"] for message in self.take(queue))

    def _receive(self, queue: str) -> list[Any]:
        answer = self.sqs.receive_message(
            QueueUrl=self._urls[queue],
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["MessageGroupId"],
        )
        messages: list[Any] = answer.get("Messages", [])
        return messages


class Impatient:
    """An SQS that does not wait for messages, and may refuse to take some."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self.refuses = "nothing"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sqs, name)

    def receive_message(self, **asked: Any) -> Any:
        return self._sqs.receive_message(**{**asked, "WaitTimeSeconds": 0})

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
        good = [each for each in Entries if self.refuses not in each["MessageBody"]]
        failed = [{"Id": each["Id"], "Code": "No"} for each in Entries if each not in good]
        answer = self._sqs.send_message_batch(QueueUrl=QueueUrl, Entries=good) if good else {}
        return {"Successful": answer.get("Successful", []), "Failed": failed}


@pytest.fixture
def queues(bench: Bench) -> Iterator[Queues]:
    outputs = bench.has_local_stack()
    with mock_aws():
        sqs = boto3.client("sqs")
        made = {
            name: sqs.create_queue(QueueName=name)["QueueUrl"]
            for name in ("Events", "Deliveries", "DlqEvents", "DlqDeliveries", "DlqIngest", "DlqRecovery")
        }
        outputs |= {"EventsQueueUrl": made["Events"], "QueueEvents": made["Events"]}
        outputs |= {"QueueDeliveries": made["Deliveries"]}
        outputs |= {name: url for name, url in made.items() if name.startswith("Dlq")}
        stack = json.loads(bench.home.stack.read_text())
        bench.home.stack.write_text(json.dumps(stack | outputs))
        bench.aws["sqs"] = Impatient(sqs)
        yield Queues(sqs, outputs)


def test_without_a_queue_the_depths_are_listed(queues: Queues, bench: Bench) -> None:
    queues.put("DlqDeliveries", "a", "b")
    assert bench.run("redrive", "--json").lines == [
        {"queue": "deliveries", "messages": 2},
        {"queue": "events", "messages": 0},
        {"queue": "ingest", "messages": 0},
        {"queue": "recovery", "messages": 0},
    ]


def test_all_dead_letters_go_back_with_group_and_attributes(queues: Queues, bench: Bench) -> None:
    bodies = [f"letter {n:02}" for n in range(25)]
    attribute = {"why": {"DataType": "String", "StringValue": "broken"}}
    queues.put("DlqDeliveries", *bodies, MessageGroupId="sub_1", MessageAttributes=attribute)
    ran = bench.run("redrive", "deliveries", "--yes", "--json")
    assert ran.json == {"queue": "deliveries", "moved": 25, "refused": 0, "left": 0}
    back = queues.take("QueueDeliveries")
    assert sorted(message["Body"] for message in back) == bodies
    assert {message["Attributes"]["MessageGroupId"] for message in back} == {"sub_1"}
    assert all(message["MessageAttributes"]["why"]["StringValue"] == "broken" for message in back)
    assert queues.take("DlqDeliveries") == []


def test_the_count_is_told_before_anything_moves(queues: Queues, bench: Bench) -> None:
    queues.put("DlqDeliveries", "a", "b")
    bench.somebody_answers = True
    ran = bench.run("redrive", "deliveries", stdin="n\n")
    assert ran.code == 1
    assert "Put about 2 dead letters back into deliveries?" in ran.err
    assert queues.bodies("DlqDeliveries") == ["a", "b"]


def test_nobody_to_ask_is_a_usage_error(queues: Queues, bench: Bench) -> None:
    queues.put("DlqDeliveries", "a")
    assert bench.run("redrive", "deliveries").code == 2
    assert queues.bodies("DlqDeliveries") == ["a"]


def test_only_what_matches_moves_and_the_rest_shows_again_at_once(queues: Queues, bench: Bench) -> None:
    queues.put("DlqDeliveries", *[f"sub_1 {n:02}" for n in range(12)], *[f"sub_2 {n:02}" for n in range(12)])
    ran = bench.run("redrive", "deliveries", "--match", "sub_1", "--yes", "--json")
    assert ran.json == {"queue": "deliveries", "moved": 12, "refused": 0, "left": 12}
    assert all("sub_1" in body for body in queues.bodies("QueueDeliveries"))
    assert queues.bodies("DlqDeliveries") == [f"sub_2 {n:02}" for n in range(12)]


def test_no_more_move_than_was_asked_for(queues: Queues, bench: Bench) -> None:
    queues.put("DlqDeliveries", *"abcdefghijklmno")
    assert bench.run("redrive", "deliveries", "--limit", "3", "--yes", "--json").json["moved"] == 3
    assert len(queues.take("QueueDeliveries")) == 3
    assert len(queues.take("DlqDeliveries")) == 12


def test_what_the_queue_refuses_stays_a_dead_letter(queues: Queues, bench: Bench) -> None:
    queues.put("DlqDeliveries", "good", "bad")
    bench.aws["sqs"].refuses = "bad"
    ran = bench.run("redrive", "deliveries", "--yes")
    assert ran.code == 5
    assert queues.bodies("QueueDeliveries") == ["good"]
    assert queues.bodies("DlqDeliveries") == ["bad"]


def test_an_event_keeps_the_id_and_time_that_its_first_message_gave_it(queues: Queues, bench: Bench) -> None:
    (message_id,) = queues.put("DlqEvents", '{"tenant_id": "acme", "type": "a.b", "data": {"x": 1.10}}')
    assert bench.run("redrive", "events", "--yes").code == 0
    (body,) = queues.bodies("QueueEvents")
    assert f'"id":"{message_id}"' in body
    assert '"occurred_at":"20' in body
    assert '"data":{"x":1.10}' in body


@pytest.mark.parametrize(
    "body",
    [
        '{"id": "evt_1", "tenant_id": "acme", "type": "a.b", "occurred_at": "2026-01-01T00:00:00Z"}',
        '{"detail-type": "a.b", "id": "uuid", "detail": {}}',
        '{"v":1,"kind":"page","tenant":"acme"}',
        "no JSON",
    ],
)
def test_what_names_itself_goes_back_as_it_was(body: str, queues: Queues, bench: Bench) -> None:
    queues.put("DlqEvents", body)
    assert bench.run("redrive", "events", "--yes").code == 0
    (back,) = queues.bodies("QueueEvents")
    assert back == body


def test_what_eventbridge_could_not_deliver_goes_to_the_events_queue(queues: Queues, bench: Bench) -> None:
    queues.put("DlqIngest", '{"detail-type": "a.b"}')
    assert bench.run("redrive", "ingest", "--yes").code == 0
    assert queues.bodies("QueueEvents") == ['{"detail-type": "a.b"}']


def test_an_empty_one_is_no_question(queues: Queues, bench: Bench) -> None:
    assert bench.run("redrive", "deliveries", "--json").json["moved"] == 0
    assert queues.take("QueueDeliveries") == []


def test_letters_without_a_queue_of_theirs_stay(queues: Queues, bench: Bench) -> None:
    queues.put("DlqRecovery", "an execution")
    assert bench.run("redrive", "recovery", "--yes").code == 1
    assert queues.bodies("DlqRecovery") == ["an execution"]


@pytest.mark.usefixtures("queues")
def test_an_unknown_queue_is_not_found(bench: Bench) -> None:
    ran = bench.run("redrive", "nonsense")
    assert ran.code == 3
    assert "deliveries, events, ingest" in ran.err
