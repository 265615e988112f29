"""watch_audit: told by the audit's stream of each record that was changed or removed, which nobody may do.

No role of ours holds the right; whoever did it came with rights of the account's own. It needs no table:
both images are in the stream.
"""

from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.settings import WatchAuditSettings

settings = WatchAuditSettings.load()
logger = Logger(service="watch_audit", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="watch_audit")


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    for record in event["Records"]:
        if record["eventName"] != "INSERT":
            _tell(record)
    return {"batchItemFailures": []}


def _tell(record: dict[str, Any]) -> None:
    """The key and the names of what differs; the values may hold what a log should not."""
    change = record["dynamodb"]
    before, after = change.get("OldImage", {}), change.get("NewImage", {})
    metrics.add_metric("AuditRecordsChanged", MetricUnit.Count, 1)
    logger.critical(
        "audit.tampered",
        extra={
            "event": record["eventName"],
            "key": {name: value["S"] for name, value in change["Keys"].items()},
            "changed": sorted(name for name in {*before, *after} if before.get(name) != after.get(name)),
            "by": record.get("userIdentity"),
        },
    )
