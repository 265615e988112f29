"""A link lets one browser in, once, before its end; a session is found by its hash until it is ended."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from hookkeeper.adapters.dynamodb_sessions import DynamoDBSessions
from hookkeeper.domain.access import TENANT_RIGHTS, Right
from hookkeeper.domain.session import PortalLink, Session
from hookkeeper.ports import Sessions

from tests.builders import HOUR, NOW, a_scope
from tests.contracts.conftest import AT_ONCE, Aws
from tests.fake_sessions import FakeSessions

LINK = PortalLink(
    sha256="a" * 64,
    scope=a_scope(),
    rights=TENANT_RIGHTS,
    actor="key_1",
    expires_at=NOW + timedelta(minutes=5),
    session_life=HOUR,
)


def a_session(number: int = 1) -> Session:
    return Session(
        sha256=f"{number:064d}",
        rights=TENANT_RIGHTS,
        actor="key_1",
        expires_at=NOW + HOUR,
        scope=a_scope(),
        key_sha256="k" * 64,
    )


@pytest.fixture(params=["fake", "dynamodb"])
def sessions(request: pytest.FixtureRequest) -> Iterator[Sessions]:
    if request.param == "fake":
        yield FakeSessions()
        return
    aws: Aws = request.getfixturevalue("aws")
    yield DynamoDBSessions(aws.client("dynamodb"), access_table=aws.table("Access"), backoff=AT_ONCE)


def test_a_session_and_a_link_come_back_whole(sessions: Sessions) -> None:
    operator = Session(
        sha256="9" * 64, rights=frozenset({Right.OPERATE}), actor="key_2", expires_at=NOW + HOUR
    )
    for session in (a_session(), operator):
        sessions.put(session)
        assert sessions.get(session.sha256) == session
    sessions.put_link(LINK)
    assert sessions.link(LINK.sha256) == LINK
    assert sessions.link("b" * 64) is None
    assert sessions.get("b" * 64) is None


def test_t64_a_link_lets_in_once(sessions: Sessions) -> None:
    sessions.put_link(LINK)
    assert sessions.open_link(LINK, a_session(1), now=NOW)
    assert not sessions.open_link(LINK, a_session(2), now=NOW)
    assert sessions.get(a_session(1).sha256) == a_session(1)
    assert sessions.get(a_session(2).sha256) is None
    assert sessions.link(LINK.sha256) == replace(LINK, used_by=a_session(1).sha256)


def test_opening_again_for_the_same_session_is_the_answer_that_was_lost(sessions: Sessions) -> None:
    sessions.put_link(LINK)
    assert sessions.open_link(LINK, a_session(), now=NOW)
    assert sessions.open_link(LINK, a_session(), now=NOW)


def test_a_link_is_dead_at_its_end_and_one_that_never_was_opens_nothing(sessions: Sessions) -> None:
    assert not sessions.open_link(LINK, a_session(), now=NOW)
    sessions.put_link(LINK)
    assert not sessions.open_link(LINK, a_session(), now=LINK.expires_at)
    assert sessions.get(a_session().sha256) is None


def test_of_twelve_who_open_a_link_at_once_one_gets_in(sessions: Sessions, one_at_a_time: None) -> None:  # noqa: ARG001
    sessions.put_link(LINK)
    barrier, won = threading.Barrier(12), list[int]()

    def open_it(number: int) -> None:
        barrier.wait()
        if sessions.open_link(LINK, a_session(number), now=NOW):
            won.append(number)

    threads = [threading.Thread(target=open_it, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_an_ended_session_is_gone_and_cannot_be_brought_back(sessions: Sessions) -> None:
    sessions.put(a_session())
    assert sessions.act_for(a_session(), a_scope("other"))
    assert sessions.get(a_session().sha256) == replace(a_session(), scope=a_scope("other"))
    sessions.end(a_session().sha256)
    sessions.end(a_session().sha256)
    assert sessions.get(a_session().sha256) is None
    assert not sessions.act_for(a_session(), a_scope())
    assert sessions.get(a_session().sha256) is None


def test_what_is_stored_lets_nobody_in_and_is_swept_away(aws: Aws) -> None:
    sessions = DynamoDBSessions(aws.client("dynamodb"), access_table=aws.table("Access"), backoff=AT_ONCE)
    sessions.put(a_session())
    sessions.put_link(LINK)
    assert all(int(item["ttl"]["N"]) > NOW.timestamp() for item in aws.items("Access"))
