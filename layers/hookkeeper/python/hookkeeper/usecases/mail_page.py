"""One mail's page in its two forms: plain text, and a small HTML document that says the same."""

import html
from dataclasses import dataclass
from textwrap import fill

_TEXT_WIDTH = 76


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What both parts of the mail say; each text is clean, none is escaped."""

    title: str
    endpoint_url: str
    paragraphs: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    steps: tuple[str, ...]
    button: str
    link: str
    colour: str


def as_text(page: Page) -> str:
    """Plain text; our own sentences are wrapped, a user's text stays on its line."""
    width = max(len(label) for label, _ in page.rows) + 2
    facts = "\n".join(f"{label + ':':<{width}}{value}" for label, value in page.rows)
    steps = "\n".join(_wrapped(step, f"{n}. ") for n, step in enumerate(page.steps, 1))
    said = map(_wrapped, page.paragraphs)
    parts = [page.title, page.endpoint_url, *said, facts, steps, f"{page.button}:\n{page.link}"]
    return "\n\n".join(part for part in parts if part) + "\n"


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
@media (prefers-color-scheme:dark){body{background:#0f172a;color:#e2e8f0}main{background:#1e293b}\
.url{background:#0f172a}th,small{color:#94a3b8}tr+tr th,tr+tr td{border-top-color:#334155}}"""


def as_html(page: Page) -> str:
    """A document with one link, ours, and nothing fetched from anywhere."""

    def escaped(text: str) -> str:
        return html.escape(text, quote=True)

    rows = "".join(
        f'<tr><th scope="row">{escaped(label)}</th><td>{escaped(value)}</td></tr>\n'
        for label, value in page.rows
    )
    steps = "".join(f"<li>{escaped(step)}</li>\n" for step in page.steps)
    said = "".join(f"<p>{escaped(text)}</p>\n" for text in page.paragraphs)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{escaped(page.title)}</title>
<style>
{_STYLE}
</style>
</head>
<body>
<main style="border-top-color:{page.colour}">
<h1>{escaped(page.title)}</h1>
<p class="url">{escaped(page.endpoint_url)}</p>
{said}<table class="facts">
{rows}</table>
{f"<ol>{chr(10)}{steps}</ol>" if steps else ""}
<p><a class="button" href="{escaped(page.link)}">{escaped(page.button)}</a></p>
<p><small>Opening the page changes nothing by itself.</small></p>
</main>
</body>
</html>
"""
