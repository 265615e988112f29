"""The receiver is a customer as Standard Webhooks wants one, and fails as it is told."""

import datetime as dt
import json
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from infra.local.authority import ensure_authority, server_context
from infra.local.receiver import Behaviour, Receiver

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
OTHER = "whsec_" + "YUJDREVGR0hJSktMTU5PUFFSU1RVVldY"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("authority")
    certificate, key = folder / "ca.pem", folder / "ca.key"
    ensure_authority(certificate, key)
    return certificate, key


@pytest.fixture
def receiver(authority: tuple[Path, Path]) -> Iterator[Receiver]:
    with Receiver(server_context(*authority)) as receiver:
        yield receiver


@pytest.fixture
def client(authority: tuple[Path, Path]) -> Iterator[httpx.Client]:
    with httpx.Client(verify=ssl.create_default_context(cafile=str(authority[0])), trust_env=False) as client:
        yield client


def event(kind: str = "invoice.paid", **data: Any) -> bytes:
    return json.dumps({"type": kind, "timestamp": "2026-12-01T00:00:00Z", "data": data}).encode()


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    now = dt.datetime.now(dt.UTC)
    return {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("evt_1", now, body.decode()),
    }


def test_it_is_trusted_by_its_authority_alone(receiver: Receiver, client: httpx.Client) -> None:
    assert client.get(receiver.url()).status_code == 200
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(receiver.url(), verify=ssl.create_default_context(), trust_env=False)


def test_its_certificate_passes_the_strictest_check(receiver: Receiver, authority: tuple[Path, Path]) -> None:
    strict = ssl.create_default_context(cafile=str(authority[0]))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    assert httpx.get(receiver.url(), verify=strict, trust_env=False).status_code == 200


def test_an_authority_is_made_once(authority: tuple[Path, Path]) -> None:
    before = [file.read_bytes() for file in authority]
    ensure_authority(*authority)
    assert [file.read_bytes() for file in authority] == before
    assert authority[1].stat().st_mode & 0o077 == 0


def test_it_echoes_a_challenge_and_a_nonce(receiver: Receiver, client: httpx.Client) -> None:
    challenge = client.post(receiver.url(), content=event("endpoint.verification", challenge="abc"))
    assert challenge.json() == {"challenge": "abc"}
    probe = client.post(receiver.url(), content=event("endpoint.probe", nonce="n1"))
    assert probe.json() == {"nonce": "n1"}


def test_it_records_what_came(receiver: Receiver, client: httpx.Client) -> None:
    body = event(amount=1)
    client.post(receiver.url("/hooks?x=1"), content=body, headers={"X-Custom": "yes"})
    (one,) = receiver.received
    assert (one.path, one.headers["x-custom"], one.body, one.status) == ("/hooks?x=1", "yes", body, 200)
    assert one.event["data"] == {"amount": 1}
    assert one.verified is None


def test_deliveries_leave_out_what_hookkeeper_sends_of_itself(
    receiver: Receiver, client: httpx.Client
) -> None:
    for kind in ("endpoint.verification", "invoice.paid", "endpoint.probe"):
        client.post(receiver.url(), content=event(kind))
    client.post(receiver.url("/elsewhere"), content=event())
    assert [each.event["type"] for each in receiver.deliveries()] == ["invoice.paid"]


@pytest.mark.parametrize(
    "secrets,status",
    [([SECRET], 200), ([OTHER, SECRET], 200), ([OTHER], 401)],
    ids=["its own", "an overlap", "another's"],
)
def test_a_signature_is_checked_by_the_published_library(
    receiver: Receiver, client: httpx.Client, secrets: list[str], status: int
) -> None:
    receiver.trust("/hooks", *secrets)
    body = event()
    assert client.post(receiver.url(), content=body, headers=signed(body)).status_code == status
    assert receiver.received[0].verified is (status == 200)


def test_a_changed_body_is_refused(receiver: Receiver, client: httpx.Client) -> None:
    receiver.trust("/hooks", SECRET)
    headers = signed(event())
    assert client.post(receiver.url(), content=event(amount=1), headers=headers).status_code == 401


def test_it_fails_as_told_and_is_mended_at_run_time(receiver: Receiver, client: httpx.Client) -> None:
    receiver.behave(
        Behaviour(status=500), Behaviour(status=429, headers=(("retry-after", "7"),)), Behaviour()
    )
    answers = [client.post(receiver.url(), content=event()) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [500, 429, 200, 200]
    assert answers[1].headers["retry-after"] == "7"
    receiver.behave(Behaviour(status=410))
    assert client.post(receiver.url(), content=event()).status_code == 410
    receiver.behave()
    assert client.post(receiver.url(), content=event()).status_code == 200


def test_one_path_can_fail_alone(receiver: Receiver, client: httpx.Client) -> None:
    receiver.behave(Behaviour(status=503), path="/bad")
    assert client.post(receiver.url("/bad"), content=event()).status_code == 503
    assert client.post(receiver.url("/good"), content=event()).status_code == 200


def test_it_can_reset_the_connection(receiver: Receiver, client: httpx.Client) -> None:
    receiver.behave(Behaviour(reset=True))
    with pytest.raises(httpx.TransportError):
        client.post(receiver.url(), content=event())
    assert [each.status for each in receiver.received] == [None]


def test_a_slow_answer_holds_up_nobody_else(receiver: Receiver, client: httpx.Client) -> None:
    receiver.behave(Behaviour(delay_seconds=30), path="/slow")
    with pytest.raises(httpx.ReadTimeout):
        client.post(receiver.url("/slow"), content=event(), timeout=0.2)
    assert client.post(receiver.url("/fast"), content=event(), timeout=5).status_code == 200


def test_many_at_once_are_all_answered(receiver: Receiver, client: httpx.Client) -> None:
    with ThreadPoolExecutor(32) as pool:
        answers = list(
            pool.map(lambda n: client.post(receiver.url(), content=event(n=n)).status_code, range(200))
        )
    assert answers == [200] * 200
    assert sorted(each.event["data"]["n"] for each in receiver.deliveries()) == list(range(200))


def test_waiting_ends_when_it_has_come_or_the_time_is_over(receiver: Receiver, client: httpx.Client) -> None:
    with ThreadPoolExecutor(1) as pool:
        come = pool.submit(receiver.wait_until, lambda r: len(r.deliveries()) == 2, timeout_seconds=10)
        for _ in range(2):
            client.post(receiver.url(), content=event())
        assert come.result()
    assert not receiver.wait_until(lambda r: len(r.deliveries()) == 3, timeout_seconds=0.05)
