"""Tenants with their subscriptions and endpoints: what is emitted, how they fare, and who mends them."""

import contextlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.domain.event import matches
from hookkeeper.domain.tenancy import DeliveryKey, Mode, Scope, SubscriptionKey

from infra.cli import runtime_config
from infra.cli.client import Api, ApiError
from infra.local import aws
from infra.local.receiver import HEALTHY, Behaviour, Receiver
from infra.local.stack import Stack
from tests.soak.tally import Account, Told, account

TYPES = ("invoice.paid", "invoice.line.added", "order.made", "customer.created")
PATTERNS = (("*",), ("invoice.*",), ("order.made", "customer.*"), ("invoice.*", "order.*"))
REQUEST_SECONDS = 3

FAST = {
    "presets": {
        "graded": {
            "limits": {
                "retryable": {"count": 5, "age_seconds": 5},
                "permanent": {"count": 5, "age_seconds": 5},
                "fatal": {"count": 3, "age_seconds": 5},
            }
        }
    },
    "retries": {"live_seconds": [1, 2], "short_seconds": [1, 2]},
    "circuit": {"first_open_seconds": 2, "longest_open_seconds": 5},
    "pace": {"start_per_second": 10, "most_per_second": 40, "slice_seconds": 5},
}
"""Hours become seconds, by the lever that an operator has."""

MOODS: tuple[tuple[str, Behaviour], ...] = (
    ("fails", Behaviour(status=500)),
    ("is gone", Behaviour(status=404)),
    ("resets", Behaviour(reset=True)),
    ("hangs", Behaviour(status=500, delay_seconds=REQUEST_SECONDS + 2)),
    ("is slow", Behaviour(delay_seconds=1)),
    ("throttles", Behaviour(status=429, headers=(("retry-after", "2"),))),
)


@dataclass(frozen=True, slots=True)
class Emitted:
    """One event whose message was taken."""

    id: str
    tenant: str
    type: str


@dataclass(slots=True, eq=False)
class Customer:
    """One subscription and its endpoint. Once it is `narrowed`, or `revoked`, it is owed less, or nothing."""

    name: str
    tenant: str
    api: Api
    path: str
    patterns: tuple[str, ...]
    id: str = ""
    mood: str = ""
    well_at: float = 0
    narrowed: tuple[str, ...] | None = None
    revoked: bool = False
    suspended: bool = False
    suspensions: int = 0

    @property
    def url(self) -> str:
        return f"/v1/subscriptions/{self.id}"

    def may_get(self, event: Emitted) -> bool:
        return event.tenant == self.tenant and matches(self.patterns, event.type)

    def is_owed(self, event: Emitted) -> bool:
        """Whether it must get the event, whatever happens."""
        return (
            self.may_get(event) and not self.revoked and matches(self.narrowed or self.patterns, event.type)
        )


