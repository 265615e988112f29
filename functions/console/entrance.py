"""In and out: an owner's one-use link, a key's sign-in, sign-out."""

import base64
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper.domain.session import LONGEST_SESSION, LinkRefusedError, Session
from hookkeeper.usecases.console_session import sign_in, sign_out
from hookkeeper.usecases.portal_session import look_at_link, open_link
from pages import page, see, wants_sign_in
from visit import Visit, current, safe_path

SECRET_BYTES = 32
HOME = "/subscriptions"

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


def cookie_names(console_url: str) -> tuple[str, str]:
    """Of the session, and of where a browser was going. On TLS the first is bound to our host alone."""
    prefix = "__Host-" if console_url.startswith("https:") else ""
    return f"{prefix}hookkeeper", f"{prefix}hookkeeper-next"


def cookie(visit: Visit, name: str, value: str, *, seconds: int) -> str:
    """Never read by a script. Lax, so that the link in a mail finds the session; no GET acts."""
    secure = "; Secure" if visit.reach.console_url.startswith("https:") else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def remembering(visit: Visit) -> dict[str, Any]:
    """Headers that keep where the browser was going, for when it is signed in."""
    _, next_cookie = cookie_names(visit.reach.console_url)
    path = safe_path(visit.path)
    if visit.method != "GET" or path is None or visit.fragment:
        return {}
    visit.next_path = path
    return {"Set-Cookie": cookie(visit, next_cookie, path, seconds=int(LONGEST_SESSION.total_seconds()))}


@router.get("/console/open")
def look() -> Response[str]:
    """The link's page: a button, since mail scanners and previews open links too."""
    visit = current(router)
    token = visit.query.get("token", "")
    try:
        link = look_at_link(token, now=visit.now, sessions=visit.reach.sessions)
    except LinkRefusedError as refused:
        return page(visit, "link_refused.html", status_code=410, flaw=refused.flaw)
    return page(
        visit, "open.html", link=link, token=token, tenant=visit.reach.access.tenant(link.scope.tenant_id)
    )


@router.post("/console/open")
def open_it() -> Response[str]:
    visit = current(router)
    secret = _secret(visit)
    try:
        session = open_link(
            visit.form.get("token", ""),
            session_secret=secret,
            now=visit.now,
            sessions=visit.reach.sessions,
        )
    except LinkRefusedError as refused:
        return page(visit, "link_refused.html", status_code=410, flaw=refused.flaw)
    return _signed_in(visit, session, secret)


@router.get("/console/sign-in")
def show() -> Response[str]:
    visit = current(router)
    return page(visit, "sign_in.html", flaw=None, going_to=visit.next_path)


@router.post("/console/sign-in")
def with_key() -> Response[str]:
    visit = current(router)
    secret = _secret(visit)
    session = sign_in(
        visit.form.get("key", "").strip(),
        session_secret=secret,
        now=visit.now,
        access=visit.reach.access,
        sessions=visit.reach.sessions,
    )
    if session is None:
        return wants_sign_in(visit, headers={}, flaw="This key is not one of ours, or it has ended.")
    return _signed_in(visit, session, secret)


@router.post("/console/sign-out")
def leave() -> Response[str]:
    visit = current(router)
    sign_out(visit.known(), sessions=visit.reach.sessions)
    name, _ = cookie_names(visit.reach.console_url)
    return see(visit, "/sign-in", headers={"Set-Cookie": cookie(visit, name, "", seconds=0)})


def _signed_in(visit: Visit, session: Session, secret: str) -> Response[str]:
    if visit.session is not None:
        sign_out(visit.session, sessions=visit.reach.sessions)
    name, next_cookie = cookie_names(visit.reach.console_url)
    seconds = int((session.expires_at - visit.now).total_seconds())
    cookies = [cookie(visit, name, secret, seconds=seconds), cookie(visit, next_cookie, "", seconds=0)]
    home = HOME if session.scope is not None else "/tenants"
    on_to = visit.next_path if session.scope is not None and visit.next_path else home
    return see(visit, on_to, headers={"Set-Cookie": cookies})


def _secret(visit: Visit) -> str:
    return base64.urlsafe_b64encode(visit.reach.entropy(SECRET_BYTES)).decode().rstrip("=")
