"""What each kind of notice says in our own words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hookkeeper.domain.notice import NoticeKind
from hookkeeper.usecases.mail_facts import readable

Sentence = Callable[[Mapping[str, str]], str]
"""What is said of a notice's facts, however few they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One kind's words; `{api}` in a step stands for the subscription's path in the API.

    `several` is the title, after their number, of a mail that tells of this kind alone.
    """

    subject: str
    title: str
    several: str
    lead: Sentence
    more: tuple[Sentence, ...] = ()
    steps: tuple[str, ...] = ()
    button: str = "Open the subscription"
    colour: str = "#475569"


def _said(sentence: str) -> Sentence:
    return lambda _: sentence


def _suspended(facts: Mapping[str, str]) -> str:
    return f"{_streak(facts)}, so we stopped sending to it."


def _at_risk(facts: Mapping[str, str]) -> str:
    return f"{_streak(facts)}. If it goes on like this, we will stop sending to it."


def _streak(facts: Mapping[str, str]) -> str:
    count, since = facts.get("failures", ""), facts.get("failing_since", "")
    many = f"{readable(count)} deliveries in a row have" if count not in ("", "0", "1") else "Deliveries have"
    return f"{many} failed{f' since {readable(since)}' if since else ''}"


def _kept(facts: Mapping[str, str]) -> str:
    until = facts.get("recoverable_until", "")
    when = f"if you re-enable it before {readable(until)}" if until else "once you re-enable it"
    return f"Nothing is lost: its events are kept, and you get them all {when}."


def _recovered(facts: Mapping[str, str]) -> str:
    done = facts.get("succeeded", "")
    if done in ("", "0"):
        return "It is active again, and new events are delivered as they come."
    missed = (
        "1 event that it had missed has"
        if done == "1"
        else f"{readable(done)} events that it had missed have"
    )
    return f"{missed} been delivered, and new events are delivered as they come."


def _expiring(facts: Mapping[str, str]) -> str:
    first = facts.get("first_expires_at", "")
    when = f"on {readable(first)}" if first else "soon"
    return f"Events that could not be delivered are kept for a limited time, and the first expire {when}."


_MEND = "Mend the endpoint, so that it answers requests with a 2xx status."
_REENABLE = (
    "Re-enable it: open the subscription, or POST {api}/reenable. We send one test request first; when it is "
    "answered, what was missed follows at a pace your endpoint can take."
)
_RECOVER = (
    "Get what waits: if the subscription is suspended, re-enable it; if it is active, ask for a recovery of "
    "what failed. Open it, or POST {api}/reenable or {api}/recoveries."
)
_NOT_YOU = "If this was not you or a colleague, tell whoever runs your webhooks now."
_RED, _AMBER, _GREEN = "#b91c1c", "#b45309", "#15803d"

STORIES: Mapping[NoticeKind, Story] = {
    NoticeKind.SUSPENDED: Story(
        subject="Webhook endpoint suspended",
        title="Your webhook endpoint is suspended",
        several="of your webhook endpoints are suspended",
        lead=_suspended,
        more=(_kept,),
        steps=(_MEND, _REENABLE),
        button="Open and re-enable",
        colour=_RED,
    ),
    NoticeKind.PROBE_FAILED: Story(
        subject="Webhook endpoint still failing",
        title="Your webhook endpoint did not pass the check",
        several="of your webhook endpoints did not pass the check",
        lead=_said("We sent it one test request before re-enabling it, and it failed. It stays suspended."),
        more=(_kept,),
        steps=(_MEND, _REENABLE + " You can try again at once."),
        button="Open and try again",
        colour=_RED,
    ),
    NoticeKind.AT_RISK: Story(
        subject="Webhook endpoint failing",
        title="Your webhook endpoint keeps failing",
        several="of your webhook endpoints keep failing",
        lead=_at_risk,
        more=(_said("Until then we keep trying. One success puts everything back to normal."),),
        steps=(_MEND,),
        colour=_AMBER,
    ),
    NoticeKind.PROBE_PASSED: Story(
        subject="Webhook endpoint answers again",
        title="Your webhook endpoint answers again",
        several="of your webhook endpoints answer again",
        lead=_said("One test request was sent, and answered. It stays suspended until you re-enable it."),
        more=(_kept,),
        steps=(_REENABLE,),
        button="Open and re-enable",
        colour=_GREEN,
    ),
    NoticeKind.RECOVERED: Story(
        subject="Webhook endpoint recovered",
        title="Your webhook endpoint is back",
        several="of your webhook endpoints are back",
        lead=_recovered,
        colour=_GREEN,
    ),
    NoticeKind.RECOVERY_PAUSED: Story(
        subject="Webhook recovery paused",
        title="We paused the recovery of your endpoint",
        several="recoveries of your endpoints are paused",
        lead=_said(
            "New events are delivered as they come, but those that it had missed failed again, three times "
            "in a row, so we stopped sending them."
        ),
        more=(_said("Nothing is lost: they are kept, and sent once you resume the recovery."),),
        steps=(
            "Mend the endpoint, so that it answers requests with a 2xx status.",
            "Resume the recovery: open the subscription.",
        ),
        button="Open and resume",
        colour=_AMBER,
    ),
    NoticeKind.EXPIRING: Story(
        subject="Undelivered webhook events expire soon",
        title="Events for your endpoint are about to expire",
        several="of your endpoints have events about to expire",
        lead=_expiring,
        more=(_said("Until then you can have them all; what has expired cannot be delivered any more."),),
        steps=(_MEND, _RECOVER),
        button="Open and recover",
        colour=_AMBER,
    ),
    NoticeKind.URL_STAGED: Story(
        subject="Webhook endpoint change requested",
        title="A new endpoint was asked for",
        several="new endpoints were asked for",
        lead=_said("The present endpoint keeps receiving until the new one has answered its challenge."),
        more=(_said(_NOT_YOU),),
    ),
    NoticeKind.URL_CHANGED: Story(
        subject="Webhook endpoint changed",
        title="Your webhooks go to a new endpoint",
        several="of your subscriptions go to a new endpoint",
        lead=_said("The new endpoint has answered its challenge, and events go there from now on."),
        more=(_said(_NOT_YOU),),
    ),
    NoticeKind.SECRET_ROTATED: Story(
        subject="Webhook signing secret rotated",
        title="Your signing secret was rotated",
        several="signing secrets were rotated",
        lead=_said("Events are signed with a new secret. Give it to your endpoint before the old one ends."),
        more=(_said(_NOT_YOU),),
    ),
    NoticeKind.CONSENT_WITHDRAWN: Story(
        subject="Webhook consent withdrawn",
        title="The consent for this subscription was withdrawn",
        several="subscriptions lost their consent",
        lead=_said("Nothing more is sent to its endpoint, and what was waiting has been discarded."),
    ),
}
