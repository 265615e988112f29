"""What an owner may say of a subscription: each rule once, for creating and for editing."""

import re
from collections.abc import Collection, Mapping

from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.usecases.request import reserved_header

MAX_HEADERS = 20
MAX_METADATA = 20
MAX_METADATA_CHARACTERS = 500
MAX_DESCRIPTION_CHARACTERS = 500
TIMEOUTS_SECONDS = range(1, 31)

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?")
_REFUSED_HEADERS = frozenset({"cookie", "set-cookie", "forwarded", "via"})
_REFUSED_PREFIXES = ("content-", "x-amz", "x-forwarded-")
"""Besides those that Hookkeeper sets itself: what would speak for a proxy, a browser or AWS (T52)."""

_METADATA_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_EMAIL = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+",
    re.ASCII,
)
"""HTML's own definition of an address, with at least one dot: no quotes, spaces, commas or controls."""

_MAX_EMAIL_CHARACTERS = 254


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The custom headers, values trimmed. Raises InvalidInputError (T52).

    Codes: `too_many_headers`, `invalid_header_name`, `reserved_header`, `duplicate_header`,
    `invalid_header_value`; a refusal never repeats a value.
    """
    if len(headers) > MAX_HEADERS:
        raise _refused("/headers", "too_many_headers", f"at most {MAX_HEADERS} headers")
    seen: set[str] = set()
    for name in headers:
        _check_header_name(name)
        if name.lower() in seen:
            raise _refused(f"/headers/{name}", "duplicate_header", "the same header in another case")
        seen.add(name.lower())
    return {name: _header_value(name, value) for name, value in headers.items()}


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise _refused(
            "/headers", "invalid_header_name", "a header's name is an RFC 9110 token of at most 64 characters"
        )
    lower = name.lower()
    if reserved_header(name) or lower in _REFUSED_HEADERS or lower.startswith(_REFUSED_PREFIXES):
        raise _refused(f"/headers/{name}", "reserved_header", f"{name} is not for customers to set")


def _header_value(name: str, value: str) -> str:
    trimmed = value.strip(" \t")
    if not _HEADER_VALUE.fullmatch(trimmed):
        detail = "a header's value is 1 to 1,024 visible ASCII characters and spaces"
        raise _refused(f"/headers/{name}", "invalid_header_value", detail)
    return trimmed


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Raises InvalidInputError (`too_much_metadata`, `invalid_metadata`)."""
    if len(metadata) > MAX_METADATA:
        raise _refused("/metadata", "too_much_metadata", f"at most {MAX_METADATA} keys")
    for key, value in metadata.items():
        if not _METADATA_KEY.fullmatch(key):
            raise _refused("/metadata", "invalid_metadata", "a key is 1 to 64 of A-Z a-z 0-9 _ . -")
        if len(value) > MAX_METADATA_CHARACTERS:
            detail = f"at most {MAX_METADATA_CHARACTERS} characters"
            raise _refused(f"/metadata/{key}", "invalid_metadata", detail)
    return dict(metadata)


def checked_email(address: str) -> str:
    """Raises InvalidInputError (`invalid_email`)."""
    if len(address) > _MAX_EMAIL_CHARACTERS or not _EMAIL.fullmatch(address):
        raise _refused("/owner_email", "invalid_email", "not a mail address")
    return address


def checked_description(text: str) -> str:
    """Raises InvalidInputError (`too_long`)."""
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        detail = f"at most {MAX_DESCRIPTION_CHARACTERS} characters"
        raise _refused("/description", "too_long", detail)
    return text


def checked_policy(name: str, *, policies: Collection[str]) -> str:
    """Raises InvalidInputError (`unknown_policy`)."""
    if name not in policies:
        raise _refused("/policy", "unknown_policy", f"one of {', '.join(sorted(policies))}")
    return name


def checked_timeout(seconds: int) -> int:
    """Raises InvalidInputError (`invalid_timeout`)."""
    if seconds not in TIMEOUTS_SECONDS:
        raise _refused("/timeout_seconds", "invalid_timeout", "1 to 30 seconds")
    return seconds


def _refused(pointer: str, code: str, detail: str) -> InvalidInputError:
    return InvalidInputError(detail, code=code, pointer=pointer)
