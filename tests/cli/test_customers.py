"""Tenants, keys, subscriptions and deliveries: what is asked of the API, and what is shown of its answer."""

from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.health import Health
from hookkeeper.domain.subscription import DisabledReason, Subscription

from tests.builders import (
    HOUR,
    NOW,
    a_failing_health,
    a_health,
    a_pending_subscription,
    a_subscription,
    a_suspended_subscription,
)
from tests.cli import shapes
from tests.cli.conftest import OPERATOR_KEY, TENANT_KEY, Bench
from tests.cli.shapes import SECRET, page

SUB = a_subscription().id
AT = f"/v1/subscriptions/{SUB}"


@pytest.fixture
def operator(bench: Bench) -> Bench:
    bench.environment |= {"HOOKKEEPER_KEY": OPERATOR_KEY, "HOOKKEEPER_TENANT": "acme"}
    return bench


def test_a_tenant_is_made_and_listed(operator: Bench) -> None:
    operator.api.on("POST", "/v1/tenants", shapes.tenant(), status=201)
    operator.api.on("GET", "/v1/tenants", page(shapes.tenant()))
    assert operator.run("tenants", "create", "Acme", "--id", "acme", "--json").json["id"] == "acme"
    assert operator.api.bodies == [{"name": "Acme", "id": "acme"}]
    assert "Acme" in operator.run("tenants", "list").out


def test_a_tenant_is_made_on_the_plan_that_is_named_and_listed_with_it(operator: Bench) -> None:
    operator.api.on("POST", "/v1/tenants", shapes.tenant(plan="large"), status=201)
    operator.api.on("GET", "/v1/tenants", page(shapes.tenant(plan="large"), shapes.tenant("other")))
    assert operator.run("tenants", "create", "Acme", "--plan", "large", "--json").json["plan"] == "large"
    assert operator.api.bodies == [{"name": "Acme", "plan": "large"}]
    listed = operator.run("tenants", "list").out.splitlines()
    assert [line.split()[:3] for line in (listed[0], *listed[-2:])] == [
        ["tenant", "name", "plan"],
        ["acme", "Acme", "large"],
        ["other", "Acme", "standard"],
    ]


def test_a_new_key_is_all_that_stands_on_stdout(operator: Bench) -> None:
    operator.api.on("POST", "/v1/tenants/acme/keys", shapes.key_created(TENANT_KEY), status=201)
    ran = operator.run("keys", "create", "--mode", "test", "--scope", "events:write", "--days", "1")
    assert ran.out == f"{TENANT_KEY}\n"
    assert TENANT_KEY not in ran.err
    expires = "2026-12-02T12:00:00.000000Z"
    assert operator.api.bodies == [{"mode": "test", "scopes": ["events:write"], "expires_at": expires}]


def test_keys_are_listed_by_their_last_characters_and_validity(operator: Bench) -> None:
    keys = [shapes.key(), shapes.key(revoked_at=NOW - HOUR), shapes.key(expires_at=NOW + HOUR)]
    operator.api.on("GET", "/v1/tenants/acme/keys", page(*keys))
    ran = operator.run("keys", "list")
    for part in ("…abcd", "yes", "revoked 1 h ago", "until in 1 h"):
        assert part in ran.out
    assert len(operator.run("keys", "list", "--json").lines) == 3


def test_a_key_is_revoked_after_a_yes(operator: Bench) -> None:
    operator.api.on("DELETE", "/v1/tenants/acme/keys/key_1", status=204)
    operator.somebody_answers = True
    assert operator.run("keys", "revoke", "key_1", stdin="n\n").code == 1
    assert not operator.api.requests
    assert operator.run("keys", "revoke", "key_1", stdin="y\n").code == 0
    assert operator.run("keys", "revoke", "key_1", "--yes", "--json").json == {
        "id": "key_1",
        "revoked": True,
    }


def test_a_subscription_is_made_as_told_and_its_secret_shown(bench: Bench) -> None:
    bench.api.on("POST", "/v1/subscriptions", shapes.subscription_created(), status=201)
    arguments = ["--type", "invoice.*", "--type", "*", "--owner", "o@c.example", "--resource", "shop_7"]
    arguments += ["--header", "x-a=b=c", "--metadata", "k=v", "--policy", "strict", "--timeout", "5"]
    ran = bench.run("subscriptions", "create", "https://c.example/in", *arguments)
    assert ran.code == 0
    assert SECRET in ran.out
    assert SECRET not in ran.err
    assert "order.* matches nothing in the catalogue" in ran.err
    assert bench.api.bodies == [
        {
            "endpoint_url": "https://c.example/in",
            "event_types": ["invoice.*", "*"],
            "owner_email": "o@c.example",
            "resource_id": "shop_7",
            "policy": "strict",
            "timeout_seconds": 5,
            "headers": {"x-a": "b=c"},
            "metadata": {"k": "v"},
        }
    ]


