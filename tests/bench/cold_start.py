"""B5, B6: what a cold start costs, from the very files that are deployed, over boto3 and one client.

Each function is imported by a Python of its own, with the wheels for this machine in place of Lambda's, and
every file as old as the zip makes it: bytecode that looked at the clock would be compiled anew.

    python -m tests.bench.cold_start
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import boto3
import hookkeeper.settings
from hookkeeper.settings import Settings

from infra.bundle import FOR_THIS_MACHINE, bundle
from tests.bench import stage
from tests.bench.harness import Result, medians, report

ROOT = Path(__file__).parents[2]
GOALS = {"deliver": 1.5, "fan_out": 1.5, "authorizer": 1.3, "api": 2.2, "console": 2.4}
"""Over `import boto3` and a DynamoDB client; the others have none and are told beside."""

ROUNDS = 3
ZIPPED_AT = 315_532_800
"""1980-01-01, as the CDK dates what it zips."""

_MEASURED = """
import importlib.machinery as machinery, sys, time
began, compiled = time.process_time(), []
compile_source = machinery.SourceFileLoader.source_to_code
def counting(self, data, path, **more):
    compiled.append(str(path))
    return compile_source(self, data, path, **more)
machinery.SourceFileLoader.source_to_code = counting
sys.path[:0] = sys.argv[2:-1]
sys.path.append(sys.argv[-1])
if sys.argv[1] == "boto3":
    import boto3
    boto3.client("dynamodb")
else:
    import handler
print(time.process_time() - began, sum("site-packages" not in path for path in compiled))
"""
"""Prints CPU seconds since Python was ready, and how many modules of ours and of the layers were compiled."""


@dataclass(frozen=True, slots=True)
class Asset:
    """What is deployed, under one folder: `functions/<verb>`, and the layers' `python` folders."""

    folder: Path

    @property
    def functions(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "functions").iterdir())

    def seconds(self, name: str) -> float:
        return self.run(name)[0]

    def run(self, name: str) -> tuple[float, int]:
        """CPU seconds of the import of a function (or "boto3"), and modules that it compiled."""
        folders = [self.folder / "functions" / name] if name != "boto3" else []
        folders += [self.folder / layer / "python" for layer in ("hookkeeper", "dependencies")]
        runtime = Path(boto3.__file__).parents[1]
        ran = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MEASURED, name, *map(str, folders), str(runtime)],
            env=_environment(name),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds, compiled = ran.stdout.split()[-2:]
        return float(seconds), int(compiled)


def _environment(name: str) -> Mapping[str, str]:
    """What infra gives the function, and what Lambda does."""
    model: type[Settings] = getattr(hookkeeper.settings, f"{name.title().replace('_', '')}Settings", Settings)
    told = stage.settings(model, stage.NOWHERE)
    return {
        **told.environment(),
        "AWS_ENDPOINT_URL": stage.NOWHERE,
        "AWS_DEFAULT_REGION": stage.REGION,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "PATH": os.environ["PATH"],
    }


def built(folder: Path) -> Asset:
    """The functions and layers as they are deployed, but for the machine that the wheels are for."""
    for source in sorted((ROOT / "functions").iterdir()):
        if (source / "handler.py").exists():
            bundle(source, folder / "functions" / source.name)
    bundle(ROOT / "layers" / "hookkeeper", folder / "hookkeeper")
    bundle(ROOT / "layers" / "dependencies", folder / "dependencies", platform=FOR_THIS_MACHINE)
    for file in folder.rglob("*"):
        os.utime(file, (ZIPPED_AT, ZIPPED_AT))
    return Asset(folder)


def main() -> None:
    report(results())


def results() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        asset = built(Path(folder))
        names = ["boto3", *asset.functions]
        yield of_compiled(asset)
        spent = medians({name: partial(asset.seconds, name) for name in names}, rounds=ROUNDS)
    told = {f"{name}_ms": round(1000 * seconds) for name, seconds in spent.items()}
    for name, goal in GOALS.items():
        yield Result(
            bench="B5",
            what=f"cold start of {name} over boto3 and a client",
            ratio=spent[name] / spent["boto3"],
            goal=goal,
            numbers=told if name == "deliver" else {},
        )


def of_compiled(asset: Asset) -> Result:
    compiled = {name: asset.run(name)[1] for name in asset.functions}
    return Result(
        bench="B6",
        what="modules compiled at a cold start",
        ratio=sum(compiled.values()),
        goal=0,
        numbers=compiled,
    )


if __name__ == "__main__":
    main()
