"""recover as the state machine runs it: task after task, each perhaps twice, until a recovery has ended."""

import json
import logging
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.domain.config import Margins
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.recovery import Recovery, RecoveryLock, RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.messages import DeliveryMessage, PointerMessage, RecoveryState
from hookkeeper.settings import RecoverSettings
from hookkeeper.usecases import transition
from pydantic import ValidationError

from tests import faults
from tests.builders import (
    ACTOR,
    a_delivered,
    a_health,
    a_key,
    a_lock,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
    an_event,
)
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample
from tests.functions.stage import Stage, configured, metric

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
STEPS_AT_MOST = 40

State = dict[str, Any]


@pytest.fixture
def stage(aws: Aws) -> Stage:
    return Stage(aws)


@pytest.fixture
def recover(stage: Stage, cold_start: ColdStart) -> Started:
    """Without an outage margin: a window can be read to its end as soon as it has ended."""
    return configured(cold_start("recover", stage.settings(RecoverSettings, margin_seconds=0)))


def suspended(stage: Stage, *events: int) -> None:
    """Suspended for an hour, in which these events came."""
    began = datetime.now(UTC) - HOUR
    stage.add(
        a_suspended_subscription(first_active_at=began - HOUR, disabled_at=began),
        a_health(outage_from=began),
    )
    for number in events:
        stage.archived(an_event(number))


def running(stage: Stage, *, execution: str, **changes: Any) -> Recovery:
    """Active again, with the recovery of the samples under way."""
    now = datetime.now(UTC)
    stage.add(a_subscription(first_active_at=now - 2 * HOUR))
    recovery = a_recovery(started_at=now, lower_bound=now - HOUR, **changes)
    lock = a_lock(recovery, execution=execution, lease_until=now + HOUR)
    assert stage.health.write_lock(stage.standing().health, lock, recovery)
    return recovery


def lock_of(stage: Stage) -> RecoveryLock:
    return stage.standing().health.recovery


def task(recover: Started, action: str, state: State, *, times: int = 1) -> State:
    """One task of the machine; where its answer is lost, it is run again with what it was given."""
    given = state | {"action": action, "execution": a_sample("recover")["execution"]}
    return [recover(given) for _ in range(times)][-1]


class Execution:
    """Walks the machine from its start, beside a deliver that never fails; its clock leaps over waits."""

    def __init__(self, stage: Stage, recover: Started, *, times: int = 1) -> None:
        self.stage = stage
        self.recover = recover
        self.times = times
        self.now = datetime.now(UTC)
        self.tasks: list[str] = []
        self.sent: list[str] = []

    def run(self, state: State, *, passed: bool) -> State:
        state = self._task("lock", state)
        if state["next"] == "probe":
            state |= {"passed": passed, "status_code": 200 if passed else 503, "error": None}
            state = self._task("activate" if passed else "probe_failed", state)
        elif state["next"] == "activate":
            state = self._task("activate", state)
        while state["next"] in ("slice", "wait"):
            assert len(self.tasks) < STEPS_AT_MOST
            state = self._task("slice", state)
            self._deliver()
            self.now += timedelta(seconds=state["wait_seconds"])
        return state

    def _task(self, action: str, state: State) -> State:
        self.tasks.append(action)
        self.recover.module.datetime = SimpleNamespace(now=lambda _: self.now)
        return task(self.recover, action, state, times=self.times)

    def _deliver(self) -> None:
        for record in self.stage.batch("backfill")["Records"]:
            parcel = DeliveryMessage.model_validate_json(record["body"]).parcel()
            self.sent.append(parcel.key.event_id)
            delivered = a_delivered(key=parcel.key, archived_at=parcel.archived_at, pointer=parcel.pointer)
            attempts = tuple(replace(each, at=self.now) for each in delivered.attempts)
            assert not self.stage.ledger.put_clean([replace(delivered, attempts=attempts)])


# ── from beginning to end ────────────────────────────────────────────────────────────────────────


