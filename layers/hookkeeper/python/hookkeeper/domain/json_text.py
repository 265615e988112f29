"""JSON read strictly and written back as it was: numbers keep their text, and nothing ambiguous gets in."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hookkeeper.domain.errors import InvalidInputError

MAX_DEPTH = 32
"""Objects and arrays inside each other; more is an attack on somebody's parser (T38)."""

MAX_POINTER = 256
"""Characters of a JSON pointer in an answer; nobody reads a longer one."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as its sender wrote it: 1.10 stays 1.10, and 2^70 stays exact."""

    text: str


Json = None | bool | int | float | str | Number | Sequence["Json"] | Mapping[str, "Json"]


def read(raw: bytes | str) -> Json:
    """What the text says, its numbers as Number. Raises InvalidInputError.

    Codes: `invalid_json` (also NaN, and text that is not UTF-8), `duplicate_key`, `too_deep`, and
    `invalid_text` for half a surrogate pair, which no UTF-8 can hold.
    """
    try:
        value: Json = _DECODER.decode(raw.decode() if isinstance(raw, bytes) else raw)
    except RecursionError:
        raise _too_deep("") from None
    except ValueError:
        raise InvalidInputError("the body is not JSON", code="invalid_json") from None
    check(value)
    return value


def check(value: Json, *, pointer: str = "", depth: int = 0) -> None:
    """Raise InvalidInputError where the value is nested too deep or holds half a surrogate pair."""
    if isinstance(value, str):
        _check_text(value, pointer)
        return
    if not isinstance(value, Mapping | Sequence):
        return
    if depth == MAX_DEPTH:
        raise _too_deep(pointer)
    for key, member in value.items() if isinstance(value, Mapping) else enumerate(value):
        if isinstance(key, str):
            _check_text(key, pointer)
        check(member, pointer=f"{pointer}/{_escaped(key)}", depth=depth + 1)


def write(value: Json) -> str:
    """The value as compact JSON, its text unescaped and its numbers as they were read."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{write(key)}:{write(member)}" for key, member in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise InvalidInputError("an object names one of its keys twice", code="duplicate_key")
    return members


def _refuse_constant(constant: str) -> NoReturn:
    raise InvalidInputError(f"{constant} is not JSON", code="invalid_json")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=Number, parse_int=Number, parse_constant=_refuse_constant
)


def _check_text(text: str, pointer: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            "the text holds half a surrogate pair", code="invalid_text", pointer=_safe(pointer)
        ) from None


def _too_deep(pointer: str) -> InvalidInputError:
    detail = f"at most {MAX_DEPTH} objects and arrays inside each other"
    return InvalidInputError(detail, code="too_deep", pointer=_safe(pointer))


def _escaped(key: str | int) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _safe(pointer: str) -> str:
    return pointer if len(pointer) <= MAX_POINTER else ""
