"""Addresses that notices go to, and which notices each mail told of, in the Notices table.

An address stands in a key as its SHA-256: keys show up in indexes, streams and metrics.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hookkeeper.adapters.dynamodb import Backoff, Item, decoded, encoded, expiry, prefix
from hookkeeper.adapters.dynamodb_expressions import Expression, Step, put, transact, update_item, updated
from hookkeeper.adapters.dynamodb_notices import notice_key
from hookkeeper.adapters.dynamodb_records import restored
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.mailbox import BAD_FOR, AddressFault, Mailbox
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.tenancy import Scope

MAIL_LIFE = timedelta(days=30)
"""Bounces come within days; SES gives up on an address after some hours."""

PATIENT = Backoff(tries=8)
"""For the write after the provider's yes: until it is made, a second mail is possible. 6 s on average."""


class DynamoDBMailboxes:
    """The Mailboxes port."""

    def __init__(self, client: Any, *, notices_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = notices_table
        self._backoff = backoff or Backoff()
        self._patient = backoff or PATIENT

    def get(self, scope: Scope, address: str) -> Mailbox:
        answer = self._client.get_item(
            TableName=self._table, Key=_mailbox_key(scope, address), ConsistentRead=True
        )
        values = decoded(answer.get("Item", {}))
        return restored(Mailbox, values, scope=scope, address=address)

    def hold(self, mailbox: Mailbox, *, by: str, now: datetime, lease: timedelta) -> bool:
        expression = Expression(creates=True)
        expression.require_any(("held_until", "=", None), ("held_until", "<=", now), ("held_by", "=", by))
        expression.require_same("day", mailbox.day)
        expression.require_same("mails", mailbox.mails or None)
        expression.put("held_by", by)
        expression.put("held_until", now + lease)
        expression.put("ttl", expiry(now, BAD_FOR))
        return self._update(mailbox.scope, mailbox.address, expression)

    def release(self, mailbox: Mailbox) -> None:
        expression = Expression()
        expression.require("held_by", "=", mailbox.held_by or "")
        expression.put("held_by", None)
        expression.put("held_until", None)
        self._update(mailbox.scope, mailbox.address, expression)

    def count(self, mailbox: Mailbox, notices: Sequence[Notice], *, message_id: str) -> None:
        """Raises OwnFaultError where notices or mailbox are no longer the claimer's, or the table is busy."""
        steps = [
            self._counted(mailbox),
            put(self._table, _mail_item(mailbox.scope, message_id, notices)),
            *(self._accepted(notice) for notice in notices),
        ]
        if transact(self._client, steps, self._patient):
            raise OwnFaultError(f"the notices of mail {message_id} are no longer as they were claimed")

    def carried(self, scope: Scope, message_id: str) -> Sequence[str]:
        answer = self._client.get_item(
            TableName=self._table, Key=_mail_key(scope, message_id), ConsistentRead=True
        )
        return list(decoded(answer.get("Item", {})).get("notice_ids", []))

    def spoil(self, scope: Scope, address: str, fault: AddressFault, *, now: datetime) -> None:
        expression = Expression(creates=True)
        expression.put("bad", fault)
        expression.put("bad_at", now)
        expression.put("ttl", expiry(now, BAD_FOR))
        self._update(scope, address, expression)

    def _counted(self, mailbox: Mailbox) -> Step:
        expression = Expression()
        expression.require("held_by", "=", mailbox.held_by or "")
        expression.put("gathers_until", mailbox.gathers_until)
        expression.put("stage", mailbox.stage)
        expression.put("day", mailbox.day)
        expression.put("mails", mailbox.mails)
        return updated(self._table, _mailbox_key(mailbox.scope, mailbox.address), expression)

    def _accepted(self, notice: Notice) -> Step:
        """It stays open until operators are told; should that not come about, the sweep brings it again."""
        expression = Expression()
        expression.require("claimed_by", "=", notice.claimed_by or "")
        expression.put("message_id", notice.message_id)
        expression.put("sent_at", notice.sent_at)
        return updated(self._table, notice_key(notice), expression)

    def _update(self, scope: Scope, address: str, expression: Expression) -> bool:
        return update_item(self._client, self._table, _mailbox_key(scope, address), expression, self._backoff)


def _mailbox_key(scope: Scope, address: str) -> Item:
    hashed = hashlib.sha256(address.lower().encode()).hexdigest()
    return encoded({"pk": f"{prefix(scope)}address#{hashed}", "sk": "mailbox"})


def _mail_key(scope: Scope, message_id: str) -> Item:
    return encoded({"pk": f"{prefix(scope)}mail#{message_id}", "sk": "mail"})


def _mail_item(scope: Scope, message_id: str, notices: Sequence[Notice]) -> Item:
    sent_at = max(notice.sent_at or notice.at for notice in notices)
    told = {"notice_ids": [notice.id for notice in notices], "ttl": expiry(sent_at, MAIL_LIFE)}
    return _mail_key(scope, message_id) | encoded(told)