def test_a_recovery_gives_back_everything_once_though_each_task_run_twice(
    stage: Stage, recover: Started
) -> None:
    suspended(stage, 1, 2, 3, 4, 5)
    execution = Execution(stage, recover, times=2)
    end = execution.run(a_sample("recover"), passed=True)
    assert execution.tasks[:3] == ["lock", "activate", "slice"]
    assert Counter(execution.sent) == Counter(an_event(n).id for n in range(1, 6))
    assert stage.standing().subscription.status is Status.ACTIVE
    recovery = stage.recoveries.get(a_key().scope, end["recovery_id"])
    assert recovery is not None
    assert (recovery.status, recovery.sent, recovery.succeeded) == (RecoveryStatus.COMPLETED, 5, 5)
    assert not lock_of(stage).held
    assert [notice.kind for notice in stage.notices.of(a_key(), limit=9)] == [NoticeKind.RECOVERED]
    assert stage.recoveries.of(a_key(), limit=9) == [recovery]


def test_a_failed_probe_leaves_it_suspended_tells_its_owner_once_and_frees_the_lock(
    stage: Stage, recover: Started
) -> None:
    suspended(stage, 1)
    execution = Execution(stage, recover, times=2)
    end = execution.run(a_sample("recover"), passed=False)
    assert execution.tasks == ["lock", "probe_failed"]
    assert end["next"] == "end"
    subscription = stage.standing().subscription
    assert (subscription.status, subscription.status_reason) == (Status.SUSPENDED, "reenable_probe_failed")
    recovery = stage.recoveries.get(a_key().scope, end["recovery_id"])
    assert recovery is not None
    assert (recovery.status, recovery.probe_status_code) == (RecoveryStatus.PROBE_FAILED, 503)
    assert not lock_of(stage).held
    assert [notice.kind for notice in stage.notices.of(a_key(), limit=9)] == [NoticeKind.PROBE_FAILED]
    assert execution.sent == []


def test_without_a_probe_it_is_activated_at_once_and_without_backfill_nothing_is_sent(
    stage: Stage, recover: Started
) -> None:
    suspended(stage, 1, 2)
    execution = Execution(stage, recover)
    execution.run(a_sample("recover") | {"probe": False, "backfill": False}, passed=False)
    assert execution.tasks[:2] == ["lock", "activate"]
    assert stage.standing().subscription.status is Status.ACTIVE
    assert execution.sent == []
    assert not lock_of(stage).held


def test_of_a_suspension_of_thirty_days_the_expired_are_all_counted_though_ledger_and_bytes_are_gone(
    stage: Stage, recover: Started
) -> None:
    """Ten arrived just before; on each day came one of its own resource's and one of another's."""
    now = datetime.now(UTC)
    began = now - 30 * DAY
    stage.add(
        a_suspended_subscription(resource_id="r_1", first_active_at=began - HOUR, disabled_at=began),
        a_health(outage_from=began - 300 * SECOND),
    )
    recover.module.margins = Margins()
    before = [stage.archived(an_event(n, resource_id="r_1"), at=began - n * SECOND) for n in range(1, 11)]
    for parcel in before:
        stage.ledger.put_clean([a_delivered(key=parcel.key, archived_at=parcel.archived_at)])
    for day in range(30):
        for number, resource_id in ((100 + day, "r_1"), (200 + day, "r_2")):
            stage.archived(an_event(number, resource_id=resource_id), at=began + day * DAY + HOUR)
    forget(stage, now)
    state = task(recover, "lock", a_sample("recover") | {"probe": False})
    state = task(recover, "slice", task(recover, "activate", state))
    recovery = stage.recoveries.get(a_key().scope, state["recovery_id"])
    assert recovery is not None
    assert (recovery.expired, recovery.found, recovery.sent) == (23, 7, 3)
    first = sorted(body["event_id"] for body in stage.bodies("backfill"))
    assert first == [an_event(100 + day).id for day in (23, 24, 25)]


