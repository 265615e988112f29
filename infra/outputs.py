"""What the stack tells whoever deploys, tests or operates it: names and addresses, by one naming."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack

from infra.function import Function
from infra.queues import Queues
from infra.runtime_config import RuntimeConfig
from infra.storage import Storage


def add_outputs(
    stack: Stack,
    *,
    functions: Mapping[str, Function],
    queues: Queues,
    storage: Storage,
    runtime: RuntimeConfig,
    single: Mapping[str, str],
) -> None:
    """`single` as it is; every function, queue, dead-letter queue and table under its kind and name."""
    told = {
        **single,
        "AppConfigApplication": runtime.application,
        "AppConfigEnvironment": runtime.environment,
        "AppConfigProfile": runtime.profile,
        **{f"Function{name}": function.function_name for name, function in functions.items()},
        **{f"Queue{name}": lane.queue.queue_url for name, lane in queues.lanes.items()},
        "QueueRejected": queues.rejected.queue_url,
        **{f"Dlq{name}": queue.queue_url for name, queue in queues.dead.items()},
        **{f"Table{name}": table.table_name for name, table in storage.tables.items()},
    }
    for name, value in told.items():
        CfnOutput(stack, name, value=value)
