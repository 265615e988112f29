"""The two functions that may reach out: `deliver`, for owed deliveries, and `contact`, for all else."""

from constructs import Construct
from hookkeeper.settings import ContactSettings, DeliverSettings

from infra.function import Function, Shared
from infra.queues import Queues
from infra.runtime_config import RuntimeConfig
from infra.storage import QUERY, READ, WRITE, Storage, allow_fuse, allow_transitions


class Delivery(Construct):
    """deliveries and backfill queues → deliver; contacts queue → contact."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        runtime: RuntimeConfig,
        own_hosts: tuple[str, ...],
    ) -> None:
        super().__init__(scope, id_)
        self.deliver = self._deliver(shared, storage, queues, runtime, own_hosts)
        self.contact = self._contact(shared, storage, queues, own_hosts)

    def _deliver(
        self,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        runtime: RuntimeConfig,
        own_hosts: tuple[str, ...],
    ) -> Function:
        config = shared.config
        deliver = Function(
            self,
            "deliver",
            shared=shared,
            size=config.deliver,
            description="Attempts deliveries, live and backfill, and judges their outcomes",
            reaches_out=True,
            settings=DeliverSettings(
                stage=config.stage,
                log_level=config.log_level,
                subscriptions_table=storage.subscriptions.table_name,
                deliveries_table=storage.deliveries.table_name,
                secrets_table=storage.secrets.table_name,
                access_table=storage.access.table_name,
                audit_table=storage.audit.table_name,
                notices_table=storage.notices.table_name,
                archive_bucket=storage.archive.bucket_name,
                deliveries_queue_url=queues.deliveries.queue.queue_url,
                backfill_queue_url=queues.backfill.queue.queue_url,
                kms_key_id=storage.key.key_arn,
                margin_seconds=config.margin_seconds,
                appconfig_application=runtime.application,
                appconfig_environment=runtime.environment,
                appconfig_profile=runtime.profile,
                allowed_private_cidrs=config.allowed_private_cidrs,
                allowed_hosts=config.allowed_hosts,
                extra_ca_file=config.extra_ca_file,
                own_hosts=own_hosts,
            ),
        )
        for lane in (queues.deliveries, queues.backfill):
            lane.feeds(deliver)
            lane.allow_send(deliver)
        allow_transitions(deliver, storage)
        storage.deliveries.allow(deliver, *READ, *WRITE)
        allow_fuse(deliver, storage)
        _allow_signing(deliver, storage)
        storage.allow_archive(deliver, "s3:GetObject")
        runtime.allow_read(deliver)
        return deliver

    def _contact(
        self,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        own_hosts: tuple[str, ...],
    ) -> Function:
        config = shared.config
        contact = Function(
            self,
            "contact",
            shared=shared,
            size=config.contact,
            description="Sends challenges, probes and test events",
            reaches_out=True,
            settings=ContactSettings(
                stage=config.stage,
                log_level=config.log_level,
                subscriptions_table=storage.subscriptions.table_name,
                secrets_table=storage.secrets.table_name,
                audit_table=storage.audit.table_name,
                notices_table=storage.notices.table_name,
                kms_key_id=storage.key.key_arn,
                margin_seconds=config.margin_seconds,
                allowed_private_cidrs=config.allowed_private_cidrs,
                allowed_hosts=config.allowed_hosts,
                extra_ca_file=config.extra_ca_file,
                own_hosts=own_hosts,
            ),
        )
        queues.contacts.feeds(contact)
        allow_transitions(contact, storage)
        _allow_signing(contact, storage)
        return contact


def _allow_signing(function: Function, storage: Storage) -> None:
    """Open the secrets; the api alone may seal them."""
    storage.secrets.allow(function, "dynamodb:GetItem", "dynamodb:BatchGetItem", *QUERY)
    function.may("kms:Decrypt", on=storage.key.key_arn)
