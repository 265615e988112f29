"""The API keeps its word to customers and operators, and tells strangers nothing."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.access import APPLICATION_RIGHTS, TENANT_RIGHTS, KeyKind, Right, key_hash, well_formed
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.errors import DuplicateSubscriptionError, OwnFaultError
from hookkeeper.domain.fuse import FuseState
from hookkeeper.domain.outcome import Fault
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.signature import Secret, parse_secret
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode, Scope, SubscriptionKey
from hookkeeper.event_in import MAX_BODY_BYTES
from hookkeeper.usecases.subscribe import Wanted, subscribe

from tests.builders import (
    ACTOR,
    HOUR,
    NOW,
    a_delivered,
    a_delivery,
    a_delivery_key,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_pending_subscription,
    a_recovery,
    a_scope,
    a_subscription,
    a_suspended_subscription,
    a_tenant,
    an_event,
    an_event_item,
    an_owed,
)
from tests.functions.api_bench import ENVIRONMENT, Answer, Bench, sample
from tests.functions.cold import FUNCTIONS, cold_start

VECTORS = FUNCTIONS.parent / "tests" / "vectors"

CREATE = {
    "endpoint_url": "https://hooks.customer-test.com/in",
    "event_types": ["invoice.*"],
    "owner_email": "owner@customer-test.com",
}


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    """The handler, started cold once for all: what is between its tests is a world of their own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield cold_start("api")


@pytest.fixture
def bench(started: Any) -> Bench:
    return Bench(started)


def created(bench: Bench, **changes: Any) -> dict[str, Any]:
    answer = bench.ask("POST", "/v1/subscriptions", CREATE | changes, at=NOW)
    assert answer.status == 201, answer.text
    body: dict[str, Any] = answer.body
    return body


# ── creating ─────────────────────────────────────────────────────────────────────────────────────


def test_a_new_subscription_is_pending_with_its_secret_shown_and_its_challenge_asked(bench: Bench) -> None:
    answer = bench.send(sample("api_create_subscription"), at=NOW)
    assert answer.status == 201
    body = answer.body
    assert (body["status"], body["enabled"], body["version"]) == ("pending", False, 1)
    assert answer.headers["etag"] == '"1"'
    assert answer.headers["location"] == f"https://api.hookkeeper.dev/api/v1/subscriptions/{body['id']}"
    ((key, token),) = bench.world.challenges
    assert key.subscription_id == body["id"]
    (stored,) = [secret for (k, _), (secret, _) in bench.world.secrets.items() if k == key]
    assert parse_secret(body["secret"]) == stored
    subscription = bench.world.subscriptions[key]
    assert token not in repr(subscription)
    assert subscription.token_expires_at == NOW + timedelta(hours=24)
    (record,) = bench.world.audit.values()
    assert (record.action, record.actor.source_ip) == ("subscription.created", "198.51.100.7")


def test_a_second_subscription_for_the_endpoint_is_a_conflict_that_names_the_first(bench: Bench) -> None:
    first = created(bench)["id"]
    again = bench.ask(
        "POST", "/v1/subscriptions", CREATE | {"endpoint_url": "HTTPS://Hooks.Customer-Test.com:443/in"}
    )
    assert (again.status, again.code) == (409, "duplicate_subscription")
    assert again.body["errors"][0]["detail"] == first
    elsewhere = bench.ask("POST", "/v1/subscriptions", CREATE | {"resource_id": "shop_7"})
    theirs = bench.ask("POST", "/v1/subscriptions", CREATE, tenant="beta")
    test_mode = bench.ask("POST", "/v1/subscriptions", CREATE, mode=Mode.TEST)
    assert [elsewhere.status, theirs.status, test_mode.status] == [201, 201, 201]


