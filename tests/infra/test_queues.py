"""Every queue and event source keeps what it was given: dead letters, visibility, partial batches."""

from typing import Any

import pytest

CONSUMERS = {
    "Events": "FanOut",
    "Deliveries": "Deliver",
    "Backfill": "Deliver",
    "Notices": "Notify",
    "Contacts": "Contact",
}
RECEIVES = {"Events": 100, "Deliveries": 20, "Backfill": 20, "Notices": 20, "Contacts": 20}
DAY = 24 * 60 * 60


def _mapping(prod: Any, queue: str) -> dict[str, Any]:
    source = f"<{prod.output(f'Queue{queue}')}.Arn>"
    (mapping,) = (
        m
        for m in prod.of("AWS::Lambda::EventSourceMapping").values()
        if prod.literal(m["EventSourceArn"]) == source
    )
    return dict(mapping)


def test_every_queue_is_in_the_outputs(prod: Any) -> None:
    named = {*prod.outputs("Queue").values(), *prod.outputs("Dlq").values()}
    assert named == set(prod.of("AWS::SQS::Queue"))


@pytest.mark.parametrize("queue", CONSUMERS)
def test_a_message_that_cannot_be_handled_ends_in_the_queues_own_dead_letters(prod: Any, queue: str) -> None:
    redrive = prod.resources[prod.output(f"Queue{queue}")]["Properties"]["RedrivePolicy"]
    assert prod.literal(redrive["deadLetterTargetArn"]) == f"<{prod.output(f'Dlq{queue}')}.Arn>"
    assert redrive["maxReceiveCount"] == RECEIVES[queue]


def test_no_two_queues_share_their_dead_letters(prod: Any) -> None:
    assert len(set(prod.outputs("Dlq").values())) == len(prod.outputs("Dlq"))


@pytest.mark.parametrize("queue, function", CONSUMERS.items())
def test_a_batch_stays_invisible_for_six_time_outs_of_its_function(
    prod: Any, queue: str, function: str
) -> None:
    visibility = prod.resources[prod.output(f"Queue{queue}")]["Properties"]["VisibilityTimeout"]
    assert visibility >= 6 * prod.function(function)["Timeout"]


@pytest.mark.parametrize("queue", CONSUMERS)
def test_queues_keep_seven_days_and_dead_letters_fourteen(prod: Any, queue: str) -> None:
    assert (
        prod.resources[prod.output(f"Queue{queue}")]["Properties"]["MessageRetentionPeriod"],
        prod.resources[prod.output(f"Dlq{queue}")]["Properties"]["MessageRetentionPeriod"],
    ) == (7 * DAY, 14 * DAY)


@pytest.mark.parametrize("queue, function", CONSUMERS.items())
def test_one_failed_message_comes_back_alone(prod: Any, queue: str, function: str) -> None:
    mapping = _mapping(prod, queue)
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert prod.literal(mapping["FunctionName"]) == f"<{prod.output(f'Function{function}')}>"


@pytest.mark.parametrize("queue", CONSUMERS)
def test_a_queue_takes_no_more_of_the_accounts_concurrency_than_its_share(prod: Any, queue: str) -> None:
    assert _mapping(prod, queue)["ScalingConfig"]["MaximumConcurrency"] >= 2


def test_new_notices_alone_wake_notify(prod: Any) -> None:
    (mapping,) = (
        m
        for m in prod.of("AWS::Lambda::EventSourceMapping").values()
        if "Notices" in str(m["EventSourceArn"]) and "StreamArn" in str(m["EventSourceArn"])
    )
    assert mapping["FilterCriteria"]["Filters"] == [{"Pattern": '{"eventName":["INSERT"]}'}]
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


@pytest.mark.parametrize("queue", CONSUMERS)
def test_nobody_but_sqs_puts_a_message_into_dead_letters(prod: Any, queue: str) -> None:
    dead = f"<{prod.output(f'Dlq{queue}')}.Arn>"
    assert prod.actions_on(dead) == prod.actions_on(dead, prod.role_of("Console"))
    assert prod.actions_on(dead) == {"sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage"}


def test_what_no_lane_lost_is_counted_by_the_console_and_moved_by_nobody(prod: Any) -> None:
    for queue in prod.outputs("Dlq").keys() - CONSUMERS.keys():
        assert prod.actions_on(f"<{prod.output(f'Dlq{queue}')}.Arn>") == {"sqs:GetQueueAttributes"}


def test_a_service_may_send_to_a_queue_only_on_behalf_of_a_rule_of_ours(prod: Any) -> None:
    rules = {f"<{id_}.Arn>" for id_ in prod.of("AWS::Events::Rule")}
    for properties in prod.of("AWS::SQS::QueuePolicy").values():
        for statement in properties["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Allow":
                source = prod.literal(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
                assert source in rules


def test_every_queue_refuses_plain_http(prod: Any) -> None:
    guarded = {
        queue["Ref"]
        for properties in prod.of("AWS::SQS::QueuePolicy").values()
        for queue in properties["Queues"]
        if {"Bool": {"aws:SecureTransport": "false"}}
        in [s.get("Condition") for s in properties["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    }
    assert guarded == set(prod.of("AWS::SQS::Queue"))


def test_what_the_bus_cannot_hand_over_is_kept(prod: Any) -> None:
    (rule,) = (r for r in prod.of("AWS::Events::Rule").values() if "EventBusName" in r)
    (target,) = rule["Targets"]
    assert prod.literal(target["Arn"]) == f"<{prod.output('QueueEvents')}.Arn>"
    assert prod.literal(target["DeadLetterConfig"]["Arn"]) == f"<{prod.output('DlqIngest')}.Arn>"


def test_what_operators_are_told_on_the_bus_is_not_taken_for_an_event(prod: Any) -> None:
    (rule,) = (r for r in prod.of("AWS::Events::Rule").values() if "EventBusName" in r)
    assert rule["EventPattern"] == {"source": [{"anything-but": ["hookkeeper"]}]}


def test_what_is_rejected_is_kept_fourteen_days_for_a_person_and_fed_to_nobody(prod: Any) -> None:
    rejected = prod.output("QueueRejected")
    assert prod.resources[rejected]["Properties"]["MessageRetentionPeriod"] == 14 * DAY
    sources = {prod.literal(m["EventSourceArn"]) for m in prod.of("AWS::Lambda::EventSourceMapping").values()}
    assert f"<{rejected}.Arn>" not in sources


def test_no_dead_letters_feed_a_function(prod: Any) -> None:
    dead = {f"<{id_}.Arn>" for id_ in prod.outputs("Dlq").values()}
    sources = {prod.literal(m["EventSourceArn"]) for m in prod.of("AWS::Lambda::EventSourceMapping").values()}
    assert not dead & sources
