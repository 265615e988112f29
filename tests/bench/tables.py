"""DynamoDB in memory, as much of it as the adapters ask for, with the units that AWS would bill.

A write unit is 1 KB of the larger of the item before and after, a read unit 4 KB read consistently; in a
transaction a write counts two. An index takes a unit where its keys come, go or change.
"""

import base64
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq, ge, gt, le, lt
from typing import Any

from tests.contracts.sizes import size_bytes

Item = dict[str, Any]
Key = tuple[str, str]

_INDEXES = {"due": ("due_pk", "due_at"), "lists": ("list_pk", "list_sk")}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": eq, ">": gt, "<": lt, ">=": ge, "<=": le}
_COMPARISON = re.compile(r"(\S+) (=|<=|>=|<|>) (:\w+)")
_ASSIGNMENT = re.compile(r"([#\w.]+) = (if_not_exists\([^)]*\)|:\w+)")
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD) ")
_BETWEEN = re.compile(r"(\w+) BETWEEN (:\w+) AND (:\w+)")


class GuardFailedError(Exception):
    """A condition did not hold; `item` is what stood there."""

    def __init__(self, item: Item) -> None:
        super().__init__("the conditional request failed")
        self.item = item


class CanceledError(Exception):
    """A transaction was cancelled; a code for each of its items."""

    def __init__(self, codes: list[str]) -> None:
        super().__init__("transaction cancelled")
        self.codes = codes


