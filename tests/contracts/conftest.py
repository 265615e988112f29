"""AWS in this process (moto), with the stack's tables, for the adapters that keep the contracts."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from hookkeeper.adapters.dynamodb import Backoff
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber

from tests.fakes import World

if TYPE_CHECKING:
    from tests.contracts.stores import Stores

TABLES = {
    "Subscriptions": ("lists", "due"),
    "Deliveries": ("due",),
    "Events": (),
    "Secrets": (),
    "Access": ("lists",),
    "Audit": (),
    "Notices": ("due",),
}
"""Each table of the stack, and its indexes."""

INDEX_KEYS = {"lists": (("list_pk", "S"), ("list_sk", "S")), "due": (("due_pk", "S"), ("due_at", "N"))}

AT_ONCE = Backoff(sleep=lambda _: None)


class Aws:
    """Clients by service, each made once; tables are made when first asked for."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._tables: set[str] = set()

    def client(self, service: str) -> Any:
        if service not in self._clients:
            config = Config(retries={"mode": "legacy", "max_attempts": 1})
            make: Any = boto3.client
            self._clients[service] = make(service, region_name="us-east-1", config=config)
        return self._clients[service]

    def table(self, name: str) -> str:
        if name not in self._tables:
            self._tables.add(name)
            self._create(name)
        return name

    def _create(self, name: str) -> None:
        indexes = TABLES[name]
        keys = [("pk", "S"), ("sk", "S"), *(key for index in indexes for key in INDEX_KEYS[index])]
        more: dict[str, Any] = {}
        if indexes:
            more["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": index,
                    "KeySchema": _schema(INDEX_KEYS[index]),
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
                for index in indexes
            ]
        self.client("dynamodb").create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=_schema((("pk", "S"), ("sk", "S"))),
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys],
            **more,
        )

    def items(self, table: str) -> list[dict[str, Any]]:
        """Everything in a table, as it is stored."""
        return list(self.client("dynamodb").scan(TableName=self.table(table))["Items"])


def _schema(keys: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": key, "KeyType": kind} for (key, _), kind in zip(keys, kinds, strict=True)]


@pytest.fixture(scope="session", autouse=True)
def _one_call_at_a_time() -> Iterator[None]:
    """moto's conditional writes are not atomic between threads; DynamoDB's are."""
    lock, answer = threading.RLock(), BotocoreStubber.__call__

    def one(self: BotocoreStubber, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return answer(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BotocoreStubber, "__call__", one)
        yield


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield Aws()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=["fake", "dynamodb"])
def stores(request: pytest.FixtureRequest, world: World) -> "Stores":
    from tests.contracts import stores

    if request.param == "fake":
        return stores.over_fakes(world)
    return stores.over_dynamodb(request.getfixturevalue("aws"))


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto's conditional writes are not atomic under threads, as DynamoDB's are: one call at a time (H1)."""
    lock, call = threading.RLock(), BotocoreStubber.__call__

    def serial(self: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return call(self, *args, **kwargs)

    monkeypatch.setattr(BotocoreStubber, "__call__", serial)