def forget(stage: Stage, now: datetime) -> None:
    """What DynamoDB and S3 have deleted by then."""
    for table in ("Events", "Deliveries"):
        for item in stage.aws.items(table):
            if int(item["ttl"]["N"]) < now.timestamp():
                stage.dynamodb.delete_item(TableName=table, Key={name: item[name] for name in ("pk", "sk")})
    s3 = stage.aws.client("s3")
    for entry in s3.list_objects_v2(Bucket=stage.bucket)["Contents"]:
        day = datetime.strptime(entry["Key"].split("/")[1], "%Y%m%d%H").replace(tzinfo=UTC)
        if day < now - 16 * DAY:
            s3.delete_object(Bucket=stage.bucket, Key=entry["Key"])


@pytest.mark.parametrize("probe, told", [(None, "probe_passed"), (False, "resumed_unprobed")])
def test_the_audit_says_whether_a_probe_passed_before_it_was_active_again(
    stage: Stage, recover: Started, *, probe: bool | None, told: str
) -> None:
    suspended(stage)
    state = task(recover, "lock", a_sample("recover") | {"probe": probe})
    task(recover, "activate", state | {"passed": True if probe is None else None}, times=2)
    audit = DynamoDBAudit(stage.dynamodb, audit_table=stage.aws.table("Audit"))
    told_of = audit.of(a_key().scope, a_key().subscription_id, limit=1)
    assert [(record.action, record.detail) for record in told_of] == [("subscription.reenabled", told)]


def test_how_a_passed_probe_was_answered_stays_on_the_recoverys_record(
    stage: Stage, recover: Started
) -> None:
    suspended(stage)
    state = task(recover, "lock", a_sample("recover"))
    end = task(recover, "activate", state | {"passed": True, "status_code": 204}, times=2)
    recovery = stage.recoveries.get(a_key().scope, end["recovery_id"])
    assert recovery is not None
    assert (recovery.status, recovery.probe_status_code) == (RecoveryStatus.RUNNING, 204)


# ── each task ────────────────────────────────────────────────────────────────────────────────────


def test_lock_begins_one_recovery_however_often_it_is_asked(stage: Stage, recover: Started) -> None:
    suspended(stage)
    first = recover(a_sample("recover"))
    assert first["next"] == "probe"
    assert first["nonce"].startswith("nonce_")
    assert first["generation"] == lock_of(stage).generation == 1
    again = recover(a_sample("recover"))
    assert {**again, "nonce": None} == {**first, "nonce": None}
    other = recover(a_sample("recover") | {"execution": "arn:another"})
    assert other["next"] == "end"
    assert lock_of(stage).execution == first["execution"]


def test_lock_refuses_to_reenable_what_is_not_suspended(stage: Stage, recover: Started) -> None:
    for number, status in enumerate((Status.REVOKED, Status.ACTIVE, Status.PENDING), start=1):
        key = a_key(number)
        stage.add(a_subscription(key=key, status=status))
        answer = recover(a_sample("recover") | {"subscription_id": key.subscription_id})
        assert (answer["next"], answer["recovery_id"]) == ("end", None)
        assert not stage.standing(key).health.recovery.held


def test_a_task_returns_the_whole_state(stage: Stage, recover: Started) -> None:
    sample = a_sample("recover_slice")
    running(stage, execution=sample["execution"])
    answer = recover(sample)
    expected = RecoveryState.model_validate(sample).model_dump(mode="json")
    changed = {name for name, value in expected.items() if answer[name] != value}
    assert changed <= {"next", "history", "wait_seconds"}
    assert answer["history"] == sample["history"] + recover.module.HISTORY_OF_SLICE
    retried = recover(sample | {"retried": 2})
    assert retried["history"] == answer["history"] + 2 * recover.module.HISTORY_OF_RETRY


