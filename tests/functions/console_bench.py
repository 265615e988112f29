"""The console over the in-memory world, and a browser without eyes: cookies, forms, links, redirects."""

import hashlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from hookkeeper.domain.access import TENANT_RIGHTS, KeyKind, Right, key_hash, key_text
from hookkeeper.domain.config import Margins
from hookkeeper.domain.session import Session
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.tenancy import Scope
from hookkeeper.settings import ConsoleSettings
from hookkeeper.usecases.challenge_rate import HostRules

from tests.builders import HOUR, NOW, a_scope, an_api_key
from tests.fake_sessions import FakeDeadLetterQueues, FakeSessions
from tests.fakes import (
    FakeAccess,
    FakeArchive,
    FakeAudit,
    FakeConsents,
    FakeContacts,
    FakeEventItems,
    FakeFuse,
    FakeHealthStore,
    FakeIds,
    FakeLanes,
    FakeLedger,
    FakeNotices,
    FakeRecoveries,
    FakeRuntimeConfigs,
    FakeSecrets,
    FakeSubscriptions,
    FakeWorkflow,
    World,
)
from tests.functions.api_bench import Entropy, FakeRates, FakeTenants
from tests.functions.cold import LambdaContext

ORIGIN = "https://api.hookkeeper.dev"
BASE = "/api/console"

SETTINGS = ConsoleSettings(
    stage="test",
    subscriptions_table="Subscriptions",
    deliveries_table="Deliveries",
    events_table="Events",
    secrets_table="Secrets",
    access_table="Access",
    audit_table="Audit",
    notices_table="Notices",
    tenant_role_arn="arn:aws:iam::123456789012:role/TenantRole",
    deliveries_queue_url="https://sqs.eu-west-1.amazonaws.com/123456789012/deliveries",
    contacts_queue_url="https://sqs.eu-west-1.amazonaws.com/123456789012/contacts",
    dead_letter_queues=("Events|https://sqs/dead|https://sqs/events", "Ingest|https://sqs/ingest|"),
    state_machine_arn="arn:aws:states:eu-west-1:123456789012:stateMachine:recovery",
    recover_function="recover",
    kms_key_id="arn:aws:kms:eu-west-1:123456789012:key/k",
    console_url=f"{ORIGIN}{BASE}",
    margin_seconds=300,
    appconfig_application="app",
    appconfig_environment="env",
    appconfig_profile="runtime",
)

ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    **SETTINGS.environment(),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What came back: a page, or wherever it leads. `cookies` were set by it."""

    status: int
    headers: Mapping[str, str]
    text: str
    cookies: tuple[str, ...] = ()

    @property
    def leads_to(self) -> str:
        """Below the console."""
        location = self.headers["location"]
        assert location.startswith(BASE), location
        return location.removeprefix(BASE)

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.text)
        assert found, self.text
        return found[1]

    @property
    def words(self) -> str:
        """What people read of it, in one line."""
        body = re.sub(r"<(script|style|title)\b.*?</\1>", " ", self.text, flags=re.DOTALL)
        return " ".join(unescape(re.sub(r"<[^>]*>", "", body)).split())


class ConsoleBench:
    """A world, and the console over it (`module`, started cold) at the moment `now`, or as time goes by."""

    def __init__(
        self, module: Any, *, console_url: str = f"{ORIGIN}{BASE}", now: datetime | None = NOW
    ) -> None:
        self.world = World()
        self.sessions = FakeSessions()
        self.tenants = FakeTenants()
        self.rates = FakeRates()
        self.dead_letters = FakeDeadLetterQueues()
        self.archive = FakeArchive(self.world)
        self.entropy = Entropy()
        self.console_url = console_url
        self.now = now
        self.module = module
        module.reach = self._reach()
        module.datetime = _Clock(self)
        module.settings = SETTINGS.model_copy(update={"console_url": console_url})

    def _reach(self) -> Any:
        world = self.world
        return type(self.module.reach)(
            subscriptions=FakeSubscriptions(world),
            consents=FakeConsents(world),
            health=FakeHealthStore(world),
            recoveries=FakeRecoveries(world),
            workflow=FakeWorkflow(world),
            ledger=FakeLedger(world),
            lanes=FakeLanes(world),
            archive=self.archive,
            events=FakeEventItems(world),
            event_bodies=self.archive,
            secrets=FakeSecrets(world),
            contacts=FakeContacts(world),
            audit=FakeAudit(world),
            notices=FakeNotices(world),
            access=FakeAccess(world),
            sessions=self.sessions,
            dead_letters=self.dead_letters,
            fuse=FakeFuse(world),
            configs=FakeRuntimeConfigs(world),
            ids=FakeIds(world),
            rates=self.rates,
            tenants=self.tenants,
            entropy=self.entropy,
            host_rules=HostRules(),
            margins=Margins(),
            console_url=self.console_url,
        )

    def an_operator_key(self) -> str:
        return self.a_key(KeyKind.OPERATOR, rights=frozenset({Right.OPERATE}), tenant_id=None, mode=None)

    def a_key(self, kind: KeyKind = KeyKind.LIVE, **changes: Any) -> str:
        """The text of a key that is stored."""
        text = key_text(kind, self.entropy(32))
        changes.setdefault("rights", TENANT_RIGHTS)
        key = an_api_key(
            len(self.world.keys) + 1, kind=kind, sha256=key_hash(text), last4=text[-4:], **changes
        )
        self.world.keys[key.sha256] = key
        return text


@dataclass(frozen=True, slots=True)
class _Clock:
    """Stands in for the handler's `datetime`."""

    bench: ConsoleBench

    def now(self, zone: Any) -> datetime:
        return self.bench.now or datetime.now(zone)


