"""The tables that the adapters are tested with are those of the stack."""

from typing import Any

from tests.contracts.conftest import INDEX_KEYS, TABLES
from tests.infra.conftest import Synthesised


def _keys(schema: list[dict[str, str]], kinds: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key["AttributeName"], kinds[key["AttributeName"]]) for key in schema)


def _shape(table: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    kinds = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
    indexes = {
        index["IndexName"]: (_keys(index["KeySchema"], kinds), index["Projection"]["ProjectionType"])
        for index in table.get("GlobalSecondaryIndexes", [])
    }
    return _keys(table["KeySchema"], kinds), indexes


def test_each_table_has_the_keys_and_indexes_that_the_contracts_use(prod: Synthesised) -> None:
    stack = {
        name.removeprefix("Table"): _shape(prod.resources[prod.output(name)]["Properties"])
        for name in prod.template["Outputs"]
        if name.startswith("Table")
    }
    tested = {
        name: (
            (("pk", "S"), ("sk", "S")),
            {index: (INDEX_KEYS[index], "KEYS_ONLY") for index in indexes},
        )
        for name, indexes in TABLES.items()
    }
    assert stack == tested


def test_no_index_doubles_the_writes_of_deliveries(prod: Synthesised) -> None:
    """Deliveries has the sparse `due` alone, which no success is ever in; nothing streams it."""
    table = prod.resources[prod.output("TableDeliveries")]["Properties"]
    indexes = [(i["IndexName"], i["Projection"]) for i in table["GlobalSecondaryIndexes"]]
    assert indexes == [("due", {"ProjectionType": "KEYS_ONLY"})]
    assert "StreamSpecification" not in table
