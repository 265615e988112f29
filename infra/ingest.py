"""How events come in: the bus and the events queue, and `fan_out`, which archives and routes them."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from constructs import Construct
from hookkeeper.settings import FanOutSettings

from infra.function import Function, Shared
from infra.queues import Queues, allow_send
from infra.storage import PUT, QUERY, READ, Storage

OWN_SOURCE = "hookkeeper"
"""What Hookkeeper itself puts on the bus, for operators; it is not an event to deliver."""


class Ingest(Construct):
    """Bus → events queue → fan_out → deliveries queue."""

    def __init__(
        self, scope: Construct, id_: str, *, shared: Shared, storage: Storage, queues: Queues
    ) -> None:
        super().__init__(scope, id_)
        self.bus = events.EventBus(self, "Bus", description="Events to deliver, and what operators are told")
        events.Rule(
            self,
            "Inbound",
            event_bus=self.bus,
            description="Whatever a producer puts on the bus goes to the events queue",
            event_pattern=events.EventPattern(source=events.Match.anything_but(OWN_SOURCE)),
            targets=[
                targets.SqsQueue(
                    queues.events.queue,
                    dead_letter_queue=queues.undelivered,
                    max_event_age=cdk.Duration.hours(24),
                    retry_attempts=185,
                )
            ],
        )
        self.fan_out = self._fan_out(shared, storage, queues)

    def _fan_out(self, shared: Shared, storage: Storage, queues: Queues) -> Function:
        fan_out = Function(
            self,
            "fan_out",
            shared=shared,
            size=shared.config.fan_out,
            description="Archives each batch of events, then routes them",
            settings=FanOutSettings(
                stage=shared.config.stage,
                log_level=shared.config.log_level,
                access_table=storage.access.table_name,
                subscriptions_table=storage.subscriptions.table_name,
                events_table=storage.events.table_name,
                archive_bucket=storage.archive.bucket_name,
                events_queue_url=queues.events.queue.queue_url,
                deliveries_queue_url=queues.deliveries.queue.queue_url,
                rejected_queue_url=queues.rejected.queue_url,
            ),
        )
        queues.events.feeds(fan_out)
        storage.subscriptions.allow(fan_out, *QUERY)
        _allow_catalogue(fan_out, storage)
        storage.events.allow(fan_out, *READ, *PUT, "dynamodb:UpdateItem", "dynamodb:BatchWriteItem")
        storage.allow_archive(fan_out, "s3:PutObject")
        queues.events.allow_send(fan_out)
        queues.deliveries.allow_send(fan_out)
        allow_send(fan_out, queues.rejected)
        return fan_out


def _allow_catalogue(fan_out: Function, storage: Storage) -> None:
    """Of the table that also holds keys, the listed event types alone."""
    fan_out.add_to_role_policy(
        iam.PolicyStatement(
            actions=["dynamodb:GetItem"],
            resources=[storage.access.table_arn],
            conditions={
                "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["type#*"]},
                "Null": {"dynamodb:LeadingKeys": "false"},
            },
        )
    )
