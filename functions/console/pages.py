"""Pages: templates that escape everything, and the headers that keep a page from being framed or scripted."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import words
from assets import ASSETS
from aws_lambda_powertools.event_handler import Response
from hookkeeper.domain.access import Right
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from visit import Visit

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Strict-Transport-Security": "max-age=63072000",
}
"""On every answer. No script and no style stands in a page; the data: images are Pico's own arrows."""

PRIVATE = {"Cache-Control": "no-store"}

_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters |= words.FILTERS
_environment.globals |= {"assets": ASSETS, "Right": Right, "badge": words.badge}


def page(
    visit: Visit,
    template: str,
    *,
    status_code: int = 200,
    headers: Mapping[str, Any] | None = None,
    **told: Any,
) -> Response[str]:
    """The template with what it is told; `visit`, `base` and `now` are known to all."""
    body = _environment.get_template(template).render(
        visit=visit, base=visit.base, now=visit.now, session=visit.session, **told
    )
    return Response(status_code, content_type=HTML, body=body, headers={**PRIVATE, **(headers or {})})


def plain(text: str) -> Response[str]:
    """Text that somebody else wrote: a browser shows it and does nothing else with it."""
    return Response(200, content_type=TEXT, body=text, headers=PRIVATE)


def see(visit: Visit, path: str, *, headers: Mapping[str, Any] | None = None) -> Response[str]:
    """After a POST: look there. `path` is below the console's own."""
    return Response(
        303,
        content_type=HTML,
        body="",
        headers={**PRIVATE, **(headers or {}), "Location": f"{visit.base}{path}"},
    )


def refusal(visit: Visit, status: int, sentence: str, *, back: str | None = None) -> Response[str]:
    """What could not be done, in a sentence, and the way on."""
    template = "_refused.html" if visit.fragment else "refused.html"
    title = HTTPStatus(status).phrase
    return page(visit, template, status_code=status, title=title, sentence=sentence, back=back or "/")


def wants_sign_in(visit: Visit, *, headers: Mapping[str, Any], flaw: str | None = None) -> Response[str]:
    """401: the way in, and on to where the browser was going."""
    if visit.fragment:
        return page(
            visit, "_refused.html", status_code=401, sentence="Your session has ended. Sign in again."
        )
    return page(visit, "sign_in.html", status_code=401, headers=headers, flaw=flaw, going_to=visit.next_path)