@dataclass
class Fleet:
    """Everyone on one stack; whatever is drawn by lot is drawn from `lot`."""

    stack: Stack
    receiver: Receiver
    lot: random.Random
    customers: list[Customer] = field(default_factory=list)
    emitted: list[Emitted] = field(default_factory=list)
    troubles: int = 0
    refused_calls: int = 0

    def __post_init__(self) -> None:
        self._sqs, self._events = aws.client(self.stack, "sqs"), aws.client(self.stack, "events")
        self._turn = 0

    # ── setting up ───────────────────────────────────────────────────────────────────────────────

    def sign_up(self, tenants: int, subscriptions: int) -> None:
        """So many tenants share so many subscriptions, each on a path of its own."""
        outputs = self.stack.outputs
        profile = runtime_config.ConfigProfile(
            outputs["AppConfigApplication"], outputs["AppConfigEnvironment"], outputs["AppConfigProfile"]
        )
        runtime_config.write(aws.client(self.stack, "appconfig"), profile, FAST)
        operator = Api(self.stack.api_url, self.stack.operator_key)
        apis = []
        for number in range(1, tenants + 1):
            operator.post("/v1/tenants", {"id": f"tenant-{number}", "name": f"Tenant {number}"})
            key = operator.post(f"/v1/tenants/tenant-{number}/keys", {"mode": "live"})["key"]
            apis.append((f"tenant-{number}", Api(self.stack.api_url, key)))
        for number in range(subscriptions):
            self._subscribe(number, *apis[number % tenants])

    def _subscribe(self, number: int, tenant: str, api: Api) -> None:
        name = f"{tenant}/{number:02d}"
        customer = Customer(name, tenant, api, f"/{name}", PATTERNS[number % len(PATTERNS)])
        created = api.post(
            "/v1/subscriptions",
            {
                "endpoint_url": self.receiver.url(customer.path),
                "event_types": list(customer.patterns),
                "owner_email": f"owner-{number}@{tenant}.test",
                "timeout_seconds": REQUEST_SECONDS,
            },
        )
        customer.id = created["id"]
        self.receiver.trust(customer.path, created["secret"])
        self.customers.append(customer)

    def all_active(self) -> bool:
        return all(self.present(customer)["status"] == "active" for customer in self.customers)

    # ── emitting ─────────────────────────────────────────────────────────────────────────────────

    def emit(self, count: int) -> None:
        """By the queue, the bus or the API; now and then a producer sends an event twice."""
        for way in self.lot.choices((self._by_queue, self._by_bus, self._by_api), (8, 1, 1), k=count):
            number = len(self.emitted)
            tenant = self.lot.choice(self.customers).tenant
            event = Emitted(f"evt_soak_{number:06d}", tenant, self.lot.choice(TYPES))
            for _ in range(2 if self.lot.random() < 0.02 else 1):
                way(event)
            self.emitted.append(event)

    def _by_queue(self, event: Emitted) -> None:
        body = {"id": event.id, "tenant_id": event.tenant, "type": event.type, "data": {"of": event.id}}
        self._sqs.send_message(QueueUrl=self.stack.events_queue_url, MessageBody=json.dumps(body))

    def _by_bus(self, event: Emitted) -> None:
        detail = {"id": event.id, "tenant_id": event.tenant, "data": {"of": event.id}}
        entry = {
            "EventBusName": self.stack.event_bus_name,
            "Source": "soak",
            "DetailType": event.type,
            "Detail": json.dumps(detail),
        }
        if self._events.put_events(Entries=[entry])["FailedEntryCount"]:
            raise RuntimeError(f"the bus did not take {event.id}")

    def _by_api(self, event: Emitted) -> None:
        """An answer that is lost is no reason to think that the event was: its id makes it one."""
        api = next(customer.api for customer in self.customers if customer.tenant == event.tenant)
        for _ in range(5):
            with contextlib.suppress(httpx.TransportError):
                api.post("/v1/events", {"id": event.id, "type": event.type, "data": {"of": event.id}})
                return
        raise RuntimeError(f"the API did not take {event.id}")

    # ── what befalls endpoints, and what people do ───────────────────────────────────────────────

    def trouble(self, now: float) -> None:
        """A third of the endpoints is in trouble at any time, each for a while."""
        for customer in self.customers:
            if customer.mood and now >= customer.well_at:
                self._turn_well(customer)
        well = [customer for customer in self.customers if not customer.mood]
        if len(well) * 3 > len(self.customers) * 2 and self.lot.random() < 0.3:
            customer = self.lot.choice(well)
            customer.mood, behaviour = self.lot.choice(MOODS)
            customer.well_at = now + self.lot.uniform(6, 25)
            self.receiver.behave(behaviour, path=customer.path)
            self.troubles += 1

    def all_well(self) -> None:
        for customer in self.customers:
            self._turn_well(customer)

    def _turn_well(self, customer: Customer) -> None:
        customer.mood = ""
        self.receiver.behave(HEALTHY, path=customer.path)

    def tend_next(self) -> None:
        """One customer in turn looks at its subscription: it re-enables it, or now and then pauses it."""
        self._turn += 1
        customer = self.customers[self._turn % len(self.customers)]
        if customer.revoked:
            return
        with self._sparing():
            present = self.present(customer)
            self._note(customer, present)
            if present["status"] == "suspended" and not customer.mood:
                customer.api.post(f"{customer.url}/reenable")
            elif present["status"] == "active" and self.lot.random() < 0.03:
                customer.api.put(customer.url, {"enabled": False})

    def narrow(self, customer: Customer) -> None:
        """It wants invoices alone from now on."""
        with self._sparing():
            etag = self.present(customer)["etag"]
            customer.api.patch(customer.url, {"event_types": ["invoice.*"]}, etag=etag)
            customer.narrowed = ("invoice.*",)

    def revoke(self, customer: Customer) -> None:
        with self._sparing():
            customer.api.delete(customer.url, etag=self.present(customer)["etag"])
            customer.revoked = True

    def present(self, customer: Customer) -> dict[str, Any]:
        return customer.api.get(customer.url)

    def _note(self, customer: Customer, present: Mapping[str, Any]) -> None:
        suspended = present["status"] == "suspended"
        customer.suspensions += suspended and not customer.suspended
        customer.suspended = suspended

    @contextlib.contextmanager
    def _sparing(self) -> Iterator[None]:
        """What an owner asks for may be refused for the moment; it is asked again the next time."""
        try:
            yield
        except (ApiError, httpx.TransportError):
            self.refused_calls += 1

    # ── coming to rest ───────────────────────────────────────────────────────────────────────────

    def unrest(self, *, helped: bool) -> list[str]:
        """What still keeps anyone from rest, in words; people re-enable, and if `helped` ask for all."""
        present = [customer for customer in self.customers if not customer.revoked]
        return [f"{each.name}: {why}" for each in present if (why := self._unrest(each, helped=helped))]

    def _unrest(self, customer: Customer, *, helped: bool) -> str:
        why = "did not answer"
        with self._sparing():
            present = self.present(customer)
            self._note(customer, present)
            health = present["health"]
            if present["status"] != "active":
                why = str(present["status"])
                customer.api.post(f"{customer.url}/reenable")
            elif health["circuit"]["state"] == "open":
                why = "its circuit is open"
            elif health["recovery_id"]:
                why = "a recovery runs"
                if helped and self._is_automatic(customer, health["recovery_id"]):
                    customer.api.put(customer.url, {"enabled": False})  # to be re-enabled at once
            elif health["owed"]:
                why = f"{health['owed']} are owed"
                if helped:
                    customer.api.post(f"{customer.url}/recoveries", {"only": "owed"})
            else:
                why = ""
        return why

    def _is_automatic(self, customer: Customer, recovery_id: str) -> bool:
        """Nobody asked for it, and it rests for minutes; an owner who re-enables need not wait."""
        return bool(customer.api.get(f"/v1/recoveries/{recovery_id}")["kind"] == "automatic")

    # ── accounting ───────────────────────────────────────────────────────────────────────────────

    def accounts(self, kills: Sequence[float]) -> list[Account]:
        return [self._account(customer, kills) for customer in self.customers]

    def _account(self, customer: Customer, kills: Sequence[float]) -> Account:
        arrivals = [
            (each.event_id, each.at)
            for each in self.receiver.deliveries(customer.path)
            if each.verified and each.status is not None and each.status < 300
        ]
        emitted = {event.id for event in self.emitted if customer.may_get(event)}
        times = Counter(event_id for event_id, _ in arrivals)
        return account(
            customer.name,
            emitted=emitted,
            owed={event.id for event in self.emitted if customer.is_owed(event)},
            arrivals=arrivals,
            ledger=self._told(customer, [event_id for event_id in emitted if times[event_id] != 1]),
            kills=kills,
        )

    def _told(self, customer: Customer, event_ids: Sequence[str]) -> dict[str, Told]:
        """What the ledger says of these, read by the product's own adapter."""
        ledger = DynamoDBLedger(
            aws.client(self.stack, "dynamodb"),
            deliveries_table=self.stack.tables["Deliveries"],
            subscriptions_table=self.stack.tables["Subscriptions"],
        )
        key = SubscriptionKey(Scope(customer.tenant, Mode.LIVE), customer.id)
        deliveries = ledger.read([DeliveryKey(key, event_id) for event_id in event_ids])
        return {
            key.event_id: Told(
                status=str(delivery.status),
                unanswered_at=[a.at.timestamp() for a in delivery.attempts if a.status_code is None],
            )
            for key, delivery in deliveries.items()
        }

    def waiting(self) -> dict[str, int]:
        """Messages in each queue and dead-letter queue, in flight and delayed ones included."""
        urls = {**self.stack.queues, **{f"{k} dead": v for k, v in self.stack.dead_letter_queues.items()}}
        return {name: count for name, url in urls.items() if (count := self._depth(url))}

    def _depth(self, url: str) -> int:
        kinds = ("", "NotVisible", "Delayed")
        names = [f"ApproximateNumberOfMessages{kind}" for kind in kinds]
        told = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(told.get(name, 0)) for name in names)
