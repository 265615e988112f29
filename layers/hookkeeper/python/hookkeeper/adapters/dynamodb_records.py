"""Domain values as DynamoDB's plain ones and back, by the types their dataclasses declare.

A new field of the domain is stored from the day it exists, and is its default on older items.
"""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hookkeeper.adapters.dynamodb import moment

_T = TypeVar("_T")
_MICROSECOND = timedelta(microseconds=1)


def record(value: Any, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a dataclass, ready for `encoded`: spans in microseconds, sets in order."""
    return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in without}


def restored(kind: type[_T], values: Mapping[str, Any], **known: Any) -> _T:
    """The dataclass again, from `decoded` values; `known` are the fields that the item's key tells.

    Raises TypeError where a field without a default is missing.
    """
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable; mypy does not see it here
    told = {name: _typed(hint, values[name]) for name, hint in hints.items() if name in values}
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


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _typed(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _typed(inner, value)
    if origin in (tuple, frozenset):
        return origin(_typed(arguments[0], element) for element in value)
    if origin is not None:
        return {_typed(arguments[0], key): _typed(arguments[1], inner) for key, inner in value.items()}
    return _scalar(hint, value)


def _scalar(kind: type[Any], value: Any) -> Any:
    if is_dataclass(kind):
        return restored(kind, value)
    if kind is datetime:
        return moment(value)
    if kind is timedelta:
        return value * _MICROSECOND
    return kind(value) if issubclass(kind, Enum | float) else value
