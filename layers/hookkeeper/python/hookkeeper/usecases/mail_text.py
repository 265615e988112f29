"""A notice as a mail: plain text first, and a small HTML page that says the same.

The subject takes no user text. Whatever came from a user stands in the body as one line of text: escaped,
without controls, formatting marks or links. The one link is ours, and opening it changes nothing.
"""

import re
from urllib.parse import quote

from hookkeeper.domain.endpoint import MAX_URL_CHARACTERS
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.tenancy import Mode
from hookkeeper.ports import Mail
from hookkeeper.usecases.mail_facts import MAX_VALUE_CHARACTERS, one_line, rows
from hookkeeper.usecases.mail_page import Page, as_html, as_text
from hookkeeper.usecases.mail_stories import STORIES, Story

_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
)


def addressable(address: str) -> bool:
    """Whether this is one plain address: no list, no name, no second line (HAZARDS T56)."""
    return _ADDRESS.fullmatch(address) is not None


def render(notice: Notice, *, console_url: str) -> Mail:
    """The mail for a notice, from its own facts alone (F13); never fails on what they hold."""
    story = STORIES[notice.kind]
    link = f"{console_url.rstrip('/')}/subscriptions/{quote(notice.key.subscription_id, safe='')}"
    page = Page(
        title=story.title,
        endpoint_url=one_line(notice.endpoint_url, MAX_URL_CHARACTERS),
        paragraphs=tuple(say(notice.facts) for say in (story.lead, *story.more)),
        rows=(*rows(notice.facts), ("Subscription", _subscription(notice))),
        steps=tuple(step.format(api=_api_path(notice)) for step in story.steps),
        button=story.button,
        link=link,
        colour=story.colour,
    )
    return Mail(
        to=notice.owner_email,
        subject=_subject(notice, story),
        text=as_text(page),
        html=as_html(page),
        tags={
            "kind": notice.kind.value,
            "tenant": notice.key.scope.tenant_id,
            "mode": notice.key.scope.mode.value,
            "notice": notice.id,
        },
    )


def _subject(notice: Notice, story: Story) -> str:
    mark = "" if notice.key.scope.mode is Mode.LIVE else "[test] "
    return one_line(f"{mark}{story.subject}: {notice.key.subscription_id}", MAX_VALUE_CHARACTERS)


def _subscription(notice: Notice) -> str:
    scope = notice.key.scope
    return f"{one_line(notice.key.subscription_id, 64)} ({scope.tenant_id}, {scope.mode} mode)"


def _api_path(notice: Notice) -> str:
    return f"/v1/subscriptions/{one_line(notice.key.subscription_id, 64)}"
