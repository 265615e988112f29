"""What the API promises, on the embedded AWS with each function under its own role."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli.client import Api, ApiError
from infra.local import aws, ministack
from infra.local.home import CHECKOUT, Home
from infra.local.receiver import Behaviour, Receiver
from infra.local.stack import Stack
from tests.integration.customer import Customer, shorten

pytestmark = pytest.mark.integration

CARD = "4111111111111111"
HEADER = "t0p-s3cret-of-the-customer"


@pytest.fixture(scope="module", autouse=True)
def fast(stack: Stack) -> None:
    shorten(stack)


def operator(stack: Stack, tenant: str) -> Api:
    return Api(stack.api_url, stack.operator_key).acting_for(tenant)


def test_an_event_is_read_with_its_payload_by_its_own_tenant_alone(stack: Stack, receiver: Receiver) -> None:
    customer = Customer.sign_up(stack, receiver, "payload").active()
    told = customer.api.post("/v1/events", {"type": "invoice.paid", "data": {"note": "café", "n": 1}})
    customer.wait("delivery", lambda: told["id"] in customer.accepted())
    read = customer.api.get(f"/v1/events/{told['id']}")
    assert read["data"] == {"note": "café", "n": 1}
    assert [each["status"] for each in read["deliveries"]] == ["succeeded"]
    stranger = Customer.sign_up(stack, receiver, "payload-stranger")
    with pytest.raises(ApiError) as refused:
        stranger.api.get(f"/v1/events/{told['id']}")
    assert refused.value.status == 404


def test_another_endpoint_is_challenged_swapped_in_and_told_of(stack: Stack, receiver: Receiver) -> None:
    customer = Customer.sign_up(stack, receiver, "moving")
    secret = customer.subscribe()["secret"]
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    path = f"/v1/subscriptions/{customer.subscription_id}"
    new = receiver.url("/moved")
    receiver.trust("/moved", secret)
    staged = customer.api.patch(path, {"endpoint_url": new}, etag=customer.present()["etag"])
    assert staged["pending_endpoint_url"] == new
    customer.wait("swap", lambda: customer.present()["endpoint_url"] == new)
    (event_id,) = customer.emit()
    customer.wait(
        "delivery at the new one",
        lambda: event_id in [each.event_id for each in receiver.deliveries("/moved")],
    )
    assert event_id not in customer.accepted()
    customer.wait("mail", lambda: any("was asked for" in mail.text for mail in customer.mails()))
    scan = aws.client(stack, "dynamodb").scan(TableName=stack.tables["Notices"])
    ours = [json.dumps(item) for item in scan["Items"] if customer.subscription_id in json.dumps(item)]
    for kind in ("url_staged", "url_changed"):  # the second waits to share a mail with what comes next
        assert any(kind in item for item in ours)


def test_an_application_receives_by_consent_and_nothing_after_its_withdrawal(
    stack: Stack, receiver: Receiver
) -> None:
    customer = Customer.sign_up(stack, receiver, "consenting")
    house = operator(stack, customer.tenant)
    house.post("/v1/consents", {"application_id": "erp", "event_types": ["order.*"], "granted_by": "ada"})
    key = house.post("/v1/applications/erp/keys")["key"]
    customer.api = Api(stack.api_url, key).acting_for(customer.tenant)
    with pytest.raises(ApiError) as beyond:
        customer.subscribe("*")
    assert (beyond.value.status, beyond.value.problem["code"]) == (403, "no_consent")
    customer.subscribe("order.*")
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    (first,) = customer.emit(event_type="order.made")
    customer.wait("delivery", lambda: first in customer.accepted())
    house.delete("/v1/consents/erp")
    assert house.get(f"/v1/subscriptions/{customer.subscription_id}")["status"] == "suspended"
    received = len(receiver.received)
    (late,) = customer.emit(event_type="order.made")
    customer.wait("routing", lambda: _routed(house, late))
    assert len(receiver.received) == received
    with pytest.raises(ApiError) as shut_out:
        customer.present()
    assert shut_out.value.problem["code"] == "no_consent"


def _routed(house: Api, event_id: str) -> bool:
    try:
        house.get(f"/v1/events/{event_id}")
    except ApiError:
        return False
    return True


def test_what_does_not_fit_a_strict_type_is_rejected_from_the_queue_too(
    stack: Stack, receiver: Receiver
) -> None:
    customer = Customer.sign_up(stack, receiver, "strict").active()
    schema = {"type": "object", "required": ["amount"]}
    house = Api(stack.api_url, stack.operator_key)
    house.put("/v1/event-types/strict.paid", {"json_schema": schema, "strict": True})
    (event_id,) = customer.emit(event_type="strict.paid")
    sqs = aws.client(stack, "sqs")
    rejected: list[str] = []

    def arrived() -> bool:
        answer = sqs.receive_message(
            QueueUrl=stack.queues["Rejected"], MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        messages = [each for each in answer.get("Messages", []) if event_id in each["Body"]]
        rejected.extend(each["MessageAttributes"]["reason"]["StringValue"] for each in messages)
        return bool(rejected)

    customer.wait("rejection", arrived)
    assert rejected[0].startswith("schema_mismatch: /data")


SAMPLES = CHECKOUT / "samples"


def test_the_samples_emit_by_queue_and_api_and_verify_what_arrives(
    stack: Stack, receiver: Receiver, home: Home
) -> None:
    customer = Customer.sign_up(stack, receiver, "samples")
    secret = customer.subscribe()["secret"]
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    told = ministack.client_environment(home) | {
        "EVENTS_QUEUE_URL": stack.events_queue_url,
        "API": stack.api_url,
        "KEY": customer.api.key,
    }
    commands: dict[str, list[str | Path]] = {
        "evt_by_queue": [sys.executable, SAMPLES / "emit" / "emit.py", customer.tenant, "evt_by_queue"],
        "evt_by_api": [SAMPLES / "emit" / "emit.sh", "evt_by_api"],
    }
    for command in commands.values():
        subprocess.run(command, env=told, check=True, capture_output=True, timeout=60)
    customer.wait("both", lambda: set(commands) <= set(customer.accepted()))
    for each in receiver.deliveries(customer.path):
        request = {"secret": secret, "headers": each.headers, "body": each.body.decode()}
        verify: list[str | Path] = [sys.executable, SAMPLES / "verify" / "verify.py"]
        subprocess.run(verify, input=json.dumps(request), text=True, check=True, timeout=60)


# ── H11: what must be nowhere ────────────────────────────────────────────────────────────────────


def test_h11_no_secret_is_in_any_log_queue_table_or_execution(
    stack: Stack, receiver: Receiver, home: Home
) -> None:
    customer = Customer.sign_up(stack, receiver, "hygiene")
    created = customer.subscribe()
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    path = f"/v1/subscriptions/{customer.subscription_id}"
    customer.api.patch(path, {"headers": {"x-token": HEADER}}, etag=customer.present()["etag"])
    rotated = customer.api.post(f"{path}/rotate-secret")["secret"]
    receiver.trust(customer.path, created["secret"], rotated)
    told = customer.api.post("/v1/events", {"type": "invoice.paid", "data": {"card": CARD}})
    customer.wait("delivery", lambda: told["id"] in customer.accepted())
    receiver.behave(Behaviour(status=500), path=customer.path)
    customer.suspended()
    customer.reenable()
    customer.wait("failed probe", lambda: customer.present()["status_reason"] == "reenable_probe_failed")
    receiver.behave(path=customer.path)
    customer.reenable()
    customer.wait("re-enablement", lambda: customer.present()["status"] == "active")

    challenges = [each.event["data"]["challenge"] for each in receiver.received if _challenge(each.event)]
    assert challenges
    keys = [customer.api.key, stack.operator_key]
    secrets = [text for each in (created["secret"], rotated) for text in (each, each.removeprefix("whsec_"))]
    log = home.server_log.read_text(errors="replace") + _logs(stack)
    places = {
        "a log": log,
        "a queue": _queues(stack),
        "a table": _tables(stack),
        "an execution": _executions(stack),
    }
    assert "request.answered" in log
    assert customer.subscription_id in places["a table"]
    assert customer.subscription_id in places["an execution"]
    for name, text in places.items():
        for canary in [*secrets, *keys, *challenges]:
            assert canary not in text, f"a secret is in {name}"
    for name in ("a log", "a queue", "an execution"):
        assert HEADER not in places[name], f"a custom header's value is in {name}"
    for name in ("a log", "a table", "an execution"):
        assert CARD not in places[name], f"an event's payload is in {name}"


def _challenge(event: dict[str, object]) -> bool:
    return event["type"] == "endpoint.verification"


def _logs(stack: Stack) -> str:
    """Every line of every log group."""
    client = aws.client(stack, "logs")
    groups = [each["logGroupName"] for each in client.describe_log_groups()["logGroups"]]
    pages = (client.get_paginator("filter_log_events").paginate(logGroupName=name) for name in groups)
    return "\n".join(event["message"] for each in pages for page in each for event in page["events"])


def _tables(stack: Stack) -> str:
    client = aws.client(stack, "dynamodb")
    scans = (client.get_paginator("scan").paginate(TableName=name) for name in stack.tables.values())
    return "\n".join(json.dumps(page["Items"], default=str) for scan in scans for page in scan)


def _queues(stack: Stack) -> str:
    """Whatever lies in a queue or a dead-letter queue, taken without being kept."""
    client = aws.client(stack, "sqs")
    found: list[str] = []
    for url in [*stack.queues.values(), *stack.dead_letter_queues.values()]:
        while True:
            answer = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=30, MessageAttributeNames=["All"]
            )
            if not answer.get("Messages"):
                break
            found.append(json.dumps(answer["Messages"], default=str))
    return "\n".join(found)


def _executions(stack: Stack) -> str:
    """Input, output and history of every execution."""
    client = aws.client(stack, "stepfunctions")
    arns = [
        each["executionArn"]
        for each in client.list_executions(stateMachineArn=stack.recovery_state_machine_arn)["executions"]
    ]
    told = [client.describe_execution(executionArn=arn) for arn in arns]
    told += [client.get_execution_history(executionArn=arn) for arn in arns]
    return "\n".join(json.dumps(each, default=str) for each in told)
