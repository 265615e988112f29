import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hookkeeper.domain.config import Margins
from hookkeeper.domain.errors import OwnFaultError, SecretUnavailableError
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import OWN_FAULTS, Answer, Fault
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.usecases.challenge import Challenged, Echo, challenge

from tests.builders import NOW, a_key, a_pending_subscription, a_secret, a_subscription, an_answer
from tests.fakes import FakeIds, FakeSecrets, FakeSender, FakeSubscriptions, World

TOKEN = "Zm9ydHktdGhyZWUgY2hhcmFjdGVycyBvZiByYW5kb20"
MARGINS = Margins()


def waiting(**changes: object) -> Subscription:
    return a_pending_subscription(**{"token_hash": token_hash(TOKEN), **changes})


def sent_token(request: OutboundRequest) -> str:
    token = json.loads(request.body)["data"]["challenge"]
    assert isinstance(token, str)
    return token


def echo_json(request: OutboundRequest) -> Answer:
    return an_answer(body=json.dumps({"challenge": sent_token(request)}).encode())


@dataclass
class Endpoint:
    """A pending subscription, and the endpoint that answers its challenge."""

    answer: Callable[[OutboundRequest], Answer] = echo_json
    subscription: Subscription = field(default_factory=waiting)
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.key = self.world.add(self.subscription)
        self.secrets = FakeSecrets(self.world)
        self.secrets.create(self.key, a_secret(), version=1, now=NOW)

    def challenged(self, *, token: str = TOKEN, after: timedelta = timedelta(0)) -> Challenged:
        return challenge(
            self.key,
            token=token,
            webhook_id="msg_1",
            now=NOW + after,
            margins=MARGINS,
            subscriptions=FakeSubscriptions(self.world),
            secrets=self.secrets,
            sender=FakeSender(self.world, self.answer),
            ids=FakeIds(self.world),
        )

    @property
    def status(self) -> Status:
        return self.world.subscriptions[self.key].status


def answering(body: bytes, status_code: int = 200) -> Callable[[OutboundRequest], Answer]:
    return lambda _: an_answer(status_code, body=body)


TOKEN_BYTES = TOKEN.encode()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"challenge": "%s"}' % TOKEN_BYTES, id="json"),
        pytest.param(b'{"ok":true,\r\n "challenge":"%s"}\n' % TOKEN_BYTES, id="json with more in it"),
        pytest.param(TOKEN_BYTES, id="plain text"),
        pytest.param(b"  %s\r\n" % TOKEN_BYTES, id="plain text with a line's end"),
    ],
)
@pytest.mark.parametrize("status_code", [200, 201, 202, 299])
def test_a_2xx_that_brings_the_challenge_back_makes_the_subscription_active(
    body: bytes, status_code: int
) -> None:
    endpoint = Endpoint(answering(body, status_code))
    assert endpoint.challenged().echo is Echo.VERIFIED
    assert endpoint.status is Status.ACTIVE


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(answering(b""), id="nothing"),
        pytest.param(answering(b"ok"), id="a word"),
        pytest.param(answering(TOKEN_BYTES[:-1]), id="a token cut short"),
        pytest.param(answering(TOKEN_BYTES + b"x"), id="a token and more"),
        pytest.param(answering(TOKEN_BYTES.swapcase()), id="another case"),
        pytest.param(answering(b"challenge=" + TOKEN_BYTES), id="a form"),
        pytest.param(answering(b'{"challenge":["%s"]}' % TOKEN_BYTES), id="a list"),
        pytest.param(answering(b'{"challenge":null}'), id="null"),
        pytest.param(answering(b'{"challenge":1e999}'), id="a number"),
        pytest.param(answering(b'["%s"]' % TOKEN_BYTES), id="no object"),
        pytest.param(answering(b'{"challenge":"%s"' % TOKEN_BYTES), id="broken JSON"),
        pytest.param(answering(b'{"challenge":"\\ud800"}'), id="half a surrogate pair"),
        pytest.param(answering(b"[" * 1024), id="JSON without a floor"),
        pytest.param(answering(b"\xff\xfe" + TOKEN_BYTES), id="no UTF-8"),
        pytest.param(answering(TOKEN_BYTES + b" " * 1024), id="over 1 KiB of plain text"),
        pytest.param(
            answering(b'{"challenge":"%s","pad":"%s"}' % (TOKEN_BYTES, b"x" * 1024)), id="over 1 KiB of JSON"
        ),
        pytest.param(answering(TOKEN_BYTES, 302), id="a redirect"),
        pytest.param(answering(TOKEN_BYTES, 404), id="404"),
        pytest.param(answering(TOKEN_BYTES, 500), id="500"),
        pytest.param(lambda _: an_answer(fault=Fault.TIMEOUT), id="silence"),
    ],
)
def test_t37_anything_but_the_exact_value_leaves_it_pending(
    answer: Callable[[OutboundRequest], Answer],
) -> None:
    endpoint = Endpoint(answer)
    assert endpoint.challenged().echo is Echo.NOT_ECHOED
    assert endpoint.status is Status.PENDING


def test_t37_a_service_that_mirrors_whatever_it_gets_does_not_pass() -> None:
    endpoint = Endpoint(lambda request: an_answer(body=request.body))
    assert endpoint.challenged().echo is Echo.NOT_ECHOED


def test_t37_a_body_of_exactly_one_kibibyte_is_still_an_echo() -> None:
    endpoint = Endpoint(answering(TOKEN_BYTES.ljust(1024)))
    assert endpoint.challenged().echo is Echo.VERIFIED


