"""Standard Webhooks `v1` signatures, the secrets that make them, and one-use tokens."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from hookkeeper.domain.errors import InvalidInputError

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 24
"""What Hookkeeper makes; the standard allows 24 to 64."""

MIN_SECRET_BYTES = 24
MAX_SECRET_BYTES = 64


class Secret:
    """A signing key that does not show itself in text, logs or tracebacks; ask `key` for the bytes."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
            detail = f"a secret has {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes, this one {len(key)}"
            raise InvalidInputError(detail, code="secret")
        self._key = bytes(key)

    @property
    def key(self) -> bytes:
        return self._key

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)


def encode_secret(key: bytes) -> str:
    """The text its owner sees: `whsec_` and padded standard base64."""
    return SECRET_PREFIX + base64.b64encode(key).decode("ascii")


def parse_secret(text: str) -> Secret:
    """The inverse of `encode_secret`, and of nothing else; raises InvalidInputError (code `secret`).

    The refusal never repeats the text.
    """
    if not text.startswith(SECRET_PREFIX):
        raise InvalidInputError(f"a secret begins with {SECRET_PREFIX}", code="secret")
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        raise InvalidInputError("a secret is standard base64 with padding", code="secret") from None
    if encode_secret(key) != text:
        raise InvalidInputError("a secret is standard base64 with padding", code="secret")
    return Secret(key)


def secret_texts(secret: Secret) -> tuple[str, ...]:
    """The spellings of a secret that must not come back in an excerpt."""
    text = encode_secret(secret.key)
    return text, text.removeprefix(SECRET_PREFIX).rstrip("="), secret.key.hex()


def sign(secrets: Sequence[Secret], *, webhook_id: str, timestamp: int, body: bytes) -> str:
    """The `webhook-signature` header: one `v1,` signature per secret, in order, joined by one space.

    `timestamp` is in whole Unix seconds, `body` the very bytes that are sent. ValueError without a secret
    (nothing goes unsigned) and for an id with a dot (it would blur the signed text).
    """
    if not secrets:
        raise ValueError("nothing is sent unsigned")
    if "." in webhook_id:
        raise ValueError("a webhook id has no dot")
    signed = b"%s.%d.%s" % (webhook_id.encode("ascii"), timestamp, body)
    return " ".join(_v1(secret, signed) for secret in secrets)


def _v1(secret: Secret, signed: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret.key, signed, "sha256")).decode("ascii")


def token_hash(token: str) -> str:
    """SHA-256 in hex: how a challenge token is stored."""
    return _sha256(token.encode("utf-8", "surrogatepass"))


def token_matches(given: object, stored_hash: str) -> bool:
    """Whether `given` (from anyone) is the token behind the hash; in constant time, and never raises."""
    if isinstance(given, str):
        given = given.encode("utf-8", "surrogatepass")
    if not isinstance(given, bytes):
        return False
    return hmac.compare_digest(_sha256(given).encode(), stored_hash.encode("utf-8", "surrogatepass"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