def test_h12_twelve_parallel_creates_of_one_endpoint_make_one_subscription(bench: Bench) -> None:
    barrier, outcomes = threading.Barrier(12), list[str]()
    reach = bench.module.reach

    def create(number: int) -> None:
        barrier.wait()
        try:
            made = subscribe(
                Wanted(**CREATE),  # type: ignore[arg-type]
                scope=a_scope(),
                actor=ACTOR,
                now=NOW,
                secret=Secret(bytes([number]) * 24),
                token=f"token-{number}",
                config=reach.configs.current(),
                rules=reach.host_rules,
                hosts=reach.hosts,
                rates=reach.rates,
                subscriptions=reach.subscriptions,
                secrets=reach.secrets,
                contacts=reach.contacts,
                ids=reach.ids,
            )
            outcomes.append(made.subscription.id)
        except DuplicateSubscriptionError as error:
            outcomes.append(f"duplicate of {error.existing_id}")

    threads = [threading.Thread(target=create, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [each for each in outcomes if each.startswith("sub_")]
    assert outcomes.count(f"duplicate of {winner}") == 11
    assert len(bench.world.subscriptions) == len(bench.world.challenges) == 1


def test_every_url_of_the_table_is_taken_or_refused_with_its_code(started: Any) -> None:
    for case in json.loads((VECTORS / "endpoint_urls.json").read_text())["cases"]:
        bench = Bench(started)
        answer = bench.ask("POST", "/v1/subscriptions", CREATE | {"endpoint_url": case["url"]})
        if case["verdict"] == "accept":
            assert answer.status == 201, case
            assert answer.body["endpoint_url"] == case["canonical"]
        else:
            assert (answer.status, answer.code) == (422, case["code"]), case
            assert not bench.world.subscriptions


@pytest.mark.parametrize(
    "fault,status,code",
    [
        (Fault.BLOCKED_ADDRESS, 422, "blocked_address"),
        (Fault.DNS_NOT_FOUND, 422, "unresolvable"),
        (Fault.DNS_NO_DATA, 422, "unresolvable"),
        (Fault.DNS_TEMPORARY, 503, "unavailable"),
        (Fault.RESOLVER_UNREACHABLE, 503, "unavailable"),
    ],
)
def test_a_host_is_looked_up_before_it_is_taken(bench: Bench, fault: Fault, status: int, code: str) -> None:
    bench.hosts.faults["hooks.customer-test.com"] = fault
    answer = bench.ask("POST", "/v1/subscriptions", CREATE)
    assert (answer.status, answer.code) == (status, code)
    assert not bench.world.subscriptions
    assert not bench.world.challenges


def test_t10_whatever_is_wrong_with_an_address_reads_the_same_and_shows_none(bench: Bench) -> None:
    texts = set()
    for host in ("open-port.customer-test.com", "closed-port.customer-test.com"):
        bench.hosts.faults[host] = Fault.BLOCKED_ADDRESS
        texts.add(bench.ask("POST", "/v1/subscriptions", CREATE | {"endpoint_url": f"https://{host}/"}).text)
    (text,) = texts
    assert not re.search(r"\d+\.\d+\.\d+\.\d+|[0-9a-f]*::", text)


def test_our_own_host_is_refused(bench: Bench) -> None:
    answer = bench.ask("POST", "/v1/subscriptions", CREATE | {"endpoint_url": "https://api.hookkeeper.dev/x"})
    assert (answer.status, answer.code) == (422, "own_host")


@pytest.mark.parametrize(
    "change,code,pointer",
    [
        ({"event_types": []}, "no_patterns", "/event_types"),
        ({"event_types": ["invoice.paid\n"]}, "invalid_pattern", "/event_types/0"),
        ({"event_types": ["a", "ınvoice.*"]}, "invalid_pattern", "/event_types/1"),
        ({"event_types": [f"a{n}" for n in range(65)]}, "too_many_patterns", "/event_types"),
        ({"event_types": "invoice.*"}, "wrong_type", "/event_types"),
        ({"event_types": [1]}, "wrong_type", "/event_types/0"),
        ({"endpoint_url": 7}, "wrong_type", "/endpoint_url"),
        ({"tenant_id": "beta"}, "unknown_key", "/tenant_id"),
        ({"secret": "whsec_x"}, "unknown_key", "/secret"),
        ({"resource_id": "x#y"}, "invalid_id", "/resource_id"),
        ({"resource_id": "../other"}, "invalid_id", "/resource_id"),
        ({"resource_id": ""}, "invalid_id", "/resource_id"),
        ({"resource_id": "a\x00b"}, "invalid_id", "/resource_id"),
        ({"owner_email": "a@b"}, "invalid_email", "/owner_email"),
        ({"owner_email": "a@b.com\nBcc: c@d.com"}, "invalid_email", "/owner_email"),
        ({"owner_email": '"a b"@c.com'}, "invalid_email", "/owner_email"),
        ({"timeout_seconds": 0}, "invalid_timeout", "/timeout_seconds"),
        ({"timeout_seconds": 31}, "invalid_timeout", "/timeout_seconds"),
        ({"timeout_seconds": "15"}, "wrong_type", "/timeout_seconds"),
        ({"timeout_seconds": True}, "wrong_type", "/timeout_seconds"),
        ({"policy": "lenient"}, "unknown_policy", "/policy"),
        ({"description": "x" * 501}, "too_long", "/description"),
        ({"metadata": {str(n): "" for n in range(21)}}, "too_much_metadata", "/metadata"),
        ({"metadata": {"k": "x" * 501}}, "invalid_metadata", "/metadata/k"),
        ({"metadata": {"a b": "x"}}, "invalid_metadata", "/metadata"),
        ({"metadata": {"k": 1}}, "wrong_type", "/metadata/k"),
    ],
)
def test_what_is_wrong_is_named_by_code_and_pointer(
    bench: Bench, change: dict[str, Any], code: str, pointer: str
) -> None:
    answer = bench.ask("POST", "/v1/subscriptions", CREATE | change)
    assert answer.status == 422
    assert answer.code == code
    assert answer.body["errors"][0]["pointer"] == pointer
    assert not bench.world.subscriptions


@pytest.mark.parametrize(
    "name",
    [
        "X A", "", "x\r\ny", "é", "x" * 65, "Host", "host", "Content-Type", "content-length",
        "Content-Anything", "transfer-encoding", "Connection", "keep-alive", "Upgrade", "TE",
        "Trailer", "Expect", "Cookie",
        "WEBHOOK-SIGNATURE", "webhook-id", "Hookkeeper-Lane", "x-amz-date", "X-Amzn-Trace-Id", "Forwarded",
        "X-Forwarded-For", "User-Agent", "Proxy-Authorization", "Accept-Encoding", "Via",
    ],
)  # fmt: skip
def test_t52_a_header_that_is_not_the_customers_is_refused_in_whatever_case(bench: Bench, name: str) -> None:
    answer = bench.ask("POST", "/v1/subscriptions", CREATE | {"headers": {name: "v"}})
    assert answer.status == 422
    assert answer.code in {"invalid_header_name", "reserved_header"}


@pytest.mark.parametrize("value", ["b\r\nX-Evil: 1", "é", "", " ", "x" * 1025, "a\tb", "a\x00b", "a\x7fb"])
def test_t52_a_header_value_is_visible_ascii(bench: Bench, value: str) -> None:
    answer = bench.ask("POST", "/v1/subscriptions", CREATE | {"headers": {"X-A": value}})
    assert (answer.status, answer.code) == (422, "invalid_header_value")
    assert value.strip() == "" or value not in answer.text


def test_t52_headers_are_at_most_twenty_trimmed_and_each_once(bench: Bench) -> None:
    many = {f"x-{n}": "v" for n in range(21)}
    assert bench.ask("POST", "/v1/subscriptions", CREATE | {"headers": many}).code == "too_many_headers"
    twice = {"X-A": "1", "x-a": "2"}
    assert bench.ask("POST", "/v1/subscriptions", CREATE | {"headers": twice}).code == "duplicate_header"
    created(bench, headers={"X-Key": "  v 1\t"})
    (subscription,) = bench.world.subscriptions.values()
    assert subscription.headers == {"X-Key": "v 1"}


def test_a_queue_that_fails_does_not_take_the_secret_away(bench: Bench) -> None:
    def fail(call: str) -> None:
        if call == "Contacts.challenge":
            raise OwnFaultError("no queue")

    bench.world.before_call = fail
    body = created(bench)
    assert body["secret"].startswith("whsec_")
    assert body["challenged"] is False


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_a_subscription_is_read_with_its_health(bench: Bench) -> None:
    subscription = a_subscription()
    health = replace(a_failing_health(3), circuit=Circuit(open_until=NOW + HOUR), outage_from=NOW - HOUR)
    bench.world.add(subscription, health)
    for n in range(1, 4):
        held = a_delivery(key=a_delivery_key(n), status=DeliveryStatus.HELD)
        bench.world.deliveries[held.key] = held
        bench.world.owed[held.key, NOW] = an_owed(key=held.key, status=DeliveryStatus.HELD)
    answer = bench.ask("GET", f"/v1/subscriptions/{subscription.id}")
    assert answer.status == 200
    assert answer.headers["etag"] == '"1"'
    told = answer.body["health"]
    assert told["consecutive_failures"] == 3
    assert told["streaks"] == {"retryable": {"count": 3, "first_failure_at": "2026-11-30T23:00:00.000000Z"}}
    assert told["circuit"] == {"state": "open", "open_until": "2026-12-01T13:00:00.000000Z"}
    assert told["outage_from"] == "2026-12-01T11:00:00.000000Z"
    assert (told["owed"], told["owed_more"]) == (3, False)


def test_lists_go_by_signed_cursors_newest_first(bench: Bench) -> None:
    for n in range(1, 6):
        bench.world.add(a_subscription(key=a_key(n)))
    ids, cursor = [], None
    for _ in range(3):
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = bench.ask("GET", "/v1/subscriptions", query=query).body
        ids += [each["id"][-1] for each in page["data"]]
        cursor = page["next_cursor"]
    assert ids == ["5", "4", "3", "2", "1"]
    assert cursor is None
    assert page["has_more"] is False


def test_t41_a_cursor_is_good_for_its_own_list_tenant_and_filters_alone(bench: Bench) -> None:
    for n in range(1, 4):
        bench.world.add(a_subscription(key=a_key(n)))
        bench.world.add(a_subscription(key=a_key(n, a_scope("beta"))))
    cursor = bench.ask("GET", "/v1/subscriptions", query={"limit": "1"}).body["next_cursor"]
    flipped = cursor[:3] + ("A" if cursor[3] != "A" else "B") + cursor[4:]
    again = {"limit": "1", "cursor": cursor}
    assert bench.ask("GET", "/v1/subscriptions", query=again).status == 200
    refusals = [
        bench.ask("GET", "/v1/subscriptions", query=again | {"cursor": flipped}),
        bench.ask("GET", "/v1/subscriptions", query=again | {"cursor": ""}),
        bench.ask("GET", "/v1/subscriptions", query=again | {"cursor": "é" * 100}),
        bench.ask("GET", "/v1/subscriptions", query=again, tenant="beta"),
        bench.ask("GET", "/v1/subscriptions", query=again, mode=Mode.TEST),
        bench.ask("GET", "/v1/subscriptions", query=again | {"status": "active"}),
        bench.ask("GET", f"/v1/subscriptions/{a_key(1).subscription_id}/audit", query=again),
    ]
    assert {(each.status, each.code) for each in refusals} == {(400, "invalid_cursor")}


def test_default_lists_leave_out_what_is_over(bench: Bench) -> None:
    bench.world.add(a_subscription(key=a_key(1)))
    bench.world.add(a_subscription(key=a_key(2), status=Status.REVOKED))
    bench.world.add(a_suspended_subscription(key=a_key(3), disabled_at=NOW - timedelta(days=90)))
    bench.world.add(a_suspended_subscription(key=a_key(4), resource_id="shop_7", event_types=("b.*",)))

    def listed(**query: str) -> list[str]:
        page = bench.ask("GET", "/v1/subscriptions", query=query or None, at=NOW).body
        return [each["id"][-1] for each in page["data"]]

    assert listed() == ["4", "1"]
    assert listed(status="suspended") == ["4", "3"]
    assert listed(status="revoked") == ["2"]
    assert listed(resource_id="shop_7") == ["4"]
    assert listed(event_type="b.c") == ["4", "1"]
    assert listed(event_type="a") == ["1"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "101"},
        {"limit": "x"},
        {"status": "gone"},
        {"status": "active) OR (status = revoked"},
        {"event_type": "a) OR (b"},
        {"resource_id": "x#EP#y"},
    ],
)
def test_t33_a_bad_parameter_is_422(bench: Bench, query: dict[str, str]) -> None:
    answer = bench.ask("GET", "/v1/subscriptions", query=query)
    assert answer.status == 422
    assert answer.body["errors"][0]["pointer"] == f"?{next(iter(query))}"


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


