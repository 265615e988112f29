"""Every route of the API by every right, kind of key and foreign id, made from the route table itself.

A route that is new fails here until it is written down what it asks for.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hookkeeper.domain.access import APPLICATION_RIGHTS, TENANT_RIGHTS, KeyKind, Right
from hookkeeper.domain.tenancy import Mode

from tests.builders import (
    a_delivered,
    a_delivery_key,
    a_key,
    a_recovery,
    a_scope,
    a_subscription,
    a_tenant,
    an_api_key,
    an_event_item,
)
from tests.functions.api_bench import ENVIRONMENT, Answer, Bench
from tests.functions.cold import cold_start

READ, WRITE = Right.SUBSCRIPTIONS_READ, Right.SUBSCRIPTIONS_WRITE
DELIVERIES, REPLAY = Right.DELIVERIES_READ, Right.DELIVERIES_REPLAY
EMIT, OPERATE = Right.EVENTS_WRITE, Right.OPERATE

NEW = {
    "endpoint_url": "https://hooks.customer-test.com/in",
    "event_types": ["a.*"],
    "owner_email": "o@customer-test.com",
}

ROUTES: dict[str, tuple[Right | None, Any]] = {
    "GET /healthz": (None, None),
    "GET /openapi.json": (None, None),
    "POST /v1/subscriptions": (WRITE, NEW),
    "GET /v1/subscriptions": (READ, None),
    "GET /v1/subscriptions/<subscription_id>": (READ, None),
    "PATCH /v1/subscriptions/<subscription_id>": (WRITE, {"description": "mine"}),
    "PUT /v1/subscriptions/<subscription_id>": (WRITE, {"enabled": False}),
    "DELETE /v1/subscriptions/<subscription_id>": (WRITE, None),
    "POST /v1/subscriptions/<subscription_id>/verify": (WRITE, {"challenge": "x"}),
    "POST /v1/subscriptions/<subscription_id>/verification": (WRITE, None),
    "POST /v1/subscriptions/<subscription_id>/pause": (WRITE, None),
    "POST /v1/subscriptions/<subscription_id>/reenable": (WRITE, None),
    "POST /v1/subscriptions/<subscription_id>/rotate-secret": (WRITE, None),
    "POST /v1/subscriptions/<subscription_id>/test": (WRITE, None),
    "POST /v1/subscriptions/<subscription_id>/maintenance": (WRITE, {"until": None}),
    "GET /v1/subscriptions/<subscription_id>/audit": (READ, None),
    "GET /v1/subscriptions/<subscription_id>/audit/export": (READ, None),
    "GET /v1/subscriptions/<subscription_id>/deliveries": (DELIVERIES, None),
    "GET /v1/subscriptions/<subscription_id>/recoveries": (READ, None),
    "POST /v1/subscriptions/<subscription_id>/recoveries": (REPLAY, None),
    "GET /v1/subscriptions/<subscription_id>/explain": (DELIVERIES, None),
    "GET /v1/recoveries/<recovery_id>": (READ, None),
    "POST /v1/recoveries/<recovery_id>/cancel": (REPLAY, None),
    "POST /v1/recoveries/<recovery_id>/pause": (REPLAY, None),
    "POST /v1/recoveries/<recovery_id>/resume": (REPLAY, None),
    "GET /v1/deliveries/<delivery_id>": (DELIVERIES, None),
    "POST /v1/deliveries/<delivery_id>/retry": (REPLAY, None),
    "POST /v1/events": (EMIT, {"type": "a", "data": {}}),
    "GET /v1/events/<event_id>": (DELIVERIES, None),
    "GET /v1/event-types": (READ, None),
    "PUT /v1/event-types/<name>": (OPERATE, {"description": "x"}),
    "POST /v1/portal-sessions": (READ, {}),
    "POST /v1/tenants": (OPERATE, {"name": "x"}),
    "GET /v1/tenants": (OPERATE, None),
    "POST /v1/tenants/<tenant_id>/keys": (OPERATE, {"mode": "live"}),
    "GET /v1/tenants/<tenant_id>/keys": (OPERATE, None),
    "DELETE /v1/tenants/<tenant_id>/keys/<key_id>": (OPERATE, None),
    "POST /v1/applications/<application_id>/keys": (OPERATE, None),
    "GET /v1/applications/<application_id>/keys": (OPERATE, None),
    "DELETE /v1/applications/<application_id>/keys/<key_id>": (OPERATE, None),
    "GET /v1/operations/at-risk": (OPERATE, None),
    "GET /v1/operations/fuse": (OPERATE, None),
    "POST /v1/consents": (OPERATE, {"application_id": "erp", "event_types": ["*"]}),
    "GET /v1/consents": (OPERATE, None),
    "DELETE /v1/consents/<application_id>": (OPERATE, None),
}
"""What each route asks for, None where it is open, and a body that it takes."""

NOT_JSON = {
    "open": ("{", "invalid_json"),
    "two": ("{} {}", "invalid_json"),
    "trailing comma": ('{"a":1,}', "invalid_json"),
    "comment": ("{}//", "invalid_json"),
    "single quotes": ("{'a':1}", "invalid_json"),
    "hexadecimal": ('{"a":0x1}', "invalid_json"),
    "leading zero": ('{"a":01}', "invalid_json"),
    "plus": ('{"a":+1}', "invalid_json"),
    "undefined": ("undefined", "invalid_json"),
    "NaN": ('{"a":NaN}', "invalid_json"),
    "infinity": ('{"a":-Infinity}', "invalid_json"),
    "raw line break": ('{"a":"\n"}', "invalid_json"),
    "raw NUL": ('{"a":"\x00"}', "invalid_json"),
    "byte order mark": ("\ufeff{}", "invalid_json"),
    "no-break space": ("\u00a0{}", "invalid_json"),
    "UTF-16": ("{\x00}\x00", "invalid_json"),
    "a key twice": ('{"a":1,"a":2}', "duplicate_key"),
    "a key twice, far in": ('{"a":[{"b":{"c":1,"\\u0063":2}}]}', "duplicate_key"),
    "10,000 open lists": ("[" * 10_000, "too_deep"),
    "10,000 lists": ("[" * 10_000 + "]" * 10_000, "too_deep"),
    "33 objects": ('{"a":' * 33 + "1" + "}" * 33, "too_deep"),
    "half a pair": ('{"a":"\\ud800"}', "invalid_text"),
    "half a pair in a key": ('{"\\udfff":1}', "invalid_text"),
}
"""What no route reads, and what it is called (T38)."""

NOT_ASKED_FOR = {
    "list": "[]",
    "text": '"text"',
    "number": "7",
    "truth": "true",
    "5,000 digits": "9" * 5000,
    "5,000 digits inside": '{"a":' + "9" * 5000 + "}",
    "beyond any float": '{"a":1e999999}',
    "a key that nobody knows": '{"__proto__":{}}',
    "20,000 of them": "{" + ",".join(f'"k{n}":1' for n in range(20_000)) + "}",
    "a long text": '{"a":"' + "x" * 100_000 + '"}',
}
"""JSON that no route has asked for: another shape, unknown keys."""

CLOSED_TO_APPLICATIONS = {"POST /v1/events", "GET /v1/events/<event_id>", "POST /v1/portal-sessions"}
OF_A_TENANT = [route for route, (right, _) in ROUTES.items() if right in TENANT_RIGHTS]
OF_ALL_TENANTS = {"GET /v1/event-types"}
WITH_AN_ID = [route for route in OF_A_TENANT if "<" in route]

OWN = {
    "subscription_id": a_key().subscription_id,
    "recovery_id": a_recovery().id,
    "delivery_id": a_delivery_key().delivery_id,
    "event_id": an_event_item().id,
    "tenant_id": "acme",
    "application_id": "erp",
    "key_id": an_api_key().id,
    "name": "invoice.paid",
}
NOBODYS = {
    "subscription_id": a_key(99).subscription_id,
    "recovery_id": "rec_99",
    "delivery_id": a_delivery_key(99).delivery_id,
    "event_id": "evt_99",
}
IMPOSSIBLE = {"subscription_id": "sub.1", "recovery_id": "a.b", "delivery_id": "dlv_a.b.c", "event_id": "e.1"}
QUERY = {"event_id": "evt_1"}


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield cold_start("api")


@pytest.fixture
def bench(started: Any) -> Bench:
    """A tenant with one of everything, and an application that has its consent."""
    bench = Bench(started)
    world = bench.world
    key = world.add(a_subscription())
    world.deliveries[a_delivery_key()] = a_delivered()
    world.recoveries[key.scope, a_recovery().id] = a_recovery()
    item = an_event_item()
    world.event_items[item.scope, item.id] = item
    world.tenants["acme"] = a_tenant()
    return bench


def asked(bench: Bench, route: str, ids: dict[str, str], **more: Any) -> Answer:
    method, pattern = route.split(" ")
    path = re.sub(r"<(\w+)>", lambda found: ids[found[1]], pattern)
    query = QUERY if path.endswith("/explain") else None
    headers = {"if-match": "*"} | more.pop("headers", {})
    return bench.ask(method, path, ROUTES[route][1], query=query, headers=headers, **more)


def test_the_table_holds_every_route_of_the_api(started: Any) -> None:
    app = started.app
    there = {f"{route.method} {route.path}" for route in app._static_routes + app._dynamic_routes}
    assert there == set(ROUTES)


@pytest.mark.parametrize("right", sorted(TENANT_RIGHTS))
@pytest.mark.parametrize("route", [route for route, (right, _) in ROUTES.items() if right is not None])
def test_t26_a_right_opens_the_routes_that_ask_for_it_alone(bench: Bench, route: str, right: Right) -> None:
    answer = asked(bench, route, OWN, rights=frozenset({right}))
    if right is ROUTES[route][0]:
        assert answer.status not in (401, 403), answer.text
    else:
        assert (answer.status, answer.code) == (403, "forbidden")


@pytest.mark.parametrize("route", [route for route, (right, _) in ROUTES.items() if right is not None])
def test_without_a_key_there_is_no_answer(bench: Bench, route: str) -> None:
    before = repr(vars(bench.world))
    assert asked(bench, route, OWN, tenant=None).status == 401
    assert repr(vars(bench.world)) == before


@pytest.mark.parametrize("route", WITH_AN_ID)
def test_t28_bb43_a_foreign_id_answers_the_very_bytes_of_one_that_does_not_exist(
    bench: Bench, route: str
) -> None:
    before = repr(vars(bench.world))
    for tenant, mode in (("beta", Mode.LIVE), ("acme", Mode.TEST)):
        answers = [asked(bench, route, ids, tenant=tenant, mode=mode) for ids in (OWN, NOBODYS, IMPOSSIBLE)]
        assert {answer.status for answer in answers} == {404}, [answer.text for answer in answers]
        assert len({answer.text for answer in answers}) == 1
    assert repr(vars(bench.world)) == before, "and nothing is changed by asking"


def test_t29_a_foreign_id_in_a_query_is_none_either(bench: Bench) -> None:
    theirs = an_event_item(id="evt_theirs", scope=a_scope("beta"))
    bench.world.event_items[theirs.scope, theirs.id] = theirs
    path = f"/v1/subscriptions/{OWN['subscription_id']}/explain"
    answers = [
        bench.ask("GET", path, query={"event_id": each}).text.replace(each, "")
        for each in (theirs.id, NOBODYS["event_id"])
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("route", WITH_AN_ID)
def test_the_owner_itself_is_found(bench: Bench, route: str) -> None:
    assert asked(bench, route, OWN).status != 404


@pytest.mark.parametrize("route", OF_A_TENANT)
def test_t43_an_application_without_consent_is_shut_out_of_every_route(bench: Bench, route: str) -> None:
    assert as_application(bench, route).status == 403


@pytest.mark.parametrize("route", OF_A_TENANT)
def test_t43_an_application_with_consent_reaches_nothing_of_the_tenants_own(bench: Bench, route: str) -> None:
    bench.as_operator("POST", "/v1/consents", ROUTES["POST /v1/consents"][1], headers=NAMED)
    answer = as_application(bench, route)
    if route in CLOSED_TO_APPLICATIONS:
        assert (answer.status, answer.code) == (403, "forbidden")
    elif "<" in route:
        assert answer.status == 404
    else:
        assert answer.status in (200, 201)


NAMED = {"hookkeeper-tenant": "acme", "hookkeeper-mode": "live"}


def as_application(bench: Bench, route: str) -> Answer:
    return asked(
        bench,
        route,
        OWN,
        tenant="",
        kind=KeyKind.APP,
        application="erp",
        rights=APPLICATION_RIGHTS | {Right.EVENTS_WRITE},
        headers=NAMED,
    )


@pytest.mark.parametrize("route", [route for route in OF_A_TENANT if route not in OF_ALL_TENANTS])
def test_an_operator_who_names_no_tenant_reaches_no_tenant(bench: Bench, route: str) -> None:
    answer = asked(bench, route, OWN, tenant="", kind=KeyKind.OPERATOR, rights=frozenset({OPERATE}))
    assert (answer.status, answer.code) == (422, "tenant_required")
    assert bench.tenants.entered == []


@pytest.mark.parametrize("route", OF_A_TENANT)
def test_clients_touch_the_items_of_the_key_s_own_tenant_and_mode_alone(bench: Bench, route: str) -> None:
    asked(bench, route, OWN, headers={"hookkeeper-tenant": "beta", "hookkeeper-mode": "test"})
    assert set(bench.tenants.entered) <= {a_scope()}


CHANGING = [route for route, (right, _) in ROUTES.items() if right and not route.startswith("GET ")]


def kept(bench: Bench) -> str:
    """All that the world holds; ids that were made and thrown away are nothing."""
    return repr({name: held for name, held in vars(bench.world).items() if name != "ids_made"})


def sent(bench: Bench, route: str, raw: str, **headers: str) -> Answer:
    """The body as it stands, by whoever may call the route."""
    method, pattern = route.split(" ")
    path = re.sub(r"<(\w+)>", lambda found: OWN[found[1]], pattern)
    if ROUTES[route][0] is OPERATE:
        return bench.as_operator(method, path, raw=raw, headers={"if-match": "*"} | NAMED | headers)
    return bench.ask(method, path, raw=raw, headers={"if-match": "*"} | headers)


@pytest.mark.parametrize("route", CHANGING)
def test_t38_what_is_no_json_is_422_on_every_route_and_says_why(bench: Bench, route: str) -> None:
    before = kept(bench)
    answers = {name: sent(bench, route, raw) for name, (raw, _) in NOT_JSON.items()}
    assert {name: (a.status, a.code) for name, a in answers.items()} == {
        name: (422, code) for name, (_, code) in NOT_JSON.items()
    }
    assert kept(bench) == before


@pytest.mark.parametrize("route", CHANGING)
def test_t38_json_that_nobody_asked_for_is_422_on_every_route(bench: Bench, route: str) -> None:
    before = kept(bench)
    answers = {name: sent(bench, route, raw) for name, raw in NOT_ASKED_FOR.items()}
    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(NOT_ASKED_FOR, 422)
    assert all(1 <= len(answer.body["errors"]) <= 50 for answer in answers.values())
    assert kept(bench) == before


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/vnd.api+json",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        'application/json; a=b; Charset="utf-7"',
        "*/*",
        "nonsense",
    ],
)
@pytest.mark.parametrize("route", [route for route in CHANGING if ROUTES[route][1] is not None])
def test_t38_a_body_of_another_kind_is_415_on_every_route(bench: Bench, route: str, media_type: str) -> None:
    before = kept(bench)
    answer = sent(bench, route, json.dumps(ROUTES[route][1]), **{"content-type": media_type})
    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert kept(bench) == before


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json;charset=UTF-8",
        'application/json; charset="utf-8"',
    ],
)
def test_json_is_json_however_its_type_is_spelt(bench: Bench, media_type: str) -> None:
    for route in ("POST /v1/subscriptions", "POST /v1/events"):
        answer = sent(bench, route, json.dumps(ROUTES[route][1]), **{"content-type": media_type})
        assert answer.status in (201, 202), answer.text


@pytest.mark.parametrize("raw", ["", " \n", "{}", "null"])
def test_a_route_that_takes_no_body_takes_one_that_says_nothing(bench: Bench, raw: str) -> None:
    assert sent(bench, "POST /v1/recoveries/<recovery_id>/resume", raw).status == 200


@pytest.mark.parametrize("route", ROUTES)
def test_no_answer_is_kept_framed_run_or_guessed_at(bench: Bench, route: str) -> None:
    for answer in (asked(bench, route, OWN), asked(bench, route, OWN, tenant=None)):
        assert answer.headers.items() >= {
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("referrer-policy", "no-referrer"),
            ("strict-transport-security", "max-age=63072000"),
            ("x-content-type-options", "nosniff"),
        }
        kept = answer.headers["cache-control"]
        assert kept == ("public, max-age=300" if route == "GET /openapi.json" else "no-store")
