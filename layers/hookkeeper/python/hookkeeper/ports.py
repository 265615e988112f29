"""All that Hookkeeper needs from outside, on one page.

Every fake in tests/fakes.py and every adapter passes the same contract suite. Guarded writes answer
False when someone else was first; an adapter whose answer was lost reads back and knows its own write.
A call that our own side fails raises OwnFaultError (or the client's exception): never an outcome.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from hookkeeper.domain.access import ApiKey, Tenant
from hookkeeper.domain.audit import AuditRecord
from hookkeeper.domain.catalogue import EventType
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import Delivery, Owed, Parcel
from hookkeeper.domain.event import ArchivedEvent, ArchivePointer, Event, EventItem, RoutePage
from hookkeeper.domain.fuse import FuseState
from hookkeeper.domain.health import Health
from hookkeeper.domain.mailbox import AddressFault, Mailbox
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault, Outcome
from hookkeeper.domain.recovery import Cursor, Ended, Listed, Recovery, RecoveryLock
from hookkeeper.domain.session import PortalLink, Session
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import FilterChange, Profile, Subscription
from hookkeeper.domain.tenancy import DeliveryKey, Scope, SubscriptionKey

# ── subscriptions ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Standing:
    """A subscription and its health, read together and consistently."""

    subscription: Subscription
    health: Health


@dataclass(frozen=True, slots=True)
class SubscriptionPage:
    """Some of a tenant's subscriptions, newest first; `next_after` is the id to go on from."""

    standings: Sequence[Standing]
    next_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of status and all that must be true with it, as one transaction.

    Guards: the subscription still has `before`'s status, its health `before`'s epoch, and its lock
    `before`'s version where `health.recovery` differs. `holds_streak` adds that health still has
    before's `first_failure_at` and at least its count, so that a success in between wins. `holds_token`
    adds that the awaited challenge is still `before`'s. Routing items and reserved endpoints follow from the
    two subscriptions. Of `health` are written: epoch and its moment, circuit, outage_from,
    check_at, warn_at, recovery; with `clears_streaks` the streaks, counts and not_before are removed too.
    The record of the recovery that it `ends` says so, if there is one (yet).
    `after.writer` is the audit record's id.
    """

    before: Standing
    after: Subscription
    health: Health
    audit: AuditRecord
    holds_streak: bool = False
    holds_token: bool = False
    clears_streaks: bool = False
    notice: Notice | None = None
    recovery: Recovery | None = None
    ends: Ended | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change that leaves the status alone, guarded by the version read (If-Match).

    With `filter_change` (the filter that was in force until now, from its own moment on) the history
    grows, and routing items are added first, deleted after: for a moment they may be a superset.
    """

    before: Subscription
    after: Subscription
    audit: AuditRecord
    profile: Profile | None = None
    filter_changes: tuple[FilterChange, ...] = ()
    notice: Notice | None = None


