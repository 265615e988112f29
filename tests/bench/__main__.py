"""Every bench, each in a process of its own; then one table. Exits with 1 where a goal was missed.

python -m tests.bench                 all
python -m tests.bench B4 B12          those whose names begin so
"""

import json
import subprocess
import sys
import time
from typing import Any

BENCHES = {
    "B1 B2 B3": "deliver_cpu",
    "B4": "calls",
    "B5 B6": "cold_start",
    "B7": "routing",
    "B8": "fan_out_cpu",
    "B9": "fairness",
    "B10": "drain",
    "B11": "backfill_pace",
    "B12": "bill",
}
"""The module of each; what it measures stands at its top."""


def main() -> None:
    asked = set(sys.argv[1:])
    results: list[dict[str, Any]] = []
    for names, module in BENCHES.items():
        if not asked or asked & set(names.split()):
            results += run(names, module)
    print(table(results))
    raise SystemExit(not all(result["ok"] for result in results))


def run(names: str, module: str) -> list[dict[str, Any]]:
    """Its lines, printed as they come; whatever else it prints is shown and not read."""
    began = time.monotonic()
    results = []
    with subprocess.Popen(
        [sys.executable, "-m", f"tests.bench.{module}"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith('{"bench"'):
                results.append(json.loads(line))
    if not results:
        broken = f"{module} ended with {process.returncode} and no number"
        results.append({"bench": names, "what": broken, "ratio": 0, "goal": 0, "at_most": True, "ok": False})
    print(f"{module}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return results


def table(results: list[dict[str, Any]]) -> str:
    rows = [
        f"{result['bench']:<4} {'ok    ' if result['ok'] else 'missed'} {result['ratio']:>9.3f}"
        f" {'≤' if result['at_most'] else '≥'} {result['goal']:<6} {result['what']}"
        for result in results
    ]
    met = sum(result["ok"] for result in results)
    return "\n".join(["", *rows, f"{met} of {len(results)} goals met"])


if __name__ == "__main__":
    main()
