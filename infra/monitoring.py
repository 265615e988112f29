"""What an operator sees and is woken by: a dashboard, a topic, an alarm for what must not last."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.function import Function
from infra.queues import Lane

NAMESPACE = "Hookkeeper"
_MINUTE = cdk.Duration.minutes(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)

_OLDEST_SECONDS = {"Events": 300, "Deliveries": 900, "Backfill": 1800, "Notices": 900}
"""Above these ages something of ours is stuck. A delayed message ages too: deliveries wait up to 15 min."""

_SUSPENSIONS_IN_TEN_MINUTES = 5
"""More at once are rather our own fault than so many customers' (SPEC §9, the fuse)."""

_DEFERRED_SECONDS = 3600
_TOLD = ("sent", "gathered", "capped", "deferred")

_OUTCOMES = ("success", "retryable", "permanent", "fatal")


class Monitoring(Construct):
    """Alarms go to `topic`; whoever should be woken subscribes to it."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        functions: Mapping[str, Function],
        lanes: Mapping[str, Lane],
        dead: Mapping[str, sqs.IQueue],
        rejected: sqs.IQueue,
        recoveries: sfn.IStateMachine,
    ) -> None:
        super().__init__(scope, id_)
        self.topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        quiet = {**{f"Dlq{name}": queue for name, queue in dead.items()}, "Rejected": rejected}
        self._watch_queues(lanes, quiet)
        self._watch_work(functions, recoveries)
        self._dashboard(list(functions.values()), lanes, quiet)

    def _watch_queues(self, lanes: Mapping[str, Lane], quiet: Mapping[str, sqs.IQueue]) -> None:
        for name, queue in quiet.items():
            self._alarm(
                f"{name}NotEmpty",
                queue.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
                above=0,
                says=f"Messages lie in {name}: nothing moves them but a person. Look, mend, redrive.",
            )
        for name, seconds in _OLDEST_SECONDS.items():
            self._alarm(
                f"Oldest{name}",
                lanes[name].queue.metric_approximate_age_of_oldest_message(period=_MINUTE),
                above=seconds,
                periods=5,
                says=f"The oldest message in {name} is older than {seconds} s.",
            )

    def _watch_work(self, functions: Mapping[str, Function], recoveries: sfn.IStateMachine) -> None:
        for name, function in functions.items():
            self._alarm(
                f"Errors{name}",
                function.metric_errors(period=_FIVE_MINUTES),
                above=0,
                says=f"{function.verb} fails: see its log.",
            )
        self._alarm(
            "RecoveriesBroken",
            recoveries.metric_failed(period=_FIVE_MINUTES),
            above=0,
            says="A recovery's execution failed; the sweep takes it up again. See its history for why.",
        )
        self._alarm(
            "OwnFaults",
            _own("OwnFaults", "deliver"),
            above=0,
            periods=3,
            says="Deliveries fail by our own fault (KMS, tables, resolver): none counts against an endpoint.",
        )
        self._alarm(
            "ManySuspensions",
            _own("Suspensions", "deliver", period=cdk.Duration.minutes(10)),
            above=_SUSPENSIONS_IN_TEN_MINUTES,
            says="Many subscriptions are suspended at once: is it us?",
        )
        self._alarm(
            "FuseBlown",
            _own("FuseBlown", "sweep"),
            above=0,
            says="Suspensions wait at the fuse: too many hosts at once, or our own fault (resolver, route, "
            "keys). Nothing is lost and no customer is blamed meanwhile. Look at fuse.blown in the logs.",
        )
        self._alarm(
            "NoticesUnheard",
            _own("NoticesUnheard", "notify"),
            above=0,
            says="A mail came back, or could not be sent, or was called unwanted: its owner does not know.",
        )
        self._alarm(
            "NoticesDeferred",
            _own("DeferredNoticeAge", "notify", statistic="Maximum"),
            above=_DEFERRED_SECONDS,
            says="SES refuses mails for now (rate, quota, pause), and a notice has waited for an hour.",
        )
        self._alarm(
            "SweepStopped",
            functions["Sweep"].metric_invocations(period=_FIVE_MINUTES),
            below=1,
            says="The sweep has not run for five minutes: no retry, wake or expiry moves without it.",
        )

    def _alarm(
        self,
        id_: str,
        metric: cloudwatch.IMetric,
        *,
        above: float | None = None,
        below: float = 0,
        says: str,
        periods: int = 1,
    ) -> None:
        """An alarm while the metric is over `above`, or, without it, under `below` or silent."""
        operators, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            id_,
            metric=metric,
            threshold=below if above is None else above,
            comparison_operator=(
                operators.LESS_THAN_THRESHOLD if above is None else operators.GREATER_THAN_THRESHOLD
            ),
            treat_missing_data=missing.BREACHING if above is None else missing.NOT_BREACHING,
            evaluation_periods=periods,
            alarm_description=says,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))

    def _dashboard(
        self, functions: list[Function], lanes: Mapping[str, Lane], quiet: Mapping[str, sqs.IQueue]
    ) -> None:
        def depth(queue: sqs.IQueue, name: str) -> cloudwatch.Metric:
            return queue.metric_approximate_number_of_messages_visible(label=name)

        board = cloudwatch.Dashboard(self, "Dashboard", default_interval=cdk.Duration.hours(3))
        board.add_widgets(
            _graph(
                "Deliveries by outcome",
                [_own(f"Deliveries_{outcome}", "deliver", label=outcome) for outcome in _OUTCOMES],
            ),
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
                    _own("Suspensions", "deliver"),
                    _own("WouldSuspend", "deliver"),
                    _own("FuseBlown", "deliver"),
                    _own("CircuitsOpened", "deliver"),
                ],
            ),
        )
        board.add_widgets(
            _graph(
                "Queue depth",
                [depth(lane.queue, name) for name, lane in lanes.items()],
            ),
            _graph(
                "Oldest message (s)",
                [
                    lane.queue.metric_approximate_age_of_oldest_message(label=name)
                    for name, lane in lanes.items()
                ],
            ),
            _graph(
                "Must be empty",
                [depth(queue, name) for name, queue in quiet.items()],
            ),
        )
        board.add_widgets(
            _graph("Function errors", [f.metric_errors(label=f.verb) for f in functions]),
            _graph("Function throttles", [f.metric_throttles(label=f.verb) for f in functions]),
            _graph("Function p95", [f.metric_duration(label=f.verb, statistic="p95") for f in functions]),
        )
        board.add_widgets(
            _graph(
                "Notices",
                [_own(f"Notices_{told}", "notify", label=told) for told in _TOLD],
            ),
            _graph("Owners not reached", [_own("NoticesUnheard", "notify")]),
            _graph("Oldest refused notice (s)", [_own("DeferredNoticeAge", "notify", statistic="Maximum")]),
        )
        board.add_widgets(
            _graph(
                "Events in",
                [
                    _own("Events_taken", "fan_out"),
                    _own("EventsRejected", "fan_out"),
                    _own("DeliveriesQueued", "fan_out"),
                ],
            ),
            _graph(
                "Challenges and probes",
                [
                    _own(name, "contact")
                    for name in ("Challenges", "ChallengesEchoed", "Probes", "ProbesPassed")
                ],
            ),
            _graph(
                "Put aside and moved",
                [_own("DeliveriesPutAside", "deliver"), _own("OverdueOwedItemsMoved", "sweep")],
            ),
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


def _graph(title: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8)