def test_an_activation_that_was_lost_ends_and_leaves_the_winner_alone(stage: Stage, recover: Started) -> None:
    suspended(stage, 1)
    state = recover(a_sample("recover"))
    transition.revoke(
        a_key(),
        actor=ACTOR,
        now=datetime.now(UTC),
        subscriptions=stage.subscriptions,
        ids=recover.module.ids,
    )
    for _ in range(2):
        answer = task(recover, "activate", state | {"passed": True})
        assert answer["next"] == "end"
    assert stage.standing().subscription.status is Status.REVOKED
    assert not lock_of(stage).held


def test_f50_the_tasks_of_an_older_execution_redriven_after_a_newer_suspension_change_nothing(
    stage: Stage, recover: Started
) -> None:
    suspended(stage, 1)
    state = task(recover, "lock", a_sample("recover") | {"probe": False})
    task(recover, "activate", state)
    transition.pause(
        a_key(),
        actor=ACTOR,
        now=datetime.now(UTC),
        margins=Margins(),
        subscriptions=stage.subscriptions,
        ids=recover.module.ids,
    )
    before = stage.standing(), stage.recoveries.of(a_key(), limit=9), stage.notices.of(a_key(), limit=9)
    for action in ("activate", "probe_failed", "slice", "failed"):
        assert task(recover, action, state | {"passed": True})["next"] == "end"
    assert (stage.standing(), stage.recoveries.of(a_key(), limit=9)) == before[:2]
    assert list(stage.notices.of(a_key(), limit=9)) == list(before[2])
    assert stage.bodies("backfill") == []


def test_f51_the_state_stays_as_small_as_it_began_however_much_is_owed(
    stage: Stage, recover: Started
) -> None:
    """Step Functions takes 256 KiB."""
    suspended(stage)
    stage.archive.put([an_event(n) for n in range(1, 1_001)], now=datetime.now(UTC))
    state = task(recover, "lock", a_sample("recover") | {"probe": False})
    state = task(recover, "slice", task(recover, "activate", state))
    assert len(stage.bodies("backfill")) == 3
    assert len(json.dumps(state)) < 2_000


def test_a_slice_that_the_queue_refuses_is_sent_again_whole(stage: Stage, recover: Started) -> None:
    suspended(stage, 1, 2)
    state = task(recover, "lock", a_sample("recover") | {"probe": False})
    state = task(recover, "activate", state)
    sqs = recover.module.ports.lanes._client
    faults.refuse(sqs, "SendMessageBatch", code="ServiceUnavailable", times=3)
    state = task(recover, "slice", state)
    assert (state["next"], state["wait_seconds"]) == ("wait", 15)
    assert stage.bodies("backfill") == []
    task(recover, "slice", state)
    assert {body["event_id"] for body in stage.bodies("backfill")} == {an_event(1).id, an_event(2).id}