def test_a_patch_needs_the_etag_that_was_read(bench: Bench) -> None:
    subscription = bench.world.add(a_subscription())
    path = f"/v1/subscriptions/{subscription.subscription_id}"
    body = {"description": "new"}
    assert bench.ask("PATCH", path, body).status == 428
    for stale in ('"2"', '"x"', "W/", '"-1"', '"99999999999999999999"', '"٣"'):
        assert bench.ask("PATCH", path, body, headers={"if-match": stale}).status == 412
    for good in ('"1"', "2", 'W/"3"', "*"):
        answer = bench.ask("PATCH", path, {"description": f"after {good}"}, headers={"If-Match": good})
        assert answer.status == 200, answer.text
    assert answer.headers["etag"] == '"5"'


def test_a_patch_of_event_types_says_from_when_they_are_in_force(bench: Bench) -> None:
    key = bench.world.add(a_subscription(event_types=("a",)))
    path = f"/v1/subscriptions/{key.subscription_id}"
    wider = bench.ask("PATCH", path, {"event_types": ["a", "b"]}, headers={"if-match": "*"}, at=NOW).body
    assert wider["event_types_in_force_at"] == "2026-12-01T12:00:10.000000Z"
    same = bench.ask("PATCH", path, {"description": "x"}, headers={"if-match": "*"}, at=NOW).body
    assert same["event_types_in_force_at"] is None


def test_a_masked_header_need_not_be_sent_back(bench: Bench) -> None:
    key = bench.world.add(a_subscription(headers={"x-a": "1", "x-b": "2"}))
    path = f"/v1/subscriptions/{key.subscription_id}"
    answer = bench.ask("PATCH", path, {"headers": {"x-c": "3", "x-b": None}}, headers={"if-match": '"1"'})
    assert answer.body["headers"] == {"x-a": "***", "x-c": "***"}
    assert bench.world.subscriptions[key].headers == {"x-a": "1", "x-c": "3"}


def test_a_patch_stages_another_url_and_verify_puts_it_in_force(bench: Bench) -> None:
    body = created(bench)
    key = next(k for k in bench.world.subscriptions if k.subscription_id == body["id"])
    path, new = f"/v1/subscriptions/{body['id']}", "https://hooks.customer-test.com/v2"
    bench.ask("POST", f"{path}/verify", {"challenge": bench.world.challenges[-1][1]}, at=NOW)
    staged = bench.ask("PATCH", path, {"endpoint_url": new}, headers={"if-match": "*"}, at=NOW)
    assert (staged.status, staged.body["challenged"]) == (200, True)
    assert (staged.body["endpoint_url"], staged.body["pending_endpoint_url"]) == (CREATE["endpoint_url"], new)
    taken = bench.ask("POST", "/v1/subscriptions", CREATE | {"endpoint_url": new})
    assert (taken.status, taken.code) == (409, "duplicate_subscription")
    fresh = bench.ask("POST", f"{path}/verification", at=NOW)
    assert fresh.status == 202
    old, token = (token for _, token in bench.world.challenges[-2:])
    assert bench.ask("POST", f"{path}/verify", {"challenge": old}, at=NOW).code == "challenge_mismatch"
    swapped = bench.ask("POST", f"{path}/verify", {"challenge": token}, at=NOW)
    assert (swapped.body["endpoint_url"], swapped.body["pending_endpoint_url"]) == (new, None)
    assert bench.world.health[key].epoch == 2


def test_a_staged_url_of_another_subscription_is_409_and_a_bad_one_422(bench: Bench) -> None:
    created(bench)
    key = bench.world.add(a_subscription())
    path = f"/v1/subscriptions/{key.subscription_id}"
    for url, status, code in (
        (CREATE["endpoint_url"], 409, "duplicate_subscription"),
        ("http://hooks.customer-test.com/", 422, None),
        ("https://10.0.0.5/", 422, None),
    ):
        answer = bench.ask("PATCH", path, {"endpoint_url": url}, headers={"if-match": "*"})
        assert (answer.status, code or answer.code) == (status, answer.code), url
    assert bench.world.subscriptions[key].pending_endpoint_url is None


def test_status_and_the_like_are_not_for_patch(bench: Bench) -> None:
    key = bench.world.add(a_subscription())
    for name in ("pending_endpoint_url", "status", "enabled", "resource_id", "version", "secret_ref"):
        answer = bench.ask(
            "PATCH", f"/v1/subscriptions/{key.subscription_id}", {name: "x"}, headers={"if-match": "*"}
        )
        assert (answer.status, answer.code) == (422, "unknown_key")


def test_put_switches_off_at_once_and_on_by_way_of_a_recovery(bench: Bench) -> None:
    key = bench.world.add(a_subscription())
    path = f"/v1/subscriptions/{key.subscription_id}"
    off = bench.ask("PUT", path, {"enabled": False}, at=NOW)
    assert (off.status, off.body["status"], off.body["disabled_reason"]) == (200, "suspended", "manual")
    assert not bench.world.notices
    assert bench.ask("PUT", path, {"enabled": False}).status == 409
    on = bench.ask("PUT", path, {"enabled": True}, at=NOW)
    assert (on.status, on.body["probe"]) == (202, True)
    ((name, (started, options)),) = bench.world.executions.items()
    assert started == key
    assert len(name) <= 80
    assert options["kind"] == "reenable"


def test_reenabling_twice_is_one_recovery(bench: Bench) -> None:
    key = bench.world.add(a_suspended_subscription())
    path = f"/v1/subscriptions/{key.subscription_id}/reenable"
    for _ in range(2):
        assert bench.ask("POST", path, at=NOW).status == 202
    assert len(bench.world.executions) == 1
    probing = a_recovery(status=RecoveryStatus.PROBING)
    bench.world.health[key] = a_health(recovery=a_lock(probing))
    running = bench.ask("POST", path, {"probe": False, "rate": 5}, at=NOW + HOUR / 4)
    assert running.body["recovery_id"] == probing.id
    assert len(bench.world.executions) == 1


def test_reenabling_without_a_probe_is_200(bench: Bench) -> None:
    strict = bench.world.add(a_suspended_subscription(policy="strict"))
    graded = bench.world.add(a_suspended_subscription(key=a_key(2)))
    asked = bench.ask("POST", f"/v1/subscriptions/{graded.subscription_id}/reenable", {"probe": False})
    assert (
        asked.status
        == bench.ask("PUT", f"/v1/subscriptions/{strict.subscription_id}", {"enabled": True}).status
        == 200
    )


@pytest.mark.parametrize(
    "body", [{"rate": 0}, {"rate": 1001}, {"rate": "5"}, {"probe": "no"}, {"recovery_id": "rec_1"}]
)
def test_reenabling_takes_nothing_odd(bench: Bench, body: dict[str, Any]) -> None:
    key = bench.world.add(a_suspended_subscription())
    assert bench.ask("POST", f"/v1/subscriptions/{key.subscription_id}/reenable", body).status == 422
    assert not bench.world.executions


@pytest.mark.parametrize("status", [Status.PENDING, Status.ACTIVE, Status.REVOKED])
def test_only_a_suspended_subscription_is_reenabled(bench: Bench, status: Status) -> None:
    key = bench.world.add(a_subscription(status=status))
    answer = bench.ask("POST", f"/v1/subscriptions/{key.subscription_id}/reenable")
    assert (answer.status, answer.code) == (409, "illegal_transition")
    assert (
        answer.body["detail"]
        == f"{key.subscription_id} is {status}; only suspended subscriptions can be re-enabled"
    )


def test_a_revoked_subscription_frees_its_endpoint_and_stays_readable(bench: Bench) -> None:
    body = created(bench)
    path = f"/v1/subscriptions/{body['id']}"
    assert bench.ask("DELETE", path).status == 428
    gone = bench.ask("DELETE", path, headers={"if-match": '"1"'})
    assert (gone.status, gone.body["status"]) == (200, "revoked")
    assert bench.ask("DELETE", path, headers={"if-match": "*"}).status == 409
    assert bench.ask("GET", path).body["status"] == "revoked"
    assert bench.ask("POST", "/v1/subscriptions", CREATE).status == 201


def test_rotation_shows_the_new_secret_once_and_tells_the_owner(bench: Bench) -> None:
    body = created(bench)
    path = f"/v1/subscriptions/{body['id']}/rotate-secret"
    rotated = bench.ask("POST", path, {"overlap_hours": 1.5}, at=NOW)
    assert rotated.status == 200
    assert rotated.body["secret"] not in (None, body["secret"])
    assert rotated.body["old_signs_until"] == "2026-12-01T13:30:00.000000Z"
    ((key, _),) = bench.world.challenges
    signing = bench.secrets.signing(key, rotated.body["secret_ref"], now=NOW + HOUR)
    assert signing == [parse_secret(rotated.body["secret"]), parse_secret(body["secret"])]
    (notice,) = bench.world.notices.values()
    assert notice.kind == "secret_rotated"
    for hours in (-1, 169, 1e300):
        assert bench.ask("POST", path, {"overlap_hours": hours}).code == "invalid_overlap"


