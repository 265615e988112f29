"""What people see: data on stdout, notes and failures on stderr, and JSON instead where it was asked for.

Words of other people (errors, excerpts, names) come in as Text and never as markup or control characters.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 400
"""Columns where nobody looks: nothing is cut or wrapped on its way to a file or another program."""

LEAST_WIDTH = 8
"""Columns of the terminal for what may be cut."""

GAP = 2
"""Between two columns of a table."""

_MARKS: Mapping[str, tuple[str, str]] = {
    "active": ("●", "green"),
    "pending": ("○", "cyan"),
    "suspended": ("■", "red"),
    "paused": ("‖", "yellow"),
    "revoked": ("✕", "dim"),
    "succeeded": ("✓", "green"),
    "retrying": ("↻", "yellow"),
    "exhausted": ("✗", "red"),
    "held": ("‖", "yellow"),
    "discarded": ("✕", "dim"),
    "expired": ("✕", "dim"),
    "probing": ("◔", "cyan"),
    "running": ("▶", "cyan"),
    "waiting": ("…", "yellow"),
    "completed": ("✓", "green"),
    "cancelled": ("✕", "dim"),
    "probe_failed": ("✗", "red"),
    "stopped": ("✗", "red"),
    "fuse open": ("✓", "green"),
    "fuse full": ("!", "yellow"),
    "fuse latched": ("✗", "red"),
}

_SPANS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


@dataclass(frozen=True, slots=True)
class Screen:
    """Stdout and stderr of one command. With `json`, stdout holds JSON alone."""

    json: bool = False
    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))

    def show(self, document: Any, shown: Callable[[], RenderableType]) -> None:
        """One thing: its document, or how it looks."""
        if self.json:
            self.document(document)
        else:
            self.print(shown())

    def show_all(
        self, items: Sequence[Any], shown: Callable[[], RenderableType], *, none: str, more: bool = False
    ) -> None:
        """A list: a line of JSON each, or how they look together; notes say that it is empty, or not all."""
        if self.json:
            for item in items:
                self.line(item)
        elif items:
            self.print(shown())
        else:
            self.note(none)
        if more:
            self.note("there are more: --limit N, or --all")

    def print(self, shown: RenderableType) -> None:
        """On a terminal as it is; elsewhere without the blanks that fill up columns."""
        if self.out.is_terminal:
            least = shown.least_width if isinstance(shown, Rows) else 0
            self.out.width = max(least, self.out.width)
            self.out.print(shown, crop=False)
            return
        with self.out.capture() as captured:
            self.out.print(shown)
        for line in captured.get().splitlines():
            self.out.out(line.rstrip(), highlight=False)

    def document(self, document: Any) -> None:
        text = json.dumps(document, ensure_ascii=False, indent=2)
        if self.out.is_terminal:
            self.out.print_json(text, indent=2)
        else:
            self.out.out(text, highlight=False)

    def line(self, document: Any) -> None:
        """JSON on one line."""
        self.out.out(json.dumps(document, ensure_ascii=False), highlight=False)

    def word(self, text: str) -> None:
        """A bare word for other programs: an id, a key."""
        self.out.out(clean(text), highlight=False)

    def note(self, text: str | Text) -> None:
        self.err.print(words(text, "dim") if isinstance(text, str) else text, soft_wrap=True)

    def failure(self, sentence: str) -> None:
        if self.json:
            self.err.out(json.dumps({"detail": sentence}, ensure_ascii=False), highlight=False)
        else:
            self.err.print(Text("✗ ", "bold red") + words(sentence), soft_wrap=True)

    def problem(self, status: int, problem: Mapping[str, Any]) -> None:
        """A problem of the API: its sentence, what is wrong where, its code and the request's id."""
        if self.json:
            self.err.out(json.dumps({"status": status, **problem}, ensure_ascii=False), highlight=False)
            return
        sentence = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        errors = problem.get("errors") or []
        if len(errors) == 1 and errors[0].get("detail") == sentence:
            sentence, errors = f"{errors[0].get('pointer', '')} {sentence}".strip(), []
        self.failure(sentence)
        for error in errors:
            told = " ".join(str(error.get(part) or "") for part in ("pointer", "detail"))
            self.err.print(words(f"  {told.strip()} ({error.get('code')})"), soft_wrap=True)
        named = {"code": problem.get("code"), "request": problem.get("request_id")}
        told = " · ".join(f"{name} {value}" for name, value in named.items() if value)
        self.err.print(words(f"  HTTP {status}" + (f" · {told}" if told else ""), "dim"), soft_wrap=True)


