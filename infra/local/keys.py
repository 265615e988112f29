"""The first operator key, stored as the product stores every key: the one that makes all others."""

from datetime import datetime

from hookkeeper.domain.access import ApiKey, KeyKind, Right, key_hash, key_text
from hookkeeper.ports import Access


def create_operator_key(access: Access, *, key_id: str, now: datetime, entropy: bytes) -> str:
    """Store a new operator key and return it; it can never be read again. `entropy`: 32 random bytes."""
    key = key_text(KeyKind.OPERATOR, entropy)
    access.put_key(
        ApiKey(
            id=key_id,
            sha256=key_hash(key),
            kind=KeyKind.OPERATOR,
            rights=frozenset({Right.OPERATE}),
            created_at=now,
            last4=key[-4:],
        )
    )
    return key
