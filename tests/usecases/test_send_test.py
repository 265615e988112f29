from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import OWN_FAULTS, Answer, Fault
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.usecases.send_test import send_test

from tests.builders import NOW, a_secret, a_subscription, an_answer
from tests.fakes import FakeSecrets, FakeSender, FakeSubscriptions, World


@dataclass
class Endpoint:
    """A subscription whose endpoint gets a test event."""

    answer: Callable[[OutboundRequest], Answer] = lambda _: an_answer()
    subscription: Subscription = field(default_factory=a_subscription)
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.key = self.world.add(self.subscription)
        self.secrets = FakeSecrets(self.world)
        self.secrets.create(self.key, a_secret(), version=1, now=NOW)

    def tested(self) -> Answer | None:
        return send_test(
            self.key,
            event_type="invoice.paid",
            data='{"amount": 1.10}',
            webhook_id="msg_1",
            now=NOW,
            subscriptions=FakeSubscriptions(self.world),
            secrets=self.secrets,
            sender=FakeSender(self.world, self.answer),
        )


def test_a_test_event_is_signed_sent_on_its_own_lane_and_keeps_its_data_to_the_byte() -> None:
    endpoint = Endpoint()
    answer = endpoint.tested()
    assert answer is not None
    assert answer.status_code == 200
    request = endpoint.world.requests[0]
    expected = b'{"type":"invoice.paid","timestamp":"2026-12-01T12:00:00Z","data":{"amount": 1.10}}'
    assert request.body == expected
    headers = dict(request.headers)
    assert headers["hookkeeper-lane"] == "test"
    assert headers["webhook-signature"].startswith("v1,")
    assert request.timeout_seconds == 10


@pytest.mark.parametrize("status_code", [200, 404, 500])
def test_a_test_event_is_counted_nowhere(status_code: int) -> None:
    endpoint = Endpoint(lambda _: an_answer(status_code))
    before = endpoint.world.standing(endpoint.key)
    endpoint.tested()
    assert endpoint.world.standing(endpoint.key) == before
    assert endpoint.world.deliveries == {}
    assert endpoint.world.owed == {}


def test_a_suspended_endpoint_may_be_tested() -> None:
    assert Endpoint(subscription=a_subscription(status=Status.SUSPENDED)).tested() is not None


@pytest.mark.parametrize("status", [Status.PENDING, Status.REVOKED])
def test_nothing_is_sent_to_an_endpoint_nobody_vouched_for_or_anybody_left(status: Status) -> None:
    endpoint = Endpoint(subscription=a_subscription(status=status))
    assert endpoint.tested() is None
    assert endpoint.world.requests == []


def test_bb26_a_test_to_a_blocked_address_is_answered_so() -> None:
    answer = Endpoint(lambda _: an_answer(fault=Fault.BLOCKED_ADDRESS)).tested()
    assert answer is not None
    assert answer.error == "blocked_address"


@pytest.mark.parametrize("fault", sorted(OWN_FAULTS))
def test_our_own_fault_is_raised_so_that_the_test_is_sent_again(fault: Fault) -> None:
    with pytest.raises(OwnFaultError):
        Endpoint(lambda _: an_answer(fault=fault)).tested()
