"""The API function over the in-memory world: call it as API Gateway would, and see what came of it."""

import copy
import hashlib
import itertools
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hookkeeper.adapters.jsonschema_schemas import CatalogueRules, JsonSchemas
from hookkeeper.domain.access import TENANT_RIGHTS, KeyKind, Right
from hookkeeper.domain.config import Margins
from hookkeeper.domain.outcome import Fault
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.ports import KeptAnswer
from hookkeeper.usecases.challenge_rate import HostRules

from tests.fake_sessions import FakeSessions
from tests.fakes import (
    FakeAccess,
    FakeArchive,
    FakeAudit,
    FakeCatalogue,
    FakeConsents,
    FakeContacts,
    FakeEventItems,
    FakeFuse,
    FakeGatewayKeys,
    FakeHealthStore,
    FakeIds,
    FakeLanes,
    FakeLedger,
    FakeRecoveries,
    FakeRuntimeConfigs,
    FakeSecrets,
    FakeSubscriptions,
    FakeWorkflow,
    World,
)
from tests.functions.cold import LambdaContext

EVENTS = Path(__file__).parents[2] / "events"

ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "HOOKKEEPER_STAGE": "test",
    **{
        f"HOOKKEEPER_{table}_TABLE": table.title()
        for table in ("SUBSCRIPTIONS", "DELIVERIES", "EVENTS", "SECRETS", "ACCESS", "AUDIT", "NOTICES")
    },
    "HOOKKEEPER_ARCHIVE_BUCKET": "archive",
    "HOOKKEEPER_TENANT_ROLE_ARN": "arn:aws:iam::123456789012:role/TenantRole",
    "HOOKKEEPER_EVENTS_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/events",
    "HOOKKEEPER_DELIVERIES_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/deliveries",
    "HOOKKEEPER_CONTACTS_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/contacts",
    "HOOKKEEPER_STATE_MACHINE_ARN": "arn:aws:states:eu-west-1:123456789012:stateMachine:recovery",
    "HOOKKEEPER_RECOVER_FUNCTION": "recover",
    "HOOKKEEPER_KMS_KEY_ID": "arn:aws:kms:eu-west-1:123456789012:key/k",
    "HOOKKEEPER_REST_API_ID": "abcdefghij",
    "HOOKKEEPER_USAGE_PLANS": "standard,gold",
    "HOOKKEEPER_API_URL": "https://api.hookkeeper.dev/api",
    "HOOKKEEPER_CONSOLE_URL": "https://api.hookkeeper.dev/api/console",
    "HOOKKEEPER_APPCONFIG_APPLICATION": "app",
    "HOOKKEEPER_APPCONFIG_ENVIRONMENT": "env",
    "HOOKKEEPER_APPCONFIG_PROFILE": "runtime",
    "HOOKKEEPER_OWN_HOSTS": "api.hookkeeper.dev",
    "HOOKKEEPER_MARGIN_SECONDS": "300",
    "HOOKKEEPER_RETENTION_DAYS": "7",
}


@dataclass
class FakeHosts:
    """Every host resolves well, but those named here."""

    faults: dict[str, Fault] = field(default_factory=dict)

    def fault(self, host: str, port: int) -> Fault | None:  # noqa: ARG002  # as the port has it
        return self.faults.get(host)


@dataclass
class FakeEventQueue:
    """`refuses` are the positions of the next batches that are not accepted."""

    texts: list[str] = field(default_factory=list)
    refuses: frozenset[int] = frozenset()

    def send(self, texts: Sequence[str]) -> Sequence[int]:
        self.texts += [text for n, text in enumerate(texts) if n not in self.refuses]
        return sorted(n for n in self.refuses if n < len(texts))


@dataclass
class FakeIdempotency:
    kept: dict[tuple[str, str], tuple[datetime, KeptAnswer]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, owner: str, key: str, *, request_hash: str, now: datetime) -> KeptAnswer | None:
        with self.lock:
            stored = self.kept.get((owner, key))
            if stored is not None and now < stored[0]:
                return stored[1]
            self.kept[owner, key] = (now + timedelta(seconds=60), KeptAnswer(request_hash))
            return None

    def finish(self, owner: str, key: str, answer: KeptAnswer, *, now: datetime) -> None:
        self.kept[owner, key] = (now + timedelta(hours=24), answer)

    def forget(self, owner: str, key: str) -> None:
        del self.kept[owner, key]


@dataclass
class FakeRates:
    """Counts by the hour; `taken` holds name and hour."""

    taken: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, name: str, *, most: int, now: datetime) -> bool:
        hour = (name, f"{now:%Y-%m-%dT%H}")
        if self.taken[hour] >= most:
            return False
        self.taken[hour] += 1
        return True


@dataclass
class FakeTenants:
    """Which tenants' items the clients could touch, call by call."""

    entered: list[Scope] = field(default_factory=list)
    inside: Scope | None = None

    def enter(self, scope: Scope) -> None:
        self.entered.append(scope)
        self.inside = scope

    def leave(self) -> None:
        self.inside = None


