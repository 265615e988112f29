"""The archive gives back every byte to its own tenant, in one order, whoever wrote at the same time."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.domain.errors import NotFoundError, OwnFaultError
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.ports import Archive

from tests.builders import HOUR, NOW, a_scope, an_event
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.sizes import size_bytes
from tests.fakes import FakeArchive, World
from tests.faults import counted, refuse

SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
BUCKET = "archive"


def the_adapter(aws: Aws) -> S3Archive:
    aws.client("s3").create_bucket(Bucket=BUCKET)
    return S3Archive(
        aws.client("s3"),
        aws.client("dynamodb"),
        bucket=BUCKET,
        events_table=aws.table("Events"),
        backoff=AT_ONCE,
        clock=lambda: NOW + HOUR,
    )


@pytest.fixture(params=["fake", "s3"])
def archive(request: pytest.FixtureRequest, world: World) -> Archive:
    return FakeArchive(world) if request.param == "fake" else the_adapter(request.getfixturevalue("aws"))


@pytest.fixture
def adapter(aws: Aws) -> S3Archive:
    return the_adapter(aws)


def ids(archive: Archive, *, start: datetime = NOW - HOUR, until: datetime = NOW + HOUR) -> list[str]:
    return [found.event.id for found in archive.events(a_scope(), start=start, until=until)]


def number(n: int) -> str:
    return an_event(n).id


def test_what_is_put_is_answered_in_the_order_given_each_within_a_millisecond_of_now(
    archive: Archive,
) -> None:
    other = a_scope("other")
    events = [an_event(3), an_event(1, scope=other), an_event(2)]
    archived = archive.put(events, now=NOW)
    assert [found.event for found in archived] == events
    assert all(NOW <= found.archived_at < NOW + timedelta(milliseconds=1) for found in archived)


def test_nothing_put_is_nothing_written(archive: Archive) -> None:
    assert list(archive.put([], now=NOW)) == []
    assert ids(archive) == []


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"a":  1.50 ,\t"b":"\\u00e9\\n"}',
        '{"name":"Zoë \u2028 \U0001f980 \x7f \uffff"}'.encode(),
        b'{"quotes":"' + b'\\"' * 50_000 + b'"}',
    ],
    ids=["empty", "spaces and escapes", "all of unicode", "large"],
)
def test_a_body_comes_back_byte_for_byte(archive: Archive, body: bytes) -> None:
    first, second = archive.put([an_event(1), an_event(2, body=body)], now=NOW)
    assert archive.body(a_scope(), second.pointer) == body
    assert archive.body(a_scope(), first.pointer) == first.event.body
    assert [found.event.body for found in archive.events(a_scope(), start=NOW, until=NOW + SECOND)] == [
        first.event.body,
        body,
    ]


def test_events_come_with_all_that_was_archived(archive: Archive) -> None:
    put = archive.put([an_event(1, resource_id="r_1"), an_event(2, type="order.created")], now=NOW)
    assert list(archive.events(a_scope(), start=NOW, until=NOW + SECOND)) == list(put)


@pytest.mark.parametrize("foreign", [a_scope("other"), a_scope(mode=Mode.TEST)], ids=["tenant", "mode"])
def test_neither_another_tenant_nor_the_other_mode_reads_a_byte(archive: Archive, foreign: Scope) -> None:
    mine, theirs = archive.put([an_event(1), an_event(1, scope=foreign)], now=NOW)
    with pytest.raises(NotFoundError):
        archive.body(a_scope(), theirs.pointer)
    with pytest.raises(NotFoundError):
        archive.body(theirs.event.scope, mine.pointer)
    assert [e.event.scope for e in archive.events(a_scope(), start=NOW, until=NOW + SECOND)] == [a_scope()]
    assert len(list(archive.recent(theirs.event.scope, since=NOW - HOUR))) == 1


def test_a_window_holds_both_its_ends(archive: Archive) -> None:
    for n in range(5):
        archive.put([an_event(n)], now=NOW + n * SECOND)
    assert ids(archive, start=NOW + SECOND, until=NOW + 3 * SECOND) == [number(1), number(2), number(3)]


def test_events_of_overlapping_batches_come_in_one_order(archive: Archive) -> None:
    batches = [range(10), range(100, 120), range(50, 55)]
    for start, batch in zip((NOW, NOW + 3 * TICK, NOW - 2 * TICK), batches, strict=True):
        archive.put([an_event(n) for n in batch], now=start)
    found = list(archive.events(a_scope(), start=NOW - SECOND, until=NOW + SECOND))
    places = [Cursor(archived_at=event.archived_at, event_id=event.event.id) for event in found]
    assert len(places) == 35
    assert places == sorted(places)


def test_recent_is_in_order_over_overlapping_batches_too(archive: Archive) -> None:
    for start, batch in zip(
        (NOW, NOW + 3 * TICK, NOW + 6 * TICK), (range(20), range(30, 33), [40]), strict=True
    ):
        archive.put([an_event(n) for n in batch], now=start)
    found = [each.place for each in archive.recent(a_scope(), since=NOW - HOUR)]
    assert len(found) == 24
    assert found == sorted(found, reverse=True)


def test_a_cursor_divides_the_archive_at_every_place_without_loss_or_repeat(archive: Archive) -> None:
    for start in (NOW, NOW + 2 * TICK, NOW + 2 * TICK):
        archive.put([an_event(n) for n in range(3)], now=start)
    whole = list(archive.events(a_scope(), start=NOW, until=NOW + SECOND))
    for place, event in enumerate(whole):
        cursor = Cursor(archived_at=event.archived_at, event_id=event.event.id)
        rest = list(archive.events(a_scope(), start=NOW, until=NOW + SECOND, after=cursor))
        assert [e.event.id for e in rest] == [
            e.event.id for e in whole if Cursor(archived_at=e.archived_at, event_id=e.event.id) > cursor
        ], place


def test_events_are_found_over_the_turns_of_hours_and_days(archive: Archive) -> None:
    midnight = NOW.replace(hour=0)
    moments = [
        midnight - 2 * HOUR,
        midnight - 2 * TICK,
        midnight,
        midnight + HOUR - TICK,
        midnight + 3 * HOUR,
    ]
    for n, moment in enumerate(moments):
        archive.put([an_event(10 * n), an_event(10 * n + 1), an_event(10 * n + 2)], now=moment)
    found = ids(archive, start=midnight - 2 * HOUR, until=midnight + 4 * HOUR)
    assert found == [number(10 * n + m) for n in range(5) for m in range(3)]


def test_recent_goes_backwards_from_its_place_with_each_events_type_and_resource(archive: Archive) -> None:
    for n in range(4):
        batch = [an_event(2 * n, type="a.b"), an_event(2 * n + 1, type="c", resource_id="r_1")]
        archive.put(batch, now=NOW - n * HOUR)
    everything = list(archive.recent(a_scope(), since=NOW - 2 * HOUR))
    places = [each.place for each in everything]
    assert places == sorted(places, reverse=True)
    assert {(each.place.event_id, each.event_type, each.resource_id) for each in everything} == {
        (number(n), "c", "r_1") if n % 2 else (number(n), "a.b", None) for n in range(6)
    }
    before = places[2]
    assert list(archive.recent(a_scope(), since=NOW - 2 * HOUR, before=before)) == everything[3:]


def test_recent_from_a_place_in_the_far_future_reads_no_more_of_the_index_than_from_now(
    aws: Aws, adapter: S3Archive
) -> None:
    """Who asks for everything up to the year 9999 does not ask for 70 million hours."""
    adapter.put([an_event()], now=NOW)
    since, far = NOW - 2 * HOUR, datetime(9999, 12, 31, tzinfo=UTC)
    calls = counted(aws.client("dynamodb"))
    everything = list(adapter.recent(a_scope(), since=since))
    up_to_now = calls.copy()
    assert list(adapter.recent(a_scope(), since=since, before=Cursor(far, number(1)))) == everything != []
    assert calls == up_to_now + up_to_now


def test_an_object_that_is_gone_is_not_found(aws: Aws, adapter: S3Archive) -> None:
    (archived,) = adapter.put([an_event()], now=NOW)
    aws.client("s3").delete_object(Bucket=BUCKET, Key=archived.pointer.object_key)
    with pytest.raises(NotFoundError):
        adapter.body(a_scope(), archived.pointer)


def test_each_event_of_a_batch_has_its_own_moment(adapter: S3Archive) -> None:
    archived = adapter.put([an_event(n) for n in range(50, 0, -1)], now=NOW)
    assert [event.archived_at for event in archived] == [NOW + n * TICK for n in range(50)]


def test_a_batch_is_one_object_of_a_readable_member_per_tenant_and_mode(aws: Aws, adapter: S3Archive) -> None:
    scopes = [a_scope(), a_scope("other"), a_scope(mode=Mode.TEST)]
    calls = counted(aws.client("s3")), counted(aws.client("dynamodb"))
    archived = adapter.put([an_event(n, scope=scopes[n % 3]) for n in range(30)], now=NOW)
    assert calls == ({"PutObject": 1}, {"BatchWriteItem": 1})
    (stored,) = aws.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    body = aws.client("s3").get_object(Bucket=BUCKET, Key=stored["Key"])["Body"].read()
    lines = gzip.decompress(body).split(b"\n")
    assert len(lines) == 30 - 2  # members end without a newline
    pointer = archived[4].pointer
    member = gzip.decompress(body[pointer.offset : pointer.offset + pointer.length]).split(b"\n")
    envelope = json.loads(member[pointer.line])
    assert (envelope["tenant"], envelope["mode"], envelope["id"]) == ("other", "live", number(4))
    assert stored["Key"].startswith("events/")


def test_a_members_second_body_costs_no_second_read(aws: Aws, adapter: S3Archive) -> None:
    archived = adapter.put([an_event(n) for n in range(10)], now=NOW)
    calls = counted(aws.client("s3"))
    for event in archived:
        assert adapter.body(a_scope(), event.pointer) == event.event.body
    assert calls == {"GetObject": 1}


def test_a_reader_takes_its_own_tenants_bytes_alone(aws: Aws, adapter: S3Archive) -> None:
    archived = adapter.put([an_event(1, scope=a_scope("big"), body=b"x" * 200_000), an_event(2)], now=NOW)
    taken: list[str] = []

    def note(params: dict[str, dict[str, str]], **_: object) -> None:
        taken.append(params["headers"]["Range"])

    aws.client("s3").meta.events.register("before-call.s3.GetObject", note)
    list(adapter.events(a_scope(), start=NOW, until=NOW + SECOND))
    pointer = archived[1].pointer
    assert taken == [f"bytes={pointer.offset}-{pointer.offset + pointer.length - 1}"]


def test_a_pointer_bent_to_anothers_member_is_refused(adapter: S3Archive) -> None:
    mine, theirs = adapter.put([an_event(1), an_event(2, scope=a_scope("other"))], now=NOW)
    bent = replace(mine.pointer, offset=theirs.pointer.offset, length=theirs.pointer.length)
    with pytest.raises(NotFoundError):
        adapter.body(a_scope(), bent)


def test_an_index_that_is_refused_for_a_while_is_written_in_the_end(aws: Aws, adapter: S3Archive) -> None:
    refuse(aws.client("dynamodb"), "BatchWriteItem", code="ProvisionedThroughputExceededException", times=3)
    adapter.put([an_event(1)], now=NOW)
    assert ids(adapter) == [number(1)]


def test_a_batch_whose_index_is_refused_for_good_was_not_archived(aws: Aws, adapter: S3Archive) -> None:
    refuse(aws.client("dynamodb"), "BatchWriteItem", code="ThrottlingException", times=99)
    with pytest.raises(OwnFaultError):
        adapter.put([an_event(1)], now=NOW)


def test_a_batch_that_s3_refuses_leaves_no_index(aws: Aws, adapter: S3Archive) -> None:
    refuse(aws.client("s3"), "PutObject", code="SlowDown")
    with pytest.raises(aws.client("s3").exceptions.ClientError):
        adapter.put([an_event(1)], now=NOW)
    assert aws.items("Events") == []


def test_nothing_is_read_before_it_is_wanted(aws: Aws, adapter: S3Archive) -> None:
    for n in range(20):
        adapter.put([an_event(n)], now=NOW + n * SECOND)
    calls = counted(aws.client("s3"))
    events = adapter.events(a_scope(), start=NOW, until=NOW + HOUR)
    for _ in range(3):
        next(events)
    assert calls["GetObject"] <= 4


def test_a_hundred_events_cost_ten_write_units_of_index_at_most(aws: Aws, adapter: S3Archive) -> None:
    adapter.put([an_event(n, type=f"invoice.line_{n % 7}.added") for n in range(100)], now=NOW)
    (item,) = aws.items("Events")
    assert size_bytes(item) <= 10 * 1024
    assert int(item["ttl"]["N"]) > (NOW + 16 * 24 * HOUR).timestamp()