def test_maintenance_is_set_and_ended(bench: Bench) -> None:
    key = bench.world.add(a_subscription())
    path = f"/v1/subscriptions/{key.subscription_id}/maintenance"
    until = bench.ask("POST", path, {"until": "2026-12-02T00:00:00+01:00"})
    assert until.body["maintenance_until"] == "2026-12-01T23:00:00.000000Z"
    assert bench.ask("POST", path, {"until": None}).body["maintenance_until"] is None
    for wrong in ({}, {"until": "tomorrow"}, {"until": 1700000000}, {"until": "2026-12-02T00:00:00"}):
        assert bench.ask("POST", path, wrong).status == 422


# ── verifying ────────────────────────────────────────────────────────────────────────────────────


def test_the_owner_verifies_with_what_its_endpoint_received(bench: Bench) -> None:
    body = created(bench)
    path = f"/v1/subscriptions/{body['id']}/verify"
    ((_, token),) = bench.world.challenges
    answer = bench.ask("POST", path, {"challenge": token}, at=NOW + HOUR)
    assert (answer.status, answer.body["status"]) == (200, "active")
    assert answer.body["first_active_at"] == "2026-12-01T13:00:10.000000Z"
    again = bench.ask("POST", path, {"challenge": token}, at=NOW + HOUR)
    assert (again.status, again.body["version"]) == (200, answer.body["version"])