class Entropy:
    """Random bytes that are the same in every run, and never the same twice in one."""

    def __init__(self) -> None:
        self._asked = 0

    def __call__(self, length: int) -> bytes:
        self._asked += 1
        return hashlib.sha512(f"entropy {self._asked}".encode()).digest()[:length]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self.text
        code: str = self.body["code"]
        return code


class Bench:
    """A world, the API over it (`module`, started cold), and someone who asks."""

    def __init__(self, module: Any) -> None:
        self.world = World()
        self.hosts = FakeHosts()
        self.rates = FakeRates()
        self.queue = FakeEventQueue()
        self.idempotency = FakeIdempotency()
        self.operator_idempotency = FakeIdempotency()
        self.tenants = FakeTenants()
        self.sessions = FakeSessions()
        self.archive = FakeArchive(self.world)
        self.ledger = FakeLedger(self.world)
        self.secrets = FakeSecrets(self.world)
        self.module = module
        self.module.datetime = datetime
        self.module.reach = self._reach()

    def _reach(self) -> Any:
        world = self.world
        return type(self.module.reach)(
            subscriptions=FakeSubscriptions(world),
            consents=FakeConsents(world),
            health=FakeHealthStore(world),
            recoveries=FakeRecoveries(world),
            lanes=FakeLanes(world),
            workflow=FakeWorkflow(world),
            ledger=self.ledger,
            archive=self.archive,
            events=FakeEventItems(world),
            event_rules=CatalogueRules(FakeCatalogue(world), monotonic=itertools.count(step=60).__next__),
            catalogue=FakeCatalogue(world),
            schemas=JsonSchemas(),
            event_bodies=self.archive,
            event_queue=self.queue,
            secrets=self.secrets,
            contacts=FakeContacts(world),
            audit=FakeAudit(world),
            operator_audit=FakeAudit(world),
            access=FakeAccess(world),
            gateway_keys=FakeGatewayKeys(world),
            usage_plans=("standard", "gold"),
            fuse=FakeFuse(world),
            sessions=self.sessions,
            configs=FakeRuntimeConfigs(world),
            ids=FakeIds(world),
            hosts=self.hosts,
            rates=self.rates,
            idempotency=self.idempotency,
            operator_idempotency=self.operator_idempotency,
            tenants=self.tenants,
            cursor_key=lambda: b"k" * 32,
            entropy=Entropy(),
            host_rules=HostRules(own_hosts=frozenset({"api.hookkeeper.dev"})),
            margins=Margins(),
            api_url="https://api.hookkeeper.dev/api",
            console_url="https://api.hookkeeper.dev/api/console",
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        tenant: str | None = "acme",
        mode: Mode = Mode.LIVE,
        kind: KeyKind = KeyKind.LIVE,
        rights: frozenset[Right] = TENANT_RIGHTS,
        application: str | None = None,
        key_id: str = "key_1",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        raw: str | None = None,
        at: datetime | None = None,
    ) -> Answer:
        """Call as a key of the tenant; `tenant` None calls without any key."""
        event = sample("api_request")
        event |= {
            "httpMethod": method,
            "path": path,
            "queryStringParameters": dict(query) if query else None,
            "multiValueQueryStringParameters": {n: [v] for n, v in query.items()} if query else None,
            "headers": event["headers"] | dict(headers or {}),
            "multiValueHeaders": {n: [v] for n, v in (event["headers"] | dict(headers or {})).items()},
            "body": raw if raw is not None else None if body is None else json.dumps(body),
        }
        context = event["requestContext"]
        context |= {"httpMethod": method, "path": f"/api{path}"}
        if tenant is None:
            del context["authorizer"]
        else:
            context["authorizer"] = {
                "principalId": key_id,
                "key_id": key_id,
                "kind": str(kind),
                "rights": " ".join(sorted(rights)),
                "tenant": tenant,
                "mode": str(mode),
            }
        if application is not None:
            context["authorizer"]["application"] = application
        return self.send(event, at=at)

    def as_operator(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Call as an operator's key, which has no tenant of its own."""
        more.setdefault("rights", frozenset({Right.OPERATE}))
        return self.ask(method, path, body, tenant="", kind=KeyKind.OPERATOR, **more)

    def send(self, event: Mapping[str, Any], *, at: datetime | None = None) -> Answer:
        if at is not None:
            self.module.datetime = _Clock(at)
        answer = self.module.handler(dict(event), LambdaContext())
        assert self.tenants.inside is None
        headers = {n.lower(): v[0] for n, v in answer["multiValueHeaders"].items()}
        assert isinstance(answer["body"], str | None)
        return Answer(answer["statusCode"], headers, answer["body"] or "")


class _Clock:
    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self, _: object) -> datetime:
        return self._at


def sample(name: str) -> dict[str, Any]:
    """A payload of `events/`, its own copy."""
    loaded: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return copy.deepcopy(loaded)