LISTED: list[tuple[Subscription, Health, list[str]]] = [
    (a_pending_subscription(), a_health(), ["○ pending", "waits for its challenge"]),
    (a_subscription(), a_health(), ["● active", "nothing sent yet"]),
    (a_subscription(), a_health(last_success_at=NOW - HOUR / 20), ["● active", "✓ 3 min ago"]),
    (a_subscription(), a_failing_health(14, hours=5), ["● active", "14 failed since 5 h ago, last 500"]),
    (a_suspended_subscription(), a_failing_health(), ["■ suspended", "25 failed"]),
    (a_suspended_subscription(disabled_reason=DisabledReason.MANUAL), a_health(), ["‖ paused"]),
    (a_subscription(event_types=("a", "b", "c")), a_health(), ["a, b +1"]),
]


@pytest.mark.parametrize("subscription, health, parts", LISTED, ids=str)
def test_a_list_says_at_a_glance_how_an_endpoint_fares(
    subscription: Subscription, health: Health, parts: list[str], bench: Bench
) -> None:
    bench.api.on("GET", "/v1/subscriptions", page(shapes.subscription(subscription, health)))
    ran = bench.run("subscriptions", "list", "--status", subscription.status, "--type", "a.b")
    assert ran.code == 0
    for part in (SUB, subscription.endpoint_url, *parts):
        assert part in ran.out
    assert dict(bench.api.requests[0].url.params) == {
        "status": subscription.status,
        "event_type": "a.b",
        "limit": "20",
    }


def test_an_empty_list_leaves_stdout_empty(bench: Bench) -> None:
    bench.api.on("GET", "/v1/subscriptions", page())
    ran = bench.run("subscriptions", "list")
    assert (ran.code, ran.out, ran.err) == (0, "", "no subscriptions\n")
    assert bench.run("subscriptions", "list", "--json").out == ""


def test_one_subscription_is_shown_with_why_it_is_suspended_and_what_is_owed(bench: Bench) -> None:
    found = shapes.subscription(a_suspended_subscription(), a_failing_health(), owed=101)
    bench.api.on("GET", AT, found, etag='"3"')
    ran = bench.run("subscriptions", "get", SUB)
    for part in (
        "■ suspended",
        "repeated_failure (auto_suspend:retryable:25), 1 h ago",
        "25 in a row (25 retryable)",
        "HTTP 500",
        "2026-11-30 23:00:00Z  13 h ago",
        "100 or more attempted or held",
    ):
        assert part in ran.out
    assert bench.run("subscriptions", "get", SUB, "--json").json == found | {"etag": '"3"'}


