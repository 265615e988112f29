"""An event is taken as its producer meant it, or refused with a reason; never anything between."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hookkeeper.domain import json_text
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.event import Event
from hookkeeper.domain.json_text import Json
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.event_in import MAX_BODY_BYTES, content_hash, parse_event, queue_text
from hypothesis import given, settings
from hypothesis import strategies as st

NOW = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
LIVE = Scope("ten_1", Mode.LIVE)


def parsed(raw: bytes | str, scope: Scope | None = LIVE, accepted_at: datetime = NOW) -> Event:
    return parse_event(raw, fallback_id="evt_fallback", accepted_at=accepted_at, scope=scope)


def refusal(raw: bytes | str, scope: Scope | None = LIVE) -> tuple[str, str]:
    with pytest.raises(InvalidInputError) as caught:
        parsed(raw, scope)
    return caught.value.code, caught.value.pointer


def test_the_body_is_standard_webhooks_and_keeps_every_number_to_the_digit() -> None:
    event = parsed(
        '{"type": "invoice.paid", "data": {"amount": 1.10, "big": 1180591620717411303425, "tiny": 1E-400,'
        ' "note": "caf\\u00e9 \\ud83d\\ude00", "zero": -0, "list": [true, null, 2.50]}}'
    )
    assert event.body.decode() == (
        '{"type":"invoice.paid","timestamp":"2026-12-01T09:30:00.000000Z","data":{"amount":1.10,'
        '"big":1180591620717411303425,"tiny":1E-400,"note":"café 😀","zero":-0,"list":[true,null,2.50]}}'
    )
    assert (event.id, event.type, event.scope) == ("evt_fallback", "invoice.paid", LIVE)


def test_occurred_at_is_the_timestamp_in_utc() -> None:
    event = parsed('{"type":"a","occurred_at":"2026-11-30T23:00:00.5-02:00","data":{}}')
    assert event.body == b'{"type":"a","timestamp":"2026-12-01T01:00:00.500000Z","data":{}}'


def test_a_queue_names_tenant_and_mode_and_live_is_meant_where_no_mode_is() -> None:
    event = parsed('{"tenant_id":"ten_9","mode":"test","id":"e-1","type":"a","data":{}}', scope=None)
    assert (event.scope, event.id) == (Scope("ten_9", Mode.TEST), "e-1")
    assert parsed('{"tenant_id":"ten_9","type":"a","data":{}}', scope=None).scope.mode is Mode.LIVE


def test_eventbridge_gives_type_id_and_time_by_its_envelope() -> None:
    envelope = {
        "version": "0",
        "id": "7bf73129-1428-4cd3-a780-95db273d1602",
        "detail-type": "invoice.paid",
        "source": "billing",
        "account": "123456789012",
        "time": "2026-12-01T08:00:00Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": {"tenant_id": "ten_9", "data": {"n": 1}},
    }
    event = parsed(json.dumps(envelope), scope=None)
    assert event.id == "7bf73129-1428-4cd3-a780-95db273d1602"
    assert event.body == b'{"type":"invoice.paid","timestamp":"2026-12-01T08:00:00.000000Z","data":{"n":1}}'
    named = envelope | {"detail": {"tenant_id": "ten_9", "id": "mine", "data": {}}}
    assert parsed(json.dumps(named), scope=None).id == "mine"


@pytest.mark.parametrize(
    "raw,code,pointer",
    [
        ("", "invalid_json", ""),
        ("[1", "invalid_json", ""),
        (b"\xff{}", "invalid_json", ""),
        ("[]", "wrong_type", ""),
        ("null", "wrong_type", ""),
        ('{"type":"a","data":{"n":NaN}}', "invalid_json", ""),
        ('{"type":"a","data":{"n":-Infinity}}', "invalid_json", ""),
        ('{"type":"a","data":{"a":1,"a":2}}', "duplicate_key", ""),
        ('{"type":"a","type":"b","data":{}}', "duplicate_key", ""),
        ('{"type":"a","data":{"x":"\\ud800"}}', "invalid_text", "/data/x"),
        ('{"type":"a","data":{"\\udfff":1}}', "invalid_text", "/data"),
        ('{"type":"a","data":' + '{"a":' * 32 + "1" + "}" * 33, "too_deep", ""),
        ('{"type":"a","data":' + "[" * 10_000 + "]" * 10_000 + "}", "too_deep", ""),
        ('{"type":"a","data":' + "[" * 100_000, "too_deep", ""),
        ('{"data":{}}', "missing", "/type"),
        ('{"type":"a"}', "missing", "/data"),
        ('{"type":"a","data":[]}', "wrong_type", "/data"),
        ('{"type":"a","data":{},"event_type":"a"}', "unknown_key", "/event_type"),
        ('{"type":"a","data":{},"tenant_id":"ten_2"}', "unknown_key", "/tenant_id"),
        ('{"type":"a","data":{},"mode":"test"}', "unknown_key", "/mode"),
        ('{"type":7,"data":{}}', "wrong_type", "/type"),
        ('{"type":"invoice.paid\\n","data":{}}', "invalid_event_type", "/type"),
        ('{"type":"ınvoice.paid","data":{}}', "invalid_event_type", "/type"),
        ('{"type":"a..b","data":{}}', "invalid_event_type", "/type"),
        ('{"id":"a.b","type":"a","data":{}}', "invalid_id", "/id"),
        ('{"id":"","type":"a","data":{}}', "invalid_id", "/id"),
        ('{"id":5,"type":"a","data":{}}', "wrong_type", "/id"),
        ('{"resource_id":"x#y","type":"a","data":{}}', "invalid_id", "/resource_id"),
        ('{"occurred_at":1700000000,"type":"a","data":{}}', "wrong_type", "/occurred_at"),
        ('{"occurred_at":"1700000000","type":"a","data":{}}', "invalid_time", "/occurred_at"),
        ('{"occurred_at":"2026-12-01T09:30:00","type":"a","data":{}}', "invalid_time", "/occurred_at"),
        ('{"occurred_at":"0001-01-01T00:00:00+14:00","type":"a","data":{}}', "invalid_time", "/occurred_at"),
        ('{"occurred_at":"2026-02-30T00:00:00Z","type":"a","data":{}}', "invalid_time", "/occurred_at"),
    ],
)  # fmt: skip
def test_whatever_is_loose_is_refused_with_a_code(raw: str | bytes, code: str, pointer: str) -> None:
    given_code, given_pointer = refusal(raw)
    assert given_code == code
    assert code == "too_deep" or given_pointer == pointer


@pytest.mark.parametrize(
    "raw,code,pointer",
    [
        ('{"type":"a","data":{}}', "missing", "/tenant_id"),
        ('{"tenant_id":"A#","type":"a","data":{}}', "invalid_id", "/tenant_id"),
        ('{"tenant_id":"a","mode":"prod","type":"a","data":{}}', "invalid_value", "/mode"),
        ('{"detail-type":"a","detail":null}', "wrong_type", "/detail"),
        (
            '{"detail-type":"a","detail":{"type":"b","tenant_id":"t","data":{}}}',
            "unknown_key",
            "/detail/type",
        ),
        ('{"detail-type":"A b","detail":{"tenant_id":"t","data":{}}}', "invalid_event_type", "/type"),
    ],
)
def test_a_queue_is_held_to_the_same_rules(raw: str, code: str, pointer: str) -> None:
    assert refusal(raw, scope=None) == (code, pointer)


def test_the_limit_is_256_kib_of_the_body_in_bytes() -> None:
    empty = len(parsed('{"type":"a","data":{"x":""}}').body)
    fits = "é" * ((MAX_BODY_BYTES - empty) // 2) + "x" * ((MAX_BODY_BYTES - empty) % 2)
    assert len(parsed(json.dumps({"type": "a", "data": {"x": fits}})).body) == MAX_BODY_BYTES
    assert refusal(json.dumps({"type": "a", "data": {"x": fits + "x"}})) == ("too_large", "/data")


def test_the_hash_tells_another_body_and_not_another_moment() -> None:
    one = parsed('{"id":"e","type":"a","data":{"n":1.10}}')
    spaced = parsed('{ "data": {"n": 1.10}, "id": "e", "type": "a"}', accepted_at=NOW + timedelta(days=1))
    assert content_hash(one) == content_hash(spaced)
    others = [
        '"type":"b","data":{"n":1.10}',
        '"type":"a","data":{"n":1.1}',
        '"type":"a","resource_id":"r","data":{"n":1.10}',
    ]
    assert content_hash(one) not in {content_hash(parsed(f"{{{other}}}")) for other in others}


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None)
@given(data=st.dictionaries(st.text(), _values), resource=st.none() | st.just("shop_7"))
def test_what_the_api_queues_becomes_the_same_event_again(
    data: dict[str, Json], resource: str | None
) -> None:
    told = {"id": "e", "type": "invoice.paid", "resource_id": resource, "data": data}
    event = parsed(json.dumps(told))
    assert parsed(queue_text(event), scope=None, accepted_at=NOW + timedelta(hours=1)) == event


@settings(max_examples=40, deadline=None)
@given(data=st.dictionaries(st.text(), _values))
def test_json_is_written_as_it_was_read(data: dict[str, Json]) -> None:
    assert json.loads(json_text.write(json_text.read(json.dumps(data)))) == data