class Tables:
    """`units` by table and kind: "write", "index", and "half_read", as an eventual read is half a unit."""

    def __init__(self) -> None:
        self.items: defaultdict[str, defaultdict[str, dict[str, Item]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        """By table, partition key and sort key."""
        self.units = Counter[tuple[str, str]]()
        self.writes = Counter[tuple[str, str]]()
        """By table and sort key: `("Subscriptions", "health")`."""

    def stored_bytes(self, *tables: str) -> int:
        return sum(
            _size(item) for table in tables for items in self.items[table].values() for item in items.values()
        )

    # ── operations ───────────────────────────────────────────────────────────────────────────────

    def get_item(self, asked: Any) -> Any:
        item = self._read(asked["TableName"], asked["Key"], consistent=asked.get("ConsistentRead", False))
        return {"Item": item} if item else {}

    def batch_get_item(self, asked: Any) -> Any:
        found = {
            table: [
                item
                for key in wanted["Keys"]
                if (item := self._read(table, key, consistent=wanted.get("ConsistentRead", False)))
            ]
            for table, wanted in asked["RequestItems"].items()
        }
        return {"Responses": found, "UnprocessedKeys": {}}

    def query(self, asked: Any) -> Any:
        table, values = asked["TableName"], asked["ExpressionAttributeValues"]
        index = asked.get("IndexName")
        sort = _INDEXES[index][1] if index else "sk"
        matching = self._queried(table, index, asked["KeyConditionExpression"], values)
        ordered = sorted(
            matching, key=lambda item: _plain(item[sort]), reverse=not asked.get("ScanIndexForward", True)
        )
        start = asked.get("ExclusiveStartKey")
        if start:
            places = [_key(item) for item in ordered]
            ordered = ordered[places.index(_key(start)) + 1 :]
        page = ordered[: asked.get("Limit", len(ordered))]
        if index:
            keys = ("pk", "sk", *_INDEXES[index])
            page = [{name: item[name] for name in keys} for item in page]
        self._count_query(table, page, consistent=asked.get("ConsistentRead", False))
        answer: dict[str, Any] = {"Items": page, "Count": len(page), "ScannedCount": len(page)}
        if len(page) < len(ordered):
            answer["LastEvaluatedKey"] = {"pk": page[-1]["pk"], "sk": page[-1]["sk"]}
        return answer

    def put_item(self, asked: Any) -> Any:
        self._guarded(asked, lambda _: asked["Item"])
        return {}

    def update_item(self, asked: Any) -> Any:
        self._guarded(asked, lambda item: _updated(item, asked))
        return {}

    def delete_item(self, asked: Any) -> Any:
        self._guarded(asked, lambda _: None)
        return {}

    def batch_write_item(self, asked: Any) -> Any:
        for table, requests in asked["RequestItems"].items():
            for request in requests:
                put = request.get("PutRequest", {}).get("Item")
                self._write(table, _key(put or request["DeleteRequest"]["Key"]), put)
        return {"UnprocessedItems": {}}

    def transact_write_items(self, asked: Any) -> Any:
        steps = [next(iter(step.items())) for step in asked["TransactItems"]]
        codes = [
            "None" if _holds(step, self._at(step["TableName"], _key_of(step))) else "ConditionalCheckFailed"
            for _, step in steps
        ]
        if set(codes) != {"None"}:
            raise CanceledError(codes)
        for kind, step in steps:
            table, key = step["TableName"], _key_of(step)
            before = self._at(table, key)
            after: Item | None = before or None
            match kind:
                case "Put":
                    after = step["Item"]
                case "Update":
                    after = _updated(step["Key"] | before, step)
                case "Delete":
                    after = None
            self._write(table, key, after, times=2)
        return {}

    def batch_execute_statement(self, asked: Any) -> Any:
        return {"Responses": [self._inserted(statement) for statement in asked["Statements"]]}

    # ── underneath ───────────────────────────────────────────────────────────────────────────────

    def _inserted(self, statement: Any) -> Item:
        """PartiQL's INSERT of one item, which fails where its key is taken."""
        text = statement["Statement"]
        table = text.split('"')[1]
        item = dict(zip(re.findall(r"'(\w+)': \?", text), statement["Parameters"], strict=True))
        standing = self._at(table, _key(item))
        if standing:
            self.units[table, "write"] += _units(standing, 1024)
            return {"TableName": table, "Error": {"Code": "DuplicateItem"}}
        self._write(table, _key(item), item)
        return {"TableName": table}

    def _at(self, table: str, key: Key) -> Item:
        return self.items[table][key[0]].get(key[1], {})

    def _read(self, table: str, key: Item, *, consistent: bool) -> Item:
        item = self._at(table, _key(key))
        self.units[table, "half_read"] += _units(item, 4096) * (2 if consistent else 1)
        return item

    def _count_query(self, table: str, page: list[Item], *, consistent: bool) -> None:
        size = sum(_size(item) for item in page)
        self.units[table, "half_read"] += max(1, math.ceil(size / 4096)) * (2 if consistent else 1)

    def _queried(self, table: str, index: str | None, condition: str, values: Item) -> Iterator[Item]:
        """Every item of the partition that is asked for and within the bounds of its sort key."""
        first, _, bounds = condition.partition(" AND ")
        partition = _plain(values[first.split(" = ")[1]])
        if index is None:
            candidates: Iterable[Item] = self.items[table][partition].values()
        else:
            name = _INDEXES[index][0]
            everything = (item for items in self.items[table].values() for item in items.values())
            candidates = (item for item in everything if item.get(name, {}).get("S") == partition)
        return (item for item in candidates if _within(item, bounds, values))

    def _guarded(self, asked: Any, change: Callable[[Item], Item | None]) -> None:
        table, key = asked["TableName"], _key_of(asked)
        before = self._at(table, key)
        if not _holds(asked, before):
            self.units[table, "write"] += _units(before, 1024)
            raise GuardFailedError(before)
        self._write(table, key, change(before or dict(asked.get("Key", {}))))

    def _write(self, table: str, key: Key, after: Item | None, *, times: int = 1) -> None:
        before = self._at(table, key)
        self.units[table, "write"] += times * max(_units(before, 1024), _units(after or {}, 1024))
        self.units[table, "index"] += sum(
            _index_units(before, after or {}, names) for names in _INDEXES.values()
        )
        self.writes[table, key[1] if table == "Subscriptions" else "item"] += 1
        if after is None:
            self.items[table][key[0]].pop(key[1], None)
        else:
            self.items[table][key[0]][key[1]] = after


def _key(item: Item) -> Key:
    return item["pk"]["S"], item["sk"]["S"]


def _key_of(step: Any) -> Key:
    return _key(step.get("Key") or step["Item"])


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    return float(inner) if kind == "N" else inner


def _size(item: Item) -> int:
    return size_bytes(
        {n: {"B": base64.b64decode(v["B"])} if "B" in v else v for n, v in item.items()} if item else {}
    )


def _units(item: Item, unit_bytes: int) -> int:
    return max(1, math.ceil(_size(item) / unit_bytes))


def _index_units(before: Item, after: Item, names: tuple[str, str]) -> int:
    was, will = ([item.get(name) for name in names] for item in (before, after))
    if was == will:
        return 0
    return (None not in was) + (None not in will)


# ── expressions ──────────────────────────────────────────────────────────────────────────────────


def _holds(asked: Any, item: Item) -> bool:
    condition = asked.get("ConditionExpression")
    if not condition:
        return True
    names, values = asked.get("ExpressionAttributeNames", {}), asked.get("ExpressionAttributeValues", {})
    return all(
        any(_clause_holds(clause, item, names, values) for clause in part.strip("()").split(" OR "))
        if part.startswith("(")
        else _clause_holds(part, item, names, values)
        for part in condition.split(" AND ")
    )


def _clause_holds(clause: str, item: Item, names: Item, values: Item) -> bool:
    clause = clause.strip()
    for word, wanted in (("attribute_exists", True), ("attribute_not_exists", False)):
        if clause.startswith(word):
            path = clause.removeprefix(word).strip("()")
            return (_found(item, path, names) is not None) is wanted
    path, comparison, placeholder = _matched(_COMPARISON, clause)
    value = _found(item, path, names)
    return value is not None and _COMPARE[comparison](_plain(value), _plain(values[placeholder]))


def _matched(pattern: re.Pattern[str], text: str) -> tuple[Any, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"not understood: {text}")
    return found.groups()


def _found(item: Item, path: str, names: Item) -> Any:
    value: Any = {"M": item}
    for part in path.split("."):
        value = value.get("M", {}).get(names.get(part, part)) if value else None
    return value


def _within(item: Item, bounds: str, values: Item) -> bool:
    if not bounds:
        return True
    if " BETWEEN " in bounds:
        name, low, high = _matched(_BETWEEN, bounds)
        return bool(_plain(values[low]) <= _plain(item[name]) <= _plain(values[high]))
    return _clause_holds(bounds, item, {}, values)


def _updated(before: Item, asked: Any) -> Item:
    item = dict(before)
    names, values = asked.get("ExpressionAttributeNames", {}), asked.get("ExpressionAttributeValues", {})
    _, *parts = _CLAUSE.split(asked["UpdateExpression"])
    for verb, text in zip(parts[::2], parts[1::2], strict=True):
        match verb:
            case "SET":
                for path, value in _ASSIGNMENT.findall(text):
                    _set(item, path, value, names, values)
            case "REMOVE":
                for path in text.split(","):
                    item.pop(names.get(path.strip(), path.strip()), None)
            case "ADD":
                for each in text.split(","):
                    name, placeholder = each.split()
                    name = names.get(name, name)
                    total = float(item.get(name, {"N": "0"})["N"]) + float(values[placeholder]["N"])
                    item[name] = {"N": f"{total:g}" if total < 1_000_000 else str(int(total))}
    return item


def _set(item: Item, path: str, value: str, names: Item, values: Item) -> None:
    name = names.get(path, path)
    if value.startswith("if_not_exists"):
        placeholder = value[value.index(":") :].rstrip(")")
        item.setdefault(name, values[placeholder])
    else:
        item[name] = values[value]
