"""The archive: every event's exact bytes in S3, one object per batch, found again through the Events table.

An object is gzip members end to end, one per tenant and mode, each NDJSON. An index item per member tells
a reader where its own tenant's bytes are and what they hold; tenant and mode stand inside and are checked.
"""

import gzip
import json
import secrets
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from cachetools import LRUCache

from hookkeeper.adapters.dynamodb import (
    Backoff,
    Item,
    batch_put,
    decoded,
    encoded,
    error_code,
    expiry,
    micros,
    moment,
    pages,
    prefix,
)
from hookkeeper.domain.errors import NotFoundError, OwnFaultError
from hookkeeper.domain.event import ArchivedEvent, ArchivePointer, Event
from hookkeeper.domain.recovery import INDEX_LIFE, Cursor, Listed
from hookkeeper.domain.tenancy import Scope

CACHED_BYTES = 32 * 1024 * 1024
LEVEL = 3
"""gzip's: a third of the default's time for a tenth more bytes."""

HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)
LONGEST_MEMBER = timedelta(seconds=1)
"""More than the archived_at of one batch can span: a microsecond an event."""


class S3Archive:
    """`now` stamps a batch's first event, and each that follows a microsecond later: no two are alike.

    Who reads bodies alone needs no table. `clock` says where `recent` begins when nobody says a place.
    """

    def __init__(
        self,
        s3: Any,
        dynamodb: Any,
        *,
        bucket: str,
        events_table: str = "",
        backoff: Backoff | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._s3 = s3
        self._dynamodb = dynamodb
        self._bucket = bucket
        self._table = events_table
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._members = LRUCache[tuple[str, int], list[bytes]](CACHED_BYTES, getsizeof=_size)
        self._lock = threading.Lock()

    def put(self, events: Sequence[Event], *, now: datetime) -> Sequence[ArchivedEvent]:
        if not events:
            return []
        object_key = f"events/{_hour(now)}/{secrets.token_urlsafe(12)}"
        stamped = [(event, now + place * TICK) for place, event in enumerate(events)]
        body = b""
        members: list[_Member] = []
        for scope in dict.fromkeys(event.scope for event in events):
            mine = [(event, at) for event, at in stamped if event.scope == scope]
            packed = gzip.compress(b"\n".join(_line(event, at) for event, at in mine), LEVEL, mtime=0)
            entries = tuple(_listed(event, at) for event, at in mine)
            members.append(_Member(scope, object_key, len(body), len(packed), entries))
            body += packed
        self._s3.put_object(Bucket=self._bucket, Key=object_key, Body=body)
        if batch_put(self._dynamodb, self._table, list(map(_index_item, members)), self._backoff):
            raise OwnFaultError(f"{object_key} is not in the index")
        lines = {member.scope: iter(member.pointers()) for member in members}
        return [
            ArchivedEvent(event=event, archived_at=at, pointer=next(lines[event.scope]))
            for event, at in stamped
        ]

    def body(self, scope: Scope, pointer: ArchivePointer) -> bytes:
        lines = self._lines(pointer.object_key, pointer.offset, pointer.length)
        return _archived(scope, pointer, lines[pointer.line]).event.body

    def events(
        self, scope: Scope, *, start: datetime, until: datetime, after: Cursor | None = None
    ) -> Iterator[ArchivedEvent]:
        begin = max(start, after.archived_at) if after else start
        pending: list[ArchivedEvent] = []
        for member in self._index(scope, begin, until):
            while pending and pending[0].archived_at < member.first_at:
                yield pending.pop(0)
            wanted = [
                event
                for event in self._read(member)
                if begin <= event.archived_at <= until and (after is None or _place(event) > after)
            ]
            pending = sorted(pending + wanted, key=_place)
        yield from pending

    def recent(self, scope: Scope, *, since: datetime, before: Cursor | None = None) -> Iterator[Listed]:
        now = self._clock()
        until = min(before.archived_at, now) if before else now
        pending: list[Listed] = []
        for member in self._index(scope, since, until, newest_first=True):
            while pending and pending[-1].place.archived_at > member.first_at + LONGEST_MEMBER:
                yield pending.pop()
            wanted = [
                entry
                for entry in member.entries
                if since <= entry.place.archived_at and (before is None or entry.place < before)
            ]
            pending = sorted(pending + wanted, key=lambda entry: entry.place)
        yield from reversed(pending)

    def _index(
        self, scope: Scope, start: datetime, until: datetime, *, newest_first: bool = False
    ) -> "Iterator[_Member]":
        """The members that hold anything of [start, until], in order of their first event."""
        earliest = start - LONGEST_MEMBER
        hours = _hours(earliest, until)
        for hour in reversed(hours) if newest_first else hours:
            for page in pages(
                self._dynamodb,
                TableName=self._table,
                KeyConditionExpression="pk = :pk AND sk BETWEEN :earliest AND :latest",
                ExpressionAttributeValues=encoded(
                    {
                        ":pk": f"{prefix(scope)}idx#{hour}",
                        ":earliest": f"{micros(earliest):016d}",
                        ":latest": f"{micros(until) + 1:016d}",
                    }
                ),
                ConsistentRead=True,
                ScanIndexForward=not newest_first,
            ):
                for item in page:
                    member = _member(scope, item)
                    if member.last_at >= start:
                        yield member

    def _read(self, member: "_Member") -> list[ArchivedEvent]:
        lines = self._lines(member.object_key, member.offset, member.length)
        return [
            _archived(member.scope, pointer, line)
            for pointer, line in zip(member.pointers(), lines, strict=True)
        ]

    def _lines(self, object_key: str, offset: int, length: int) -> list[bytes]:
        with self._lock:
            cached = self._members.get((object_key, offset))
        if cached is not None:
            return cached
        lines = gzip.decompress(self._bytes(object_key, offset, length)).split(b"\n")
        if _size(lines) <= CACHED_BYTES // 2:
            with self._lock:
                self._members[object_key, offset] = lines
        return lines

    def _bytes(self, object_key: str, offset: int, length: int) -> bytes:
        try:
            answer = self._s3.get_object(
                Bucket=self._bucket, Key=object_key, Range=f"bytes={offset}-{offset + length - 1}"
            )
        except ClientError as error:
            if error_code(error) != "NoSuchKey":
                raise
            raise NotFoundError("archived event", object_key) from error
        return bytes(answer["Body"].read())


@dataclass(frozen=True, slots=True)
class _Member:
    """Where one tenant's part of an object lies, and each event in it, in order."""

    scope: Scope
    object_key: str
    offset: int
    length: int
    entries: tuple[Listed, ...]

    @property
    def first_at(self) -> datetime:
        return self.entries[0].place.archived_at

    @property
    def last_at(self) -> datetime:
        return self.entries[-1].place.archived_at

    def pointers(self) -> list[ArchivePointer]:
        return [
            ArchivePointer(object_key=self.object_key, offset=self.offset, length=self.length, line=line)
            for line in range(len(self.entries))
        ]


def _index_item(member: _Member) -> Item:
    types = list(dict.fromkeys(entry.event_type for entry in member.entries))
    first = micros(member.first_at)
    entries = [
        [
            entry.place.event_id,
            types.index(entry.event_type),
            micros(entry.place.archived_at) - first,
            *([entry.resource_id] if entry.resource_id is not None else []),
        ]
        for entry in member.entries
    ]
    return encoded(
        {
            "pk": f"{prefix(member.scope)}idx#{_hour(member.first_at)}",
            "sk": f"{first:016d}#{member.object_key.rpartition('/')[2]}",
            "object": member.object_key,
            "offset": member.offset,
            "length": member.length,
            "count": len(entries),
            "types": types,
            "first_at": first,
            "last_at": micros(member.last_at),
            "entries": zlib.compress(json.dumps(entries, separators=(",", ":")).encode()),
            "ttl": expiry(member.last_at, INDEX_LIFE),
        }
    )


def _member(scope: Scope, item: Item) -> _Member:
    values = decoded(item)
    entries = tuple(
        Listed(
            Cursor(archived_at=moment(values["first_at"] + offset), event_id=event_id),
            values["types"][type_number],
            *resource,
        )
        for event_id, type_number, offset, *resource in json.loads(zlib.decompress(values["entries"]))
    )
    return _Member(scope, values["object"], values["offset"], values["length"], entries)


def _listed(event: Event, archived_at: datetime) -> Listed:
    return Listed(Cursor(archived_at=archived_at, event_id=event.id), event.type, event.resource_id)


def _line(event: Event, archived_at: datetime) -> bytes:
    envelope = {
        "tenant": event.scope.tenant_id,
        "mode": event.scope.mode,
        "id": event.id,
        "type": event.type,
        "resource_id": event.resource_id,
        "archived_at": micros(archived_at),
        "body": event.body.decode(),
    }
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()


def _archived(scope: Scope, pointer: ArchivePointer, line: bytes) -> ArchivedEvent:
    """The event of a line. Raises NotFoundError where it is another tenant's or mode's."""
    envelope = json.loads(line)
    if (envelope["tenant"], envelope["mode"]) != (scope.tenant_id, scope.mode):
        raise NotFoundError("archived event", pointer.object_key)
    event = Event(
        scope=scope,
        id=envelope["id"],
        type=envelope["type"],
        body=envelope["body"].encode(),
        resource_id=envelope["resource_id"],
    )
    return ArchivedEvent(event=event, archived_at=moment(envelope["archived_at"]), pointer=pointer)


def _place(event: ArchivedEvent) -> Cursor:
    return Cursor(archived_at=event.archived_at, event_id=event.event.id)


def _hour(at: datetime) -> str:
    return f"{at:%Y%m%d%H}"


def _hours(start: datetime, until: datetime) -> list[str]:
    first = start.replace(minute=0, second=0, microsecond=0)
    return [_hour(first + n * HOUR) for n in range((until - first) // HOUR + 1)] if until >= first else []


def _size(lines: list[bytes]) -> int:
    return sum(map(len, lines))
