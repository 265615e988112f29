"""The catalogue says what is emitted; what it calls strict is held to its schema, and nothing is fetched."""

import json
from typing import Any

import pytest
from hookkeeper.adapters.jsonschema_schemas import CatalogueRules, JsonSchemas
from hookkeeper.domain.access import HOUSE
from hookkeeper.domain.catalogue import EventType, matched, warnings
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.usecases.catalogue import list_event_type

from tests.builders import ACTOR, NOW
from tests.fakes import FakeAudit, FakeCatalogue, FakeIds, World

SCHEMA = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "number", "minimum": 0}, "lines": {"items": {"type": "string"}}},
}


def listed(world: World, name: str = "invoice.paid", **told: Any) -> EventType:
    given: dict[str, Any] = {"description": "", "json_schema": None, "example": None, "strict": False} | told
    for field in ("json_schema", "example"):
        if given[field] is not None:
            given[field] = json.dumps(given[field])
    return list_event_type(
        name,
        **given,
        actor=ACTOR,
        now=NOW,
        catalogue=FakeCatalogue(world),
        schemas=JsonSchemas(),
        audit=FakeAudit(world),
        ids=FakeIds(world),
    )


def an_entry(name: str) -> EventType:
    return EventType(name=name, description="", updated_at=NOW)


def test_an_entry_is_audited_with_what_it_said_before() -> None:
    world = World()
    listed(world, description="once")
    listed(world, description="twice", json_schema=SCHEMA, example={"amount": 1}, strict=True)
    first, second = sorted(world.audit.values(), key=lambda record: record.id)
    assert (second.scope, second.subject, second.actor) == (HOUSE, "type:invoice.paid", ACTOR)
    assert (first.before, second.before["description"], second.after["description"]) == ({}, "once", "twice")
    assert second.after["strict"] == "True"


@pytest.mark.parametrize(
    "told,code,pointer",
    [
        ({"name": "a..b"}, "invalid_event_type", ""),
        ({"json_schema": {"type": "strange"}}, "invalid_schema", "/json_schema"),
        ({"json_schema": {"$ref": "https://evil.example/schema"}}, "invalid_schema", "/json_schema"),
        ({"json_schema": {"allOf": [{"$ref": "file:///etc/passwd"}]}}, "invalid_schema", "/json_schema"),
        ({"json_schema": SCHEMA, "example": {"amount": -1}}, "schema_mismatch", "/example/amount"),
        ({"json_schema": SCHEMA, "example": {}}, "schema_mismatch", "/example"),
        ({"strict": True}, "schema_needed", "/json_schema"),
        ({"description": "x" * 2001}, "too_long", "/description"),
        ({"example": {"x": "x" * 65536}}, "too_large", "/example"),
    ],
)
def test_what_cannot_be_listed_is_told(told: dict[str, Any], code: str, pointer: str) -> None:
    world = World()
    with pytest.raises(InvalidInputError) as caught:
        listed(world, **told)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
    assert world.catalogue == {}


def test_a_reference_within_the_schema_is_fine() -> None:
    schema = {"$defs": {"money": {"type": "number"}}, "properties": {"amount": {"$ref": "#/$defs/money"}}}
    listed(World(), json_schema=schema, example={"amount": 1.5})


# ── at ingest ────────────────────────────────────────────────────────────────────────────────────


def rules(world: World, moments: list[float]) -> CatalogueRules:
    return CatalogueRules(FakeCatalogue(world), monotonic=lambda: moments[0])


def test_a_strict_type_s_events_fit_its_schema_or_are_refused_by_place_and_rule() -> None:
    world, moments = World(), [0.0]
    listed(world, json_schema=SCHEMA, strict=True)
    checked = rules(world, moments)
    checked.check("invoice.paid", '{"amount":1.10,"more":true}')
    for data, pointer in (
        ('{"amount":"4111111111111111"}', "/data/amount"),
        ("{}", "/data"),
        ('{"amount":1,"lines":["a",2]}', "/data/lines/1"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            checked.check("invoice.paid", data)
        assert (caught.value.code, caught.value.pointer) == ("schema_mismatch", pointer)
        assert "4111111111111111" not in caught.value.detail, "T63: never the value"


def test_what_is_not_strict_or_not_listed_passes() -> None:
    world, moments = World(), [0.0]
    listed(world, json_schema=SCHEMA)
    for event_type in ("invoice.paid", "never.listed"):
        rules(world, moments).check(event_type, "{}")


def test_an_entry_is_read_once_in_half_a_minute_whether_it_is_there_or_not() -> None:
    world, moments = World(), [0.0]
    reads: list[str] = []
    world.before_call = reads.append
    checked = rules(world, moments)
    for _ in range(10):
        checked.check("invoice.paid", "{}")
    assert reads == ["Catalogue.get"]
    listed(world, json_schema=SCHEMA, strict=True)
    moments[0] = 29.9
    checked.check("invoice.paid", "{}")
    moments[0] = 30
    with pytest.raises(InvalidInputError):
        checked.check("invoice.paid", "{}")


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────


def test_a_pattern_that_matches_nothing_is_warned_of_once_anything_is_listed() -> None:
    catalogue = [an_entry("invoice.paid"), an_entry("invoice.line.added")]
    assert warnings(["invoice.*", "order.*", "*", "invoice"], catalogue) == [
        "order.* matches no event type of the catalogue",
        "invoice matches no event type of the catalogue",
    ]
    assert warnings(["order.*"], []) == []
    assert [each.name for each in matched("invoice.line.*", catalogue)] == ["invoice.line.added"]
