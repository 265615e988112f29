"""Who watches the audit: its stream, and the function that tells of records changed or removed."""

from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from hookkeeper.settings import WatchAuditSettings

from infra.function import Function, Shared
from infra.storage import Storage


class AuditWatch(Construct):
    """Audit table → stream → watch_audit, which is never invoked while nobody does what nobody may."""

    def __init__(self, scope: Construct, id_: str, *, shared: Shared, storage: Storage) -> None:
        super().__init__(scope, id_)
        self.watch = Function(
            self,
            "watch_audit",
            shared=shared,
            size=shared.config.watch_audit,
            description="Tells of audit records that were changed or removed",
            settings=WatchAuditSettings(stage=shared.config.stage, log_level=shared.config.log_level),
        )
        storage.audit.allow_stream(self.watch)
        lambda_.EventSourceMapping(
            self,
            "Stream",
            target=self.watch,
            event_source_arn=storage.audit.stream_arn,
            batch_size=10,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            report_batch_item_failures=True,
            filters=[
                lambda_.FilterCriteria.filter({"eventName": lambda_.FilterRule.or_("MODIFY", "REMOVE")})
            ],
        )
