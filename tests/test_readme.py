"""The README is true: its commands exist and are run, its links lead somewhere, its samples are real ones."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from infra.cli.main import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)

RUN_BY = {
    "See it": "tests/integration/test_demo.py",
    "By hand": "tests/integration/test_readme.py",
    "Emit, in three languages": "tests/integration/test_api_line.py",
    "The console and the command line": "tests/integration/test_console.py",
    "Configuration and sight": "tests/cli/test_config.py",
    "Numbers": "tests/bench/test_counts.py",
}
"""The commands of a section, and the test that runs them."""


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences; `section` is the heading of the second level above it."""

    section: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for part in re.split(r"^## ", README, flags=re.MULTILINE)[1:]:
        section, _, text = part.partition("\n")
        for language, inside in FENCED.findall(text):
            yield Block(section, language, inside)


def anchors() -> set[str]:
    """Of every heading, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", README), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def told_commands(program: str) -> list[str]:
    """Every call of a program, in fences and between backticks, without prompt, comment and redirection."""
    fenced = [line for block in blocks() for line in block.text.replace("\\\n", " ").splitlines()]
    inline = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", FENCED.sub("", README))]
    calls = (
        re.fullmatch(rf"(?:\$ )?(?:\.venv/bin/)?({program} .+)", each.strip()) for each in [*fenced, *inline]
    )
    return [re.split(r" (?:#|2?>|\||&)", call[1])[0].strip() for call in calls if call]


def needing_aws() -> set[str]:
    """Sections whose commands the README itself lists as needing an account."""
    (listed,) = re.findall(
        r"^Commands that need an AWS account.*?: (.+?)\.$", README, re.MULTILINE | re.DOTALL
    )
    return set(re.findall(r"\[([^\]]+)\]\(#", listed))


def test_every_command_is_run_by_a_test_or_listed_as_needing_aws() -> None:
    with_commands = {block.section for block in blocks() if block.language in ("console", "sh")}
    assert with_commands - set(RUN_BY) == needing_aws() & with_commands
    assert [path for path in RUN_BY.values() if not (ROOT / path).is_file()] == []


def test_every_target_of_make_is_one() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = {call.split()[1] for call in told_commands("make")}
    assert told - targets == set()
    assert {"demo", "test", "up", "deploy", "bench", "soak", "campaign"} <= told


@pytest.mark.parametrize("call", sorted(set(told_commands("hookkeeper"))))
def test_every_call_of_the_command_line_can_be_parsed(call: str) -> None:
    """By the very command: its name, its options, and how many arguments it takes."""
    command = typer.main.get_command(app)
    context, words = typer.Context(command), shlex.split(call)[1:]
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
        context = typer.Context(command, parent=context)
    _, extra, _ = command.make_parser(context).parse_args(words)
    assert extra == []


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", README))
    inside = {link[1:] for link in links if link.startswith("#")}
    assert inside - anchors() == set()
    files = {link.partition("#")[0] for link in links if not re.match(r"#|https?://", link)}
    assert {file for file in files if not (ROOT / file).exists()} == set()


def test_what_is_shown_of_a_sample_is_the_sample() -> None:
    samples = [path.read_text() for path in (ROOT / "samples").rglob("*.*")]
    shown = [
        block
        for block in blocks()
        if block.section.startswith(("Emit", "Verify")) and "standardwebhooks" not in block.text
    ]
    assert len(shown) == 4
    assert [block.text for block in shown if not any(block.text in sample for sample in samples)] == []
