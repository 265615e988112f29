"""A delivery function as it is usually written, to hold ours against: nobody's code, everybody's shape.

Powertools' batch processor takes one message after the other: validate it, write that an
attempt begins, sign, POST through one kept httpx client, write how it ended.
"""

import base64
import hashlib
import hmac
import time
from typing import Any, TextIO

import boto3
import httpx
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from hookkeeper.messages import DeliveryMessage

_ATTEMPT = "SET #status = :status, attempts = if_not_exists(attempts, :none)"
_NAMES = {"#status": "status"}


class Conventional:
    """Two writes of the delivery's item; where each subscription's endpoint is, it knows by heart."""

    def __init__(self, client: httpx.Client, *, urls: dict[str, str], log: TextIO) -> None:
        self._dynamodb = boto3.client("dynamodb")
        self._client = client
        self._processor = BatchProcessor(event_type=EventType.SQS)
        self._urls = urls
        self._logger = Logger(service="conventional")
        handler: Any = self._logger.registered_handler
        handler.setStream(log)

    def handler(self, event: dict[str, Any], context: Any) -> Any:
        return process_partial_response(
            event=event, record_handler=self._deliver, processor=self._processor, context=context
        )

    def _deliver(self, record: SQSRecord) -> None:
        message = DeliveryMessage.model_validate_json(record.body)
        key = {
            "pk": {"S": f"{message.tenant}#{message.mode}#{message.subscription_id}"},
            "sk": {"S": message.event_id},
        }
        self._write(key, "sending")
        body = (message.body or "").encode()
        response = self._client.post(
            self._urls[message.subscription_id], headers=_signed(message.event_id, body), content=body
        )
        response.raise_for_status()
        self._write(key, "succeeded")
        self._logger.info("delivered", extra={"event_id": message.event_id, "status": response.status_code})

    def _write(self, key: dict[str, Any], status: str) -> None:
        self._dynamodb.update_item(
            TableName="Conventional",
            Key=key,
            UpdateExpression=_ATTEMPT,
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues={":status": {"S": status}, ":none": {"N": "0"}},
        )


def _signed(event_id: str, body: bytes) -> dict[str, str]:
    timestamp = str(int(time.time()))
    text = b".".join((event_id.encode(), timestamp.encode(), body))
    signature = base64.b64encode(hmac.new(b"k" * 24, text, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
        "content-type": "application/json",
    }
