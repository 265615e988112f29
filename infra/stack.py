"""The architecture on one screen: build, connect, output."""

from aws_cdk import IStackSynthesizer, Stack
from constructs import Construct

from infra.api import Api
from infra.audit import AuditWatch
from infra.config import StageConfig
from infra.console import Console
from infra.delivery import Delivery
from infra.egress import Egress
from infra.function import Shared
from infra.ingest import Ingest
from infra.layers import Layers
from infra.monitoring import Monitoring
from infra.notices import Notices
from infra.outputs import add_outputs
from infra.queues import Queues
from infra.recovery import Recovery
from infra.runtime_config import RuntimeConfig
from infra.storage import Storage


class HookkeeperStack(Stack):
    """All of Hookkeeper in one stage."""

    def __init__(
        self, scope: Construct, id_: str, *, config: StageConfig, synthesizer: IStackSynthesizer | None = None
    ) -> None:
        super().__init__(
            scope, id_, synthesizer=synthesizer, description=f"Hookkeeper, webhook sender ({config.stage})"
        )
        layers, egress = Layers(self, "Layers", config=config), Egress(self, "Egress", config=config)
        shared = Shared(config, layers, egress)
        storage = Storage(self, "Storage", config=config)
        queues = Queues(self, "Queues", config=config)
        runtime = RuntimeConfig(self, "RuntimeConfig", shared=shared)
        audit = AuditWatch(self, "AuditWatch", shared=shared, storage=storage)

        api = Api(self, "Api", shared=shared, storage=storage, queues=queues, runtime=runtime)
        ingest = Ingest(self, "Ingest", shared=shared, storage=storage, queues=queues)
        delivery = Delivery(
            self,
            "Delivery",
            shared=shared,
            storage=storage,
            queues=queues,
            runtime=runtime,
            own_hosts=api.hosts,
        )
        recovery = Recovery(
            self,
            "Recovery",
            shared=shared,
            storage=storage,
            queues=queues,
            runtime=runtime,
            contact=delivery.contact,
        )
        api.read_events_through(recovery.recover)
        notices = Notices(
            self,
            "Notices",
            shared=shared,
            storage=storage,
            queues=queues,
            runtime=runtime,
            bus=ingest.bus,
            console_url=api.console_url,
        )

        console = Console(
            self,
            "Console",
            shared=shared,
            storage=storage,
            queues=queues,
            runtime=runtime,
            api=api,
            recover=recovery.recover,
        )

        functions = {
            function.node.id: function
            for function in (
                *(api.authorizer, api.api, console.console, ingest.fan_out, delivery.deliver),
                *(delivery.contact, recovery.recover, recovery.sweep, notices.notify),
                *(runtime.validate, audit.watch),
            )
        }
        monitoring = Monitoring(
            self,
            "Monitoring",
            config=config,
            functions=functions,
            queues=queues,
            tables=storage.tables,
            rest=api.rest,
        )

        add_outputs(
            self,
            functions=functions,
            queues=queues,
            storage=storage,
            runtime=runtime,
            single={
                "ApiUrl": api.url,
                "ConsoleUrl": api.console_url,
                "RestApiId": api.rest.rest_api_id,
                "EventsQueueUrl": queues.events.queue.queue_url,
                "EventBusName": ingest.bus.event_bus_name,
                "ArchiveBucketName": storage.archive.bucket_name,
                "RecoveryStateMachineArn": recovery.machine.state_machine_arn,
                "AlarmsTopicArn": monitoring.topic.topic_arn,
            },
        )
