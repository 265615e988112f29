"""What only DynamoDB can do to us: lost answers, conflicts, deleted items; and how its items are laid out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hookkeeper.adapters.dynamodb_expressions import update_item
from hookkeeper.adapters.dynamodb_health import effect_update
from hookkeeper.adapters.dynamodb_keys import core_key, health_key
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBRoutes
from hookkeeper.domain.circuit import CircuitRules, closed, opened
from hookkeeper.domain.endpoint import canonical_url, uniqueness_url
from hookkeeper.domain.errors import InvalidInputError, OwnFaultError
from hookkeeper.domain.health import Health
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.subscription import FilterChange, Status
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.ports import HealthEffect, Transition

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_pending_subscription,
    a_profile,
    a_recovery,
    a_scope,
    a_subscription,
    a_tenant,
    a_transition,
    an_audit_record,
    an_edit,
)
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.sizes import size_bytes
from tests.contracts.stores import Stores, over_dynamodb
from tests.fakes import affected
from tests.faults import counted, lose_answer, refuse

OPEN = opened(a_health().circuit, CircuitRules(), now=NOW)


@pytest.fixture
def dynamodb(aws: Aws) -> Stores:
    return over_dynamodb(aws)


@pytest.fixture
def client(aws: Aws) -> Any:
    return aws.client("dynamodb")


def a_suspension(stores: Stores, **changes: Any) -> Transition:
    before = stores.standing(a_key())
    after = replace(before.subscription, status=Status.SUSPENDED)
    health = replace(before.health, epoch=before.health.epoch + 1, outage_from=NOW)
    return a_transition(before, after, health=health, **changes)


# ── lost answers ─────────────────────────────────────────────────────────────────────────────────


def suspended(stores: Stores) -> bool:
    return stores.subscriptions.transition(a_suspension(stores, notice=a_notice(), holds_streak=True))


def created(stores: Stores) -> bool:
    new = a_subscription(key=a_key(2))
    audit = an_audit_record(subject=new.id)
    return stores.subscriptions.create(new, a_profile(), a_health(key=new.key), audit) is None


def edited(stores: Stores) -> bool:
    return stores.subscriptions.edit(an_edit(stores.standing(a_key()).subscription, notice=a_notice()))


def circuit_written(stores: Stores) -> bool:
    return stores.health.write_circuit(stores.standing(a_key()).health, OPEN, outage_from=NOW)


def circuit_closed(stores: Stores) -> bool:
    before = stores.standing(a_key()).health
    return stores.health.close_circuit(before, closed(OPEN), a_lock(), a_recovery())


def locked(stores: Stores) -> bool:
    before = stores.standing(a_key()).health
    return stores.health.write_lock(before, a_lock(), a_recovery(), flowing=True, notice=a_notice())


def claimed(stores: Stores) -> bool:
    stores.notices.put(a_notice())
    return stores.notices.claim(a_notice(), by="run_1", now=NOW, lease=MINUTE)


def tenant_created(stores: Stores) -> bool:
    return stores.access.create_tenant(a_tenant())


@pytest.mark.parametrize(
    "write, operation",
    [
        (suspended, "TransactWriteItems"),
        (created, "TransactWriteItems"),
        (edited, "TransactWriteItems"),
        (circuit_closed, "TransactWriteItems"),
        (locked, "TransactWriteItems"),
        (circuit_written, "UpdateItem"),
        (claimed, "UpdateItem"),
        (tenant_created, "PutItem"),
    ],
)
def test_a_writer_whose_answer_was_lost_knows_its_own_write(
    dynamodb: Stores, client: Any, write: Callable[[Stores], bool], operation: str
) -> None:
    dynamodb.have(a_subscription(), a_failing_health())
    calls = counted(client)
    lose_answer(client, operation)
    assert write(dynamodb)
    assert calls[operation] >= 1


def test_a_lost_answer_leaves_one_audit_record_one_notice_and_one_epoch(
    dynamodb: Stores, client: Any
) -> None:
    before = dynamodb.have(a_subscription(), a_failing_health())
    lose_answer(client, "TransactWriteItems")
    assert suspended(dynamodb)
    after = dynamodb.standing(a_key())
    assert after.health.epoch == before.health.epoch + 1
    assert after.subscription.version == before.subscription.version + 1
    assert len(dynamodb.audited(before.subscription)) == 1
    assert len(dynamodb.told(a_key())) == 1


# ── conflicts and throttling ─────────────────────────────────────────────────────────────────────


def cancelled(*codes: str) -> dict[str, Any]:
    return {
        "code": "TransactionCanceledException",
        "CancellationReasons": [{"Code": code} for code in codes],
    }


PASSING: list[dict[str, Any]] = [
    cancelled("TransactionConflict", "None"),
    cancelled("None", "ThrottlingError"),
    {"code": "ProvisionedThroughputExceededException"},
    {"code": "InternalServerError"},
]


@pytest.mark.parametrize("fault", PASSING, ids=["conflict", "throttled", "throughput", "ours"])
def test_what_passes_is_tried_again_and_at_last_is_our_own_fault(
    dynamodb: Stores, client: Any, fault: dict[str, Any]
) -> None:
    dynamodb.have(a_subscription(), a_failing_health())
    refuse(client, "TransactWriteItems", times=AT_ONCE.tries, **fault)
    with pytest.raises(OwnFaultError):
        suspended(dynamodb)
    refuse(client, "TransactWriteItems", times=AT_ONCE.tries - 1, **fault)
    assert suspended(dynamodb)


def test_a_transaction_that_is_wrong_in_itself_is_not_a_lost_guard(dynamodb: Stores, client: Any) -> None:
    dynamodb.have(a_subscription(), a_failing_health())
    refuse(client, "TransactWriteItems", **cancelled("ValidationError", "ConditionalCheckFailed"))
    with pytest.raises(ClientError):
        suspended(dynamodb)


def test_a_throttled_update_is_tried_again(dynamodb: Stores, client: Any) -> None:
    dynamodb.have(a_subscription())
    refuse(client, "UpdateItem", code="ThrottlingException", times=AT_ONCE.tries - 1)
    assert circuit_written(dynamodb)
    refuse(client, "UpdateItem", code="ThrottlingException", times=AT_ONCE.tries)
    with pytest.raises(OwnFaultError):
        dynamodb.health.raise_not_before(a_key(), epoch=1, not_before=NOW)


def test_a_circuit_is_written_without_the_price_of_a_transaction(dynamodb: Stores, client: Any) -> None:
    dynamodb.have(a_subscription())
    calls = counted(client)
    assert circuit_written(dynamodb)
    assert calls["UpdateItem"] == 1
    assert calls["TransactWriteItems"] == 0


# ── deleted items ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gone", [core_key, health_key], ids=["core", "health"])
def test_no_write_brings_back_a_deleted_item(
    dynamodb: Stores, aws: Aws, client: Any, gone: Callable[..., dict[str, Any]]
) -> None:
    read = dynamodb.have(a_subscription(), a_failing_health())
    transition = a_suspension(dynamodb)
    client.delete_item(TableName=aws.table("Subscriptions"), Key=gone(a_key()))
    left = aws.items("Subscriptions")
    assert not dynamodb.subscriptions.transition(transition)
    if gone is core_key:
        assert not dynamodb.subscriptions.edit(an_edit(read.subscription))
        assert not dynamodb.health.close_circuit(read.health, closed(OPEN), a_lock(), a_recovery())
        assert not dynamodb.health.write_lock(read.health, a_lock(), a_recovery(), flowing=True)
    else:
        assert not dynamodb.health.write_circuit(read.health, OPEN)
        assert not dynamodb.health.write_lock(read.health, a_lock(), a_recovery())
        dynamodb.health.raise_not_before(a_key(), epoch=1, not_before=NOW)
        dynamodb.health.set_check(a_key(), epoch=1, check_at=NOW)
    assert aws.items("Subscriptions") == left
    assert dynamodb.audited(read.subscription) == []


def test_a_settled_sequence_brings_back_no_deleted_health(dynamodb: Stores, aws: Aws, client: Any) -> None:
    dynamodb.have(a_subscription())
    client.delete_item(TableName=aws.table("Subscriptions"), Key=health_key(a_key()))
    left = aws.items("Subscriptions")
    expression = effect_update(a_key(), HealthEffect(epoch=1, outcome=Outcome.FATAL, at=NOW))
    assert not update_item(client, aws.table("Subscriptions"), health_key(a_key()), expression, AT_ONCE)
    assert aws.items("Subscriptions") == left


# ── what a settled sequence does to health ───────────────────────────────────────────────────────

FAILURE = HealthEffect(
    epoch=1,
    outcome=Outcome.RETRYABLE,
    at=NOW,
    first_failure_at=NOW - MINUTE,
    status_code=503,
    error="HTTP 503",
)
SUCCESS = HealthEffect(epoch=1, outcome=Outcome.SUCCESS, at=NOW, status_code=204)


@pytest.mark.parametrize("health", [a_health(), a_failing_health()], ids=["clean", "failing"])
@pytest.mark.parametrize(
    "effect",
    [
        SUCCESS,
        FAILURE,
        replace(FAILURE, outcome=Outcome.FATAL, status_code=None),
        replace(FAILURE, outcome=Outcome.PERMANENT, first_failure_at=None, error=None),
        replace(FAILURE, check_at=NOW + MINUTE),
    ],
    ids=["success", "retryable", "fatal", "permanent", "near a limit"],
)
def test_an_effect_on_the_item_is_the_fake_s(
    dynamodb: Stores, aws: Aws, client: Any, health: Health, effect: HealthEffect
) -> None:
    dynamodb.have(a_subscription(), health)
    table, key = aws.table("Subscriptions"), health_key(a_key())
    assert update_item(client, table, key, effect_update(a_key(), effect), AT_ONCE)
    assert dynamodb.standing(a_key()).health == affected(health, effect)
    due = [a_key()] if effect.check_at else []
    assert dynamodb.health.due(NOW + MINUTE, limit=9) == due


def test_an_effect_of_another_epoch_counts_nothing(dynamodb: Stores, aws: Aws, client: Any) -> None:
    before = dynamodb.have(a_subscription(), a_failing_health(epoch=2))
    expression = effect_update(a_key(), FAILURE)
    assert not update_item(client, aws.table("Subscriptions"), health_key(a_key()), expression, AT_ONCE)
    assert dynamodb.standing(a_key()) == before


def test_a_check_never_pushes_back_what_is_due_sooner_and_is_found_with_what_is_later(
    dynamodb: Stores, aws: Aws, client: Any
) -> None:
    dynamodb.have(a_subscription(), a_health(recovery=a_lock(lease_until=NOW + 2 * MINUTE)))
    for minutes in (1, 3, 9):
        effect = replace(FAILURE, check_at=NOW + minutes * MINUTE)
        expression = effect_update(a_key(), effect)
        assert update_item(client, aws.table("Subscriptions"), health_key(a_key()), expression, AT_ONCE)
    assert dynamodb.health.due(NOW + 2 * MINUTE, limit=9) == [a_key()]


def test_a_due_moment_that_outlived_its_reason_is_put_right(dynamodb: Stores, aws: Aws, client: Any) -> None:
    dynamodb.have(a_subscription(), a_health(check_at=NOW))
    client.update_item(
        TableName=aws.table("Subscriptions"), Key=health_key(a_key()), UpdateExpression="REMOVE check_at"
    )
    assert dynamodb.health.due(NOW, limit=9) == []
    (health,) = (item for item in aws.items("Subscriptions") if item["sk"]["S"] == "health")
    assert "due_at" not in health
    assert "due_pk" not in health


# ── routes ───────────────────────────────────────────────────────────────────────────────────────


def test_routes_are_read_again_after_ten_seconds_and_not_before(aws: Aws, dynamodb: Stores) -> None:
    client, clock = aws.client("dynamodb"), [0.0]
    routes = DynamoDBRoutes(
        client, subscriptions_table=aws.table("Subscriptions"), monotonic=lambda: clock[0]
    )
    calls = counted(client)
    found = []
    for number, seconds in enumerate((0.0, 9.9, 10.0), start=1):
        dynamodb.have(a_subscription(key=a_key(number)))
        clock[0] = seconds
        found.append(len(routes.matching(a_scope(), event_type="a.b", resource_id=None)))
    assert found == [1, 1, 3]
    assert calls["Query"] == 2 * 3


def test_an_event_costs_a_read_per_pattern_however_many_subscriptions_there_are(
    dynamodb: Stores, client: Any
) -> None:
    for number in range(1, 21):
        dynamodb.have(a_subscription(key=a_key(number), event_types=("other",)))
    calls = counted(client)
    assert dynamodb.routes.matching(a_scope(), event_type="a.b.c", resource_id="r_1") == ()
    assert calls == {"Query": 2 * 4}


def test_a_route_that_is_wanted_again_is_not_dropped_by_the_edit_before(
    dynamodb: Stores, aws: Aws, client: Any
) -> None:
    old, new = (tuple(f"{age}.t{n}" for n in range(64)) for age in ("old", "new"))
    before = dynamodb.have(a_subscription(event_types=old)).subscription
    other, wanted_again = over_dynamodb(aws, Aws().client("dynamodb")), old[-1]
    calls = counted(client)

    def between(**_: Any) -> None:
        if calls["TransactWriteItems"] == 2:
            present = other.standing(a_key()).subscription
            again = replace(present, event_types=(*new[1:], wanted_again))
            assert other.subscriptions.edit(an_edit(present, number=2, after=again))

    client.meta.events.register("before-call.dynamodb.TransactWriteItems", between)
    assert dynamodb.subscriptions.edit(an_edit(before, after=replace(before, event_types=new)))
    assert dynamodb.routed(before, *old, *new) == [wanted_again, *new[1:]]


# ── how items are laid out ───────────────────────────────────────────────────────────────────────


def test_every_key_of_table_and_list_begins_with_tenant_and_mode(dynamodb: Stores, aws: Aws) -> None:
    before = dynamodb.have(a_subscription(resource_id="r_1"), a_failing_health())
    edit = an_edit(before.subscription, number=7, filter_changes=(FilterChange(at=NOW, event_types=("*",)),))
    assert dynamodb.subscriptions.edit(edit)
    assert locked(dynamodb)
    assert suspended(dynamodb)
    items = [item for table in ("Subscriptions", "Audit", "Notices") for item in aws.items(table)]
    kinds = {item["sk"]["S"].partition("#")[0] for item in items}
    assert kinds >= {"core", "profile", "health", "filter", "url", "rec", "suspended"}
    for item in items:
        for name in {"pk", "list_pk"} & item.keys():
            assert item[name]["S"].startswith("acme#live#")


@pytest.mark.parametrize("tenant", ["", "A#", "A#live#sub", "a.b", "a b", "a\0b", "../other", "x" * 65])
def test_a_tenant_that_would_blur_a_key_is_refused_before_any_call(tenant: str) -> None:
    with pytest.raises(InvalidInputError):
        Scope(tenant, Mode.LIVE)


def test_without_a_scope_no_call_is_made(dynamodb: Stores, client: Any) -> None:
    nobody: Any = None
    calls = counted(client)
    for read in (
        lambda: dynamodb.subscriptions.page(nobody, limit=1),
        lambda: dynamodb.routes.matching(nobody, event_type="x", resource_id=None),
        lambda: dynamodb.recoveries.get(nobody, "rec_1"),
        lambda: dynamodb.audit.of(nobody, "sub_1", limit=1),
    ):
        with pytest.raises(AttributeError):
            read()
    assert calls == {}


@pytest.mark.parametrize(
    "path", ["", "/", "/in", "/in/", "/in//", "/in?a=1", "/in/?a=1", "/in?a=1/", "/?", "/in/?a=?/"]
)
def test_what_makes_an_endpoint_unique_is_the_domain_s(dynamodb: Stores, path: str) -> None:
    ours = canonical_url(f"https://h.example.org{path}")
    dynamodb.have(a_subscription(endpoint_url=ours.text))
    for number, other in enumerate(("", "/in", "/in/", "/in?a=1", "/in?a=1/"), start=2):
        theirs = canonical_url(f"https://h.example.org{other}")
        subscription = a_subscription(key=a_key(number), endpoint_url=theirs.text)
        health = a_health(key=subscription.key)
        audit = an_audit_record(subject=subscription.id)
        holder = dynamodb.subscriptions.create(subscription, a_profile(), health, audit)
        assert (holder == a_key(1).subscription_id) == (uniqueness_url(ours) == uniqueness_url(theirs))


def test_what_a_delivery_reads_of_a_plain_subscription_is_under_two_kilobytes(
    dynamodb: Stores, aws: Aws
) -> None:
    dynamodb.have(a_subscription(event_types=("invoice.paid", "order.*")), a_failing_health())
    read = [item for item in aws.items("Subscriptions") if item["sk"]["S"] in ("core", "health")]
    assert sum(map(size_bytes, read)) < 2048


def test_only_what_was_never_verified_is_removed_and_a_week_after_its_end(dynamodb: Stores, aws: Aws) -> None:
    for number, make in enumerate((a_pending_subscription, a_subscription), start=1):
        before = dynamodb.have(make(key=a_key(number)))
        revoked = replace(before.subscription, status=Status.REVOKED)
        assert dynamodb.subscriptions.transition(a_transition(before, revoked))
    removed = {
        (item["pk"]["S"][-1], item["sk"]["S"]): int(item["ttl"]["N"])
        for item in aws.items("Subscriptions")
        if "ttl" in item
    }
    assert removed.keys() == {("1", "core"), ("1", "health"), ("1", "profile")}
    assert min(removed.values()) >= (NOW + 7 * 24 * HOUR).timestamp()
