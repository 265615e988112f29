"""Notices as a mail: plain text first, and a small HTML page that says the same.

The subject takes no user text. Whatever came from a user stands in the body as one line of text: escaped,
without controls, formatting marks or links. Every link is ours, and opening one changes nothing.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote

from hookkeeper.domain.endpoint import MAX_URL_CHARACTERS
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.tenancy import Mode
from hookkeeper.ports import Mail
from hookkeeper.usecases.mail_facts import MAX_VALUE_CHARACTERS, one_line, rows
from hookkeeper.usecases.mail_page import Page, Section, as_html, as_text
from hookkeeper.usecases.mail_stories import STORIES

_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
)
_DIGEST = "digest"


def addressable(address: str) -> bool:
    """Whether this is one plain address: no list, no name, no second line (HAZARDS T56)."""
    return _ADDRESS.fullmatch(address) is not None


def render(notices: Sequence[Notice], *, console_url: str, last_of: int | None = None) -> Mail:
    """The mail for notices of one address, from their own facts alone (F13); never fails on what they hold.

    `last_of` is how many mails the address gets a day, where this is the day's last.
    """
    told = sorted(notices, key=lambda notice: (_rank(notice), notice.at, notice.id))
    page = _alone(told[0], console_url) if len(told) == 1 else _together(told, console_url)
    kinds = {notice.kind for notice in told}
    first = told[0]
    return Mail(
        to=first.owner_email,
        subject=_subject(told),
        text=as_text(page, _closing(last_of)),
        html=as_html(page, _closing(last_of)),
        tags={
            "kind": first.kind.value if len(kinds) == 1 else _DIGEST,
            "tenant": first.key.scope.tenant_id,
            "mode": first.key.scope.mode.value,
            "notice": first.id if len(told) == 1 else _DIGEST,
        },
    )


def _rank(notice: Notice) -> tuple[bool, int]:
    """What wants something done stands first, in the order of the stories."""
    story = STORIES[notice.kind]
    return not story.steps, list(STORIES).index(notice.kind)


def _alone(notice: Notice, console_url: str) -> Page:
    story = STORIES[notice.kind]
    return Page(
        title=story.title,
        colour=story.colour,
        sections=(_section(notice, console_url),),
        steps=_steps([notice], f"/v1/subscriptions/{one_line(notice.key.subscription_id, 64)}"),
    )


def _together(notices: Sequence[Notice], console_url: str) -> Page:
    kinds = {notice.kind for notice in notices}
    story = STORIES[notices[0].kind]
    return Page(
        title=f"{len(notices)} {story.several if len(kinds) == 1 else 'things about your webhooks'}",
        colour=story.colour,
        lead="They came about within a few minutes of each other, so this mail tells them all.",
        sections=tuple(_section(notice, console_url) for notice in notices),
        steps=_steps(notices, "/v1/subscriptions/{id}"),
    )


def _section(notice: Notice, console_url: str) -> Section:
    story = STORIES[notice.kind]
    return Section(
        title=story.title,
        endpoint_url=one_line(notice.endpoint_url, MAX_URL_CHARACTERS),
        paragraphs=tuple(say(notice.facts) for say in (story.lead, *story.more)),
        rows=(*rows(notice.facts), ("Subscription", _subscription(notice))),
        button=story.button,
        link=f"{console_url.rstrip('/')}/subscriptions/{quote(notice.key.subscription_id, safe='')}",
        colour=story.colour,
    )


def _steps(notices: Sequence[Notice], api_path: str) -> tuple[str, ...]:
    """What the owner may do, each step once; where two kinds differ in a step's end, the longer one."""
    steps = [step.format(api=api_path) for notice in notices for step in STORIES[notice.kind].steps]
    longest = [step for step in steps if not any(other != step and other.startswith(step) for other in steps)]
    return tuple(dict.fromkeys(longest))


def _closing(last_of: int | None) -> str:
    if last_of is None:
        return ""
    return (
        f"This is today's last mail to this address: it gets at most {last_of} a day. "
        "Whatever else happens today is told tomorrow."
    )


def _subject(notices: Sequence[Notice]) -> str:
    first, kinds = notices[0], {notice.kind for notice in notices}
    mark = "" if first.key.scope.mode is Mode.LIVE else "[test] "
    said = STORIES[first.kind].subject
    if len(notices) == 1:
        return one_line(f"{mark}{said}: {first.key.subscription_id}", MAX_VALUE_CHARACTERS)
    if len(kinds) == 1:
        return f"{mark}{said}: {len(notices)} subscriptions"
    return f"{mark}{said}, and {len(notices) - 1} more webhook notices"


def _subscription(notice: Notice) -> str:
    scope = notice.key.scope
    return f"{one_line(notice.key.subscription_id, 64)} ({scope.tenant_id}, {scope.mode} mode)"