_numbers = itertools.count(1)


@dataclass
class Browser:
    """One browser at a bench, with its cookies; it says where its POSTs come from, as browsers do."""

    bench: ConsoleBench
    cookies: dict[str, str] = field(default_factory=dict)

    @classmethod
    def signed_in(
        cls,
        bench: ConsoleBench,
        *,
        scope: Scope | None = None,
        rights: frozenset[Right] = TENANT_RIGHTS,
        operator: bool = False,
    ) -> "Browser":
        """An owner of `acme` in live mode, or an operator who acts for nobody yet."""
        secret = f"secret-{next(_numbers)}"
        bench.sessions.put(
            Session(
                sha256=token_hash(secret),
                rights=frozenset({Right.OPERATE}) if operator else rights,
                actor="key_1",
                expires_at=(bench.now or datetime.now(UTC)) + HOUR,
                scope=scope if operator else scope or a_scope(),
            )
        )
        return cls(bench, {"__Host-hookkeeper": secret})

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Shown:
        return self._send("GET", path, "", headers or {})

    def post(self, path: str, *, headers: Mapping[str, str] | None = None, **fields: str) -> Shown:
        """As a form of ours would, with the session's CSRF token unless another is given."""
        fields.setdefault("csrf", self.csrf)
        ours = {
            "origin": ORIGIN,
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
        }
        return self._send("POST", path, urlencode(fields), ours | dict(headers or {}))

    def raw_post(self, path: str, headers: Mapping[str, str], **fields: str) -> Shown:
        """With these headers alone to say where it comes from, and the right CSRF token."""
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self._send("POST", path, urlencode({"csrf": self.csrf, **fields}), kind | dict(headers))

    @property
    def csrf(self) -> str:
        return hashlib.sha256(f"csrf\0{self.cookies.get('__Host-hookkeeper', '')}".encode()).hexdigest()

    def _send(self, method: str, path: str, body: str, headers: Mapping[str, str]) -> Shown:
        given = dict(headers)
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.bench.module.handler(request_event(method, path, body, given), LambdaContext())
        assert self.bench.tenants.inside is None
        several = {name.lower(): list(values) for name, values in answer["multiValueHeaders"].items()}
        for text in several.get("set-cookie", []):
            self._keep(text)
        told = {name: values[-1] for name, values in several.items()}
        return Shown(answer["statusCode"], told, answer["body"] or "", tuple(several.get("set-cookie", [])))

    def _keep(self, text: str) -> None:
        name, _, value = text.partition(";")[0].partition("=")
        if "Max-Age=0" in text:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value


def request_event(method: str, path: str, body: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """As API Gateway hands a request for `path` (below the console, with its query) to the function."""
    parts = urlsplit(path)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    whole = f"/console{'' if parts.path == '/' else parts.path}"
    return {
        "resource": "/console/{proxy+}",
        "path": whole,
        "httpMethod": method,
        "headers": dict(headers),
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": query or None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} or None,
        "pathParameters": None,
        "requestContext": {
            "requestId": "req-1",
            "stage": "api",
            "path": f"/api{whole}",
            "httpMethod": method,
            "identity": {"sourceIp": "198.51.100.7"},
        },
        "body": body or None,
        "isBase64Encoded": False,
    }
