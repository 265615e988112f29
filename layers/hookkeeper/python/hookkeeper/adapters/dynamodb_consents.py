"""Consents, in the Subscriptions table: one item an application, all of a tenant's mode in one partition."""

from collections.abc import Sequence
from typing import Any

from hookkeeper.adapters.dynamodb import Backoff, Item, decoded, encoded, pages, prefix, scope_of
from hookkeeper.adapters.dynamodb_audit import audit_item
from hookkeeper.adapters.dynamodb_expressions import Expression, put_new, transact
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.audit import AuditRecord
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.tenancy import Scope

_KEYED = frozenset({"scope", "application_id"})


def consent_key(scope: Scope, application_id: str) -> Item:
    return encoded({"pk": f"{prefix(scope)}consents", "sk": application_id})


def consent_from(item: Item) -> Consent:
    values = decoded(item)
    scope, _ = scope_of(values["pk"])
    return restored(Consent, values, scope=scope, application_id=values["sk"])


class DynamoDBConsents:
    """The Consents port."""

    def __init__(
        self, client: Any, *, subscriptions_table: str, audit_table: str, backoff: Backoff | None = None
    ) -> None:
        self._client = client
        self._table = subscriptions_table
        self._audit = audit_table
        self._backoff = backoff or Backoff()

    def get(self, scope: Scope, application_id: str) -> Consent | None:
        answer = self._client.get_item(
            TableName=self._table, Key=consent_key(scope, application_id), ConsistentRead=True
        )
        return consent_from(answer["Item"]) if "Item" in answer else None

    def of(self, scope: Scope) -> Sequence[Consent]:
        query = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": encoded({":pk": f"{prefix(scope)}consents"}),
            "ConsistentRead": True,
        }
        return [consent_from(item) for page in pages(self._client, **query) for item in page]

    def put(self, consent: Consent, audit: AuditRecord) -> bool:
        guard = Expression(creates=True)
        # It is still as read: of the version before, or not there yet.
        guard.require_same("version", consent.version - 1 or None)
        item = consent_key(consent.scope, consent.application_id) | encoded(record(consent, without=_KEYED))
        steps = [
            {"Put": {"TableName": self._table, "Item": item, **guard.condition()}},
            put_new(self._audit, audit_item(audit)),
        ]
        if transact(self._client, steps, self._backoff) is None:
            return True
        return self.get(consent.scope, consent.application_id) == consent
