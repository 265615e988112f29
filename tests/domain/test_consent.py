"""An application gets what was granted, from when it was granted, and nothing else."""

from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.consent import Consent, granted, may_receive, withdrawn
from hookkeeper.domain.errors import NotAllowedError

from tests.builders import HOUR, NOW, a_scope

TICK = timedelta(microseconds=1)


def consented(*patterns: str, before: Consent | None = None, now: datetime = NOW) -> Consent:
    return granted(
        before, scope=a_scope(), application_id="erp", patterns=patterns, granted_by="ada", now=now
    )


def gets(consent: Consent | None, event_type: str, archived_at: datetime = NOW) -> bool:
    return may_receive("erp", consent, event_type=event_type, archived_at=archived_at)


@pytest.mark.parametrize(
    "grant,asked,allowed",
    [
        ("*", "*", True),
        ("*", "a.*", True),
        ("*", "a", True),
        ("a.*", "*", False),
        ("a.*", "a.*", True),
        ("a.*", "a.b.*", True),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "ab.*", False),
        ("a.b.*", "a.*", False),
        ("a", "a", True),
        ("a", "a.*", False),
        ("a", "b", False),
    ],
)
def test_t43_a_subscription_asks_for_no_more_than_was_granted(
    grant: str, asked: str, *, allowed: bool
) -> None:
    consent = consented(grant)
    if allowed:
        consent.check([asked])
    else:
        with pytest.raises(NotAllowedError, match="not for"):
            consent.check([grant, asked])


def test_what_was_archived_before_the_grant_is_not_handed_over() -> None:
    consent = consented("a.*")
    assert gets(consent, "a.b")
    assert not gets(consent, "a.b", NOW - TICK)
    assert not gets(consent, "b")
    assert not gets(None, "a.b")
    assert may_receive(None, None, event_type="a", archived_at=NOW), "a tenant needs no consent of its own"


def test_a_later_grant_starts_afresh() -> None:
    ended = withdrawn(consented("a.*"), now=NOW + HOUR)
    assert not gets(ended, "a.b")
    assert not gets(ended, "a.b", NOW + 2 * HOUR)
    again = consented("a.*", before=ended, now=NOW + 3 * HOUR)
    assert again.in_force
    assert gets(again, "a.b", NOW + 3 * HOUR)
    for earlier in (NOW, NOW + HOUR, NOW + 3 * HOUR - TICK):
        assert not gets(again, "a.b", earlier)


def test_changing_a_consent_in_force_keeps_what_was_granted_and_dates_what_is_new() -> None:
    later = consented("a.b", "c", before=consented("a.*"), now=NOW + HOUR)
    assert gets(later, "a.b", NOW)
    assert not gets(later, "a.x", NOW + HOUR), "narrowed"
    assert not gets(later, "c", NOW)
    assert gets(later, "c", NOW + HOUR)
    assert (later.version, later.granted_at) == (2, NOW)
