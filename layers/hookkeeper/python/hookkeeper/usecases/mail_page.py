"""One mail's page in its two forms: plain text, and a small HTML document that says the same."""

import html
from dataclasses import dataclass
from textwrap import fill

_TEXT_WIDTH = 76
_RULE = "-" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What is told of one endpoint; each text is clean, none is escaped."""

    title: str
    endpoint_url: str
    paragraphs: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    button: str
    link: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What both parts of the mail say. A single section goes under the page's own title."""

    title: str
    colour: str
    sections: tuple[Section, ...]
    steps: tuple[str, ...]
    lead: str = ""

    @property
    def alone(self) -> bool:
        return len(self.sections) == 1


def as_text(page: Page, closing: str = "") -> str:
    """Plain text; our own sentences are wrapped, a user's text stays on its line."""
    steps = "\n".join(_wrapped(step, f"{n}. ") for n, step in enumerate(page.steps, 1))
    parts = [page.title, _wrapped(page.lead)]
    if page.alone:
        section = page.sections[0]
        parts += [_said(section), steps, f"{section.button}:\n{section.link}"]
    else:
        for n, section in enumerate(page.sections, 1):
            parts += [_RULE, f"{n}. {section.title}", _said(section), f"{section.button}:\n{section.link}"]
        parts += [_RULE, f"What you can do:\n\n{steps}" if steps else ""]
    return "\n\n".join(part for part in (*parts, _wrapped(closing)) if part) + "\n"


def _said(section: Section) -> str:
    width = max(len(label) for label, _ in section.rows) + 2
    facts = "\n".join(f"{label + ':':<{width}}{value}" for label, value in section.rows)
    return "\n\n".join([section.endpoint_url, *map(_wrapped, section.paragraphs), facts])


def _wrapped(text: str, lead: str = "") -> str:
    return fill(
        text,
        _TEXT_WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


_STYLE = """\
body{margin:0;padding:24px 12px;background:#f1f5f9;color:#0f172a;\
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:600px;margin:0 auto;background:#fff;border-radius:8px;padding:24px 28px;border-top:6px solid}
h1{font-size:21px;line-height:1.3;margin:0 0 12px}
h2{font-size:17px;line-height:1.3;margin:0 0 10px;\
border-left:4px solid transparent;padding-left:10px}
section{border-top:1px solid #cbd5e1;padding-top:18px;margin-top:18px}
p,ol{margin:0 0 14px}ol{padding-left:22px}li{margin:0 0 6px;overflow-wrap:anywhere}
.url{font:14px/1.5 ui-monospace,Menlo,Consolas,monospace;background:#f1f5f9;border-radius:4px;\
padding:8px 10px;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin:0 0 18px;font-size:15px}
th{text-align:left;font-weight:normal;color:#475569;padding:6px 16px 6px 0;vertical-align:top;\
white-space:nowrap}
td{padding:6px 0;vertical-align:top;overflow-wrap:anywhere}
tr+tr th,tr+tr td{border-top:1px solid #e2e8f0}
.button{display:inline-block;background:#1d4ed8;color:#fff;text-decoration:none;font-weight:600;\
border-radius:6px;padding:10px 18px}
small{color:#475569}
@media (max-width:480px){body{padding:12px 0}main{padding:18px 16px}th,td{display:block}\
th{padding:8px 0 0}td{padding:0 0 8px}tr+tr td{border-top:0}}
@media (prefers-color-scheme:dark){body{background:#0f172a;color:#e2e8f0}main{background:#1e293b}\
.url{background:#0f172a}th,small{color:#94a3b8}tr+tr th,tr+tr td,section{border-top-color:#334155}}"""


def as_html(page: Page, closing: str = "") -> str:
    """A document whose links are ours, and nothing fetched from anywhere."""
    steps = "".join(f"<li>{_escaped(step)}</li>\n" for step in page.steps)
    todo = f"<ol>\n{steps}</ol>\n" if steps else ""
    if page.alone:
        section = page.sections[0]
        body = f"{_facts(section)}{todo}{_button(section)}"
    else:
        told = "".join(
            f'<section>\n<h2 style="border-left-color:{section.colour}">{_escaped(section.title)}</h2>\n'
            f"{_facts(section)}{_button(section)}</section>\n"
            for section in page.sections
        )
        body = told + (f"<section>\n<h2>What you can do</h2>\n{todo}</section>\n" if todo else "")
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{_escaped(page.title)}</title>
<style>
{_STYLE}
</style>
</head>
<body>
<main style="border-top-color:{page.colour}">
<h1>{_escaped(page.title)}</h1>
{_paragraph(page.lead)}{body}{_paragraph(closing)}\
<p><small>Opening a page changes nothing by itself.</small></p>
</main>
</body>
</html>
"""


def _facts(section: Section) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_escaped(label)}</th><td>{_escaped(value)}</td></tr>\n'
        for label, value in section.rows
    )
    said = "".join(map(_paragraph, section.paragraphs))
    return (
        f'<p class="url">{_escaped(section.endpoint_url)}</p>\n{said}<table class="facts">\n{rows}</table>\n'
    )


def _button(section: Section) -> str:
    return f'<p><a class="button" href="{_escaped(section.link)}">{_escaped(section.button)}</a></p>\n'


def _paragraph(text: str) -> str:
    return f"<p>{_escaped(text)}</p>\n" if text else ""


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
