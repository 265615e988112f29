"""Counts by the hour, in the Access table: some are shared by all tenants."""

from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import CONDITION_FAILED, encoded, error_code

LIFE = timedelta(hours=2)


class DynamoDBRates:
    """The Rates port. An answer that was lost may count one twice; never does one go uncounted."""

    def __init__(self, client: Any, *, access_table: str) -> None:
        self._client = client
        self._table = access_table

    def take(self, name: str, *, most: int, now: datetime) -> bool:
        try:
            self._client.update_item(
                TableName=self._table,
                Key=encoded({"pk": f"rate#{name}", "sk": f"{now:%Y-%m-%dT%H}"}),
                UpdateExpression="SET #ttl = :ttl ADD taken :one",
                # There is room in this hour, or nothing was counted yet.
                ConditionExpression="attribute_not_exists(taken) OR taken < :most",
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues=encoded(
                    {":ttl": int((now + LIFE).timestamp()), ":one": 1, ":most": most}
                ),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return False
        return True
