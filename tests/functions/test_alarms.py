"""Each alarm's condition, provoked: the metric is seen on the EMF line just as the template's alarm asks."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.signature import token_hash
from hookkeeper.ports import Settlement
from hookkeeper.settings import (
    ContactSettings,
    DeliverSettings,
    FanOutSettings,
    NotifySettings,
    Settings,
    SweepSettings,
    WatchAuditSettings,
)

from tests import faults
from tests.builders import (
    a_delivery,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_pending_subscription,
    a_recovery,
    a_subscription,
    a_tenant,
    an_owed,
)
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample
from tests.functions.stage import Stage, configured
from tests.infra.alarms import alarms, watched_by
from tests.infra.conftest import prod
from tests.infra.test_alarms import BY_US

__all__ = ["prod"]

LONG = timedelta(hours=2)
DAY = timedelta(days=1)
DEAD = ("Events", "Deliveries", "Backfill", "Notices", "Contacts", "Ingest", "Recovery", "Feedback")


@dataclass
class Scene:
    """A stage, and any of its functions when it is wanted."""

    stage: Stage
    cold_start: ColdStart

    def start(self, verb: str, model: type[Settings], **more: Any) -> Started:
        return self.cold_start(verb, self.stage.settings(model, **more))

    def sweep(self, document: str = "{}", **more: Any) -> None:
        configured(self.start("sweep", SweepSettings, **more), document)(a_sample("sweep"))


@pytest.fixture
def scene(aws: Aws, cold_start: ColdStart) -> Scene:
    return Scene(Stage(aws), cold_start)


# ── what provokes each ───────────────────────────────────────────────────────────────────────────


def a_dead_letter(scene: Scene) -> None:
    scene.stage.put("dead", "a message that no function could handle")
    scene.sweep(dead_letter_queues=(f"Deliveries|{scene.stage.queue('dead')}|",))


def an_event_that_is_none(scene: Scene) -> None:
    scene.stage.put("events", '{"type": "Not A Type"}')
    scene.start("fan_out", FanOutSettings)(scene.stage.batch("events"))


def more_hosts_over_the_limit_than_the_fuse_lets_pass(scene: Scene) -> None:
    began = datetime.now(UTC) - 3 * DAY
    for number in (1, 2):
        failing = {
            "streaks": {Outcome.RETRYABLE: Streak(99, began)},
            "consecutive_failures": 99,
            "first_failure_at": began,
            "last_attempt_at": datetime.now(UTC) - timedelta(minutes=1),
            "check_at": datetime.now(UTC) - timedelta(minutes=1),
        }
        key, url = a_key(number), f"https://host-{number}.example/hooks"
        scene.stage.add(a_subscription(key=key, endpoint_url=url), a_health(key=key, **failing))
    scene.sweep('{"fuse": {"least_hosts": 1, "share_of_hosts": 0.001, "canary_url": null}}')


def a_message_of_ours_that_cannot_be_read(scene: Scene) -> None:
    scene.stage.put("deliveries", '{"v": 99}')
    configured(scene.start("deliver", DeliverSettings))(scene.stage.batch("deliveries"))


def a_retry_that_nothing_has_moved(scene: Scene) -> None:
    began = datetime.now(UTC) - LONG
    scene.stage.add(a_subscription())
    delivery = a_delivery(archived_at=began, sequence_began_at=began, next_attempt_at=began)
    owed = an_owed(
        key=delivery.key,
        archived_at=began,
        status=DeliveryStatus.RETRYING,
        due_at=began,
        expires_at=began + DAY,
    )
    assert scene.stage.ledger.settle(Settlement(before=None, after=delivery, owed=owed)).written
    scene.sweep()


def a_recovery_that_nobody_runs(scene: Scene) -> None:
    scene.stage.add(a_subscription())
    lock = a_lock(a_recovery(), execution="arn:dead", lease_until=datetime.now(UTC) - LONG)
    assert scene.stage.health.write_lock(scene.stage.standing().health, lock, a_recovery())
    scene.sweep()


def an_audit_record_that_somebody_changed(scene: Scene) -> None:
    scene.start("watch_audit", WatchAuditSettings)(a_sample("watch_audit"))


def a_document_that_is_none(scene: Scene) -> None:
    scene.sweep('{"auto_suspnd": "off"}')


def an_endpoint_that_echoes_nothing(scene: Scene) -> None:
    token = json.loads(a_sample("contact")["Records"][0]["body"])["token"]
    scene.stage.add_signed(
        a_pending_subscription(token_hash=token_hash(token), token_expires_at=datetime.now(UTC) + DAY)
    )
    scene.start("contact", ContactSettings)(a_sample("contact"))


def a_mail_that_ses_refuses_for_good(scene: Scene) -> None:
    scene.stage.notices.put(a_notice(at=datetime.now(UTC)))
    notify = configured(scene.start("notify", NotifySettings))
    faults.refuse(notify.module.ports.mailer._client, "SendEmail", code="MessageRejected")
    faults.answer(notify.module.ports.bus._client, "PutEvents", [{"FailedEntryCount": 0, "Entries": [{}]}])
    notify(a_sample("notify"))


def a_mail_that_bounced(scene: Scene) -> None:
    scene.stage.notices.put(a_notice(at=datetime.now(UTC)))
    notify = configured(scene.start("notify", NotifySettings))
    faults.answer(
        notify.module.ports.bus._client, "PutEvents", [{"FailedEntryCount": 0, "Entries": [{}]}] * 3
    )
    faults.answer(notify.module.ports.mailer._client, "SendEmail", [{"MessageId": "ses-1"}])
    notify(a_sample("notify"))
    bounce = a_sample("notify_bounce")
    told = json.loads(bounce["Records"][0]["body"])
    told["detail"]["mail"]["messageId"] = "ses-1"
    bounce["Records"][0]["body"] = json.dumps(told)
    notify(bounce)


def a_notice_that_nobody_sends(scene: Scene) -> None:
    scene.stage.notices.put(a_notice(at=datetime.now(UTC) - LONG))
    scene.sweep()


PROVOKED: dict[str, Callable[[Scene], None]] = {
    "DlqNotEmpty": a_dead_letter,
    "EventsRejected": an_event_that_is_none,
    "SuspensionsSpike": more_hosts_over_the_limit_than_the_fuse_lets_pass,
    "OwnFaults": a_message_of_ours_that_cannot_be_read,
    "OwedOverdue": a_retry_that_nothing_has_moved,
    "RecoveryStalled": a_recovery_that_nobody_runs,
    "AuditChanged": an_audit_record_that_somebody_changed,
    "ConfigBad": a_document_that_is_none,
    "VerificationDrop": an_endpoint_that_echoes_nothing,
    "NoticesFailed": a_mail_that_ses_refuses_for_good,
    "MailsCameBack": a_mail_that_bounced,
    "NoticesPending": a_notice_that_nobody_sends,
}


def seen(output: str) -> dict[tuple[str, str, str], list[float]]:
    """Values by namespace, metric and service, as CloudWatch reads the EMF lines."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for line in output.splitlines():
        if not line.startswith("{") or '"_aws"' not in line:
            continue
        document = json.loads(line)
        for directive in document["_aws"]["CloudWatchMetrics"]:
            assert directive["Dimensions"] == [["service"]]
            for metric in directive["Metrics"]:
                values = document[metric["Name"]]
                place = (directive["Namespace"], metric["Name"], document["service"])
                found.setdefault(place, []).extend(values if isinstance(values, list) else [values])
    return found


