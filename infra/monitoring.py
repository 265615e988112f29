"""What an operator sees and is woken by: two dashboards, a topic, an alarm for what must not last.

Every alarm costs ten cents a month and somebody's sleep, so what is watched by one metric has one alarm, and
each names its section of the runbook. Own metrics carry their function as the one dimension, never an id.
"""

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.config import StageConfig
from infra.function import Function
from infra.queues import Lane, Queues
from infra.storage import Table

NAMESPACE = "Hookkeeper"
RUNBOOK = "README.md#runbook-"
_MINUTE = cdk.Duration.minutes(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)
_HOUR = cdk.Duration.hours(1)

_OLDEST_SECONDS = {"Events": 300, "Deliveries": 900, "Backfill": 1800, "Notices": 900, "Contacts": 900}
"""Above these ages something of ours is stuck. A delayed message ages too: deliveries wait up to 15 min."""

_LATE_SECONDS = 900
"""The sweep moves fifty owed items a second; with what it still finds due then, it does not keep up."""

_NOTICE_SECONDS = 3600
"""Two minutes are meant; SES's throttling and a gathered mail take some more."""

_LEAST_ECHOED = 0.5
_HOURS_OF_CHALLENGES = 3
"""The share of an hour's challenges that must come back. One customer who tries and tries is no alarm."""

_TOLD = ("sent", "gathered", "capped", "deferred")
_OUTCOMES = ("success", "retryable", "permanent", "fatal")
_STATUSES = ("pending", "active", "suspended", "revoked")


