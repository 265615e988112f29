"""The authorizer tells whose key it is, and says the same nothing of every key that is not."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.domain.access import TENANT_RIGHTS, ApiKey, KeyKind, Right, gateway_key, key_hash, key_text
from hookkeeper.domain.tenancy import Mode
from moto import mock_aws

from tests.functions.api_bench import ENVIRONMENT, sample
from tests.functions.cold import FUNCTIONS, LambdaContext, cold_start

TEXT = key_text(KeyKind.LIVE, bytes(range(32)))
KEY = ApiKey(
    id="key_1",
    sha256=key_hash(TEXT),
    kind=KeyKind.LIVE,
    rights=TENANT_RIGHTS,
    created_at=datetime(2026, 12, 1, tzinfo=UTC),
    last4=TEXT[-4:],
    tenant_id="acme",
    mode=Mode.LIVE,
)


class Door:
    """The authorizer over a table of moto's, and the keys it knows."""

    def __init__(self) -> None:
        client = boto3.client("dynamodb")
        attributes = [{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk", "list_pk", "list_sk")]
        schema = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
        listed = [
            {"AttributeName": "list_pk", "KeyType": "HASH"},
            {"AttributeName": "list_sk", "KeyType": "RANGE"},
        ]
        client.create_table(
            TableName="Access",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=attributes,
            KeySchema=schema,
            GlobalSecondaryIndexes=[
                {"IndexName": "lists", "KeySchema": listed, "Projection": {"ProjectionType": "KEYS_ONLY"}}
            ],
        )
        self.access = DynamoDBAccess(client, access_table="Access")
        self.module: Any = cold_start("authorizer")

    def ask(self, token: object) -> dict[str, Any]:
        event = sample("authorizer") | {"authorizationToken": token}
        answer: dict[str, Any] = self.module.handler(event, LambdaContext())
        return answer

    def refuses(self, token: object) -> bool:
        """Whether it raises the very text that API Gateway turns into 401."""
        with pytest.raises(Exception, match=r"\AUnauthorized\Z"):
            self.ask(token)
        return True


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield Door()


def test_a_key_opens_the_whole_api_for_its_tenant_mode_and_rights(door: Door) -> None:
    door.access.put_key(KEY)
    answer = door.ask(f"Bearer {TEXT}")
    assert answer["principalId"] == "key_1"
    assert answer["context"] == {
        "key_id": "key_1",
        "kind": "live",
        "tenant": "acme",
        "mode": "live",
        "rights": "deliveries:read deliveries:replay events:write subscriptions:read subscriptions:write",
    }
    (statement,) = answer["policyDocument"]["Statement"]
    assert statement["Effect"] == "Allow"
    assert statement["Resource"] == "arn:aws:execute-api:eu-west-1:123456789012:abcdefghij/api/*"


def test_an_operators_key_names_no_tenant(door: Door) -> None:
    text = key_text(KeyKind.OPERATOR, b"o" * 32)
    operator = replace(
        KEY,
        id="key_op",
        sha256=key_hash(text),
        kind=KeyKind.OPERATOR,
        rights=frozenset({Right.OPERATE}),
        tenant_id=None,
        mode=None,
    )
    door.access.put_key(operator)
    context = door.ask(f"bearer {text}")["context"]
    assert context == {"key_id": "key_op", "kind": "op", "rights": "operator"}


@pytest.mark.parametrize(
    "change",
    [
        {"revoked_at": datetime(2026, 12, 1, tzinfo=UTC)},
        {"expires_at": datetime.now(UTC) - timedelta(seconds=1)},
    ],
    ids=["revoked", "expired"],
)
def test_a_key_that_is_over_is_refused(door: Door, change: dict[str, datetime]) -> None:
    door.access.put_key(replace(KEY, **change))  # type: ignore[arg-type]
    assert door.refuses(f"Bearer {TEXT}")


def test_a_key_is_refused_from_its_revocation_on(door: Door) -> None:
    door.access.put_key(KEY)
    assert door.ask(f"Bearer {TEXT}")
    assert door.access.revoke_key("acme", "key_1", now=datetime.now(UTC))
    assert door.refuses(f"Bearer {TEXT}")


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        TEXT,
        f"Basic {TEXT}",
        f"Bearer  {TEXT}",
        f"Bearer {TEXT} ",
        f"Bearer {TEXT}\n",
        f"Bearer {TEXT[:-1]}",
        f"Bearer {TEXT.swapcase()}",
        f"Bearer {TEXT}=",
        "Bearer hk_live_ﬁ",
        "Bearer " + "x" * 100_000,
        7,
    ],
)
def test_what_cannot_be_a_key_is_refused_without_a_look_at_the_table(
    door: Door, token: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.access.put_key(KEY)
    monkeypatch.setattr(door.module, "access", None)
    assert door.refuses(token)


def test_an_unknown_key_is_refused(door: Door) -> None:
    assert door.refuses(f"Bearer {key_text(KeyKind.LIVE, b'u' * 32)}")


def test_no_key_is_ever_logged(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    door.refuses(f"Bearer {TEXT}")
    door.access.put_key(KEY)
    door.ask(f"Bearer {TEXT}")
    told = " ".join(str(record.__dict__) for record in caplog.records)
    assert "key.refused" in told
    assert TEXT not in told
    assert KEY.sha256 not in told


def test_it_starts_without_pydantic_or_httpx(door: Door) -> None:  # noqa: ARG001  # its environment
    code = (
        f"import sys; sys.path.insert(0, {str(FUNCTIONS / 'authorizer')!r}); import handler;"
        " print(sorted({'pydantic', 'httpx', 'jinja2', 'cryptography'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "change,owner",
    [
        ({}, "acme"),
        ({"kind": KeyKind.TEST, "mode": Mode.TEST}, "acme"),
        ({"kind": KeyKind.APP, "tenant_id": None, "mode": None, "application_id": "erp"}, "app:erp"),
        ({"kind": KeyKind.OPERATOR, "tenant_id": None, "mode": None}, "*"),
    ],
    ids=["live", "test", "application", "operator"],
)
def test_a_call_counts_against_its_owner_whichever_key_it_carries(
    door: Door, change: dict[str, Any], owner: str
) -> None:
    text = key_text(change.get("kind", KeyKind.LIVE), b"k" * 32)
    door.access.put_key(replace(KEY, sha256=key_hash(text), **change))
    assert door.ask(f"Bearer {text}")["usageIdentifierKey"] == gateway_key("abcdefghij", owner)