def test_t37_the_token_of_another_subscription_is_not_even_sent() -> None:
    endpoint = Endpoint()
    assert endpoint.challenged(token="another").echo is Echo.STALE
    assert endpoint.world.requests == []


@pytest.mark.parametrize("left, echo", [(timedelta(seconds=1), Echo.VERIFIED), (timedelta(0), Echo.STALE)])
def test_t37_a_token_counts_until_its_last_second_and_not_in_it(left: timedelta, echo: Echo) -> None:
    endpoint = Endpoint()
    assert endpoint.challenged(after=timedelta(hours=24) - left).echo is echo


def test_t37_a_token_that_ends_while_the_endpoint_thinks_does_not_count() -> None:
    endpoint = Endpoint(lambda request: replace(echo_json(request), latency_ms=9_000))
    assert endpoint.challenged(after=timedelta(hours=24, seconds=-5)).echo is Echo.STALE
    assert endpoint.status is Status.PENDING


def test_t37_a_token_counts_once_and_a_message_that_comes_again_changes_nothing() -> None:
    endpoint = Endpoint()
    endpoint.challenged()
    version = endpoint.world.subscriptions[endpoint.key].version
    assert endpoint.challenged().echo is Echo.STALE
    assert endpoint.world.subscriptions[endpoint.key].version == version
    assert len(endpoint.world.requests) == 1


def test_t37_a_token_that_was_replaced_while_the_endpoint_thought_does_not_count() -> None:
    def replaced_meanwhile(request: OutboundRequest) -> Answer:
        endpoint.world.subscriptions[endpoint.key] = waiting(token_hash=token_hash("a fresh one"))
        return echo_json(request)

    endpoint = Endpoint(replaced_meanwhile)
    assert endpoint.challenged().echo is Echo.STALE
    assert endpoint.status is Status.PENDING


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.SUSPENDED, Status.REVOKED])
def test_a_subscription_that_awaits_nothing_is_not_asked(status: Status) -> None:
    endpoint = Endpoint(subscription=a_subscription(status=status))
    assert endpoint.challenged().echo is Echo.STALE
    assert endpoint.world.requests == []


def test_a_subscription_that_is_gone_is_not_asked() -> None:
    endpoint = Endpoint()
    del endpoint.world.subscriptions[endpoint.key]
    assert endpoint.challenged().echo is Echo.STALE


def test_a_revocation_while_the_endpoint_thinks_wins() -> None:
    def revoked_meanwhile(request: OutboundRequest) -> Answer:
        revoked = replace(endpoint.subscription, status=Status.REVOKED, token_hash=None)
        endpoint.world.subscriptions[endpoint.key] = revoked
        return echo_json(request)

    endpoint = Endpoint(revoked_meanwhile)
    assert endpoint.challenged().echo is Echo.STALE
    assert endpoint.status is Status.REVOKED


def test_the_challenge_is_a_signed_event_with_ten_seconds_whatever_the_subscriptions_time_out() -> None:
    endpoint = Endpoint(subscription=waiting(timeout_seconds=30))
    endpoint.challenged()
    request = endpoint.world.requests[0]
    assert json.loads(request.body) == {
        "type": "endpoint.verification",
        "timestamp": "2026-12-01T12:00:00Z",
        "data": {"challenge": TOKEN},
    }
    assert request.url == endpoint.subscription.endpoint_url
    assert request.timeout_seconds == 10
    headers = dict(request.headers)
    assert headers["webhook-id"] == "msg_1"
    assert headers["webhook-signature"].startswith("v1,")


def test_events_are_owed_from_ten_seconds_after_the_answer() -> None:
    endpoint = Endpoint(lambda request: replace(echo_json(request), latency_ms=4_000))
    endpoint.challenged()
    activated = endpoint.world.subscriptions[endpoint.key]
    assert activated.first_active_at == NOW + timedelta(seconds=4) + MARGINS.routing_cache
    assert activated.token_hash is None


@pytest.mark.parametrize("fault", sorted(OWN_FAULTS))
def test_our_own_fault_is_raised_so_that_the_challenge_is_sent_again(fault: Fault) -> None:
    endpoint = Endpoint(lambda _: an_answer(fault=fault))
    with pytest.raises(OwnFaultError):
        endpoint.challenged()
    assert endpoint.status is Status.PENDING


def test_f19_without_its_secret_nothing_is_sent() -> None:
    endpoint = Endpoint()
    endpoint.secrets.unavailable = True
    with pytest.raises(SecretUnavailableError):
        endpoint.challenged()
    assert endpoint.world.requests == []


def test_bb26_a_challenge_to_a_blocked_address_leaves_it_pending() -> None:
    endpoint = Endpoint(lambda _: an_answer(fault=Fault.BLOCKED_ADDRESS))
    challenged = endpoint.challenged()
    assert challenged.echo is Echo.NOT_ECHOED
    assert challenged.answer is not None
    assert challenged.answer.error == "blocked_address"


def test_a_lost_answer_of_the_activation_is_still_a_verification() -> None:
    """BB-38 (c): our own write, seen again, is ours."""
    endpoint = Endpoint()
    fails = iter([True])

    def lose(call: str) -> None:
        if call == "Subscriptions.transition" and next(fails, False):
            raise ConnectionError

    endpoint.world.after_call = lose
    with pytest.raises(ConnectionError):
        endpoint.challenged()
    assert endpoint.challenged().echo is Echo.STALE
    assert endpoint.status is Status.ACTIVE


def test_a_challenge_never_touches_health() -> None:
    endpoint = Endpoint(answering(b"", 500))
    before = endpoint.world.health[a_key()]
    endpoint.challenged()
    assert endpoint.world.health[a_key()] == before
