"""Tenants, and the API keys that speak for them: what a key looks like, what it may do, when it ends."""

import hashlib
import re
import zlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.tenancy import Mode, Scope

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(r"hk_(live|test|app|op)_[0-9A-Za-z]{38}", re.ASCII)
RANDOM_LENGTH = 32
CHECKSUM_LENGTH = 6


class Right(StrEnum):
    """A scope of an API key."""

    SUBSCRIPTIONS_READ = "subscriptions:read"
    SUBSCRIPTIONS_WRITE = "subscriptions:write"
    EVENTS_WRITE = "events:write"
    DELIVERIES_READ = "deliveries:read"
    DELIVERIES_REPLAY = "deliveries:replay"
    OPERATE = "operator"


TENANT_RIGHTS = frozenset(Right) - {Right.OPERATE}
APPLICATION_RIGHTS = TENANT_RIGHTS - {Right.EVENTS_WRITE}

OPERATORS = "*"
"""Whose keys the operators' are; no tenant can be called so."""

HOUSE = Scope("hookkeeper", Mode.LIVE)
"""Where what belongs to no tenant is audited: applications' keys, tenants, the catalogue."""


STANDARD = "standard"
"""The usage plan of whoever was put on no other."""


class KeyKind(StrEnum):
    LIVE = "live"
    TEST = "test"
    APP = "app"
    OPERATOR = "op"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A customer of the provider; `plan` says how often it may call."""

    id: str
    name: str
    created_at: datetime
    plan: str = STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as stored: its hash, never itself.

    `tenant_id` and `mode` are None on operators' and applications' keys; those of an application name it.
    `last_used_at` is coarse: up to an hour old.
    """

    id: str
    sha256: str
    kind: KeyKind
    rights: frozenset[Right]
    created_at: datetime
    last4: str
    tenant_id: str | None = None
    mode: Mode | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    application_id: str | None = None
    last_used_at: datetime | None = None

    @property
    def owner(self) -> str:
        """A tenant's id, `app:<application id>`, or OPERATORS."""
        if self.application_id is not None:
            return application_owner(self.application_id)
        return self.tenant_id or OPERATORS

    def usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def application_owner(application_id: str) -> str:
    return f"app:{application_id}"


def gateway_key(api_id: str, owner: str) -> str:
    """By what the gateway counts an owner's calls: the API's id and a SHA-256, 74 characters or so.

    It is no secret: the authorizer alone names it, so it opens nothing. An account has each value once.
    """
    return api_id + hashlib.sha256(owner.encode()).hexdigest()


def key_text(kind: KeyKind, entropy: bytes) -> str:
    """The key: `hk_<kind>_` + 32 base62 characters + a 6-character CRC-32 of what stands before.

    `entropy` is 32 random bytes or more, one a character (62 of 256 values: 5.9 bits each, 190 in all).
    """
    if len(entropy) < RANDOM_LENGTH:
        raise ValueError(f"a key needs {RANDOM_LENGTH} random bytes, not {len(entropy)}")
    body = f"hk_{kind}_" + "".join(_BASE62[byte % 62] for byte in entropy[:RANDOM_LENGTH])
    return body + _checksum(body)


def well_formed(text: str) -> bool:
    """Whether the text can be a key at all: prefix, alphabet, length and checksum (no table is asked)."""
    return bool(_KEY.fullmatch(text)) and _checksum(text[:-CHECKSUM_LENGTH]) == text[-CHECKSUM_LENGTH:]


def key_hash(text: str) -> str:
    """What is stored of a key: SHA-256, hex. 190 random bits need no pepper."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits
