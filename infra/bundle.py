"""What is put into Lambda: our files and the wheels they need, with bytecode that no clock can make stale.

The zip keeps seconds only, so time-stamped bytecode would be stale in Lambda and every cold start would
compile (PERFORMANCE: it doubles a cold start): it is unchecked-hash.
"""

import compileall
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

WHEELS = ("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:")
FOR_LAMBDA = ("--python-version", "3.13", "--python-platform", "aarch64-manylinux_2_28")
FOR_THIS_MACHINE = ("--python", sys.executable)
"""To measure what is deployed where it is not."""


def bundle(source: Path, output: Path, *, platform: tuple[str, ...] = FOR_LAMBDA) -> None:
    """Fill `output` with the wheels that `source` requires, or else with its files, and compile it all."""
    requirements = source / "requirements.txt"
    if requirements.exists():
        _install(requirements, output / "python", platform)
    else:
        shutil.copytree(source, output, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(
        output,
        quiet=1,
        stripdir=str(output),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def _install(requirements: Path, target: Path, platform: tuple[str, ...]) -> None:
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [uv, *WHEELS, *platform, "--target", target, "--requirements", requirements],
        check=True,
        stdout=sys.stderr,
    )
