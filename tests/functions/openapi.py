"""Writes openapi.json, the API's published description: `python -m tests.functions.openapi`."""

import json
import os
from pathlib import Path
from typing import Any

from tests.functions.api_bench import ENVIRONMENT, Bench
from tests.functions.cold import cold_start

PUBLISHED = Path(__file__).parents[2] / "openapi.json"
SERVER = "https://{api}/api"


def live(bench: Bench) -> dict[str, Any]:
    """The document as the API gives it, but for the server it speaks of."""
    document: dict[str, Any] = bench.ask("GET", "/openapi.json", tenant=None).body
    variables = {"api": {"default": "api.example.com", "description": "The host of the output ApiUrl"}}
    return document | {"servers": [{"url": SERVER, "variables": variables}]}


def published() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(PUBLISHED.read_text())
    return document


if __name__ == "__main__":
    os.environ |= ENVIRONMENT
    text = json.dumps(live(Bench(cold_start("api"))), indent=2, ensure_ascii=False)
    PUBLISHED.write_text(f"{text}\n")
