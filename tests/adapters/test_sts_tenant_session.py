"""Clients reach the tenant that was entered, under its tags, and nothing outside of any."""

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from hookkeeper.adapters.sts_tenant_session import TenantSession
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.tenancy import Mode, Scope
from moto import mock_aws

ACME, BETA = Scope("acme", Mode.LIVE), Scope("beta", Mode.TEST)
ROLE = "arn:aws:iam::123456789012:role/TenantRole"
NOW = datetime(2026, 12, 1, tzinfo=UTC)


class FakeSts:
    """Lends keys that say whose they are, for an hour."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.now = NOW

    def assume_role(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        tags = "-".join(tag["Value"] for tag in request["Tags"])
        return {
            "Credentials": {
                "AccessKeyId": f"AK-{tags}",
                "SecretAccessKey": "s",
                "SessionToken": f"token-{len(self.asked)}",
                "Expiration": self.now + timedelta(hours=1),
            }
        }


def a_session(sts: FakeSts) -> TenantSession:
    return TenantSession(sts, role_arn=ROLE, clock=lambda: sts.now)


def test_each_scope_has_keys_of_its_own_asked_for_once_an_hour() -> None:
    sts = FakeSts()
    session = a_session(sts)
    for scope in (ACME, BETA, ACME):
        session.enter(scope)
        assert session.keys().access_key == f"AK-{scope.tenant_id}-{scope.mode}"
    assert len(sts.asked) == 2
    assert sts.asked[0]["RoleArn"] == ROLE
    assert sts.asked[0]["Tags"] == [{"Key": "tenant", "Value": "acme"}, {"Key": "mode", "Value": "live"}]
    sts.now += timedelta(minutes=54)
    session.keys()
    assert len(sts.asked) == 2
    sts.now += timedelta(minutes=1)
    session.keys()
    assert len(sts.asked) == 3


def test_the_same_live_and_test_tenant_never_share_keys() -> None:
    sts = FakeSts()
    session = a_session(sts)
    session.enter(ACME)
    live = session.keys()
    session.enter(Scope("acme", Mode.TEST))
    assert session.keys() != live


def test_the_longest_tenant_id_makes_a_session_name_that_sts_takes() -> None:
    sts = FakeSts()
    session = a_session(sts)
    session.enter(Scope("a" * 64, Mode.LIVE))
    session.keys()
    assert len(sts.asked[0]["RoleSessionName"]) <= 64


def test_one_client_signs_each_call_for_the_scope_entered_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    signed: list[str] = []
    with mock_aws():
        session = a_session(FakeSts())
        client = session.client("dynamodb")
        client.meta.events.register(
            "before-send.dynamodb.*",
            lambda request, **_: signed.append(str(request.headers["Authorization"])),
        )
        for scope in (ACME, BETA, ACME):
            session.enter(scope)
            client.list_tables()
        session.leave()
        with pytest.raises(OwnFaultError):
            client.list_tables()
    assert [header.split("Credential=")[1].split("/")[0] for header in signed] == [
        "AK-acme-live",
        "AK-beta-test",
        "AK-acme-live",
    ]


def test_real_sts_is_asked_as_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        session = TenantSession(boto3.client("sts"), role_arn=ROLE)
        session.enter(ACME)
        assert session.client("dynamodb").list_tables()["TableNames"] == []
