"""The architecture on one screen: build, connect, output."""

from aws_cdk import CfnOutput, IStackSynthesizer, Stack
from constructs import Construct

from infra.api import Api
from infra.config import StageConfig
from infra.delivery import Delivery
from infra.function import Shared
from infra.ingest import Ingest
from infra.layers import Layers
from infra.monitoring import Monitoring
from infra.notices import Notices
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
        shared = Shared(config, Layers(self, "Layers", config=config))
        storage = Storage(self, "Storage", config=config)
        queues = Queues(self, "Queues", config=config)
        runtime = RuntimeConfig(self, "RuntimeConfig", config=config)

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

        functions = {
            function.node.id: function
            for function in (
                api.authorizer,
                api.api,
                ingest.fan_out,
                delivery.deliver,
                delivery.contact,
                recovery.recover,
                recovery.sweep,
                notices.notify,
            )
        }
        dead = {name: lane.dead for name, lane in queues.lanes.items()} | {
            "Ingest": ingest.undelivered,
            "Recovery": recovery.unended,
            "Feedback": notices.unheard,
        }
        monitoring = Monitoring(
            self,
            "Monitoring",
            functions=functions,
            lanes=queues.lanes,
            dead=dead,
            rejected=queues.rejected,
            recoveries=recovery.machine,
        )

        self._output("ApiUrl", api.url)
        self._output("ConsoleUrl", api.console_url)
        self._output("RestApiId", api.rest.rest_api_id)
        self._output("EventsQueueUrl", queues.events.queue.queue_url)
        self._output("EventBusName", ingest.bus.event_bus_name)
        self._output("ArchiveBucketName", storage.archive.bucket_name)
        self._output("RecoveryStateMachineArn", recovery.machine.state_machine_arn)
        self._output("AlarmsTopicArn", monitoring.topic.topic_arn)
        self._output("AppConfigApplication", runtime.application)
        self._output("AppConfigEnvironment", runtime.environment)
        self._output("AppConfigProfile", runtime.profile)
        for name, function in functions.items():
            self._output(f"Function{name}", function.function_name)
        for name, lane in queues.lanes.items():
            self._output(f"Queue{name}", lane.queue.queue_url)
        self._output("QueueRejected", queues.rejected.queue_url)
        for name, queue in dead.items():
            self._output(f"Dlq{name}", queue.queue_url)
        for name, table in storage.tables.items():
            self._output(f"Table{name}", table.table_name)

    def _output(self, name: str, value: str) -> None:
        CfnOutput(self, name, value=value)