def test_a_slice_counts_what_it_sent(
    stage: Stage, recover: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(stage, 1, 2)
    state = task(recover, "lock", a_sample("recover") | {"probe": False})
    state = task(recover, "activate", state)
    task(recover, "slice", state)
    out = capsys.readouterr().out
    assert (metric(out, "BackfillSent"), metric(out, "RecoverySteps")) == (2, 3)


def test_a_slice_of_a_recovery_that_is_over_sends_nothing(stage: Stage, recover: Started) -> None:
    sample = a_sample("recover_slice")
    running(stage, execution=sample["execution"])
    stage.archived(an_event())
    for stale in ({"generation": 9}, {"recovery_id": "rec_another"}, {"subscription_id": "sub_gone"}):
        assert recover(sample | stale)["next"] == "end"
    assert stage.bodies("backfill") == []


def test_a_long_history_goes_on_in_one_new_execution_that_takes_the_lock_over(
    stage: Stage, recover: Started
) -> None:
    sample = a_sample("recover_slice")
    recovery = running(
        stage, execution=sample["execution"], next_slice_at=datetime.now(UTC) + timedelta(minutes=1)
    )
    module = recover.module
    state = recover(sample | {"history": module.HISTORY_AT_MOST - module.HISTORY_OF_SLICE - 1})
    assert state["next"] == "wait"
    state = recover(state | {"action": "slice"})
    assert state["next"] == "continue"
    for _ in range(2):
        assert recover(state | {"action": "continue"})["next"] == "end"
    states = stage.aws.client("stepfunctions")
    (started,) = states.list_executions(stateMachineArn=stage.state_machine_arn)["executions"]
    described = states.describe_execution(executionArn=started["executionArn"])
    taken = recover(json.loads(described["input"]) | {"action": "lock", "execution": started["executionArn"]})
    assert (taken["next"], taken["recovery_id"], taken["generation"]) == ("slice", recovery.id, 2)
    assert taken["history"] == 0
    assert lock_of(stage).execution == started["executionArn"]
    assert recover(sample)["next"] == "end", "the old execution has nothing more to do"


def test_an_event_is_read_for_its_own_tenant_and_mode_alone_and_is_not_logged(
    stage: Stage, recover: Started
) -> None:
    body = '{"type":"invoice.paid","data":{"note":"café","card":"4111111111111111"}}'
    sample = a_sample("recover_read_event")
    assert recover(sample)["body"] is None, "the archive has no such object"
    pointer = stage.archived(an_event(body=body.encode())).pointer
    wanted = sample | {"pointer": PointerMessage.of(pointer).model_dump()}
    assert recover(wanted)["body"] == body
    for stranger in ({"tenant": "other"}, {"mode": "test"}):
        assert recover(wanted | stranger)["body"] is None
    assert "4111111111111111" not in recover.log.getvalue()


@pytest.mark.parametrize("sample", ["recover_ended", "recover_slice"])
def test_what_broke_is_due_at_once_for_the_sweep(stage: Stage, recover: Started, sample: str) -> None:
    event = a_sample(sample)
    running(stage, execution=event["execution"])
    now = datetime.now(UTC)
    assert stage.health.due(now, limit=9) == []
    for _ in range(2):
        answer = recover(event if sample == "recover_ended" else event | {"action": "failed"})
        assert answer["next"] == "end"
    assert stage.health.due(datetime.now(UTC) + timedelta(seconds=1), limit=9) == [a_key()]
    assert lock_of(stage).held
    assert lock_of(stage).execution == event["execution"]


@pytest.mark.parametrize("sample", ["recover_ended", "recover_slice"])
def test_the_end_of_one_that_no_longer_holds_the_lock_changes_nothing(
    stage: Stage, recover: Started, sample: str
) -> None:
    running(stage, execution="arn:another")
    before = stage.standing()
    event = a_sample(sample)
    recover(event if sample == "recover_ended" else event | {"action": "failed"})
    assert stage.standing() == before


def test_a_state_that_is_wrong_fails_the_task_and_is_not_quoted(recover: Started) -> None:
    for wrong in ({"mode": "dead"}, {"rate": 0}, {"tenant": None}):
        with pytest.raises(ValidationError) as refused:
            recover(a_sample("recover") | wrong | {"actor": "4111111111111111"})
        assert "4111111111111111" not in str(refused.value)
        assert "dead" not in str(refused.value)


def test_a_step_is_one_line_without_nonce_or_address(
    stage: Stage, recover: Started, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="hookkeeper")
    suspended(stage, 1)
    state = recover(a_sample("recover") | {"source_ip": "198.51.100.7"})
    state = task(recover, "activate", state | {"passed": True})
    task(recover, "slice", state)
    lines = recover.lines("recovery.stepped")
    assert [line["action"] for line in lines] == ["lock", "activate", "slice"]
    assert {line["recovery_id"] for line in lines} == {state["recovery_id"]}
    for secret in (state["nonce"], "198.51.100.7", "owner@customer.example"):
        assert secret not in recover.log.getvalue() + caplog.text
