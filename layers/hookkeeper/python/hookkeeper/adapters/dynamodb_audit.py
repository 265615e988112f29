"""Audit records, in a table of their own that nothing updates or deletes."""

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import CONDITION_FAILED, Item, decoded, encoded, error_code, prefix
from hookkeeper.adapters.dynamodb_records import record as plain
from hookkeeper.adapters.dynamodb_records import restored
from hookkeeper.domain.audit import AuditRecord
from hookkeeper.domain.tenancy import Scope

_KEYED = frozenset({"scope", "id", "subject"})


def audit_item(record: AuditRecord) -> Item:
    keys = {"pk": _partition(record.scope, record.subject), "sk": record.id}
    return encoded(keys | plain(record, without=_KEYED))


class DynamoDBAudit:
    """The Audit port, in the Audit table."""

    def __init__(self, client: Any, *, audit_table: str) -> None:
        self._client = client
        self._table = audit_table

    def put(self, record: AuditRecord) -> None:
        """A record that is there already is this very one: ids cannot be guessed."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=audit_item(record),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise

    def of(
        self, scope: Scope, subject: str, *, limit: int, before: str | None = None
    ) -> Sequence[AuditRecord]:
        earlier = " AND sk < :before" if before is not None else ""
        values = {":pk": _partition(scope, subject), ":before": before}
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression=f"pk = :pk{earlier}",
            ExpressionAttributeValues=encoded(values),
            ScanIndexForward=False,
            ConsistentRead=True,
            Limit=limit,
        )
        return [_record(scope, subject, item) for item in answer["Items"]]


def _partition(scope: Scope, subject: str) -> str:
    return f"{prefix(scope)}audit#{subject}"


def _record(scope: Scope, subject: str, item: Item) -> AuditRecord:
    values = decoded(item)
    return restored(AuditRecord, values, scope=scope, subject=subject, id=values["sk"])
