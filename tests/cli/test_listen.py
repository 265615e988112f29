"""The listener answers as it was told, says which signatures are right, and ends when it has enough."""

import datetime as dt
import json
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from infra.local.authority import ensure_authority
from infra.local.ministack import choose_port
from tests.cli.conftest import Bench, Ran
from tests.cli.shapes import subscription_created

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
OTHER = "whsec_" + "YUJDREVGR0hJSktMTU5PUFFSU1RVVldY"

Listening = Callable[..., Ran]


@pytest.fixture
def listening(bench: Bench) -> Listening:
    """Runs `listen` while a sender posts `(event id, secret)` in turn; answers what the command said."""
    home = bench.home
    home.prepare()
    ensure_authority(home.ca_certificate, home.ca_key)
    trust = ssl.create_default_context(cafile=str(home.ca_certificate))

    def listen(*arguments: str, posts: list[tuple[str, str]]) -> Ran:
        port = choose_port(home)
        sender = threading.Thread(target=_post, args=(trust, f"https://localhost:{port}/hooks", posts))
        sender.start()
        ran = bench.run("listen", "--port", str(port), "--count", str(len(posts)), *arguments)
        sender.join()
        return ran

    return listen


def _post(trust: ssl.SSLContext, url: str, posts: list[tuple[str, str]]) -> None:
    with httpx.Client(verify=trust, trust_env=False, transport=None) as client:
        for event_id, secret in posts:
            event_type = event_id if event_id.startswith("endpoint.") else "invoice.paid"
            body = json.dumps({"type": event_type, "data": {}})
            now = dt.datetime.now(dt.UTC)
            headers = {
                "webhook-id": event_id,
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Webhook(secret).sign(event_id, now, body),
            }
            _until_taken(client, url, body, headers)


def _until_taken(client: httpx.Client, url: str, body: str, headers: dict[str, str]) -> None:
    for _ in range(1000):
        try:
            client.post(url, content=body, headers=headers)
        except httpx.ConnectError:
            continue  # it is about to listen
        except httpx.TransportError:
            return
        else:
            return


def said(ran: Ran, *names: str) -> list[Any]:
    return [tuple(line[name] for name in names) for line in ran.lines]


def test_right_and_wrong_signatures_are_told_apart(listening: Listening) -> None:
    ran = listening("--secret", SECRET, "--json", posts=[("evt_1", SECRET), ("evt_2", OTHER)])
    assert ran.code == 0
    assert said(ran, "event_id", "verified", "status") == [("evt_1", True, 200), ("evt_2", False, 401)]
    assert ran.lines[0]["event"] == {"type": "invoice.paid", "data": {}}


def test_each_request_is_a_line_and_repeats_are_counted(listening: Listening) -> None:
    ran = listening("--secret", SECRET, posts=[("evt_1", SECRET), ("evt_1", SECRET), ("evt_2", OTHER)])
    first, second, third = ran.out.splitlines()
    for part in ("200", "✓ signed", "invoice.paid", "evt_1"):
        assert part in first
    assert "accepted 2 times" in second
    assert "✗ forged" in third
    assert "3 requests, 1 events accepted, 1 more than once" in ran.err
    assert SECRET not in ran.out + ran.err


def test_a_retried_event_is_counted_but_not_as_accepted_twice(listening: Listening) -> None:
    ran = listening("--fail-first", "1", posts=[("evt_1", SECRET), ("evt_1", SECRET)])
    assert "request 2" in ran.out.splitlines()[1]
    assert ran.err.endswith("2 requests, 1 events accepted\n")


@pytest.mark.parametrize(
    "arguments, statuses",
    [
        ([], [200, 200, 200]),
        (["--status", "503"], [503, 503, 503]),
        (["--fail-first", "2"], [500, 500, 200]),
        (["--fail-first", "1", "--status", "410"], [410, 200, 200]),
        (["--fail-first", "1", "--reset"], [None, 200, 200]),
        (["--reset"], [None, None, None]),
    ],
    ids=str,
)
def test_it_fails_as_told(arguments: list[str], statuses: list[int | None], listening: Listening) -> None:
    ran = listening("--json", *arguments, posts=[(f"evt_{n}", SECRET) for n in range(3)])
    assert [line["status"] for line in ran.lines] == statuses


def test_it_subscribes_for_as_long_as_it_listens_and_answers_challenges_well_whatever_it_was_told(
    listening: Listening, bench: Bench
) -> None:
    made = subscription_created() | {"secret": SECRET}
    bench.api.on("POST", "/v1/subscriptions", made, status=201)
    bench.api.on("DELETE", f"/v1/subscriptions/{made['id']}", status=204)
    posts = [("evt_0", OTHER), ("endpoint.verification", SECRET), ("evt_1", SECRET)]
    ran = listening("--subscribe", "invoice.*", "--status", "410", "--json", posts=posts)
    assert ran.code == 0
    assert [line["status"] for line in ran.lines][1:] == [200, 410], "the first may be a stray of before"
    assert bench.api.bodies[0]["event_types"] == ["invoice.*"]
    assert [request.method for request in bench.api.requests] == ["POST", "DELETE"]
    assert SECRET not in ran.out + ran.err


def test_a_taken_port_is_a_sentence(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = bench.run("listen", "--port", str(port))
    assert ran.code == 1
    assert f"cannot listen on port {port}: " in ran.err


def test_it_ends_in_order_when_it_is_asked_to(bench: Bench) -> None:
    made = subscription_created()

    def subscribe(_: httpx.Request) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return made

    bench.api.on("POST", "/v1/subscriptions", subscribe, status=201)
    ran = bench.run("listen", "--port", "0", "--subscribe", "*")
    assert ran.code == 0
    assert "0 requests" in ran.err
