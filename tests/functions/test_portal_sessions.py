"""A provider gets its customer a link into the console that works once, and no further than its key."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hookkeeper.domain.access import TENANT_RIGHTS, Right
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.tenancy import Mode

from tests.builders import HOUR, NOW, a_scope, a_tenant
from tests.functions.api_bench import ENVIRONMENT, Answer, Bench
from tests.functions.cold import cold_start

PATH = "/v1/portal-sessions"


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield cold_start("api")


@pytest.fixture
def bench(started: Any) -> Bench:
    return Bench(started)


def token_of(answer: Answer) -> str:
    url = urlsplit(str(answer.body["url"]))
    assert (url.scheme, url.netloc, url.path) == ("https", "api.hookkeeper.dev", "/api/console/open")
    (token,) = parse_qs(str(url.query))["token"]
    return token


def test_a_tenant_s_key_gets_a_link_of_its_tenant_that_lives_five_minutes(bench: Bench) -> None:
    answer = bench.ask("POST", PATH, {"ttl_seconds": 600}, mode=Mode.TEST, at=NOW)
    assert answer.status == 201, answer.text
    assert answer.body["expires_at"] == "2026-12-01T12:05:00.000000Z"
    (link,) = bench.sessions.links.values()
    assert link.sha256 == token_hash(token_of(answer))
    assert (link.scope, link.session_life) == (a_scope(mode=Mode.TEST), timedelta(seconds=600))
    assert (link.rights, link.actor, link.used_by) == (TENANT_RIGHTS, "key_1", None)
    assert token_of(answer) not in repr(bench.sessions.links)
    (record,) = bench.world.audit.values()
    assert (record.action, record.scope) == ("portal_session.created", link.scope)


def test_an_operator_says_whose_console_it_is(bench: Bench) -> None:
    bench.world.tenants["acme"] = a_tenant()
    for body in ({"tenant_id": "acme"}, {"tenant_id": "acme", "mode": "live"}):
        assert bench.as_operator("POST", PATH, body, at=NOW).status == 201
    assert {link.scope for link in bench.sessions.links.values()} == {a_scope()}
    assert all(link.rights == TENANT_RIGHTS for link in bench.sessions.links.values())
    headers = {"hookkeeper-tenant": "acme", "hookkeeper-mode": "test"}
    assert bench.as_operator("POST", PATH, {}, headers=headers).status == 201
    assert bench.as_operator("POST", PATH, {}).code == "tenant_required"
    assert bench.as_operator("POST", PATH, {"tenant_id": "nobody"}).status == 404
    assert bench.as_operator("POST", PATH, {"tenant_id": "a#b"}).code == "invalid_id"
    assert bench.as_operator("POST", PATH, {"tenant_id": "beta"}, headers=headers).status == 404


@pytest.mark.parametrize(
    "body", [{"tenant_id": "beta"}, {"mode": "test"}, {"tenant_id": "acme", "mode": "test"}]
)
def test_a_tenant_s_key_gets_no_link_of_another_tenant_or_mode(bench: Bench, body: dict[str, str]) -> None:
    assert bench.ask("POST", PATH, body).status == 404
    assert not bench.sessions.links


def test_a_session_may_no_more_than_the_key_that_asked_for_it(bench: Bench) -> None:
    read = frozenset({Right.SUBSCRIPTIONS_READ})
    assert bench.ask("POST", PATH, {}, rights=read).status == 201
    (link,) = bench.sessions.links.values()
    assert link.rights == read
    assert bench.ask("POST", PATH, {}, rights=frozenset({Right.EVENTS_WRITE})).status == 403


@pytest.mark.parametrize("seconds", [59, 3601, 0, -1])
def test_a_session_lasts_a_minute_to_an_hour(bench: Bench, seconds: int) -> None:
    assert bench.ask("POST", PATH, {"ttl_seconds": seconds}).code == "invalid_ttl"
    assert not bench.sessions.links


def test_a_repeated_answer_holds_no_link(bench: Bench) -> None:
    headers = {"idempotency-key": "k1"}
    first = bench.ask("POST", PATH, {}, headers=headers, at=NOW)
    again = bench.ask("POST", PATH, {}, headers=headers, at=NOW + HOUR)
    assert again.status == 201
    assert again.body["url"] is None
    assert token_of(first) not in repr(bench.idempotency.kept)
    assert len(bench.sessions.links) == 1