class Monitoring(Construct):
    """Alarms go to `topic`: the stage's own, or the one it was given."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        config: StageConfig,
        functions: Mapping[str, Function],
        queues: Queues,
        tables: Mapping[str, Table],
        rest: apigateway.RestApi,
    ) -> None:
        super().__init__(scope, id_)
        given = config.alarm_topic
        self.topic = sns.Topic.from_topic_arn(self, "Alarms", given) if given else _topic(self)
        self._watch_queues(queues.lanes)
        self._watch_functions(functions, rest)
        self._watch_promises()
        self._watch_people()
        self._dashboard(functions, queues.lanes, rest)
        self._cost_dashboard(functions, queues.lanes, tables)

    def _watch_queues(self, lanes: Mapping[str, Lane]) -> None:
        self._alarm(
            "DlqNotEmpty",
            _own("DeadLetters", "sweep", statistic="Maximum"),
            above=0,
            says="Messages lie in a dead-letter queue: nothing moves them but a person.",
            runbook="dlq-not-empty",
        )
        for name, seconds in _OLDEST_SECONDS.items():
            self._alarm(
                f"Oldest{name}",
                lanes[name].queue.metric_approximate_age_of_oldest_message(period=_MINUTE),
                above=seconds,
                periods=5,
                says=f"The oldest message in {name} is older than {seconds} s.",
                runbook="queue-age",
            )
        self._alarm(
            "EventsRejected",
            _own("EventsRejected", "fan_out"),
            above=0,
            says="A producer put events that are none: they lie in the rejected queue with the reason.",
            runbook="events-rejected",
        )

    def _watch_functions(self, functions: Mapping[str, Function], rest: apigateway.RestApi) -> None:
        for name, function in functions.items():
            _count_errors(self, f"ErrorsOf{name}", function)
        self._alarm(
            "FunctionErrors",
            _errors(),
            above=0,
            says="A function failed, timed out, or handed something back and logged why.",
            runbook="function-errors",
        )
        self._alarm(
            "Throttles",
            _of_lambda("Throttles"),
            above=0,
            says="Lambda refuses invocations: the account's concurrency is used up, by whatever function.",
            runbook="throttles",
        )
        self._alarm(
            "ApiErrors",
            rest.metric_server_error(period=_FIVE_MINUTES, statistic="Sum"),
            above=0,
            says="The API or the console answered 5xx.",
            runbook="api-errors",
        )
        self._alarm(
            "SweepStopped",
            functions["Sweep"].metric_invocations(period=_FIVE_MINUTES),
            below=1,
            says="The sweep has not run for five minutes: no retry, wake or expiry moves without it.",
            runbook="sweep-stopped",
        )

    def _watch_promises(self) -> None:
        """No event is lost, nobody is suspended in silence: what would be seen first if that went wrong."""
        self._alarm(
            "SuspensionsSpike",
            _own("FuseBlown", "sweep"),
            above=0,
            says="Suspensions wait at the fuse: too many hosts at once, or our own fault (resolver, route, "
            "keys). Nothing is lost and no customer is blamed meanwhile.",
            runbook="suspensions-spike",
        )
        self._alarm(
            "OwnFaults",
            _own("OwnFaults", "deliver"),
            above=0,
            periods=3,
            says="Deliveries fail by our own fault (KMS, tables, resolver): none counts against an endpoint.",
            runbook="own-faults",
        )
        self._alarm(
            "OwedOverdue",
            _own("OwedLateness", "sweep", statistic="Maximum"),
            above=_LATE_SECONDS,
            says=f"An owed item is due for more than {_LATE_SECONDS} s: the sweep does not keep up.",
            runbook="owed-overdue",
        )
        self._alarm(
            "RecoveryStalled",
            _own("RecoveryLateness", "sweep", statistic="Maximum"),
            above=_LATE_SECONDS,
            says=f"Nobody runs a recovery for more than {_LATE_SECONDS} s, though the sweep starts it anew.",
            runbook="recovery-stalled",
        )
        self._alarm(
            "AuditChanged",
            _own("AuditRecordsChanged", "watch_audit"),
            above=0,
            says="An audit record was changed or removed, which no role of ours may do.",
            runbook="audit-changed",
        )
        self._alarm(
            "ConfigBad",
            _own("ConfigFellBack", "sweep"),
            above=0,
            periods=2,
            says="The runtime configuration is bad or cannot be read: the last good one goes on holding.",
            runbook="config-bad",
        )

    def _watch_people(self) -> None:
        """What keeps us from our customers and them from us."""
        self._alarm(
            "VerificationDrop",
            _own("ChallengesEchoed", "contact", statistic="Average", period=_HOUR),
            below=_LEAST_ECHOED,
            periods=_HOURS_OF_CHALLENGES,
            silence_is_well=True,
            says=f"In each of {_HOURS_OF_CHALLENGES} hours less than {_LEAST_ECHOED:.0%} of the challenges "
            "came back: new subscriptions do not become active.",
            runbook="verification-drop",
        )
        self._alarm(
            "NoticesFailed",
            _own("NoticesFailed", "notify"),
            above=0,
            says="A notice could not be sent, and its owner does not know what it says.",
            runbook="notices-failed",
        )
        self._alarm(
            "MailsCameBack",
            _own("MailsCameBack", "notify"),
            above=0,
            says="A mail bounced or was called unwanted: its address is marked and gets no more.",
            runbook="mails-came-back",
        )
        self._alarm(
            "NoticesPending",
            _own("NoticeAge", "sweep", statistic="Maximum"),
            above=_NOTICE_SECONDS,
            says=f"A notice waits for more than {_NOTICE_SECONDS} s: SES refuses it, or nobody takes it.",
            runbook="notices-pending",
        )

    def _alarm(
        self,
        id_: str,
        metric: cloudwatch.IMetric,
        *,
        above: float | None = None,
        below: float = 0,
        silence_is_well: bool = False,
        says: str,
        runbook: str,
        periods: int = 1,
    ) -> None:
        """While the metric is over `above`, or, without it, under `below`; then silence alarms too."""
        operators, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            id_,
            metric=metric,
            threshold=below if above is None else above,
            comparison_operator=(
                operators.LESS_THAN_THRESHOLD if above is None else operators.GREATER_THAN_THRESHOLD
            ),
            treat_missing_data=(
                missing.BREACHING if above is None and not silence_is_well else missing.NOT_BREACHING
            ),
            evaluation_periods=periods,
            alarm_description=f"{says} {RUNBOOK}{runbook}",
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))

    def _dashboard(
        self, functions: Mapping[str, Function], lanes: Mapping[str, Lane], rest: apigateway.RestApi
    ) -> None:
        """At most 50 metrics: CloudWatch asks three dollars a month for a dashboard with more."""
        board = cloudwatch.Dashboard(self, "Dashboard", default_interval=cdk.Duration.hours(3))
        board.add_widgets(
            _graph("Deliveries by outcome", _family("Deliveries", _OUTCOMES, "deliver")),
            _graph(
                "Attempt latency and lag (ms)",
                [
                    _own("AttemptLatency", "deliver", statistic="p95", label="attempt p95"),
                    _own("EndToEndLag", "deliver", statistic="p95", label="archived to answered p95"),
                ],
            ),
            _graph(
                "Suspensions and circuits",
                [
                    *_family("Suspensions", ("retryable", "permanent", "fatal", "mixed"), "deliver"),
                    _own("WouldSuspend", "deliver"),
                    _own("FuseBlown", "sweep"),
                    _own("CircuitsOpened", "deliver"),
                ],
            ),
        )
        board.add_widgets(
            _graph(
                "Queue depth",
                [
                    lane.queue.metric_approximate_number_of_messages_visible(label=name)
                    for name, lane in lanes.items()
                ],
            ),
            _graph(
                "Oldest message (s)",
                [
                    lane.queue.metric_approximate_age_of_oldest_message(label=name)
                    for name, lane in lanes.items()
                ],
            ),
            _graph(
                "Must be zero",
                [
                    _own("DeadLetters", "sweep", statistic="Maximum"),
                    _own("EventsRejected", "fan_out"),
                    _own("OwnFaults", "deliver"),
                    _own("ConfigFellBack", "sweep"),
                    _errors(),
                    _of_lambda("Throttles"),
                ],
            ),
        )
        board.add_widgets(
            _graph(
                "Owed and recovered",
                [
                    _own("DeliveriesOwed", "deliver"),
                    _own("BackfillSent", "recover"),
                    _own("OverdueOwedItemsMoved", "sweep"),
                ],
            ),
            _graph(
                "How late the sweep found things (s)",
                [
                    _own(name, "sweep", statistic="Maximum")
                    for name in ("OwedLateness", "RecoveryLateness", "NoticeAge")
                ],
            ),
            _graph("Notices", _family("Notices", _TOLD, "notify")),
        )
        board.add_widgets(
            _graph(
                "Verification",
                [
                    _own("Challenges", "contact"),
                    _own("ChallengesEchoed", "contact"),
                    _own("ChallengesEchoed", "contact", statistic="Average", label="completion rate"),
                    _own("VerificationsExpired", "sweep"),
                    _own("TimeToActive", "contact", statistic="p50", label="pending to active p50 (s)"),
                ],
            ),
            _graph(
                "API",
                [rest.metric_count(), rest.metric_client_error(), rest.metric_server_error()],
            ),
            _graph(
                "Function p95 (ms)",
                [
                    functions[name].metric_duration(label=name, statistic="p95")
                    for name in ("Api", "FanOut", "Deliver")
                ],
            ),
        )
        board.add_widgets(
            cloudwatch.LogQueryWidget(
                title="Errors by function",
                log_group_names=[function.log_group.log_group_name for function in functions.values()],
                query_lines=[
                    "fields coalesce(service, @log) as function, coalesce(message, errorMessage) as what",
                    'filter level like /ERROR|CRITICAL/ or log_level = "ERROR" or ispresent(record.status)',
                    "stats count(*) as times by function, what",
                    "sort times desc",
                ],
                width=24,
            )
        )

    def _cost_dashboard(
        self, functions: Mapping[str, Function], lanes: Mapping[str, Lane], tables: Mapping[str, Table]
    ) -> None:
        """The requests that AWS counts on its bill; bytes and storage are for the Cost Explorer."""
        board = cloudwatch.Dashboard(self, "Costs", default_interval=cdk.Duration.days(7))
        board.add_widgets(
            _graph(
                "Subscriptions by status (counted once a day)",
                [
                    _own(
                        f"Subscriptions_{status}",
                        "sweep",
                        statistic="Maximum",
                        label=status,
                        period=cdk.Duration.days(1),
                    )
                    for status in _STATUSES
                ],
            ),
            _graph("Invocations", [f.metric_invocations(label=name) for name, f in functions.items()]),
            _graph(
                "Messages sent to queues",
                [
                    lane.queue.metric_number_of_messages_sent(label=name, statistic="Sum")
                    for name, lane in lanes.items()
                ],
            ),
        )
        board.add_widgets(
            _graph("Write units", [_units("Write", name, table) for name, table in tables.items()]),
            _graph("Read units", [_units("Read", name, table) for name, table in tables.items()]),
            _graph(
                "Events and deliveries",
                [
                    *_family("Events", ("routed", "duplicate", "conflict", "again"), "fan_out"),
                    _own("DeliveriesQueued", "fan_out"),
                    _own("DeliveriesPutAside", "deliver"),
                ],
            ),
        )


def _topic(scope: Construct) -> sns.Topic:
    """A policy that only forbids would take the account's own right away, and with it CloudWatch's."""
    topic = sns.Topic(scope, "Alarms", enforce_ssl=True)
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}},
        )
    )
    return topic


def _count_errors(scope: Construct, id_: str, function: Function) -> None:
    """Count a function's log lines of trouble, all functions in one metric.

    Lambda's own Errors would count an invocation that fails, but never the one message of a batch that was
    handed back. `log_level` is the runtime's own word for what a handler raised; `record.status` is how the
    platform reports an invocation, and at this log level it reports none that went well.
    """
    said = logs.FilterPattern.string_value
    logs.MetricFilter(
        scope,
        id_,
        log_group=function.log_group,
        filter_pattern=logs.FilterPattern.any(
            said("$.level", "=", "ERROR"),
            said("$.level", "=", "CRITICAL"),
            said("$.log_level", "=", "ERROR"),
            *(said("$.record.status", "=", status) for status in ("error", "failure", "timeout")),
        ),
        metric_namespace=NAMESPACE,
        metric_name="FunctionErrors",
        metric_value="1",
    )


def _own(
    name: str,
    service: str,
    *,
    statistic: str = "Sum",
    label: str | None = None,
    period: cdk.Duration = _FIVE_MINUTES,
) -> cloudwatch.Metric:
    """A metric that a function of ours writes in its log lines (EMF)."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": service},
        statistic=statistic,
        label=label,
        period=period,
    )


def _family(name: str, kinds: Sequence[str], service: str) -> list[cloudwatch.Metric]:
    return [_own(f"{name}_{kind}", service, label=kind) for kind in kinds]


def _errors() -> cloudwatch.Metric:
    """What the error filters of all functions' logs count together."""
    return cloudwatch.Metric(
        namespace=NAMESPACE, metric_name="FunctionErrors", statistic="Sum", period=_FIVE_MINUTES
    )


def _of_lambda(name: str) -> cloudwatch.Metric:
    """A metric of all the account's functions together: they share its concurrency."""
    return cloudwatch.Metric(namespace="AWS/Lambda", metric_name=name, statistic="Sum", period=_FIVE_MINUTES)


def _units(kind: str, name: str, table: Table) -> cloudwatch.Metric:
    return table.metric(f"Consumed{kind}CapacityUnits", label=name, statistic="Sum", period=_FIVE_MINUTES)


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8)
