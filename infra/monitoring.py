"""What an operator sees and is woken by: a dashboard, a topic, an alarm for what must not last."""

from collections.abc import Iterable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.function import Function
from infra.queues import Lane

NAMESPACE = "Hookkeeper"
_MINUTE = cdk.Duration.minutes(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)

_OLDEST_SECONDS = {"Events": 300, "Deliveries": 900, "Backfill": 1800, "Notices": 900}
"""Above these ages something of ours is stuck. A delayed message ages too: deliveries wait up to 15 min."""

_OUTCOMES = ("success", "retryable", "permanent", "fatal")
_CLASSES = ("retryable", "permanent", "fatal")


class Monitoring(Construct):
    """Alarms go to `topic`; whoever should be woken subscribes to it."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        functions: Iterable[Function],
        lanes: Mapping[str, Lane],
        dead: Mapping[str, sqs.IQueue],
        rejected: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id_)
        self.topic = _topic(self)
        functions = list(functions)
        for name, queue in {**dead, "Rejected": rejected}.items():
            self._alarm(
                f"{name}NotEmpty" if name == "Rejected" else f"Dlq{name}NotEmpty",
                queue.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
                above=0,
                says=f"Messages lie in {name}: nothing moves them but a person. Look, mend, redrive.",
            )
        for name, seconds in _OLDEST_SECONDS.items():
            self._alarm(
                f"Oldest{name}",
                lanes[name].queue.metric_approximate_age_of_oldest_message(period=_MINUTE),
                above=seconds,
                minutes=5,
                says=f"The oldest message in {name} is older than {seconds} s.",
            )
        for function in functions:
            self._alarm(
                f"Errors{function.node.id}",
                function.metric_errors(period=_FIVE_MINUTES),
                above=0,
                says=f"{function.verb} fails: see its log.",
            )
        self._dashboard(functions, lanes, {**dead, "Rejected": rejected})

    def _alarm(
        self, id_: str, metric: cloudwatch.IMetric, *, above: float, says: str, minutes: int = 1
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id_,
            metric=metric,
            threshold=above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=minutes,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=says,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))

    def _dashboard(
        self, functions: list[Function], lanes: Mapping[str, Lane], quiet: Mapping[str, sqs.IQueue]
    ) -> None:
        board = cloudwatch.Dashboard(self, "Dashboard", default_interval=cdk.Duration.hours(3))
        board.add_widgets(
            _graph("Attempts by outcome", [_own("Attempts", outcome=outcome) for outcome in _OUTCOMES]),
            _graph("Suspensions by class", [_own("Suspensions", outcome=class_) for class_ in _CLASSES]),
            _graph(
                "Attempt latency and lag",
                [
                    _own("AttemptLatency", statistic="p95", label="attempt p95"),
                    _own("EndToEndLag", statistic="p95", label="archived to delivered p95"),
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
                "Must be empty",
                [
                    queue.metric_approximate_number_of_messages_visible(label=name)
                    for name, queue in quiet.items()
                ],
            ),
        )
        board.add_widgets(
            _graph(
                "Function errors", [function.metric_errors(label=function.verb) for function in functions]
            ),
            _graph(
                "Function throttles",
                [function.metric_throttles(label=function.verb) for function in functions],
            ),
            _graph(
                "Function duration p95",
                [function.metric_duration(label=function.verb, statistic="p95") for function in functions],
            ),
        )


def _own(
    name: str, *, outcome: str | None = None, statistic: str = "Sum", label: str | None = None
) -> cloudwatch.Metric:
    """A metric that our functions write in their log lines (EMF)."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"outcome": outcome} if outcome else None,
        statistic=statistic,
        label=label or outcome or name,
        period=_FIVE_MINUTES,
    )


def _graph(title: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8)


def _topic(scope: Construct) -> sns.Topic:
    return sns.Topic(scope, "Alarms", enforce_ssl=True)
