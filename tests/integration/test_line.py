"""The whole way of an event on the embedded AWS, each function under its own role."""

import json
from collections import Counter

import pytest
from standardwebhooks.webhooks import Webhook

from infra.cli.client import Api, ApiError
from infra.local import aws
from infra.local.receiver import Behaviour, Receiver
from infra.local.stack import Stack
from tests.integration.customer import Customer, quiet, shorten

pytestmark = [pytest.mark.integration, pytest.mark.timeout(480)]


@pytest.fixture(scope="module", autouse=True)
def fast(stack: Stack) -> None:
    shorten(stack)


def test_events_come_in_three_ways_and_arrive_signed_once_each(stack: Stack, receiver: Receiver) -> None:
    customer = Customer.sign_up(stack, receiver, "three-ways")
    secret = customer.subscribe("invoice.*")["secret"]
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    by_api = customer.api.post("/v1/events", {"type": "invoice.paid", "data": {"amount": 1.10}})
    (by_queue,) = customer.emit(event_type="invoice.line.added")
    customer.emit(event_type="order.made")
    aws.client(stack, "events").put_events(
        Entries=[
            {
                "EventBusName": stack.event_bus_name,
                "Source": "billing",
                "DetailType": "invoice.sent",
                "Detail": json.dumps({"id": "evt_by_bus", "tenant_id": customer.tenant, "data": {}}),
            }
        ]
    )
    wanted = {by_api["id"], by_queue, "evt_by_bus"}
    customer.wait("three deliveries", lambda: set(customer.accepted()) >= wanted)
    assert Counter(customer.accepted()) == Counter(wanted)
    for received in receiver.deliveries(customer.path):
        Webhook(secret).verify(received.body.decode(), received.headers)
    told = customer.api.get(f"/v1/subscriptions/{customer.subscription_id}/deliveries")["data"]
    assert {(each["event_id"], each["status"]) for each in told} == {(each, "succeeded") for each in wanted}
    health = customer.present()["health"]
    assert health["consecutive_failures"] == 0
    assert health["last_status_code"] == 200


def test_an_owner_may_post_the_challenge_back(stack: Stack, receiver: Receiver) -> None:
    customer = Customer.sign_up(stack, receiver, "by-hand")
    receiver.behave(Behaviour(status=404), path=customer.path)
    customer.subscribe(trust=False)
    customer.wait("challenge", lambda: any(each.path == customer.path for each in receiver.received))
    (challenge,) = [each for each in receiver.received if each.path == customer.path]
    assert customer.present()["status"] == "pending"
    with pytest.raises(ApiError):
        customer.api.post(
            f"/v1/subscriptions/{customer.subscription_id}/verify", {"challenge": "not-that-one"}
        )
    verified = customer.api.post(
        f"/v1/subscriptions/{customer.subscription_id}/verify",
        {"challenge": challenge.event["data"]["challenge"]},
    )
    assert verified["status"] == "active"


def test_a_paused_subscription_loses_nothing_and_a_revoked_one_gets_nothing(
    stack: Stack, receiver: Receiver
) -> None:
    customer = Customer.sign_up(stack, receiver, "paused").active()
    customer.api.post(f"/v1/subscriptions/{customer.subscription_id}/pause")
    customer.emit(7)
    customer.wait("quiet", lambda: quiet(stack))
    assert customer.accepted() == []
    assert customer.mails() == [], "its owner paused it: no mail"
    customer.reenable()
    customer.wait("everything", lambda: len(customer.accepted()) == 7, seconds=120)
    present = customer.present()
    customer.api.delete(f"/v1/subscriptions/{customer.subscription_id}", etag=present["etag"])
    customer.emit(3)
    customer.wait("quiet", lambda: quiet(stack))
    assert Counter(customer.accepted()) == Counter(customer.emitted[:7])
    assert customer.present()["status"] == "revoked"


def test_tenants_do_not_see_each_other(stack: Stack, receiver: Receiver) -> None:
    owner = Customer.sign_up(stack, receiver, "owner-a").active()
    stranger = Customer.sign_up(stack, receiver, "stranger-b")
    with pytest.raises(ApiError) as foreign:
        stranger.api.get(f"/v1/subscriptions/{owner.subscription_id}")
    with pytest.raises(ApiError) as unknown:
        stranger.api.get("/v1/subscriptions/sub_01m8qhzkpzexjrg14zr0hfcmw2")
    assert (foreign.value.status, unknown.value.status) == (404, 404)
    stranger.subscribe()
    stranger.emit(2)
    owner.emit(1)
    owner.wait("delivery", lambda: len(owner.accepted()) == 1)
    assert owner.accepted() == owner.emitted


def test_a_key_is_good_for_its_tenant_and_no_longer_than_it_lives(stack: Stack, receiver: Receiver) -> None:
    customer = Customer.sign_up(stack, receiver, "keys")
    with pytest.raises(ApiError) as refused:
        customer.api.post("/v1/tenants", {"id": "another", "name": "Another"})
    assert refused.value.status == 403
    with pytest.raises(ApiError) as unknown:
        Api(stack.api_url, "hk_live_" + "0" * 38).get("/v1/subscriptions")
    assert unknown.value.status == 401


def test_dead_letter_queues_stay_empty(stack: Stack) -> None:
    sqs = aws.client(stack, "sqs")
    for name, url in stack.dead_letter_queues.items():
        depth = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        assert depth["Attributes"]["ApproximateNumberOfMessages"] == "0", name
