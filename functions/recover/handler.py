"""recover: the tasks of the recovery state machine. Each takes its whole state and returns it with `next`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sfn_workflow import SfnWorkflow
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import Margins
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.recovery import RecoveryKind
from hookkeeper.messages import EventBody, ReadEvent, RecoveryState
from hookkeeper.settings import RecoverSettings
from hookkeeper.usecases import recover
from hookkeeper.usecases.activate import activate
from hookkeeper.usecases.backfill import BackfillPorts, backfill

HISTORY_AT_MOST = 19_900
"""Events of one execution's history: Step Functions ends one at 25,000, a new one begins before 20,000."""

HISTORY_BEFORE = 60
"""Events until the first slice: the execution's own, three tasks, two choices, and some retries."""

HISTORY_OF_SLICE = 9
"""Task entered, scheduled, started, succeeded, exited; choice and wait entered and exited."""

HISTORY_OF_RETRY = 3
"""Task scheduled, started, failed."""

_TOLD = {
    *("tenant", "mode", "subscription_id", "kind", "recovery_id", "generation", "execution"),
    *("passed", "status_code", "error", "history", "next", "wait_seconds"),
}
"""What the log says of a state: neither its nonce nor a person's address."""

settings = RecoverSettings.load()
logger = Logger(service="recover", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="recover")
dynamodb = boto3.client("dynamodb")
runtime = AppConfigRuntime.of(settings)
margins = Margins(outage=settings.margin)
ids = TypeIds()
workflow = SfnWorkflow(boto3.client("stepfunctions"), state_machine_arn=settings.state_machine_arn)
ports = BackfillPorts(
    subscriptions=DynamoDBSubscriptions(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        audit_table=settings.audit_table,
        notices_table=settings.notices_table,
    ),
    health=DynamoDBHealth(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        notices_table=settings.notices_table,
    ),
    recoveries=DynamoDBRecoveries(dynamodb, subscriptions_table=settings.subscriptions_table),
    ledger=DynamoDBLedger(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        deliveries_table=settings.deliveries_table,
    ),
    events=DynamoDBEvents(dynamodb, events_table=settings.events_table),
    archive=S3Archive(
        boto3.client("s3"), dynamodb, bucket=settings.archive_bucket, events_table=settings.events_table
    ),
    lanes=SqsLanes(boto3.client("sqs"), backfill_queue_url=settings.backfill_queue_url),
)


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    action = event["action"]
    if action == "read_event":
        return _read_event(ReadEvent.model_validate(event)).model_dump(mode="json")
    after = _ACTIONS[action](_state(event), datetime.now(UTC))
    metrics.add_metric("RecoverySteps", MetricUnit.Count, 1)
    logger.info("recovery.stepped", extra={"action": action} | after.model_dump(include=_TOLD, mode="json"))
    return after.model_dump(mode="json")


def _read_event(wanted: ReadEvent) -> EventBody:
    """For the API, which may not read the archive: its one reader checks the tenant within the member."""
    metrics.add_metric("EventsRead", MetricUnit.Count, 1)
    try:
        body = ports.archive.body(wanted.scope(), wanted.pointer.pointer())
    except NotFoundError:
        return EventBody(body=None)
    return EventBody(body=body.decode())


def _state(event: dict[str, Any]) -> RecoveryState:
    """The state as tasks hand it on; of an execution that broke, the text that it was started with."""
    if event["action"] != "ended":
        return RecoveryState.model_validate(event)
    return RecoveryState.model_validate({**json.loads(event["input"]), "execution": event["execution"]})


def _lock(state: RecoveryState, now: datetime) -> RecoveryState:
    locked = recover.lock(
        recover.Asked(
            key=state.key(),
            kind=RecoveryKind(state.kind),
            recovery_id=state.recovery_id,
            generation=state.generation,
            execution=state.execution,
            probe=state.probe,
            backfill=state.backfill,
            rate=state.rate,
            actor=Actor(id=state.actor, source_ip=state.source_ip),
        ),
        now=now,
        config=runtime.current(),
        subscriptions=ports.subscriptions,
        health=ports.health,
        recoveries=ports.recoveries,
        ids=ids,
    )
    return state.model_copy(
        update={
            "next": str(locked.step),
            "recovery_id": locked.recovery.id if locked.recovery else None,
            "generation": locked.recovery.generation if locked.recovery else None,
            "nonce": ids.new("nonce"),
        }
    )


def _activate(state: RecoveryState, now: datetime) -> RecoveryState:
    activated = activate(
        state.key(),
        recovery_id=state.recovery_id or "",
        generation=state.generation or 0,
        probed=bool(state.passed),
        probe_status_code=state.status_code,
        resume=state.resume,
        actor=Actor(id=state.actor, source_ip=state.source_ip),
        now=now,
        retention=runtime.current().retention,
        subscriptions=ports.subscriptions,
        health=ports.health,
        recoveries=ports.recoveries,
        ledger=ports.ledger,
        ids=ids,
    )
    return state.model_copy(update={"next": "slice" if activated else "end"})


def _probe_failed(state: RecoveryState, now: datetime) -> RecoveryState:
    recover.probe_failed(
        state.key(),
        recovery_id=state.recovery_id or "",
        generation=state.generation or 0,
        status_code=state.status_code,
        error=state.error or "",
        now=now,
        retention=runtime.current().retention,
        subscriptions=ports.subscriptions,
        health=ports.health,
        recoveries=ports.recoveries,
        ledger=ports.ledger,
        ids=ids,
    )
    return state.model_copy(update={"next": "end"})


def _slice(state: RecoveryState, now: datetime) -> RecoveryState:
    sliced = backfill(
        state.key(),
        recovery_id=state.recovery_id or "",
        generation=state.generation or 0,
        now=now,
        config=runtime.current(),
        margins=margins,
        ports=ports,
    )
    metrics.add_metric("BackfillSent", MetricUnit.Count, sliced.sent)
    history = (state.history or HISTORY_BEFORE) + HISTORY_OF_SLICE + HISTORY_OF_RETRY * state.retried
    if sliced.wait is None:
        return state.model_copy(update={"next": "end", "history": history})
    wait = max(1, ceil(sliced.wait.total_seconds()))
    onward = "continue" if history >= HISTORY_AT_MOST else "wait"
    return state.model_copy(update={"next": onward, "wait_seconds": wait, "history": history})


def _continue(state: RecoveryState, _: datetime) -> RecoveryState:
    """Go on in a new execution, whose history is empty; its first state takes the lock over."""
    workflow.start(
        state.key(),
        name=f"{state.recovery_id}-{state.generation}-on",
        options={"kind": state.kind, "recovery_id": state.recovery_id, "generation": state.generation},
    )
    return state.model_copy(update={"next": "end"})


def _failed(state: RecoveryState, now: datetime) -> RecoveryState:
    if state.execution is not None:
        recover.resume_soon(
            state.key(),
            execution=state.execution,
            now=now,
            subscriptions=ports.subscriptions,
            health=ports.health,
            recoveries=ports.recoveries,
        )
    return state.model_copy(update={"next": "end"})


_ACTIONS: dict[str, Callable[[RecoveryState, datetime], RecoveryState]] = {
    "lock": _lock,
    "activate": _activate,
    "probe_failed": _probe_failed,
    "slice": _slice,
    "continue": _continue,
    "failed": _failed,
    "ended": _failed,
}
