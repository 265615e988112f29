"""Parts of a list that services take at once: so many items, so many bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def batches(
    items: Iterable[_T], *, most: int, most_bytes: int, size_of: Callable[[_T], int]
) -> Iterator[list[_T]]:
    """In order; an item that is too large by itself goes alone, for the service to refuse."""
    batch: list[_T] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        if batch and (len(batch) == most or size + item_size > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch
