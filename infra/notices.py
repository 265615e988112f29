"""How owners and operators are told: notices' stream and queue, `notify`, SES, and mails that come back."""

import aws_cdk as cdk
from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_ses as ses
from constructs import Construct
from hookkeeper.settings import NotifySettings

from infra.config import StageConfig
from infra.function import Function, Shared
from infra.queues import Queues
from infra.runtime_config import RuntimeConfig
from infra.storage import READ, WRITE, Storage

_BAD_NEWS = ("Email Bounced", "Email Complaint Received", "Email Rejected")
"""What SES calls on EventBridge the fates of a mail that its owner should not have."""


class Notices(Construct):
    """Notices table → stream → notify → SES and the operator bus; what stays open comes by the queue.

    SES puts bounces and complaints on the account's default bus, from where they come by the queue too.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        runtime: RuntimeConfig,
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
            identity=_identity(self, shared.config),
            configuration_set=configuration_set,
        )
        if shared.config.sender_domain and not shared.config.hosted_zone_id:
            _tell_records(self, identity)
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
                appconfig_application=runtime.application,
                appconfig_environment=runtime.environment,
                appconfig_profile=runtime.profile,
            ),
        )
        runtime.allow_read(self.notify)
        queues.notices.feeds(self.notify)
        storage.notices.allow(self.notify, *READ, *WRITE)
        self.notify.may(
            "ses:SendEmail",
            on=[identity.email_identity_arn, _configuration_set_arn(self, configuration_set)],
        )
        self.notify.may("events:PutEvents", on=bus.event_bus_arn)
        self._read_stream(storage)
        self._hear_back(configuration_set, queues)

    def _read_stream(self, storage: Storage) -> None:
        """New notices go to notify at once; one that it cannot take stays pending, and the sweep sends it."""
        storage.notices.allow_stream(self.notify)
        lambda_.EventSourceMapping(
            self,
            "Stream",
            target=self.notify,
            event_source_arn=storage.notices.stream_arn,
            batch_size=10,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            report_batch_item_failures=True,
            retry_attempts=3,
            filters=[lambda_.FilterCriteria.filter({"eventName": lambda_.FilterRule.is_equal("INSERT")})],
        )

    def _hear_back(self, configuration_set: ses.ConfigurationSet, queues: Queues) -> None:
        """SES tells EventBridge's default bus alone, and the queue keeps what notify cannot take at once."""
        default_bus = events.EventBus.from_event_bus_name(self, "DefaultBus", "default")
        configuration_set.add_event_destination(
            "BadNews",
            destination=ses.EventDestination.event_bus(default_bus),
            events=[
                ses.EmailSendingEvent.BOUNCE,
                ses.EmailSendingEvent.COMPLAINT,
                ses.EmailSendingEvent.REJECT,
            ],
        )
        name = configuration_set.configuration_set_name
        events.Rule(
            self,
            "CameBack",
            description="What SES says of a mail that came back goes to notify",
            event_pattern=events.EventPattern(
                source=["aws.ses"],
                detail_type=list(_BAD_NEWS),
                detail={"mail": {"tags": {"ses:configuration-set": [name]}}},
            ),
            targets=[
                targets.SqsQueue(
                    queues.notices.queue,
                    dead_letter_queue=queues.unheard,
                    max_event_age=cdk.Duration.hours(24),
                    retry_attempts=185,
                )
            ],
        )


def _identity(scope: Construct, config: StageConfig) -> ses.Identity:
    """What SES verifies: the domain, by records that we or its owner put into the DNS, or the one address."""
    if config.sender_domain and config.hosted_zone_id:
        zone = route53.PublicHostedZone.from_public_hosted_zone_attributes(
            scope, "Zone", hosted_zone_id=config.hosted_zone_id, zone_name=config.sender_domain
        )
        return ses.Identity.public_hosted_zone(zone)
    if config.sender_domain:
        return ses.Identity.domain(config.sender_domain)
    return ses.Identity.email(config.sender)


def _tell_records(scope: Construct, identity: ses.EmailIdentity) -> None:
    """The CNAMEs to put into a domain's DNS by hand, where its zone is not ours."""
    for n, record in enumerate(identity.dkim_records, start=1):
        told = cdk.CfnOutput(scope, f"Dkim{n}", value=f"{record.name} CNAME {record.value}")
        told.override_logical_id(f"Dkim{n}")


def _configuration_set_arn(scope: Construct, configuration_set: ses.ConfigurationSet) -> str:
    return Stack.of(scope).format_arn(
        service="ses",
        resource="configuration-set",
        resource_name=configuration_set.configuration_set_name,
    )