@pytest.mark.parametrize(
    "arguments, method, path, body, answer",
    [
        (["pause", SUB], "POST", f"{AT}/pause", {}, shapes.subscription()),
        (["verify", SUB], "POST", f"{AT}/verification", {}, shapes.subscription()),
        (["verify", SUB, "tok"], "POST", f"{AT}/verify", {"challenge": "tok"}, shapes.subscription()),
        (["test", SUB], "POST", f"{AT}/test", {}, shapes.test_accepted()),
        (
            ["test", SUB, "--type", "a.b", "--data", '{"n": 1}'],
            "POST",
            f"{AT}/test",
            {"event_type": "a.b", "data": {"n": 1}},
            shapes.test_accepted(),
        ),
        (["reenable", SUB], "POST", f"{AT}/reenable", {"backfill": True}, shapes.reenabling()),
        (
            ["reenable", SUB, "--no-probe", "--no-backfill", "--rate", "2.5"],
            "POST",
            f"{AT}/reenable",
            {"backfill": False, "probe": False, "rate": 2.5},
            shapes.reenabling(),
        ),
        (
            ["rotate-secret", SUB, "--overlap", "0"],
            "POST",
            f"{AT}/rotate-secret",
            {"overlap_hours": 0},
            shapes.rotated(),
        ),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_subscription_is_asked_to_change(
    arguments: list[str], method: str, path: str, body: Any, answer: Any, bench: Bench
) -> None:
    bench.api.on(method, path, answer)
    ran = bench.run("subscriptions", *arguments)
    assert ran.code == 0
    assert ran.out or ran.err
    assert bench.api.bodies == [body]
    assert bench.run("subscriptions", *arguments, "--json").json == answer


def test_a_rotated_secret_is_all_that_stands_on_stdout(bench: Bench) -> None:
    bench.api.on("POST", f"{AT}/rotate-secret", shapes.rotated())
    ran = bench.run("subscriptions", "rotate-secret", SUB)
    assert ran.out == f"{SECRET}\n"
    assert "2026-12-02 12:00:00Z" in ran.err


def test_what_is_revoked_is_what_was_read(bench: Bench) -> None:
    bench.api.on("GET", AT, shapes.subscription(), etag='"7"')
    bench.api.on("DELETE", AT, status=204)
    bench.somebody_answers = True
    ran = bench.run("subscriptions", "revoke", SUB, stdin="y\n")
    assert ran.code == 0
    assert a_subscription().endpoint_url in ran.err
    assert bench.api.requests[-1].headers["if-match"] == '"7"'


def test_deliveries_are_listed_and_filtered(bench: Bench) -> None:
    bench.api.on("GET", f"{AT}/deliveries", page(shapes.delivery()))
    bounds = ["--from", "2026-12-01T00:00:00Z", "--to", "2026-12-01T12:00:00Z"]
    ran = bench.run("deliveries", "list", SUB, "--status", "retrying", *bounds)
    for part in ("↻ retrying", "invoice.paid", "500", "in 5 s"):
        assert part in ran.out
    assert dict(bench.api.requests[0].url.params) == {
        "status": "retrying",
        "from": "2026-12-01T00:00:00Z",
        "to": "2026-12-01T12:00:00Z",
        "limit": "20",
    }


def test_one_delivery_is_shown_with_its_attempts(bench: Bench) -> None:
    found = shapes.delivery()
    bench.api.on("GET", f"/v1/deliveries/{found['id']}", found)
    ran = bench.run("deliveries", "get", found["id"])
    for part in (found["event_id"], "12:00:00.000", "500", "80 ms", "oops"):
        assert part in ran.out
    assert bench.run("deliveries", "get", found["id"], "--json").json == found


def test_an_event_is_explained_step_by_step(bench: Bench) -> None:
    bench.api.on("GET", f"{AT}/explain", shapes.explanation())
    ran = bench.run("explain", SUB, "evt_1")
    assert ran.code == 0
    assert "✓  12:00:00.000  archived  invoice.paid, archived" in ran.out
    assert "It waits for: retry, in 1 h" in ran.out
    assert dict(bench.api.requests[0].url.params) == {"event_id": "evt_1"}


def test_an_event_that_never_arrived_ends_as_not_found(bench: Bench) -> None:
    bench.api.on("GET", f"{AT}/explain", shapes.explanation(arrived=False))
    ran = bench.run("explain", SUB, "evt_1", "--json")
    assert ran.code == 3
    assert ran.json["findings"][0]["ok"] is False


def test_ids_stay_whole_on_a_narrow_terminal(bench: Bench) -> None:
    bench.environment |= {"FORCE_COLOR": "1", "COLUMNS": "60"}
    bench.api.on("GET", "/v1/subscriptions", page(shapes.subscription(health=a_failing_health())))
    bench.api.on("GET", f"{AT}/deliveries", page(shapes.delivery()))
    listed = bench.run("subscriptions", "list").out
    assert "● active" in listed
    assert SUB in listed
    assert "…" in listed
    assert shapes.delivery()["event_id"] in bench.run("deliveries", "list", SUB).out


def test_colour_is_left_out_where_that_is_asked_for(bench: Bench) -> None:
    bench.environment |= {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    bench.api.on("GET", "/v1/subscriptions", page(shapes.subscription()))
    assert "\x1b[3" not in bench.run("subscriptions", "list").out


def test_a_new_subscription_may_be_waited_for_until_it_is_in_force(bench: Bench) -> None:
    bench.api.on("POST", "/v1/subscriptions", shapes.subscription_created(), status=201)
    pending = shapes.subscription(a_pending_subscription())
    soon = shapes.subscription(a_subscription(first_active_at=NOW + timedelta(seconds=2)))
    bench.api.on("GET", f"/v1/subscriptions/{a_pending_subscription().id}", pending, soon)
    ran = bench.run("subscriptions", "create", "https://a.example", "-t", "*", "--owner", "a@b.c", "--wait")
    assert ran.code == 0
    assert "in force from now on" in ran.err
    assert len(bench.waited) == 2


def test_a_new_subscription_that_is_never_verified_is_not_waited_for_for_ever(bench: Bench) -> None:
    bench.api.on("POST", "/v1/subscriptions", shapes.subscription_created(), status=201)
    pending = shapes.subscription(a_pending_subscription())
    bench.api.on("GET", f"/v1/subscriptions/{a_pending_subscription().id}", pending)
    ran = bench.run("subscriptions", "create", "https://a.example", "-t", "*", "--owner", "a@b.c", "--wait")
    assert ran.code == 1
    assert "is pending" in ran.err


def test_the_audit_says_who_changed_what(bench: Bench) -> None:
    bench.api.on("GET", f"{AT}/audit", page(shapes.audit_record()))
    out = bench.run("subscriptions", "audit", SUB).out
    assert "status: active → suspended; auto_suspend" in out


def test_one_more_attempt_is_asked_for(bench: Bench) -> None:
    made = shapes.delivery()
    bench.api.on("POST", f"/v1/deliveries/{made['id']}/retry", made, status=202)
    ran = bench.run("deliveries", "retry", made["id"])
    assert (ran.code, ran.out) == (0, "")
    assert f"hookkeeper deliveries get {made['id']}" in ran.err