def clean(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def words(text: object, style: str | Style = "") -> Text:
    """Somebody's words, as they are; nothing for None."""
    lines = "" if text is None else "\n".join(map(clean, str(text).split("\n")))
    return Text(lines, style)


def mark(status: str) -> Text:
    """A status by shape, word and colour, never by colour alone."""
    shape, style = _MARKS.get(status, ("·", ""))
    return words(f"{shape} {status}", style)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def span(seconds: float) -> str:
    """About how long: `45 s`, `12 min`, `3 h`, `2 d`."""
    for size, unit in _SPANS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}" if seconds < 10 * size else f"{seconds // size:.0f} {unit}"
    return "0 s"


def ago(text: str | None, now: datetime) -> Text:
    """How far from now: `3 min ago`, `in 2 h`; a dash where there is no moment."""
    if text is None:
        return Text("–", "dim")
    seconds = (now - moment(text)).total_seconds()
    if seconds < 1:
        return Text("now" if seconds > -1 else f"in {span(-seconds)}")
    return Text(f"{span(seconds)} ago")


def due(text: str, now: datetime) -> Text:
    """When something is to happen: `in 5 s`, or that it is due."""
    return ago(text, now) if moment(text) > now else Text("due now")


def at(text: str | None, now: datetime) -> Text | None:
    """The moment to the second in UTC, and how far from now; None where there is none."""
    if text is None:
        return None
    exact = moment(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return Text(exact) + Text("Z  ", "dim") + ago(text, now)


def clock(text: str) -> str:
    """The moment's time of day, to the millisecond, in UTC."""
    return moment(text).astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


class Rows(Table):
    """A plain table. Ids are there to be copied: only `flexible` columns are cut on a narrow terminal."""

    def __init__(self, *columns: str, right: Collection[str] = (), flexible: Collection[str] = ()) -> None:
        super().__init__(
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", show_edge=False
        )
        self._flexible = [name in flexible for name in columns]
        for name, bends in zip(columns, self._flexible, strict=True):
            justify: JustifyMethod = "right" if name in right else "left"
            least = min(len(name), LEAST_WIDTH) if bends else len(name)
            self.add_column(name, justify=justify, no_wrap=not bends, overflow="ellipsis", min_width=least)

    def add(self, *cells: Text | str) -> None:
        for column, bends, cell in zip(self.columns, self._flexible, cells, strict=True):
            if not bends:
                whole = cell_len(cell if isinstance(cell, str) else cell.plain)
                column.min_width = max(column.min_width or 0, whole)
        self.add_row(
            *(_one_line(cell) if bends else cell for bends, cell in zip(self._flexible, cells, strict=True))
        )

    @property
    def least_width(self) -> int:
        """Columns of the terminal below which an id would be cut."""
        bending = LEAST_WIDTH * sum(self._flexible)
        fixed = (c.min_width or 0 for c, bends in zip(self.columns, self._flexible, strict=True) if not bends)
        return bending + sum(fixed) + GAP * len(self.columns)


def _one_line(cell: Text | str) -> Text:
    """On one line, and cut only where its column ends: Rich narrows those columns that may wrap."""
    line = Text(cell) if isinstance(cell, str) else cell.copy()
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def facts(rows: Mapping[str, object]) -> Table:
    """Names and values below each other, without those that have no value."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows.items():
        if value not in (None, "", [], {}):
            grid.add_row(name, value if isinstance(value, Text | Table) else words(value))
    return grid