def test_bb29_no_odd_echo_verifies_or_crashes(bench: Bench) -> None:
    body = created(bench)
    path = f"/v1/subscriptions/{body['id']}/verify"
    ((_, token),) = bench.world.challenges
    odd = [
        "",
        "ﬀ",
        "é",
        token[: len(token) // 2],
        token[:1],
        token + "\0",
        token + " ",
        token.upper(),
        token * 46_000,
    ]
    for echo in odd:
        answer = bench.ask("POST", path, {"challenge": echo}, at=NOW)
        assert (answer.status, answer.code) == (422, "challenge_mismatch")
    assert bench.ask("POST", path, raw='{"challenge":"\\ud800"}').code == "invalid_text"
    (subscription,) = bench.world.subscriptions.values()
    assert subscription.status is Status.PENDING


def test_a_fresh_challenge_kills_the_one_before(bench: Bench) -> None:
    body = created(bench)
    answer = bench.ask("POST", f"/v1/subscriptions/{body['id']}/verification")
    assert answer.status == 202
    old, new = (token for _, token in bench.world.challenges)
    path = f"/v1/subscriptions/{body['id']}/verify"
    assert bench.ask("POST", path, {"challenge": old}, at=NOW).code == "challenge_mismatch"
    assert bench.ask("POST", path, {"challenge": new}).status == 200
    assert bench.ask("POST", f"/v1/subscriptions/{body['id']}/verification").status == 409


def test_challenges_are_limited_by_the_hour_and_the_answer_says_until_when(bench: Bench) -> None:
    body = created(bench)
    path = f"/v1/subscriptions/{body['id']}/verification"
    bench.rates.taken["challenges to hooks.customer-test.com", "2026-12-01T12"] = 200
    for refused in (
        bench.ask("POST", path, at=NOW),
        bench.ask("POST", "/v1/subscriptions", CREATE | {"resource_id": "r"}, at=NOW),
    ):
        assert (refused.status, refused.code) == (429, "throttled")
        assert refused.headers["retry-after"] == "Tue, 01 Dec 2026 13:00:00 GMT"
    assert len(bench.world.challenges) == 1
    assert bench.ask("POST", path, at=NOW + HOUR).status == 202


def test_a_test_event_is_asked_for_where_the_endpoint_is_known_to_be_the_owners(bench: Bench) -> None:
    key = bench.world.add(a_subscription())
    path = f"/v1/subscriptions/{key.subscription_id}/test"
    assert bench.ask("POST", path).body["event_type"] == "endpoint.test"
    assert bench.ask("POST", path, {"event_type": "invoice.paid", "data": {"n": 1}}).status == 202
    assert bench.world.tests == [(key, "endpoint.test", "{}"), (key, "invoice.paid", '{"n": 1}')]
    assert bench.ask("POST", path, {"event_type": "A"}).code == "invalid_event_type"
    assert bench.ask("POST", path, {"data": {"x": "y" * 65536}}).status == 413
    pending = bench.world.add(a_pending_subscription(key=a_key(2)))
    assert bench.ask("POST", f"/v1/subscriptions/{pending.subscription_id}/test").status == 409


# ── events and deliveries ────────────────────────────────────────────────────────────────────────


def test_an_event_is_queued_as_the_tenants_to_the_digit(bench: Bench) -> None:
    raw = '{"id":"evt_1001","type":"invoice.paid","resource_id":"shop_7","data":{"amount":1.10}}'
    answer = bench.ask("POST", "/v1/events", raw=raw, at=NOW)
    assert (answer.status, answer.body) == (202, {"id": "evt_1001"})
    (text,) = bench.queue.texts
    assert text == (
        '{"id":"evt_1001","tenant_id":"acme","mode":"live","type":"invoice.paid","resource_id":"shop_7",'
        '"occurred_at":"2026-12-01T12:00:00.000000Z","data":{"amount":1.10}}'
    )


def test_the_sample_event_is_accepted(bench: Bench) -> None:
    assert bench.send(sample("api_emit")).body == {"id": "evt_1001"}


def test_a_missing_id_is_made_and_returned(bench: Bench) -> None:
    answer = bench.ask("POST", "/v1/events", {"type": "a", "data": {}})
    assert json.loads(bench.queue.texts[0])["id"] == answer.body["id"]
    assert answer.body["id"].startswith("evt_")


def test_bb10_one_id_is_one_event_whichever_way_it_is_published(bench: Bench) -> None:
    event = {"id": "order-7781", "type": "a", "data": {"n": 1}}
    answers = [bench.ask("POST", "/v1/events", event) for _ in range(3)]
    answers.append(bench.ask("POST", "/v1/events", {"events": [event, event]}))
    assert {answer.status for answer in answers} == {202}
    assert answers[-1].body == {"events": [{"id": "order-7781"}] * 2}
    assert len(bench.queue.texts) == 4
    assert {json.loads(text)["id"] for text in bench.queue.texts} == {"order-7781"}
    other = bench.ask("POST", "/v1/events", event | {"data": {"n": 2}})
    assert (other.status, other.code) == (409, "conflict")
    theirs = bench.ask("POST", "/v1/events", event | {"data": {"n": 2}}, tenant="beta")
    assert theirs.status == 202


def test_of_several_each_is_taken_or_refused_by_itself(bench: Bench) -> None:
    bench.ask("POST", "/v1/events", {"id": "used", "type": "a", "data": {}})
    bench.queue.refuses = frozenset({1})
    answer = bench.ask(
        "POST",
        "/v1/events",
        {
            "events": [
                {"id": "one", "type": "a", "data": {}},
                {"id": "two", "type": "A", "data": {}},
                {"id": "used", "type": "b", "data": {}},
                {"id": "four", "type": "a", "data": {}},
                {"id": "five", "type": "a", "data": {}},
                7,
                {"type": "a", "data": {}, "tenant_id": "beta"},
            ]
        },
    )
    assert answer.status == 202
    told = [(each.get("id"), (each.get("error") or {}).get("code")) for each in answer.body["events"]]
    assert told == [
        ("one", None),
        (None, "invalid_event_type"),
        ("used", "conflict"),
        ("four", "unavailable"),
        ("five", None),
        (None, "wrong_type"),
        (None, "unknown_key"),
    ]
    assert answer.body["events"][1]["error"]["pointer"] == "/events/1/type"


def test_a_batch_of_which_nothing_was_taken_is_no_202(bench: Bench) -> None:
    answer = bench.ask("POST", "/v1/events", {"events": [{"type": "A", "data": {}}, {"type": "a"}]})
    assert (answer.status, answer.code) == (422, "invalid_events")
    assert [each["pointer"] for each in answer.body["errors"]] == ["/events/0/type", "/events/1/data"]
    bench.queue.refuses = frozenset({0})
    for body in ({"events": [{"type": "a", "data": {}}]}, {"type": "a", "data": {}}):
        answer = bench.ask("POST", "/v1/events", body)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize(
    "body,code",
    [
        ({"events": []}, "too_many_events"),
        ({"events": [{"type": "a", "data": {}}] * 101}, "too_many_events"),
        ({"events": {}}, "wrong_type"),
        ({"events": "x"}, "wrong_type"),
        ({"events": [], "type": "a"}, "unknown_key"),
    ],
)
def test_a_batch_is_a_list_of_one_to_a_hundred(bench: Bench, body: dict[str, Any], code: str) -> None:
    answer = bench.ask("POST", "/v1/events", body)
    assert (answer.status, answer.code) == (422, code)


def test_t46_too_large_is_413_counted_in_bytes(bench: Bench) -> None:
    event = {"type": "a", "data": {"x": "é" * (MAX_BODY_BYTES // 2)}}
    assert bench.ask("POST", "/v1/events", event).status == 413
    body = bench.ask("POST", "/v1/events", raw='{"type":"a","data":{"x":"' + "y" * (4 * 1024 * 1024) + '"}}')
    assert (body.status, body.code) == (413, "too_large")
    zipped = bench.ask("POST", "/v1/events", event, headers={"Content-Encoding": "gzip"})
    assert zipped.status == 415
    form = bench.ask("POST", "/v1/subscriptions", raw="a=b", headers={"Content-Type": "text/plain"})
    assert (form.status, form.code) == (415, "unsupported_media_type")


def test_a_body_that_is_no_utf8_is_422(bench: Bench) -> None:
    for body in ("//79", "%%%"):
        event = sample("api_emit") | {"body": body, "isBase64Encoded": True}
        answer = bench.send(event)
        assert (answer.status, answer.code) == (422, "invalid_json")


def test_an_event_is_read_with_its_deliveries(bench: Bench) -> None:
    bench.world.add(a_subscription())
    (archived,) = bench.archive.put([an_event()], now=NOW)
    item = an_event_item(matches=1, pointer=archived.pointer)
    bench.world.event_items[item.scope, item.id] = item
    delivered = a_delivered()
    bench.world.deliveries[delivered.key] = delivered
    answer = bench.ask("GET", f"/v1/events/{item.id}")
    assert answer.status == 200
    assert answer.body["data"] == {"n": 1}
    (delivery,) = answer.body["deliveries"]
    assert (delivery["id"], delivery["status"]) == (delivered.key.delivery_id, "succeeded")
    assert bench.ask("GET", f"/v1/deliveries/{delivery['id']}").body == delivery
    assert bench.ask("GET", "/v1/events/evt_2").status == 404
    bench.world.objects.clear()
    late = bench.ask("GET", f"/v1/events/{item.id}")
    assert (late.status, late.body["data"]) == (200, None), "retention is over"


def test_deliveries_are_listed_newest_first_by_cursor(bench: Bench) -> None:
    key = bench.world.add(a_subscription())
    for n in range(1, 6):
        at = NOW + timedelta(minutes=n)
        (archived,) = bench.archive.put([an_event(n)], now=at)
        delivered = a_delivered(key=a_delivery_key(n), archived_at=archived.archived_at)
        bench.world.deliveries[delivered.key] = delivered
    path = f"/v1/subscriptions/{key.subscription_id}/deliveries"
    seen, cursor = [], None
    for _ in range(3):
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = bench.ask("GET", path, query=query, at=NOW + HOUR).body
        seen += [each["event_id"][-1] for each in page["data"]]
        cursor = page["next_cursor"]
    assert (seen, cursor) == (["5", "4", "3", "2", "1"], None)
    bounded = {"from": "2026-12-01T12:02:00Z", "to": "2026-12-01T12:03:00Z"}
    page = bench.ask("GET", path, query=bounded, at=NOW + HOUR).body
    assert [each["event_id"][-1] for each in page["data"]] == ["3", "2"]


# ── whose it is ──────────────────────────────────────────────────────────────────────────────────


def routes_of_one(
    subscription_id: str, delivery_id: str, recovery_id: str, event_id: str
) -> dict[str, tuple[str, str, Any]]:
    path = f"/v1/subscriptions/{subscription_id}"
    return {
        "read": ("GET", path, None),
        "patch": ("PATCH", path, {"description": "mine"}),
        "off": ("PUT", path, {"enabled": False}),
        "on": ("PUT", path, {"enabled": True}),
        "delete": ("DELETE", path, None),
        "verify": ("POST", f"{path}/verify", {"challenge": "x"}),
        "verification": ("POST", f"{path}/verification", None),
        "pause": ("POST", f"{path}/pause", None),
        "reenable": ("POST", f"{path}/reenable", None),
        "test": ("POST", f"{path}/test", None),
        "rotate": ("POST", f"{path}/rotate-secret", None),
        "maintenance": ("POST", f"{path}/maintenance", {"until": None}),
        "audit": ("GET", f"{path}/audit", None),
        "deliveries": ("GET", f"{path}/deliveries", None),
        "recoveries": ("GET", f"{path}/recoveries", None),
        "explain": ("GET", f"{path}/explain", None),
        "recovery": ("GET", f"/v1/recoveries/{recovery_id}", None),
        "delivery": ("GET", f"/v1/deliveries/{delivery_id}", None),
        "event": ("GET", f"/v1/events/{event_id}", None),
    }


def test_an_operator_names_tenant_and_mode_in_headers(bench: Bench) -> None:
    bench.world.tenants["acme"] = a_tenant()
    bench.world.add(a_subscription())
    named = {"hookkeeper-tenant": "acme", "Hookkeeper-Mode": "live"}
    assert len(bench.as_operator("GET", "/v1/subscriptions", headers=named).body["data"]) == 1
    test_mode = bench.as_operator("GET", "/v1/subscriptions", headers=named | {"Hookkeeper-Mode": "test"})
    assert test_mode.body["data"] == []
    assert bench.as_operator("GET", "/v1/subscriptions").code == "tenant_required"
    odd = bench.as_operator("GET", "/v1/subscriptions", headers=named | {"hookkeeper-tenant": "a#b"})
    assert (odd.status, odd.code) == (422, "invalid_id")
    gone = bench.as_operator("GET", "/v1/subscriptions", headers=named | {"hookkeeper-tenant": "nobody"})
    assert gone.status == 404


def test_a_tenants_key_speaks_for_itself_whatever_its_headers_say(bench: Bench) -> None:
    bench.world.tenants["beta"] = a_tenant("beta")
    bench.world.add(a_subscription(key=a_key(1, a_scope("beta"))))
    answer = bench.ask(
        "GET", "/v1/subscriptions", headers={"hookkeeper-tenant": "beta", "hookkeeper-mode": "live"}
    )
    assert answer.body["data"] == []


NAMED = {"hookkeeper-tenant": "acme", "hookkeeper-mode": "live"}


def as_application(bench: Bench, method: str, path: str, body: Any = None, **more: Any) -> Answer:
    headers = NAMED | more.pop("headers", {"if-match": "*"})
    kind, rights = KeyKind.APP, more.pop("rights", APPLICATION_RIGHTS)
    return bench.ask(
        method, path, body, tenant="", kind=kind, rights=rights, application="erp", headers=headers, **more
    )


def consented(bench: Bench, *patterns: str, at: datetime = NOW) -> Answer:
    bench.world.tenants["acme"] = a_tenant()
    body = {"application_id": "erp", "event_types": list(patterns), "granted_by": "ada@acme.test"}
    return bench.as_operator("POST", "/v1/consents", body, headers=NAMED, at=at)


def test_t43_an_application_without_consent_gets_nothing(bench: Bench) -> None:
    bench.world.tenants["acme"] = a_tenant()
    without = as_application(bench, "GET", "/v1/subscriptions")
    assert (without.status, without.code) == (403, "no_consent")
    del bench.world.tenants["acme"]
    assert as_application(bench, "GET", "/v1/subscriptions").text == without.text, "no tenant can be guessed"
    assert as_application(bench, "POST", "/v1/subscriptions", CREATE).status == 403
    assert bench.ask("GET", "/v1/subscriptions", tenant="", kind=KeyKind.APP).code == "tenant_required"


def test_t43_an_application_subscribes_within_its_consent_alone(bench: Bench) -> None:
    assert consented(bench, "invoice.*").status == 201
    beyond = as_application(bench, "POST", "/v1/subscriptions", CREATE | {"event_types": ["*"]})
    assert (beyond.status, beyond.code) == (403, "no_consent")
    body = as_application(bench, "POST", "/v1/subscriptions", CREATE).body
    assert body["application_id"] == "erp"
    path = f"/v1/subscriptions/{body['id']}"
    wider = as_application(bench, "PATCH", path, {"event_types": ["invoice.*", "order.made"]})
    assert (wider.status, wider.code) == (403, "no_consent")
    assert as_application(bench, "PATCH", path, {"event_types": ["invoice.paid"]}).status == 200


def test_an_application_sees_its_own_subscriptions_alone(bench: Bench) -> None:
    consented(bench, "*")
    own = bench.world.add(a_subscription(key=a_key(1), application_id="erp"))
    for number, application in ((2, None), (3, "other")):
        bench.world.add(a_subscription(key=a_key(number), application_id=application))
    listed = as_application(bench, "GET", "/v1/subscriptions").body["data"]
    assert [each["id"] for each in listed] == [own.subscription_id]
    assert as_application(bench, "GET", f"/v1/subscriptions/{own.subscription_id}").status == 200
    for number in (2, 3):
        bench.world.deliveries[a_delivery_key(1, a_key(number))] = a_delivered(
            key=a_delivery_key(1, a_key(number))
        )
        routes = routes_of_one(
            a_key(number).subscription_id, a_delivery_key(1, a_key(number)).delivery_id, "rec_9", "evt_9"
        )
        for name, (method, path, body) in routes.items():
            expected = 403 if name == "event" else 404
            query = {"event_id": "evt_1"} if name == "explain" else None
            assert as_application(bench, method, path, body, query=query).status == expected, name


def test_consent_withdrawn_shuts_the_application_out_and_suspends(bench: Bench) -> None:
    consented(bench, "*")
    key = bench.world.add(a_subscription(application_id="erp"))
    gone = bench.as_operator("DELETE", "/v1/consents/erp", headers=NAMED, at=NOW + HOUR)
    assert (gone.status, gone.body["withdrawn_at"]) == (200, "2026-12-01T13:00:00.000000Z")
    assert as_application(bench, "GET", "/v1/subscriptions").code == "no_consent"
    told = bench.ask("GET", f"/v1/subscriptions/{key.subscription_id}").body
    assert (told["status"], told["disabled_reason"]) == ("suspended", "consent_withdrawn")
    refused = bench.ask("POST", f"/v1/subscriptions/{key.subscription_id}/reenable")
    assert (refused.status, refused.code) == (403, "no_consent")
    listed = bench.as_operator("GET", "/v1/consents", headers=NAMED).body["data"]
    assert [(each["application_id"], each["event_types"]) for each in listed] == [("erp", ["*"])]
    assert bench.as_operator("DELETE", "/v1/consents/other", headers=NAMED).status == 404
    assert bench.as_operator("DELETE", "/v1/consents/o.o", headers=NAMED).status == 404


def test_applications_keys_are_made_listed_and_revoked(bench: Bench) -> None:
    made = bench.as_operator("POST", "/v1/applications/erp/keys").body
    assert made["key"].startswith("hk_app_")
    assert (made["application_id"], made["mode"]) == ("erp", None)
    listed = bench.as_operator("GET", "/v1/applications/erp/keys").body["data"]
    assert [(each["id"], each["last4"]) for each in listed] == [(made["id"], made["key"][-4:])]
    assert bench.as_operator("DELETE", f"/v1/applications/erp/keys/{made['id']}").status == 204
    assert bench.as_operator("DELETE", "/v1/applications/other/keys/key_1").status == 404
    assert bench.as_operator("POST", "/v1/applications/o.o/keys").status == 422


def test_clients_are_let_into_the_callers_tenant_alone(bench: Bench) -> None:
    bench.ask("GET", "/v1/subscriptions")
    bench.ask("GET", "/v1/subscriptions", tenant="beta", mode=Mode.TEST)
    assert bench.tenants.entered == [a_scope(), a_scope("beta", Mode.TEST)]


def test_no_key_no_answer(bench: Bench) -> None:
    assert bench.ask("GET", "/v1/subscriptions", tenant=None).status == 401
    assert bench.ask("GET", "/healthz", tenant=None).body["status"] == "ok"


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────


def test_t18_bb42_no_answer_but_the_first_holds_a_secret(bench: Bench) -> None:
    body = created(bench, headers={"Authorization": "Bearer t0p-s3cret"})
    secret = body["secret"]
    path = f"/v1/subscriptions/{body['id']}"
    answers = [
        bench.ask("GET", path),
        bench.ask("GET", "/v1/subscriptions"),
        bench.ask("PATCH", path, {"description": "x"}, headers={"if-match": "*"}),
        bench.ask(
            "PATCH", path, {"headers": {"Authorization": "Bearer t0p-s3cret"}}, headers={"if-match": "*"}
        ),
        bench.ask("GET", f"{path}/audit"),
        bench.ask("POST", "/v1/subscriptions", CREATE),
        bench.ask("DELETE", path, headers={"if-match": "*"}),
        bench.ask("GET", path),
    ]
    told = "\n".join(answer.text for answer in answers) + json.dumps(body["headers"])
    for hidden in (secret, secret.removeprefix("whsec_"), "t0p-s3cret", bench.world.challenges[0][1]):
        assert hidden not in told
    assert '"***"' in told


def test_nothing_secret_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    body = created(bench, headers={"x-api-key": "t0p-s3cret"})
    bench.ask("GET", "/v1/subscriptions", query={"api_key": "hk_live_in_query"})
    bench.ask("GET", "/v1/hk_live_in_path")
    bench.ask("POST", "/v1/events", {"type": "a", "data": {"card": "4242"}})
    told = "\n".join(str(record.__dict__) for record in caplog.records)
    assert told.count("request.answered") >= 4
    assert "/v1/subscriptions" in told
    for hidden in (
        body["secret"][6:],
        "t0p-s3cret",
        bench.world.challenges[0][1],
        "hk_live_in",
        "4242",
        "customer-test",
    ):
        assert hidden not in told


# ── idempotency ──────────────────────────────────────────────────────────────────────────────────


def test_an_idempotency_key_makes_one_subscription_and_keeps_no_secret(bench: Bench) -> None:
    key = {"Idempotency-Key": '"k1"'}
    first = bench.ask("POST", "/v1/subscriptions", CREATE, headers=key, at=NOW)
    again = bench.ask("POST", "/v1/subscriptions", CREATE, headers={"idempotency-key": "k1"}, at=NOW)
    place = f"https://api.hookkeeper.dev/api/v1/subscriptions/{first.body['id']}"
    assert first.headers["location"] == place, "with the stage in it"
    assert (first.status, again.status) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body == first.body | {"secret": None}
    assert "whsec_" not in repr(bench.idempotency.kept)
    assert len(bench.world.subscriptions) == 1


def test_an_idempotency_key_is_bound_to_body_path_tenant_and_day(bench: Bench) -> None:
    key = {"Idempotency-Key": "k1"}
    event = {"type": "a", "data": {}}
    first = bench.ask("POST", "/v1/events", event, headers=key, at=NOW)
    other = bench.ask("POST", "/v1/events", event | {"type": "b"}, headers=key, at=NOW)
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    theirs = bench.ask("POST", "/v1/events", event, headers=key, tenant="beta", at=NOW)
    elsewhere = bench.ask("POST", "/v1/subscriptions", CREATE, headers=key, at=NOW)
    tomorrow = bench.ask("POST", "/v1/events", event, headers=key, at=NOW + timedelta(hours=24))
    assert len({first.text, theirs.text, tomorrow.text}) == 3
    assert elsewhere.status == 201


def test_a_second_call_meanwhile_is_409_and_a_failed_one_frees_the_key(bench: Bench) -> None:
    key = {"Idempotency-Key": "k1"}
    bad = bench.ask("POST", "/v1/subscriptions", CREATE | {"policy": "x"}, headers=key, at=NOW)
    assert bad.status == 422
    assert not bench.idempotency.kept

    seen: list[str] = []

    def meanwhile(call: str) -> None:
        if call == "Subscriptions.create" and not seen:
            seen.append(call)
            (owner, kept), *_ = bench.idempotency.kept
            stored = bench.idempotency.begin(owner, kept, request_hash="", now=NOW)
            assert stored is not None
            assert stored.status_code is None

    bench.world.before_call = meanwhile
    assert bench.ask("POST", "/v1/subscriptions", CREATE, headers=key, at=NOW).status == 201
    assert seen


def test_an_answer_that_asks_for_the_same_again_is_not_kept_and_the_rest_is_not_doubled(bench: Bench) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {"events": [{"type": "a", "data": {"n": n}} for n in range(3)]}
    bench.queue.refuses = frozenset({1})
    first = bench.ask("POST", "/v1/events", body, headers=key, at=NOW)
    assert [each.get("error", {}).get("code") for each in first.body["events"]] == [None, "unavailable", None]
    bench.queue.refuses = frozenset()
    again = bench.ask("POST", "/v1/events", body, headers=key, at=NOW + HOUR)
    assert "idempotency-replayed" not in again.headers
    ids = [each["id"] for each in again.body["events"]]
    assert ids == [each["id"] for each in first.body["events"]], "dedupe knows those that were taken"
    assert {json.loads(text)["id"] for text in bench.queue.texts} == set(ids)
    third = bench.ask("POST", "/v1/events", body, headers=key, at=NOW + HOUR)
    assert third.headers["idempotency-replayed"] == "true"


def test_an_idempotency_key_shows_no_answer_to_another_api_key(bench: Bench) -> None:
    key = {"Idempotency-Key": "k1"}
    first = bench.ask("POST", "/v1/subscriptions", CREATE, headers=key, at=NOW)
    weak = frozenset({Right.EVENTS_WRITE})
    other = bench.ask("POST", "/v1/subscriptions", CREATE, headers=key, key_id="key_2", rights=weak, at=NOW)
    assert (other.status, other.code) == (403, "forbidden")
    duplicate = bench.ask("POST", "/v1/subscriptions", CREATE, headers=key, key_id="key_2", at=NOW)
    assert (duplicate.status, duplicate.code) == (409, "duplicate_subscription")
    assert first.status == 201


@pytest.mark.parametrize("key", ["", '""', "é", "x" * 256, "a b"])
def test_an_odd_idempotency_key_is_422(bench: Bench, key: str) -> None:
    answer = bench.ask("POST", "/v1/events", {"type": "a", "data": {}}, headers={"Idempotency-Key": key})
    assert (answer.status, answer.code) == (422, "invalid_idempotency_key")


def test_an_operators_keys_are_not_kept_in_clear_either(bench: Bench) -> None:
    bench.world.tenants["acme"] = a_tenant()
    key = {"Idempotency-Key": "k1"}
    first = bench.as_operator("POST", "/v1/tenants/acme/keys", {"mode": "live"}, headers=key, at=NOW)
    again = bench.as_operator("POST", "/v1/tenants/acme/keys", {"mode": "live"}, headers=key, at=NOW)
    assert first.status == again.status == 201
    assert again.body == first.body | {"key": None}
    assert first.body["key"] not in repr(bench.operator_idempotency.kept)


# ── operators ────────────────────────────────────────────────────────────────────────────────────


def test_the_catalogue_is_listed_searched_by_pattern_and_paged(bench: Bench) -> None:
    for name in ("invoice.paid", "invoice.line.added", "order.made"):
        answer = bench.as_operator(
            "PUT", f"/v1/event-types/{name}", {"description": name, "example": {"n": 1.5}}, at=NOW
        )
        assert (answer.status, answer.body["example"]) == (200, {"n": 1.5})
    first = bench.ask("GET", "/v1/event-types", query={"limit": "2"}).body
    rest = bench.ask("GET", "/v1/event-types", query={"limit": "2", "cursor": first["next_cursor"]}).body
    names = [each["name"] for each in first["data"] + rest["data"]]
    assert names == ["invoice.line.added", "invoice.paid", "order.made"]
    assert not rest["has_more"]
    previewed = bench.ask("GET", "/v1/event-types", query={"pattern": "invoice.*"}).body["data"]
    assert [each["name"] for each in previewed] == names[:2]
    assert bench.ask("GET", "/v1/event-types", query={"pattern": "a..b"}).code == "invalid_pattern"
    odd = bench.as_operator("PUT", "/v1/event-types/a..b", {})
    assert (odd.status, odd.code) == (422, "invalid_event_type")


def test_a_pattern_that_the_catalogue_does_not_know_is_warned_of_and_taken(bench: Bench) -> None:
    assert created(bench)["warnings"] == []
    bench.as_operator("PUT", "/v1/event-types/order.made", {})
    body = created(bench, resource_id="r1", event_types=["invoice.*", "order.*"])
    assert body["warnings"] == ["invoice.* matches no event type of the catalogue"]
    path = f"/v1/subscriptions/{body['id']}"
    edited = bench.ask("PATCH", path, {"event_types": ["nothing"]}, headers={"if-match": "*"}).body
    assert edited["warnings"] == ["nothing matches no event type of the catalogue"]
    described = bench.ask("PATCH", path, {"description": "x"}, headers={"if-match": "*"}).body
    assert described["warnings"] == []


def test_a_strict_type_s_event_that_does_not_fit_is_422_and_its_neighbours_go_through(bench: Bench) -> None:
    schema = {"type": "object", "required": ["amount"]}
    bench.as_operator("PUT", "/v1/event-types/invoice.paid", {"json_schema": schema, "strict": True})
    bad, good = {"type": "invoice.paid", "data": {}}, {"type": "invoice.paid", "data": {"amount": 1}}
    refused = bench.ask("POST", "/v1/events", bad)
    assert (refused.status, refused.code) == (422, "schema_mismatch")
    assert refused.body["errors"][0]["pointer"] == "/data"
    mixed = bench.ask("POST", "/v1/events", {"events": [bad, good]})
    assert mixed.status == 202
    assert mixed.body["events"][0]["error"]["pointer"] == "/events/0/data"
    assert len(bench.queue.texts) == 1


def at_the_edge(bench: Bench, number: int, scope: Scope | None = None) -> SubscriptionKey:
    key = a_key(number, scope)
    return bench.world.add(a_subscription(key=key), a_failing_health(24, key=key))


def test_an_operator_sees_whom_the_next_failure_would_suspend_over_all_tenants(bench: Bench) -> None:
    for tenant in ("acme", "beta"):
        bench.world.tenants[tenant] = a_tenant(tenant)
    edge = [at_the_edge(bench, 1), at_the_edge(bench, 2), at_the_edge(bench, 3, a_scope("beta", Mode.TEST))]
    bench.world.add(a_subscription(key=a_key(4)))
    bench.world.add(a_subscription(key=a_key(5)), a_failing_health(23, key=a_key(5)))
    bench.world.add(a_subscription(key=a_key(6)), a_failing_health(24, hours=2, key=a_key(6)))
    bench.world.add(a_suspended_subscription(key=a_key(7)), a_failing_health(24, key=a_key(7)))
    quiet = a_subscription(key=a_key(8), maintenance_until=NOW + HOUR)
    bench.world.add(quiet, a_failing_health(24, key=a_key(8)))
    body = bench.as_operator("GET", "/v1/operations/at-risk", at=NOW).body
    assert {each["subscription_id"] for each in body["data"]} == {key.subscription_id for key in edge}
    assert body["data"][0]["limits"] == ["retryable: 25 of 25, 13 h of 12 h"]
    seen, cursor = [], None
    while True:
        query = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = bench.as_operator("GET", "/v1/operations/at-risk", query=query, at=NOW).body
        seen += [each["subscription_id"] for each in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [each["subscription_id"] for each in body["data"]]
    named = {"hookkeeper-tenant": "beta", "hookkeeper-mode": "test"}
    theirs = bench.as_operator("GET", "/v1/operations/at-risk", headers=named, at=NOW).body["data"]
    assert [(each["tenant_id"], each["mode"]) for each in theirs] == [("beta", "test")]


def test_an_operator_sees_the_fuse(bench: Bench) -> None:
    rules = bench.world.config.fuse
    assert bench.as_operator("GET", "/v1/operations/fuse", at=NOW).body["state"] == "open"
    hosts = {f"host-{n}.test": NOW for n in range(rules.limit(0))}
    bench.world.fuse = FuseState(version=1, let_through=hosts)
    told = bench.as_operator("GET", "/v1/operations/fuse", at=NOW).body
    assert (told["state"], told["hosts_let_through"]) == ("full", len(hosts))
    bench.world.fuse = FuseState(version=2, latched_at=NOW)
    assert bench.as_operator("GET", "/v1/operations/fuse", at=NOW).body["state"] == "latched"


def test_recoveries_are_listed_by_cursor(bench: Bench) -> None:
    key = bench.world.add(a_subscription())
    for number in range(1, 6):
        bench.world.recoveries[key.scope, a_recovery(number).id] = a_recovery(number)
    path, seen, cursor = f"/v1/subscriptions/{key.subscription_id}/recoveries", [], None
    while True:
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = bench.ask("GET", path, query=query).body
        seen += [each["id"] for each in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [a_recovery(number).id for number in (5, 4, 3, 2, 1)]


def test_the_audit_is_exported_as_json_lines_with_before_and_after(bench: Bench) -> None:
    body = created(bench)
    path = f"/v1/subscriptions/{body['id']}"
    bench.ask("PATCH", path, {"event_types": ["order.*"]}, headers={"if-match": "*"}, at=NOW)
    bench.ask("POST", f"{path}/verify", {"challenge": bench.world.challenges[-1][1]}, at=NOW)
    exported = bench.ask("GET", f"{path}/audit/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    verified, edited, made = [json.loads(line) for line in exported.text.splitlines()]
    assert (made["action"], made["source_ip"]) == ("subscription.created", "198.51.100.7")
    assert edited["before"] == {"event_types": "invoice.*"}
    assert edited["after"] == {"event_types": "order.*"}
    assert (verified["before"], verified["after"]) == ({"status": "pending"}, {"status": "active"})


def test_operators_create_tenants_and_keys_that_are_shown_once(bench: Bench) -> None:
    tenant = bench.as_operator("POST", "/v1/tenants", {"id": "acme", "name": " Acme "}, at=NOW)
    assert (tenant.status, tenant.body) == (
        201,
        {"id": "acme", "name": "Acme", "plan": "standard", "created_at": "2026-12-01T12:00:00.000000Z"},
    )
    made = bench.as_operator("POST", "/v1/tenants", {"name": "Other"})
    assert made.body["id"].startswith("ten_")
    assert bench.as_operator("POST", "/v1/tenants", {"id": "acme", "name": "x"}, at=NOW + HOUR).status == 409
    key = bench.as_operator("POST", "/v1/tenants/acme/keys", {"mode": "test"}).body
    assert well_formed(key["key"])
    assert key["key"].startswith("hk_test_")
    assert key["scopes"] == sorted(TENANT_RIGHTS)
    stored = bench.world.keys[key_hash(key["key"])]
    assert (stored.tenant_id, stored.mode, stored.last4) == ("acme", Mode.TEST, key["key"][-4:])
    listed = bench.as_operator("GET", "/v1/tenants/acme/keys")
    assert key["key"] not in listed.text
    path = f"/v1/tenants/acme/keys/{key['id']}"
    assert bench.as_operator("DELETE", path).status == 204
    assert not bench.world.keys[key_hash(key["key"])].usable(NOW + timedelta(days=1))
    assert bench.as_operator("DELETE", "/v1/tenants/other/keys/key_1").status == 404
    assert {record.action for record in bench.world.audit.values()} == {
        "tenant.created",
        "key.created",
        "key.revoked",
    }
    page = bench.as_operator("GET", "/v1/tenants", query={"limit": "1"}).body
    assert page["has_more"] is True
    rest = bench.as_operator("GET", "/v1/tenants", query={"limit": "1", "cursor": page["next_cursor"]}).body
    assert rest["has_more"] is False


@pytest.mark.parametrize(
    "path,body,status",
    [
        ("/v1/tenants", {"id": "a#b", "name": "x"}, 422),
        ("/v1/tenants", {"id": "*", "name": "x"}, 422),
        ("/v1/tenants", {"name": " "}, 422),
        ("/v1/tenants", {"name": "x", "plan": "platinum"}, 422),
        ("/v1/tenants/nobody/keys", {"mode": "live"}, 404),
        ("/v1/tenants/acme/keys", {"mode": "prod"}, 422),
        ("/v1/tenants/acme/keys", {"mode": "live", "scopes": ["operator"]}, 422),
        ("/v1/tenants/acme/keys", {"mode": "live", "scopes": []}, 422),
        ("/v1/tenants/acme/keys", {"mode": "live", "scopes": ["all"]}, 422),
        ("/v1/tenants/acme/keys", {"mode": "live", "expires_at": "2020-01-01T00:00:00Z"}, 422),
    ],
)
def test_an_operators_mistakes_are_told(bench: Bench, path: str, body: dict[str, Any], status: int) -> None:
    bench.world.tenants["acme"] = a_tenant()
    assert bench.as_operator("POST", path, body).status == status
    assert not bench.world.keys


# ── the edges ────────────────────────────────────────────────────────────────────────────────────


def test_unknown_paths_and_methods_are_problems(bench: Bench) -> None:
    gone = bench.ask("GET", "/v1/nothing")
    assert (gone.status, gone.code) == (404, "not_found")
    wrong = bench.ask("DELETE", "/v1/subscriptions")
    assert (wrong.status, wrong.code, wrong.headers["allow"]) == (405, "method_not_allowed", "GET, POST")
    assert gone.body["request_id"] == "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"


def test_our_own_bug_is_500_and_says_nothing_of_itself(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> None:
        raise KeyError("table Subscriptions-abc")

    bench.world.before_call = fail
    answer = bench.ask("GET", "/v1/subscriptions")
    assert (answer.status, answer.code) == (500, "internal_error")
    assert "Subscriptions-abc" not in answer.text
    assert any(record.msg == "api.failed" for record in caplog.records)


def test_an_answer_that_breaks_its_own_shape_is_our_500(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["operators"].TenantOut, "of", lambda _: {"id": 1})
    bench.world.tenants["acme"] = a_tenant()
    answer = bench.as_operator("POST", "/v1/tenants", {"name": "x"})
    assert (answer.status, answer.code) == (500, "internal_error")


def test_the_description_is_openapi_31_and_names_every_route(bench: Bench) -> None:
    document = bench.ask("GET", "/openapi.json", tenant=None).body
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": "https://api.hookkeeper.dev/api"}]
    operations = [(m, p) for p, each in document["paths"].items() for m in each]
    for method, path in (
        ("post", "/v1/subscriptions"),
        ("get", "/v1/events/{event_id}"),
        ("post", "/v1/events"),
    ):
        assert (method, path) in operations
    assert "requestBody" in document["paths"]["/v1/events"]["post"]
    refused = document["paths"]["/v1/subscriptions"]["post"]["responses"]["4XX"]
    assert list(refused["content"]) == ["application/problem+json"]
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"$ref": "#/')[1:]}:
        node: Any = document
        for step in reference.split("/"):
            node = node[step]


def test_pending_subscription_is_no_different_for_its_tokens_hash(bench: Bench) -> None:
    key = bench.world.add(a_pending_subscription())
    assert "0" * 64 not in bench.ask("GET", f"/v1/subscriptions/{key.subscription_id}").text


def test_it_starts_without_httpx_or_jinja2(bench: Bench) -> None:  # noqa: ARG001  # its environment
    code = (
        f"import sys; sys.path.insert(0, {str(FUNCTIONS / 'api')!r}); import handler;"
        " print(sorted({'httpx', 'jinja2'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


INJECTED = '\n{"level":"ERROR","tenant":"other"}\r\x1b[2J%s%n'


def test_t61_whatever_is_sent_is_one_line_of_json_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    calls = [
        ("GET", f"/v1/subscriptions/{INJECTED}", None),
        ("GET", f"/{INJECTED}", None),
        ("POST", "/v1/subscriptions", CREATE | {"description": INJECTED, "endpoint_url": INJECTED}),
        ("POST", "/v1/events", {"type": INJECTED, "data": {INJECTED: INJECTED}}),
    ]
    for method, path, body in calls:
        bench.ask(method, path, body, headers={"user-agent": INJECTED, "x-forwarded-for": INJECTED})
    written = [bench.module.logger.registered_formatter.format(record) for record in caplog.records]
    told = [json.loads(line) for line in written]
    assert [each["message"] for each in told] == ["request.answered"] * len(calls)
    assert {(each["level"], each.get("tenant")) for each in told} <= {("INFO", "acme"), ("INFO", None)}
    assert not [line for line in written if set(line) & set("\n\r\x1b")]


def test_t62_a_metric_has_the_service_for_its_only_dimension(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    for n in range(20):
        url = f"https://hooks{n}.customer-test.com/{n}"
        bench.ask("POST", "/v1/subscriptions", CREATE | {"endpoint_url": url}, tenant=f"tenant_{n}")
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert len(written) == 20
    series = {json.dumps(each["_aws"]["CloudWatchMetrics"]) for each in written}
    assert len(series) == 1
    assert '"Dimensions": [["service"]]' in series.pop()
    assert {key for each in written for key in each} == {"_aws", "service", "Requests", "RequestLatency"}
