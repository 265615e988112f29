import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hookkeeper.domain.errors import NotFoundError, OwnFaultError, SecretUnavailableError
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import OWN_FAULTS, Answer, Fault
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.usecases.probe import Probed, probe

from tests.builders import (
    NOW,
    a_failing_health,
    a_secret,
    a_subscription,
    a_suspended_subscription,
    an_answer,
)
from tests.fakes import FakeSecrets, FakeSender, FakeSubscriptions, World


@dataclass
class Endpoint:
    """A suspended subscription whose endpoint is asked."""

    answer: Callable[[OutboundRequest], Answer] = lambda _: an_answer()
    subscription: Subscription = field(default_factory=a_suspended_subscription)
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.key = self.world.add(self.subscription, a_failing_health())
        self.secrets = FakeSecrets(self.world)
        self.secrets.create(self.key, a_secret(), version=1, now=NOW)

    def probed(self) -> Probed:
        return probe(
            self.key,
            nonce="nonce_1",
            webhook_id="msg_1",
            now=NOW,
            subscriptions=FakeSubscriptions(self.world),
            secrets=self.secrets,
            sender=FakeSender(self.world, self.answer),
        )


@pytest.mark.parametrize("status_code", [200, 201, 202, 204, 299])
def test_any_2xx_passes_and_no_echo_is_asked_for(status_code: int) -> None:
    probed = Endpoint(lambda _: an_answer(status_code)).probed()
    assert probed == Probed(passed=True, status_code=status_code, latency_ms=80)


@pytest.mark.parametrize("status_code", [199, 300, 301, 304, 400, 401, 404, 410, 429, 500, 503])
def test_any_other_status_fails_and_says_which(status_code: int) -> None:
    probed = Endpoint(lambda _: an_answer(status_code)).probed()
    assert (probed.passed, probed.status_code, probed.error) == (False, status_code, f"http_{status_code}")


@pytest.mark.parametrize("fault", sorted(set(Fault) - OWN_FAULTS))
def test_every_fault_of_the_endpoint_fails_and_says_which(fault: Fault) -> None:
    probed = Endpoint(lambda _: an_answer(fault=fault)).probed()
    assert (probed.passed, probed.status_code, probed.error) == (False, None, fault.value)


def test_bb26_a_probe_to_a_blocked_address_fails_and_names_no_address() -> None:
    note = "hooks.customer.example is 169.254.170.2"
    probed = Endpoint(lambda _: an_answer(fault=Fault.BLOCKED_ADDRESS, operator_note=note)).probed()
    assert probed.error == "blocked_address"
    assert "169.254" not in repr(probed)


@pytest.mark.parametrize("fault", sorted(OWN_FAULTS))
def test_our_own_fault_is_raised_and_is_no_failed_probe(fault: Fault) -> None:
    with pytest.raises(OwnFaultError):
        Endpoint(lambda _: an_answer(fault=fault)).probed()


def test_a_secret_that_cannot_be_opened_is_raised_and_nothing_is_sent_unsigned() -> None:
    endpoint = Endpoint()
    endpoint.secrets.unavailable = True
    with pytest.raises(SecretUnavailableError):
        endpoint.probed()
    assert endpoint.world.requests == []


def test_f34_the_probe_is_a_signed_event_with_a_nonce_on_its_own_lane_and_ten_seconds() -> None:
    endpoint = Endpoint(subscription=a_suspended_subscription(timeout_seconds=30, headers={"x-a": "b"}))
    endpoint.probed()
    request = endpoint.world.requests[0]
    assert json.loads(request.body) == {
        "type": "endpoint.probe",
        "timestamp": "2026-12-01T12:00:00Z",
        "data": {"nonce": "nonce_1"},
    }
    headers = dict(request.headers)
    assert headers["hookkeeper-lane"] == "probe"
    assert headers["webhook-signature"].startswith("v1,")
    assert headers["x-a"] == "b"
    assert request.timeout_seconds == 10


@pytest.mark.parametrize("status_code", [200, 500])
def test_f34_a_probe_never_touches_health_or_status(status_code: int) -> None:
    endpoint = Endpoint(lambda _: an_answer(status_code))
    before = endpoint.world.standing(endpoint.key)
    endpoint.probed()
    assert endpoint.world.standing(endpoint.key) == before


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.PENDING, Status.REVOKED])
def test_one_that_is_not_suspended_is_not_asked_and_does_not_pass(status: Status) -> None:
    endpoint = Endpoint(subscription=a_subscription(status=status))
    assert endpoint.probed() == Probed(passed=False, error=str(status))
    assert endpoint.world.requests == []


def test_one_that_does_not_exist_is_an_error() -> None:
    endpoint = Endpoint()
    del endpoint.world.subscriptions[endpoint.key]
    with pytest.raises(NotFoundError):
        endpoint.probed()