class Subscriptions(Protocol):
    """Reads are consistent. A subscription is never deleted, only revoked."""

    def create(
        self, subscription: Subscription, profile: Profile, health: Health, audit: AuditRecord
    ) -> str | None:
        """None when created; else the id of the subscription that has this endpoint and resource already."""

    def holder(self, subscription: Subscription) -> str | None:
        """The id of another that has its endpoint (or the staged one) and resource; `create` and `edit`
        alone decide, this is for asking before something is spent."""

    def get(self, key: SubscriptionKey) -> Subscription | None: ...
    def profile(self, key: SubscriptionKey) -> Profile | None: ...
    def standing(self, key: SubscriptionKey) -> Standing | None: ...
    def filters(self, key: SubscriptionKey) -> Sequence[FilterChange]: ...
    def page(self, scope: Scope, *, limit: int, after: str | None = None) -> SubscriptionPage: ...

    def transition(self, transition: Transition) -> bool:
        """True when this transition's writer is the one that stands, a lost answer included."""

    def edit(self, edit: Edit) -> bool:
        """Raises DuplicateSubscriptionError where another subscription has the endpoint that it asks for."""

    def expired_tokens(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        """Subscriptions whose awaited challenge has ended, across tenants (sweep alone)."""


class Consents(Protocol):
    """What a tenant lets applications receive; reads are consistent."""

    def get(self, scope: Scope, application_id: str) -> Consent | None: ...
    def of(self, scope: Scope) -> Sequence[Consent]:
        """A tenant's, withdrawn ones too, in order of application."""

    def put(self, consent: Consent, audit: AuditRecord) -> bool:
        """Over the one of the version before (or none), with its audit record. False where another came."""


class Routes(Protocol):
    """Which active subscriptions take an event type: O(matches) key reads."""

    def matching(self, scope: Scope, *, event_type: str, resource_id: str | None) -> Sequence[str]:
        """Ids of the subscriptions, each once, in order of id; at most ten seconds old."""


# ── health, circuit, recovery ────────────────────────────────────────────────────────────────────


class HealthStore(Protocol):
    """Health outside of transitions and settlements; every write guards epoch and the part's own version."""

    def write_circuit(
        self,
        before: Health,
        circuit: Circuit,
        *,
        outage_from: datetime | None = None,
    ) -> bool:
        """The circuit over the one read (its version guards). `outage_from` is written where given:
        the caller has taken the earlier of it and the present one."""

    def close_circuit(
        self, before: Health, circuit: Circuit, lock: RecoveryLock, recovery: Recovery | None
    ) -> bool:
        """End the outage: circuit, no outage_from, and the recovery of its window, in one transaction.

        Guards: epoch, the circuit's version as read, the lock's version as read, subscription active.
        `recovery` is put where it is new; None where the window joins a recovery that runs.
        """

    def write_lock(
        self,
        before: Health,
        lock: RecoveryLock,
        recovery: Recovery,
        *,
        flowing: bool = False,
        notice: Notice | None = None,
    ) -> bool:
        """The recovery's lock over the one read (its version guards) and its record, in one transaction.

        Where the lock was another recovery's, that one's record says in the same transaction that it ended.
        `flowing` adds: subscription active, circuit closed (a slice's cursor). The record's succeeded
        and failed are left to `add_counts`, but written when `recovery.ended_at` is set.
        """

    def raise_not_before(self, key: SubscriptionKey, *, epoch: int, not_before: datetime) -> None: ...

    def set_check(self, key: SubscriptionKey, *, epoch: int, check_at: datetime | None) -> None:
        """When the sweep must ask the policy again (F57); None when there is nothing to ask."""

    def set_warning(self, key: SubscriptionKey, *, epoch: int, warn_at: datetime | None) -> None:
        """When the sweep must look whether what is owed will soon expire; None when nothing is."""

    def due(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        """Health whose circuit wants waking, policy asking, or recovery's lease has ended, all tenants'."""


class Fuse(Protocol):
    """The one fuse of all tenants: asked before a suspension, told of our own faults, never per delivery."""

    def read(self) -> FuseState: ...
    def write(self, before: FuseState, after: FuseState) -> bool:
        """The state over the one read; its version guards."""


class Recoveries(Protocol):
    def get(self, scope: Scope, recovery_id: str) -> Recovery | None: ...
    def of(self, key: SubscriptionKey, *, limit: int, before: str | None = None) -> Sequence[Recovery]:
        """A subscription's recoveries, newest first; those before that id where one is given."""

    def add_counts(
        self, key: SubscriptionKey, recovery_id: str, *, succeeded: int, failed: int, troubled: int
    ) -> None:
        """Add to a recovery's progress; `troubled` are the failures that ask for a slower pace."""

    def note_sent(
        self, key: SubscriptionKey, recovery_id: str, event_ids: Sequence[str], *, now: datetime
    ) -> None:
        """Note what a recovery is about to send; noted twice is noted once."""

    def sent_by(self, key: SubscriptionKey, recovery_id: str) -> frozenset[str]:
        """Every event that was noted for the recovery; consistent."""


class Workflow(Protocol):
    """Step Functions, started; starting the same `name` twice is one execution."""

    def start(
        self,
        key: SubscriptionKey,
        *,
        name: str,
        options: Mapping[str, str | bool | int | float | None],
    ) -> None: ...


# ── deliveries ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The truth for one batch. What came back unread is our own fault: handed back, never read as absent."""

    standings: Mapping[SubscriptionKey, Standing]
    deliveries: Mapping[DeliveryKey, Delivery]
    unread: frozenset[DeliveryKey] = frozenset()
    consents: Mapping[SubscriptionKey, Consent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthEffect:
    """What a settled sequence does to health, if its epoch is still the one the attempt began under.

    Success resets every streak; a failure adds one to its class and the total. `first_failure_at` is
    the sequence's first failed attempt, kept only where the streak is new. `check_at` is written with a
    failure that may cross a limit.
    """

    epoch: int
    outcome: Outcome
    at: datetime
    first_failure_at: datetime | None = None
    status_code: int | None = None
    error: str | None = None
    check_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """One write of a delivery: the ledger record over the one read, its owed item, and perhaps health.

    Guard: the record is still as `before` (absent, or the same attempt_count, sequence and status).
    `owed` None deletes the owed item if there is one. On another epoch, health alone is left out.
    """

    before: Delivery | None
    after: Delivery
    owed: Owed | None = None
    effect: HealthEffect | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """Whether the ledger took the write (a lost answer included), and whether health counted it."""

    written: bool
    counted: bool


class Ledger(Protocol):
    def read_batch(self, keys: Sequence[DeliveryKey]) -> Readings:
        """One consistent batch read of subscriptions, health and ledger records (at most 25 keys).

        Where an application's are among them, one more of the consents they are held by.
        """

    def read(self, keys: Sequence[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        """Consistent; absent keys are not in the answer. Raises OwnFaultError where anything stays unread."""

    def put_clean(self, deliveries: Sequence[Delivery]) -> Sequence[DeliveryKey]:
        """First attempts that succeeded on clean health: batched, unguarded. Answers those not written."""

    def settle(self, settlement: Settlement) -> Settled: ...

    def owed(self, key: SubscriptionKey, *, limit: int, after: Cursor | None = None) -> Sequence[Owed]:
        """Owed items in order of archived_at past the cursor, consistent, over all shards."""

    def owed_item(self, key: DeliveryKey, *, archived_at: datetime) -> Owed | None:
        """One owed item, consistent."""

    def due(self, now: datetime, *, limit: int) -> Sequence[Owed]:
        """Owed items whose `due_at` has passed, longest due first, across tenants (sweep alone)."""

    def move_due(
        self, owed: Owed, *, due_at: datetime, taken_by: str | None = None, automatic_left: bool | None = None
    ) -> bool:
        """Put the item's `due_at` off, if it is still as read (`due_at` guards); whoever wins sends it."""

    def delete_owed(self, owed: Owed) -> None:
        """Remove a leftover whose ledger record is final."""


class Lanes(Protocol):
    """The deliveries queue (lanes live, replay of one) and the backfill queue (lanes backfill, replay)."""

    def send(
        self, parcels: Sequence[Parcel], *, delays: Sequence[timedelta] | None = None
    ) -> Sequence[Parcel]:
        """Queue them, each on its lane, after its delay (≤ 15 min). Answers those not accepted."""


class Pages(Protocol):
    """The events queue, as fan_out sends itself the pages of a wide fan-out."""

    def send(self, page: RoutePage) -> bool:
        """False where the queue did not take it."""


# ── events and archive ───────────────────────────────────────────────────────────────────────────


class EventItems(Protocol):
    def routed(self, ids: Sequence[tuple[Scope, str]]) -> Mapping[tuple[Scope, str], EventItem]:
        """The events of these ids that were routed; consistent. Raises OwnFaultError where any is unread."""

    def put(self, items: Sequence[EventItem]) -> None:
        """Each conditional on being the first of its id; a later one changes nothing."""

    def claim(self, scope: Scope, event_id: str, *, body_hash: str, now: datetime) -> str:
        """Claim an id before it is enqueued. Answers the hash that holds it (the caller's, if it won)."""


class EventQueue(Protocol):
    """The events queue, as the API puts on it what it has accepted."""

    def send(self, texts: Sequence[str]) -> Sequence[int]:
        """Queue the events' JSON. Answers the positions of those that were not accepted."""


class Catalogue(Protocol):
    """The event types that the provider has listed, for all tenants."""

    def get(self, name: str) -> EventType | None: ...
    def all(self) -> Sequence[EventType]:
        """Every one in order of name, at most half a minute old."""

    def put(self, event_type: EventType) -> None: ...


class Schemas(Protocol):
    """JSON Schema, draft 2020-12; nothing is ever fetched."""

    def check_schema(self, schema: str) -> None:
        """Raises InvalidInputError (`invalid_schema`) for what is none, or refers to anything outside."""

    def check(self, schema: str, data: str, *, pointer: str) -> None:
        """Raises InvalidInputError (`schema_mismatch`) where the JSON text does not fit."""


class EventRules(Protocol):
    """What the catalogue asks of events, at most half a minute old."""

    def check(self, event_type: str, data: str) -> None:
        """Raises InvalidInputError (`schema_mismatch`) where the type is strict and its data does not fit."""


class EventBodies(Protocol):
    """The archive's one reader, for whom may not read its bytes himself."""

    def body(self, scope: Scope, pointer: ArchivePointer) -> bytes:
        """One event's bytes, of this tenant and mode alone. NotFoundError when they are gone."""


class Archive(Protocol):
    def put(self, events: Sequence[Event], *, now: datetime) -> Sequence[ArchivedEvent]:
        """Write the batch: one object, one index item per tenant and mode; answers in the order given."""

    def body(self, scope: Scope, pointer: ArchivePointer) -> bytes:
        """One event's bytes; checks tenant and mode inside the member. NotFoundError when it is gone."""

    def events(
        self, scope: Scope, *, start: datetime, until: datetime, after: Cursor | None = None
    ) -> Iterator[ArchivedEvent]:
        """Events archived in [start, until], in order of (archived_at, id), past the cursor."""

    def recent(self, scope: Scope, *, since: datetime, before: Cursor | None = None) -> Iterator[Listed]:
        """Newest first, from the index alone: no bytes read, and for INDEX_LIFE, however long those stay."""


# ── reaching out, secrets, telling ───────────────────────────────────────────────────────────────


class Sender(Protocol):
    """The one way out: vetted addresses, one deadline each, every fault an Answer."""

    def send(
        self, requests: Sequence[OutboundRequest], *, stop_at_seconds: float | None = None
    ) -> Sequence[Answer]:
        """All concurrently, answers in order. What cannot end within `stop_at_seconds` is out_of_time; what
        waits too long behind others of a slow endpoint is no_place."""


class Hosts(Protocol):
    """The look-up at registration: every address of a host, judged."""

    def fault(self, host: str, port: int) -> Fault | None:
        """What stands against the host: None, `blocked_address`, or a fault of the look-up."""


class Secrets(Protocol):
    def create(self, key: SubscriptionKey, secret: Secret, *, version: int, now: datetime) -> str:
        """Seal and store; answers the secret_ref `kms:<subscription>/versions/<n>`."""

    def retire(self, key: SubscriptionKey, secret_ref: str, *, until: datetime) -> None:
        """Let a replaced version sign beside its successor until then."""

    def signing(self, key: SubscriptionKey, secret_ref: str, *, now: datetime) -> Sequence[Secret]:
        """The present secret first, then those in their overlap. Raises SecretUnavailableError."""


class Contacts(Protocol):
    """Asks `contact` to reach an endpoint."""

    def challenge(self, key: SubscriptionKey, *, token: str) -> None: ...
    def test(self, key: SubscriptionKey, *, event_type: str, data: str) -> None: ...


class Rates(Protocol):
    """Counts by the clock's hour."""

    def take(self, name: str, *, most: int, now: datetime) -> bool:
        """Whether this one is within the hour's `most` of that name; it is counted if it is."""


class Notices(Protocol):
    def put(self, notice: Notice) -> bool:
        """False when a notice of this kind and dedupe exists."""

    def get(self, key: SubscriptionKey, notice_id: str) -> Notice | None: ...
    def claim(self, notice: Notice, *, by: str, now: datetime, lease: timedelta) -> bool:
        """Take an open notice that nobody holds (or whose lease ended) for sending."""

    def mark(self, notice: Notice) -> bool:
        """Write how a notice that `claimed_by` holds stands. What was closed stays as it was closed."""

    def mark_unheard(self, notice: Notice) -> bool:
        """Write status and mail_fault of a notice whose mail came back. False where it says so already."""

    def reopen(self, notice: Notice, *, now: datetime) -> bool:
        """Make a withheld notice, as read, pending and due now. False where it no longer stands as read."""

    def stuck(self, now: datetime, *, limit: int) -> Sequence[Notice]:
        """Open notices that nothing has sent for two minutes, across tenants (sweep alone)."""

    def of(self, key: SubscriptionKey, *, limit: int) -> Sequence[Notice]: ...


class Mailboxes(Protocol):
    """What is known of the addresses that notices go to; lower and upper case are one address."""

    def get(self, scope: Scope, address: str) -> Mailbox: ...
    def hold(self, mailbox: Mailbox, *, by: str, now: datetime, lease: timedelta) -> bool:
        """Be the one who writes to it: nobody else is, and no mail has gone out since it was read."""

    def release(self, mailbox: Mailbox) -> None:
        """Let others write to it, if `held_by` still holds it."""

    def count(self, mailbox: Mailbox, notices: Sequence[Notice], *, message_id: str) -> None:
        """The provider took a mail with these notices (at most MAX_IN_ONE_MAIL), in one transaction: each has
        its `message_id` and `sent_at`, the mailbox is as given, and `carried` knows the mail."""

    def carried(self, scope: Scope, message_id: str) -> Sequence[str]:
        """Ids of the notices that a mail told of; none of a mail that nobody counted."""

    def spoil(self, scope: Scope, address: str, fault: AddressFault, *, now: datetime) -> None:
        """The address is bad from now on."""


class NoticeQueue(Protocol):
    def send(self, scope: Scope, notice_ids: Sequence[str]) -> None:
        """Ask `notify` for these, which go to one address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One mail; subject lines take no user text."""

    to: str
    subject: str
    text: str
    html: str
    tags: Mapping[str, str] = field(default_factory=dict)


class MailRefusedError(Exception):
    """The provider will never take this mail (bad or suppressed address)."""


class MailDeferredError(Exception):
    """The provider did not take this mail now (rate, quota, time-out): try again."""


class Mailer(Protocol):
    def send(self, mail: Mail) -> str:
        """The provider's message id. Raises MailRefusedError or MailDeferredError."""


class OperatorBus(Protocol):
    def publish(self, detail_type: str, detail: Mapping[str, str]) -> None: ...


class Audit(Protocol):
    def put(self, record: AuditRecord) -> None: ...
    def of(
        self, scope: Scope, subject: str, *, limit: int, before: str | None = None
    ) -> Sequence[AuditRecord]:
        """A subject's records, newest first."""


class Access(Protocol):
    """Tenants and API keys. Keys are stored as SHA-256 alone."""

    def create_tenant(self, tenant: Tenant) -> bool: ...
    def tenant(self, tenant_id: str) -> Tenant | None: ...
    def tenants(self, *, limit: int, after: str | None = None) -> Sequence[Tenant]: ...
    def put_key(self, key: ApiKey) -> None: ...
    def key_by_hash(self, sha256: str) -> ApiKey | None: ...
    def keys_of(self, owner: str) -> Sequence[ApiKey]:
        """Those of a tenant, an application or the operators, as `ApiKey.owner` names them."""

    def revoke_key(self, owner: str, key_id: str, *, now: datetime) -> bool: ...
    def used(self, key: ApiKey, *, now: datetime) -> None:
        """Remember that the key was used, at most once an hour."""


class GatewayKeys(Protocol):
    """By what the gateway counts each owner's calls: one key an owner, on one usage plan."""

    def ensure(self, owner: str, *, plan: str) -> None:
        """The owner has its key, on that plan unless it is on one already. Said again, it changes nothing.

        Raises OwnFaultError: tried again, it goes on where it stopped.
        """


class Sessions(Protocol):
    """Sessions of the console, and the links that open them; reads are consistent."""

    def put_link(self, link: PortalLink) -> None: ...
    def link(self, sha256: str) -> PortalLink | None: ...
    def open_link(self, link: PortalLink, session: Session, *, now: datetime) -> bool:
        """Put the session and mark the link as used by it. False where it was used before, or is too old."""

    def put(self, session: Session) -> None: ...
    def get(self, sha256: str) -> Session | None: ...
    def act_for(self, session: Session, scope: Scope) -> bool:
        """Let the session see another tenant; False where it has been ended."""

    def end(self, sha256: str) -> None: ...


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A dead-letter queue, about how many messages lie in it, and whether they have a lane to go back to."""

    name: str
    count: int
    redrivable: bool


class DeadLetterQueues(Protocol):
    def depths(self) -> Sequence[DeadLetters]: ...
    def redrive(self, name: str, *, most: int) -> int:
        """Put up to so many messages back on their lane; answers how many went. KeyError for another name."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer kept under an Idempotency-Key, its secrets taken out; without a status it is in progress."""

    request_hash: str
    status_code: int | None = None
    body: str = ""


class Idempotency(Protocol):
    """Answers to POSTs, kept for 24 h. `owner` parts tenants: no key of one is ever another's."""

    def begin(self, owner: str, key: str, *, request_hash: str, now: datetime) -> KeptAnswer | None:
        """None where this call is the first (or the first's lease ended); else what is remembered."""

    def finish(self, owner: str, key: str, answer: KeptAnswer, *, now: datetime) -> None: ...
    def forget(self, owner: str, key: str) -> None:
        """The call came to nothing that must be kept: the key is free again."""


class RuntimeConfigs(Protocol):
    def current(self) -> RuntimeConfig:
        """The last good document, at most 30 s old; the mildest where none was ever good."""


class Ids(Protocol):
    def new(self, prefix: str) -> str:
        """`<prefix>_…`: unguessable and time-ordered."""
