"""JSON Schema by the reference library, imported when a schema is first met: a cold start needs none."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from cachetools import LRUCache

from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.ports import Catalogue

KEPT_VALIDATORS = 200
RULES_LIFE_SECONDS = 30.0
MAX_DETAIL_CHARACTERS = 200


class JsonSchemas:
    """The Schemas port. `$ref` reaches within the schema alone, so that a check never leaves the function."""

    def __init__(self) -> None:
        self._validators: LRUCache[str, Any] = LRUCache(KEPT_VALIDATORS)

    def check_schema(self, schema: str) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        document = json.loads(schema)
        outside = next((ref for ref in _references(document) if not ref.startswith("#")), None)
        if outside is not None:
            raise _invalid("a $ref names a place within the schema")
        try:
            Draft202012Validator.check_schema(document)
        except SchemaError as error:
            raise _invalid(error.message) from None

    def check(self, schema: str, data: str, *, pointer: str) -> None:
        error = next(self._validator(schema).iter_errors(json.loads(data)), None)
        if error is not None:
            place = "".join(f"/{part}" for part in error.absolute_path)
            rule = "".join(f"/{part}" for part in error.absolute_schema_path)
            # By the rule and the place: the library's own words quote the value.
            raise InvalidInputError(
                f"it does not fit the type's schema at {rule}"[:MAX_DETAIL_CHARACTERS],
                code="schema_mismatch",
                pointer=f"{pointer}{place}"[:MAX_DETAIL_CHARACTERS],
            )

    def _validator(self, schema: str) -> Any:
        from jsonschema import Draft202012Validator
        from referencing import Registry

        if schema not in self._validators:
            self._validators[schema] = Draft202012Validator(json.loads(schema), registry=Registry())
        return self._validators[schema]


class CatalogueRules:
    """The EventRules port: each type's entry is read once in half a minute, one that is not listed too."""

    def __init__(self, catalogue: Catalogue, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._catalogue = catalogue
        self._schemas = JsonSchemas()
        self._monotonic = monotonic
        self._strict: LRUCache[str, tuple[float, str | None]] = LRUCache(10_000)

    def check(self, event_type: str, data: str) -> None:
        schema = self._schema(event_type)
        if schema is not None:
            self._schemas.check(schema, data, pointer="/data")

    def _schema(self, event_type: str) -> str | None:
        now = self._monotonic()
        read_at, schema = self._strict.get(event_type, (float("-inf"), None))
        if now - read_at >= RULES_LIFE_SECONDS:
            found = self._catalogue.get(event_type)
            schema = found.json_schema if found is not None and found.strict else None
            self._strict[event_type] = (now, schema)
        return schema


def _references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (document[key] for key in ("$ref", "$dynamicRef") if isinstance(document.get(key), str))
        for member in document.values():
            yield from _references(member)
    elif isinstance(document, list):
        for member in document:
            yield from _references(member)


def _invalid(detail: str) -> InvalidInputError:
    return InvalidInputError(detail[:MAX_DETAIL_CHARACTERS], code="invalid_schema", pointer="/json_schema")
