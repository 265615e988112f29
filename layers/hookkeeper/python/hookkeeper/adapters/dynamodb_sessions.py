"""Console sessions and portal links, in the Access table, each under the SHA-256 of what its holder has."""

from datetime import datetime
from typing import Any

from hookkeeper.adapters.dynamodb import Backoff, Item, decoded, encoded
from hookkeeper.adapters.dynamodb_expressions import Expression, put_new, transact, update_item, updated
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.session import PortalLink, Session
from hookkeeper.domain.tenancy import Scope


class DynamoDBSessions:
    """The Sessions port. What has ended is removed by DynamoDB within days, and is no use before."""

    def __init__(self, client: Any, *, access_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = access_table
        self._backoff = backoff or Backoff()

    def put_link(self, link: PortalLink) -> None:
        item = _link_key(link.sha256) | encoded(record(link) | {"ttl": _ttl(link.expires_at)})
        self._client.put_item(TableName=self._table, Item=item)

    def link(self, sha256: str) -> PortalLink | None:
        item = self._item(_link_key(sha256))
        return restored(PortalLink, decoded(item)) if item else None

    def open_link(self, link: PortalLink, session: Session, *, now: datetime) -> bool:
        expression = Expression()
        expression.require_same("used_by", None)
        expression.require("expires_at", ">", now)
        expression.put("used_by", session.sha256)
        steps = [
            updated(self._table, _link_key(link.sha256), expression),
            put_new(self._table, _session_item(session)),
        ]
        if transact(self._client, steps, self._backoff) is None:
            return True
        standing = self.link(link.sha256)  # used by this very session: the answer was lost
        return standing is not None and standing.used_by == session.sha256

    def put(self, session: Session) -> None:
        self._client.put_item(TableName=self._table, Item=_session_item(session))

    def get(self, sha256: str) -> Session | None:
        item = self._item(_session_key(sha256))
        return restored(Session, decoded(item)) if item else None

    def act_for(self, session: Session, scope: Scope) -> bool:
        expression = Expression()
        expression.put("scope", record(scope))
        return update_item(self._client, self._table, _session_key(session.sha256), expression, self._backoff)

    def end(self, sha256: str) -> None:
        self._client.delete_item(TableName=self._table, Key=_session_key(sha256))

    def _item(self, key: Item) -> Item | None:
        answer = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item


def _session_item(session: Session) -> Item:
    return _session_key(session.sha256) | encoded(record(session) | {"ttl": _ttl(session.expires_at)})


def _link_key(sha256: str) -> Item:
    return encoded({"pk": f"portal#{sha256}", "sk": "link"})


def _session_key(sha256: str) -> Item:
    return encoded({"pk": f"session#{sha256}", "sk": "session"})


def _ttl(expires_at: datetime) -> int:
    return int(expires_at.timestamp()) + 1
