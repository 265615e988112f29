"""The queues, each with its own dead-letter queue, which only SQS fills and nothing but a person empties."""

import aws_cdk as cdk
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import Feed, Size, StageConfig
from infra.function import Function, acknowledge

_RETENTION = cdk.Duration.days(7)
_DEAD_RETENTION = cdk.Duration.days(14)
_VISIBILITY_FACTOR = 6
"""Lambda's advice: a throttled batch is tried for so many time-outs before its messages show again."""


class Lane(Construct):
    """A queue that feeds one function, and the queue of what that function could not handle."""

    def __init__(self, scope: Construct, id_: str, *, feed: Feed, consumer: Size) -> None:
        super().__init__(scope, id_)
        self.feed = feed
        self.dead = dead_letters(self, "Dead")
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=cdk.Duration.seconds(_VISIBILITY_FACTOR * consumer.timeout_seconds),
            retention_period=_RETENTION,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead, max_receive_count=feed.receives),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )

    def feeds(self, function: Function) -> None:
        """Hand batches to the function; a message that fails alone comes back alone."""
        function.add_event_source(
            sources.SqsEventSource(
                self.queue,
                batch_size=self.feed.batch_size,
                max_batching_window=cdk.Duration.seconds(self.feed.window_seconds),
                report_batch_item_failures=True,
                max_concurrency=self.feed.max_concurrency,
            )
        )

    def allow_send(self, function: Function) -> None:
        allow_send(function, self.queue)


class Queues(Construct):
    """All queues that Hookkeeper sends to."""

    def __init__(self, scope: Construct, id_: str, *, config: StageConfig) -> None:
        super().__init__(scope, id_)
        self.events = Lane(self, "Events", feed=config.events, consumer=config.fan_out)
        self.deliveries = Lane(self, "Deliveries", feed=config.deliveries, consumer=config.deliver)
        self.backfill = Lane(self, "Backfill", feed=config.backfill, consumer=config.deliver)
        self.notices = Lane(self, "Notices", feed=config.notices, consumer=config.notify)
        self.contacts = Lane(self, "Contacts", feed=config.contacts, consumer=config.contact)
        self.rejected = dead_letters(self, "Rejected")
        self.undelivered = dead_letters(self, "Undelivered")
        """What the bus's rule could not put into the events queue."""
        self.unended = dead_letters(self, "Unended")
        """Recoveries that broke, and `recover` could not be told of."""
        self.unheard = dead_letters(self, "Unheard")
        """What SES said of mails, and the notices queue did not take."""

    @property
    def lanes(self) -> dict[str, Lane]:
        """Every queue with a consumer, by the name that the outputs give it."""
        return {
            "Events": self.events,
            "Deliveries": self.deliveries,
            "Backfill": self.backfill,
            "Notices": self.notices,
            "Contacts": self.contacts,
        }

    @property
    def dead(self) -> dict[str, sqs.Queue]:
        """Every queue that only a failure of ours fills, by the name that the outputs give it."""
        return {name: lane.dead for name, lane in self.lanes.items()} | {
            "Ingest": self.undelivered,
            "Recovery": self.unended,
            "Feedback": self.unheard,
        }

    @property
    def dead_words(self) -> tuple[str, ...]:
        """The same for a function's settings: `name|URL|URL of its lane`."""
        return tuple(
            f"{name}|{queue.queue_url}|{self.lanes[name].queue.queue_url if name in self.lanes else ''}"
            for name, queue in self.dead.items()
        )


def allow_send(function: Function, queue: sqs.IQueue) -> None:
    """SendMessageBatch is allowed by the same action."""
    function.may("sqs:SendMessage", on=queue.queue_arn)


def dead_letters(scope: Construct, id_: str) -> sqs.Queue:
    """A queue without a consumer: it keeps for 14 days what a person must look at."""
    queue = sqs.Queue(
        scope,
        id_,
        retention_period=_DEAD_RETENTION,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
    )
    acknowledge(queue, {"AwsSolutions-SQS3": "This is where dead letters end; an alarm watches it."})
    return queue