def test_every_alarm_on_a_metric_of_ours_is_provoked() -> None:
    assert set(PROVOKED) == set(BY_US)


@pytest.mark.parametrize("name", PROVOKED)
def test_what_an_alarm_waits_for_is_written_as_it_is_watched(
    prod: Any, scene: Scene, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    PROVOKED[name](scene)
    emitted = seen(capsys.readouterr().out)
    alarm = alarms(prod)[name]
    (watched,) = watched_by(prod, alarm)
    values = emitted[watched.namespace, watched.name, watched.service]
    if alarm["ComparisonOperator"] == "GreaterThanThreshold":
        assert max(values) > alarm["Threshold"]
    else:
        assert alarm["Statistic"] == "Average"
        assert sum(values) / len(values) < alarm["Threshold"]


def test_a_message_in_any_dead_letter_queue_is_seen_within_the_minute(
    scene: Scene, prod: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given = prod.function("Sweep")["Environment"]["Variables"]["HOOKKEEPER_DEAD_LETTER_QUEUES"]
    looked_into = {each.split("|")[0] for each in prod.literal(given).split(",")}
    assert looked_into == set(prod.outputs("Dlq")) == set(DEAD)
    urls = {name: scene.stage.queue(f"dead-{name}") for name in DEAD}
    words = tuple(f"{name}|{url}|" for name, url in urls.items())
    sweep = configured(scene.start("sweep", SweepSettings, dead_letter_queues=words))
    for name, url in urls.items():
        scene.stage.put(f"dead-{name}", "a message")
        sweep(a_sample("sweep"))
        assert seen(capsys.readouterr().out)["Hookkeeper", "DeadLetters", "sweep"] == [1]
        assert sweep.lines("dead_letters.found")[-1]["queue"] == name
        scene.stage.sqs.purge_queue(QueueUrl=url)


def test_an_idle_sweep_writes_no_metric_since_each_would_cost_all_month(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.sweep(dead_letter_queues=(f"Deliveries|{scene.stage.queue('dead')}|",))
    assert seen(capsys.readouterr().out) == {}


def test_once_a_day_subscriptions_are_counted_by_status(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    DynamoDBAccess(scene.stage.dynamodb, access_table=scene.stage.aws.table("Access")).create_tenant(
        a_tenant()
    )
    scene.stage.add(a_subscription())
    sweep = configured(scene.start("sweep", SweepSettings))
    for time, counted in (("02:59", {}), ("03:00", {"active": [1.0], "suspended": [0.0]}), ("03:01", {})):
        sweep(a_sample("sweep") | {"time": f"2026-12-01T{time}:07Z"})
        emitted = seen(capsys.readouterr().out)
        told = {name.removeprefix("Subscriptions_"): values for (_, name, _), values in emitted.items()}
        assert counted.items() <= told.items()
        assert bool(told) is bool(counted)


def test_a_functions_trouble_is_in_its_log_as_the_error_filter_looks_for_it(prod: Any, scene: Scene) -> None:
    (pattern,) = {each["FilterPattern"] for each in prod.of("AWS::Logs::MetricFilter").values()}
    sweep = configured(scene.start("sweep", SweepSettings))
    faults.refuse(sweep.module.dynamodb, "Query", code="InternalServerError")
    with pytest.raises(Exception, match="InternalServerError"):
        sweep(a_sample("sweep"))
    (line,) = sweep.lines("sweep.failed_in_part")
    assert f'($.level = "{line["level"]}")' in pattern
    for raised in ('($.log_level = "ERROR")', '($.record.status = "timeout")', '($.level = "CRITICAL")'):
        assert raised in pattern


def test_what_somebody_did_to_an_audit_record_is_told_without_its_values(scene: Scene) -> None:
    watch = scene.start("watch_audit", WatchAuditSettings)
    event = a_sample("watch_audit")
    watch(event)
    (line,) = watch.lines("audit.tampered")
    assert (line["level"], line["event"], line["changed"]) == ("CRITICAL", "MODIFY", ["actor"])
    assert "somebody-else" not in watch.log.getvalue()
    event["Records"][0]["eventName"] = "INSERT"
    watch(event)
    assert len(watch.lines("audit.tampered")) == 1
