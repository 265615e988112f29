"""Emit an event by SQS: pip install boto3, and EVENTS_QUEUE_URL is an output of the stack.

Whoever sends it needs sqs:SendMessage on that queue, and no key of Hookkeeper's.
"""

import json
import os
import sys

import boto3


def emit(event: dict, *, queue_url: str) -> None:
    """Send it. With an `id` of your own it is one event, however often it is sent."""
    boto3.client("sqs").send_message(QueueUrl=queue_url, MessageBody=json.dumps(event))


if __name__ == "__main__":
    tenant_id, event_id = sys.argv[1:]
    invoice = {"invoice": "in_1", "amount": 1.10}
    event = {"id": event_id, "tenant_id": tenant_id, "type": "invoice.paid", "data": invoice}
    emit(event, queue_url=os.environ["EVENTS_QUEUE_URL"])
