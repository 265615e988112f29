"""What travels by SQS, EventBridge and Step Functions: versioned, strict, only text and numbers."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hookkeeper.domain.delivery import Lane, Parcel
from hookkeeper.domain.event import ArchivePointer, RoutePage
from hookkeeper.domain.tenancy import DeliveryKey, Mode, Scope, SubscriptionKey

MAX_INLINE_BODY_BYTES = 64 * 1024
"""A larger body stays in the archive and travels by reference (SPEC §6)."""


class Message(BaseModel):
    """Strict and frozen; an unknown version fails and waits for the deploy that knows it (F54)."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    v: Literal[1] = 1


class PointerMessage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    object_key: str
    offset: int
    length: int
    line: int

    @classmethod
    def of(cls, pointer: ArchivePointer) -> "PointerMessage":
        return cls(
            object_key=pointer.object_key, offset=pointer.offset, length=pointer.length, line=pointer.line
        )

    def pointer(self) -> ArchivePointer:
        return ArchivePointer(
            object_key=self.object_key, offset=self.offset, length=self.length, line=self.line
        )


class DeliveryMessage(Message):
    """One delivery on the deliveries or backfill queue.

    `attempt` is the number the attempt would have; any other than the ledger's next is a duplicate.
    `body` is the exact text to send, absent where it is over 64 KiB and must be read from the archive.
    `recovery_id`, `generation` and `at` (the second this message is meant for) ride on backfill messages;
    `replay_id` on those asked for by hand. `not_before_at` is the moment a postponed message waits for.
    """

    kind: Literal["delivery"] = "delivery"
    tenant: str
    mode: Mode
    subscription_id: str
    event_id: str
    type: str
    resource_id: str | None = None
    archived_at: datetime
    pointer: PointerMessage
    attempt: Annotated[int, Field(ge=1)] = 1
    lane: Lane = Lane.LIVE
    body: str | None = None
    recovery_id: str | None = None
    generation: int | None = None
    at: datetime | None = None
    replay_id: str | None = None
    not_before_at: datetime | None = None

    @classmethod
    def of(cls, parcel: Parcel) -> "DeliveryMessage":
        subscription = parcel.key.subscription
        return cls(
            tenant=subscription.scope.tenant_id,
            mode=subscription.scope.mode,
            subscription_id=subscription.subscription_id,
            event_id=parcel.key.event_id,
            type=parcel.event_type,
            resource_id=parcel.resource_id,
            archived_at=parcel.archived_at,
            pointer=PointerMessage.of(parcel.pointer),
            attempt=parcel.attempt,
            lane=parcel.lane,
            body=parcel.body.decode() if parcel.body is not None else None,
            recovery_id=parcel.recovery_id,
            generation=parcel.generation,
            at=parcel.at,
            replay_id=parcel.replay_id,
            not_before_at=parcel.not_before_at,
        )

    def parcel(self) -> Parcel:
        scope = Scope(self.tenant, self.mode)
        return Parcel(
            key=DeliveryKey(SubscriptionKey(scope, self.subscription_id), self.event_id),
            event_type=self.type,
            archived_at=self.archived_at,
            pointer=self.pointer.pointer(),
            attempt=self.attempt,
            lane=self.lane,
            resource_id=self.resource_id,
            body=self.body.encode() if self.body is not None else None,
            recovery_id=self.recovery_id,
            generation=self.generation,
            at=self.at,
            replay_id=self.replay_id,
            not_before_at=self.not_before_at,
        )


class FanOutPage(Message):
    """A page of a wide fan-out that fan_out sends itself: it only enqueues, however late it comes."""

    kind: Literal["page"] = "page"
    tenant: str
    mode: Mode
    event_id: str
    type: str
    resource_id: str | None = None
    archived_at: datetime
    pointer: PointerMessage
    body: str | None = None
    subscription_ids: Annotated[list[str], Field(min_length=1, max_length=500)]

    @classmethod
    def of(cls, page: RoutePage) -> "FanOutPage":
        archived, event = page.archived, page.archived.event
        inline = len(event.body) <= MAX_INLINE_BODY_BYTES
        return cls(
            tenant=event.scope.tenant_id,
            mode=event.scope.mode,
            event_id=event.id,
            type=event.type,
            resource_id=event.resource_id,
            archived_at=archived.archived_at,
            pointer=PointerMessage.of(archived.pointer),
            body=event.body.decode() if inline else None,
            subscription_ids=list(page.subscription_ids),
        )

    def parcels(self) -> list[Parcel]:
        """The page's deliveries, each for the deliveries queue."""
        scope = Scope(self.tenant, self.mode)
        return [
            Parcel(
                key=DeliveryKey(SubscriptionKey(scope, subscription_id), self.event_id),
                event_type=self.type,
                archived_at=self.archived_at,
                pointer=self.pointer.pointer(),
                resource_id=self.resource_id,
                body=self.body.encode() if self.body is not None else None,
            )
            for subscription_id in self.subscription_ids
        ]


def is_page(text: str) -> bool:
    """Whether a message of the events queue is a page of ours; an event has no `kind`."""
    return text.startswith('{"v":') and '"kind":"page"' in text[:40]


class ContactMessage(Message):
    """Asks `contact` to reach an endpoint: a challenge (its token travels only here) or a test event."""

    kind: Literal["challenge", "test"]
    tenant: str
    mode: Mode
    subscription_id: str
    token: str | None = None
    staged: bool = False
    event_type: str | None = None
    data: str | None = None


class NoticeMessage(Message):
    """Asks `notify` to tell open notices, which go to one address."""

    kind: Literal["notices"] = "notices"
    tenant: str
    mode: Mode
    notice_ids: Annotated[list[str], Field(min_length=1, max_length=500)]


class ReadEvent(Message):
    """Asks `recover` for one event's bytes; it answers with an EventBody."""

    action: Literal["read_event"] = "read_event"
    tenant: str
    mode: Mode
    pointer: PointerMessage

    def scope(self) -> Scope:
        return Scope(self.tenant, self.mode)


class EventBody(Message):
    """An event's body, None where the archive no longer has it."""

    body: str | None


class RecoveryState(BaseModel):
    """The whole state of one recovery execution; each task returns it with `next` set.

    An operator starts one with tenant, mode and subscription_id alone. `resume` False only asks the endpoint.
    `execution` is the ARN of who asks and `retried` how often this task was, both added by the state machine
    to what every task gets; `history` is about how many events the execution has by now.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    tenant: str
    mode: Mode
    subscription_id: str
    kind: Literal["reenable", "automatic", "replay"] = "reenable"
    recovery_id: str | None = None
    generation: int | None = None
    probe: bool | None = None
    resume: bool = True
    backfill: bool = True
    rate: Annotated[float, Field(gt=0, le=1000)] | None = None
    execution: str | None = None
    actor: str = "step-functions"
    source_ip: str | None = None
    nonce: str | None = None
    passed: bool | None = None
    status_code: int | None = None
    error: str | None = None
    retried: int = 0
    history: int = 0
    next: Literal["probe", "activate", "slice", "wait", "continue", "end"] | None = None
    wait_seconds: int = 0

    def key(self) -> SubscriptionKey:
        return SubscriptionKey(Scope(self.tenant, self.mode), self.subscription_id)
