"""What an item costs to write: DynamoDB's own arithmetic, rounded up."""

from collections.abc import Mapping
from typing import Any


def size_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Names and values in UTF-8; a number takes a byte per two digits, and one more."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _size(value: Mapping[str, Any]) -> int:
    ((kind, inner),) = value.items()
    match kind:
        case "S":
            return len(inner.encode())
        case "N":
            return len(inner) // 2 + 2
        case "B":
            return len(inner)
        case "L":
            return 3 + sum(1 + _size(element) for element in inner)
        case "M":
            return 3 + size_bytes(inner) + len(inner)
    return 1
