"""How owners and operators are told: the notices' stream and queue, `notify`, SES."""

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_ses as ses
from constructs import Construct
from hookkeeper.settings import NotifySettings

from infra.function import Function, Shared
from infra.queues import Queues
from infra.storage import READ, WRITE, Storage


class Notices(Construct):
    """Notices table → stream → notify → SES and the operator bus; what stays pending comes by the queue."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        bus: events.IEventBus,
        console_url: str,
    ) -> None:
        super().__init__(scope, id_)
        configuration_set = ses.ConfigurationSet(
            self,
            "ConfigurationSet",
            reputation_metrics=True,
            suppression_reasons=ses.SuppressionReasons.BOUNCES_AND_COMPLAINTS,
            tls_policy=ses.ConfigurationSetTlsPolicy.REQUIRE,
        )
        identity = ses.EmailIdentity(
            self,
            "Sender",
            identity=ses.Identity.email(shared.config.sender),
            configuration_set=configuration_set,
        )
        self.notify = Function(
            self,
            "notify",
            shared=shared,
            size=shared.config.notify,
            description="Mails owners their notices and tells the operator bus",
            settings=NotifySettings(
                stage=shared.config.stage,
                log_level=shared.config.log_level,
                notices_table=storage.notices.table_name,
                bus_name=bus.event_bus_name,
                sender_address=shared.config.sender,
                configuration_set=configuration_set.configuration_set_name,
                console_url=console_url,
            ),
        )
        queues.notices.feeds(self.notify)
        storage.notices.allow(self.notify, *READ, *WRITE)
        self.notify.may(
            "ses:SendEmail",
            on=[identity.email_identity_arn, _configuration_set_arn(self, configuration_set)],
        )
        self.notify.may("events:PutEvents", on=bus.event_bus_arn)
        self._read_stream(storage)

    def _read_stream(self, storage: Storage) -> None:
        """New notices go to notify at once; one that it cannot take stays pending, and the sweep sends it."""
        stream = storage.notices.stream_arn
        self.notify.may(
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
            on=stream,
        )
        lambda_.EventSourceMapping(
            self,
            "Stream",
            target=self.notify,
            event_source_arn=stream,
            batch_size=10,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            report_batch_item_failures=True,
            retry_attempts=3,
            filters=[lambda_.FilterCriteria.filter({"eventName": lambda_.FilterRule.is_equal("INSERT")})],
        )


def _configuration_set_arn(scope: Construct, configuration_set: ses.ConfigurationSet) -> str:
    return Stack.of(scope).format_arn(
        service="ses",
        resource="configuration-set",
        resource_name=configuration_set.configuration_set_name,
    )
