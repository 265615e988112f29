"""One request of a browser: who is signed in, whose console it is, and what may be asked of it.

Nothing but a POST acts, and none does that another site could have made a browser send: its origin must be
ours, and once somebody is signed in it carries the session's own CSRF token (HAZARDS T64).
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from hookkeeper.domain.access import Right
from hookkeeper.domain.audit import Actor
from hookkeeper.domain.errors import HookkeeperError, InvalidInputError, NotFoundError
from hookkeeper.domain.session import Session
from hookkeeper.domain.tenancy import Scope, SubscriptionKey, checked_id
from hookkeeper.usecases.console_session import current_session
from reach import Reach

MOUNT = "/console"
MAX_FORM_BYTES = 64 * 1024
MAX_FIELDS = 50
FORM = "application/x-www-form-urlencoded"

_WITHOUT_SESSION = frozenset({"/sign-in", "/open"})
_PATH = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}){1,4}", re.ASCII)


class SignInNeededError(HookkeeperError):
    """Nobody is signed in, or the session has ended."""


class RefusedError(HookkeeperError):
    """A refusal of the console's own: what happened, in a sentence for people."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(slots=True, kw_only=True)
class Visit:
    """The request in hand. `path` is below the console's own; `secret` is the session cookie's value."""

    reach: Reach
    now: datetime
    request_id: str
    source_ip: str | None
    method: str
    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: str
    secret: str | None
    next_path: str | None
    form: Mapping[str, str] = field(default_factory=dict)
    session: Session | None = None
    scope: Scope | None = None

    @property
    def base(self) -> str:
        """The path that every link of the console begins with."""
        return urlsplit(self.reach.console_url).path

    @property
    def fragment(self) -> bool:
        """Whether a part of a page was asked for, by the script of a page that is shown."""
        return self.headers.get("hx-request") == "true"

    @property
    def csrf(self) -> str:
        """The session's token for forms; whoever knows the cookie knows it, and nobody else."""
        return hashlib.sha256(f"csrf\0{self.secret or ''}".encode()).hexdigest()

    @property
    def actor(self) -> Actor:
        return Actor(id=f"console:{self.known().actor}", source_ip=self.source_ip)

    def identify(self) -> None:
        """Find out who is signed in, if anybody is."""
        if self.secret:
            self.session = current_session(
                self.secret, now=self.now, access=self.reach.access, sessions=self.reach.sessions
            )

    def known(self) -> Session:
        """Raises SignInNeededError where nobody is signed in."""
        if self.session is None:
            raise SignInNeededError
        return self.session

    def may(self, right: Right) -> bool:
        return self.session is not None and self.session.may(right)

    def allow(self, right: Right) -> None:
        if not self.known().may(right):
            raise RefusedError(403, "This session may look at that, but not do it, or not see it at all.")

    def enter(self, scope: Scope | None = None) -> Scope:
        """Work with the session's tenant from here on, or (operators alone) with the one named."""
        wanted = scope or self.known().scope
        if wanted is None:
            raise RefusedError(409, "Choose a tenant first.")
        self.reach.tenants.enter(wanted)
        self.scope = wanted
        return wanted


def visit_of(
    event: Mapping[str, Any], reach: Reach, *, now: datetime, cookie: str, next_cookie: str
) -> Visit:
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    context = event["requestContext"]
    cookies = _cookies(headers.get("cookie", ""))
    return Visit(
        reach=reach,
        now=now,
        request_id=context["requestId"],
        source_ip=(context.get("identity") or {}).get("sourceIp"),
        method=event["httpMethod"],
        path=event["path"].removeprefix(MOUNT) or "/",
        headers=headers,
        query=event.get("queryStringParameters") or {},
        body=event.get("body") or "",
        secret=cookies.get(cookie),
        next_path=safe_path(cookies.get(next_cookie)),
    )


def guarded(app: APIGatewayRestResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Around every route: who it is, and whether a POST comes from a page of ours."""
    visit: Visit = app.context["visit"]
    if not visit.path.startswith("/static/"):
        visit.identify()
    if visit.method == "POST":
        _refuse_other_sites(visit)
        visit.form = _form(visit)
        if visit.path not in _WITHOUT_SESSION:
            visit.known()
            if not hmac.compare_digest(visit.form.get("csrf", "").encode(), visit.csrf.encode()):
                raise RefusedError(403, "This form is not of your session. Go back, reload, and try again.")
    return next_middleware(app)


def current(router: Router) -> Visit:
    visit: Visit = router.context["visit"]
    return visit


def in_tenant(router: Router, right: Right) -> tuple[Visit, Scope]:
    """The visit, if its session has the right, and the tenant and mode it works in."""
    visit = current(router)
    visit.allow(right)
    return visit, visit.enter()


def as_operator(router: Router) -> Visit:
    visit = current(router)
    if not visit.known().operator:
        raise RefusedError(403, "This page is for operators.")
    return visit


def subscription_key(scope: Scope, subscription_id: str) -> SubscriptionKey:
    """Raises NotFoundError for what cannot be an id."""
    try:
        return SubscriptionKey(scope, checked_id(subscription_id, field="id"))
    except InvalidInputError:
        raise NotFoundError("subscription", subscription_id) from None


def safe_path(text: str | None) -> str | None:
    """The text, if it is a plain path below the console's own: never another site's (no open redirect)."""
    return text if text is not None and _PATH.fullmatch(text) else None


def _refuse_other_sites(visit: Visit) -> None:
    """Every browser that we support says where a POST comes from; one that says nothing is refused."""
    site, origin = visit.headers.get("sec-fetch-site"), visit.headers.get("origin")
    ours = urlsplit(visit.reach.console_url)
    same_origin = origin == f"{ours.scheme}://{ours.netloc}"
    if (
        site not in (None, "same-origin")
        or (origin is not None and not same_origin)
        or site is origin is None
    ):
        raise RefusedError(403, "This request comes from another site, so nothing was done.")


def _form(visit: Visit) -> dict[str, str]:
    body = visit.body
    if len(body) > MAX_FORM_BYTES:
        raise RefusedError(413, "This form is too large.")
    if visit.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise RefusedError(415, "This is not a form of the console's.")
    try:
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise RefusedError(400, "This form has too many fields.") from None


def _cookies(header: str) -> dict[str, str]:
    parts = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, equals, value in parts if equals}
