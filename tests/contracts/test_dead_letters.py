"""What was dead goes back to its lane as it was, and is gone from the dead-letter queue only then."""

from typing import Any

import pytest
from hookkeeper.adapters.sqs_dead_letters import DeadLetterQueue, SqsDeadLetterQueues

from tests.contracts.conftest import Aws
from tests.faults import refuse


class Queues:
    def __init__(self, aws: Aws) -> None:
        self.client = aws.client("sqs")
        self.dead, self.lane, self.ingest = (
            self.client.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "lane", "ingest")
        )
        self.port = SqsDeadLetterQueues(
            self.client,
            queues={
                "Deliveries": DeadLetterQueue(self.dead, self.lane),
                "Ingest": DeadLetterQueue(self.ingest, None),
            },
            sleep=lambda _: None,
        )

    def lay(self, count: int) -> None:
        for n in range(count):
            self.client.send_message(
                QueueUrl=self.dead,
                MessageBody=f"m{n}",
                MessageGroupId="sub_1",
                MessageAttributes={"why": {"DataType": "String", "StringValue": "late"}},
            )

    def on_lane(self) -> list[dict[str, Any]]:
        answer = self.client.receive_message(
            QueueUrl=self.lane,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["MessageGroupId"],
        )
        return list(answer.get("Messages", []))


@pytest.fixture
def queues(aws: Aws) -> Queues:
    return Queues(aws)


def depths(queues: Queues) -> dict[str, int]:
    return {each.name: each.count for each in queues.port.depths()}


def test_what_lies_there_is_counted_and_goes_back_whole(queues: Queues) -> None:
    queues.lay(2)
    assert depths(queues) == {"Deliveries": 2, "Ingest": 0}
    assert [each.redrivable for each in queues.port.depths()] == [True, False]
    assert queues.port.redrive("Deliveries", most=100) == 2
    assert depths(queues)["Deliveries"] == 0
    messages = queues.on_lane()
    assert {each["Body"] for each in messages} == {"m0", "m1"}
    for message in messages:
        assert message["Attributes"]["MessageGroupId"] == "sub_1"
        assert message["MessageAttributes"]["why"]["StringValue"] == "late"


def test_no_more_go_back_than_were_asked_for(queues: Queues) -> None:
    queues.lay(25)
    assert queues.port.redrive("Deliveries", most=12) == 12
    assert depths(queues)["Deliveries"] == 13


def test_a_lane_that_takes_nothing_leaves_them_where_they_are(queues: Queues) -> None:
    queues.lay(1)
    refuse(queues.client, "SendMessageBatch", code="ServiceUnavailable", times=3)
    assert queues.port.redrive("Deliveries", most=10) == 0
    assert (
        queues.client.get_queue_attributes(QueueUrl=queues.dead, AttributeNames=["All"])["Attributes"][
            "ApproximateNumberOfMessagesNotVisible"
        ]
        == "1"
    )


def test_what_has_no_lane_is_not_moved(queues: Queues) -> None:
    for name in ("Ingest", "nothing"):
        with pytest.raises(KeyError):
            queues.port.redrive(name, most=1)
