"""Domain values as DynamoDB's plain ones and back, by the types their dataclasses declare.

A new field of the domain is stored from the day it exists, is its default on older items, and is overlooked
by older workers. Where that will not do, the item's `v` is raised, and older workers leave it alone (F54).
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hookkeeper.adapters.dynamodb import moment
from hookkeeper.domain.errors import OwnFaultError

READABLE_VERSIONS = (1,)
"""Of items: the present version, which is not written while it is 1, and the one before it."""

_T = TypeVar("_T")
_MICROSECOND = timedelta(microseconds=1)


def record(value: Any, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a dataclass, ready for `encoded`: spans in microseconds, sets in order."""
    return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in without}


def restored(kind: type[_T], values: Mapping[str, Any], **known: Any) -> _T:
    """The dataclass again, from `decoded` values; `known` are the fields that the item's key tells.

    Raises TypeError where a field without a default is missing, and OwnFaultError where the item is newer
    than this worker, so that whatever asked for it waits for the deploy that knows it.
    """
    if values.get("v", 1) not in READABLE_VERSIONS:
        raise OwnFaultError(f"an item of version {values['v']}; this worker reads {READABLE_VERSIONS}")
    readers = _readers(kind)  # type: ignore[arg-type]  # a class is hashable; mypy does not see it here
    told = {name: read(values[name]) for name, read in readers if name in values}
    return kind(**{**told, **known})


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return record(value)
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    if isinstance(value, frozenset):
        return sorted(_plain(element) for element in value)
    return value


_Read = Callable[[Any], Any]


@cache
def _readers(kind: Any) -> list[tuple[str, _Read]]:
    """How each field is read, worked out once: every delivery reads two items."""
    hints = get_type_hints(kind)
    return [(f.name, _reader(hints[f.name])) for f in fields(kind)]


def _reader(hint: Any) -> _Read:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _reader(inner)
    if origin in (tuple, frozenset):
        element = _reader(arguments[0])
        return lambda values: origin(map(element, values))
    if origin is not None:
        read_key, read_value = map(_reader, arguments)
        return lambda values: {read_key(key): read_value(inner) for key, inner in values.items()}
    return _scalar_reader(hint)


def _scalar_reader(kind: type[Any]) -> _Read:
    if is_dataclass(kind):
        return partial(restored, kind)
    if kind is datetime:
        return moment
    if kind is timedelta:
        return lambda value: value * _MICROSECOND
    return kind if issubclass(kind, Enum | float) else lambda value: value
