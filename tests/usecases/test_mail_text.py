import re
from html.parser import HTMLParser

import pytest
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.outcome import OWN_FAULTS, Fault
from hookkeeper.domain.tenancy import Mode
from hookkeeper.ports import Mail
from hookkeeper.usecases.mail_text import addressable, render
from hookkeeper.usecases.notify import MAX_IN_ONE_MAIL
from typing_extensions import override

from tests.builders import a_key, a_notice, a_scope

CONSOLE = "https://hooks.provider.example/console"
LINK = f"{CONSOLE}/subscriptions/{a_key().subscription_id}"
FACTS = {
    "failures": "25",
    "failing_since": "2026-11-30T23:00:00Z",
    "last_status": "503",
    "last_error": "http_503",
    "last_attempt_at": "2026-12-01T11:59:12Z",
    "limits": "retryable: 25 of 25, 13 h of 12 h",
    "waiting": "1000",
    "recoverable_until": "2026-12-08T11:55:00Z",
}
HOSTILE = [
    "<a href=https://phish.example>Re-enable</a>",
    "A & B",
    "R&D <b>",
    "<img src=x onerror=alert(1)>",
    "<table><tr>",
    "</td></table></main><h1>",
    "{{owner_email}}",
    "{{7*7}}",
    "{api}",
    "{0.__class__}",
    "%s%n",
    "${jndi:ldap://x}",
    '" onmouseover="x',
    "<!--",
    "&lt;script&gt;",
]


class Page(HTMLParser):
    """What a mail reader makes of the HTML: its text, its elements, its links."""

    def __init__(self, mail: Mail) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[str] = []
        self.links: list[str] = []
        self.feed(mail.html)
        self.close()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


def rendered(**changes: object) -> Mail:
    return render([a_notice(**{"facts": FACTS, **changes})], console_url=CONSOLE)


PLAIN = Page(rendered(facts={**FACTS, "last_error": "x"}))


def test_a_suspension_says_what_failed_since_when_how_much_waits_and_until_when() -> None:
    mail = rendered()
    for said in (
        a_notice().endpoint_url,
        a_key().subscription_id,
        "25 deliveries in a row",
        "30 November 2026, 23:00 UTC",
        "503 Service Unavailable",
        "at least 1,000",
        "before 8 December 2026, 11:55 UTC",
        LINK,
    ):
        assert said in re.sub(r"\s+", " ", mail.text)
    page = re.sub(r"\s+", " ", Page(mail).text)
    assert "25 deliveries in a row have failed since 30 November 2026, 23:00 UTC" in page
    assert a_notice().endpoint_url in page
    assert "at least 1,000" in page
    assert mail.to == "owner@customer.example"


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_every_kind_is_told_with_every_fact_and_with_none(kind: NoticeKind) -> None:
    subjects = set()
    for facts in ({}, FACTS, {"something_new": "7 of them"}):
        mail = rendered(kind=kind, facts=facts)
        subjects.add(mail.subject)
        assert a_notice().endpoint_url in mail.text
        assert a_key().subscription_id in mail.text
        assert Page(mail).links == [LINK]
        assert "{" not in mail.text
    assert len(subjects) == 1
    assert "Something new" in mail.text
    assert "7 of them" in mail.text


def test_each_kind_has_a_subject_of_its_own() -> None:
    assert len({rendered(kind=kind).subject for kind in NoticeKind}) == len(NoticeKind)


def test_the_test_mode_is_seen_in_the_subject() -> None:
    assert rendered(key=a_key(1, a_scope(mode=Mode.TEST))).subject.startswith("[test] ")
    assert rendered().subject == f"Webhook endpoint suspended: {a_key().subscription_id}"


@pytest.mark.parametrize("value", HOSTILE)
def test_t57_bb09_what_a_user_wrote_stands_literally_in_both_parts_and_adds_no_element(value: str) -> None:
    mail = rendered(facts={**FACTS, "last_error": value})
    page = Page(mail)
    assert value in page.text
    assert value in mail.text
    assert page.elements == PLAIN.elements
    assert page.links == [LINK]


@pytest.mark.parametrize("name", ["<b>", "a</th><h1>", 'x" y="', "{api}"])
def test_t57_an_unknown_facts_name_is_escaped_too(name: str) -> None:
    page = Page(rendered(facts={name: "1"}))
    assert page.links == [LINK]
    assert page.elements == Page(rendered(facts={"other": "1"})).elements


def test_bb09_a_url_with_markup_in_its_query_is_shown_and_is_no_link() -> None:
    url = "https://hooks.customer.example/in?a=1&b=<2>"
    mail = rendered(endpoint_url=url)
    assert url in Page(mail).text
    assert url in mail.text
    assert Page(mail).links == [LINK]


@pytest.mark.parametrize(
    "mark",
    [
        *("\r\n", "\n", "\r", "\t", "\x00", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u2029"),
        *("\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\U000e0041", "\ud800"),
    ],
)
def test_t57_bb09_controls_and_bidi_marks_are_gone_and_the_text_stays_on_one_line(mark: str) -> None:
    mail = rendered(facts={"last_error": f"be{mark}fore"})
    line = next(line for line in mail.text.split("\n") if line.startswith("Last error:"))
    assert line.startswith("Last error:")
    assert line.rstrip().endswith("fore")
    for part in (mail.text, mail.html):
        assert mark == "\n" or mark not in part
        part.encode()


def test_t57_an_excerpt_of_megabytes_is_cut_to_two_hundred_characters() -> None:
    mail = rendered(facts={"last_error": "é" * 5_000_000})
    assert mail.text.count("é") == 199
    assert "…" in mail.text
    assert len(mail.html) < 10_000
    assert "é" * 200 in rendered(facts={"last_error": "é" * 200}).text


@pytest.mark.parametrize("field", ["endpoint_url", "owner_email", "facts"])
def test_t56_the_subject_takes_no_user_text(field: str) -> None:
    evil = "x\r\nBcc: victim@rival.example"
    changes: dict[str, object] = {field: {"failures": evil} if field == "facts" else evil}
    assert rendered(**changes).subject == rendered().subject


def test_t56_a_forced_line_break_in_an_id_does_not_reach_the_subject() -> None:
    key = a_key()
    forced = type(key)(key.scope, "sub_1\r\nBcc: victim@rival.example")
    assert "\n" not in rendered(key=forced).subject
    assert "\r" not in rendered(key=forced).subject
    assert '"' not in Page(rendered(key=type(key)(key.scope, 'sub"><b>'))).links[0]


@pytest.mark.parametrize(
    "address",
    [
        *("", "owner", "@x.example", "a@", "a@b@c.example", "a b@x.example", "a@x.example b"),
        *(
            "a@x.example\r\nBcc: v@y.example",
            "a@x.example\n",
            "a@x.example,v@y.example",
            "a@x.example;v@y.example",
        ),
        *("A <a@x.example>", '"a"@x.example', "a@[127.0.0.1]", "ä@x.example", "a@x.example."),
    ],
)
def test_t56_only_one_plain_address_is_written_to(address: str) -> None:
    assert not addressable(address)


@pytest.mark.parametrize(
    "address", ["a@x.example", "first.last+hooks@mail.customer.example", "o'hara@x.example"]
)
def test_plain_addresses_are_written_to(address: str) -> None:
    assert addressable(address)


@pytest.mark.parametrize("fault", sorted(set(Fault) - OWN_FAULTS - {Fault.OTHER}))
def test_every_fault_of_an_endpoint_is_told_in_words(fault: Fault) -> None:
    line = next(s for s in rendered(facts={"last_error": fault.value}).text.split("\n") if fault in s)
    assert re.fullmatch(rf"Last error: +\S.* .*\({fault}\)", line)


def test_a_status_is_not_told_twice() -> None:
    assert "Last error" not in rendered().text
    assert "Last error" in rendered(facts={"last_status": "503", "last_error": "http_500"}).text


@pytest.mark.parametrize(
    "value, said",
    [
        ("2026-12-08T11:55:00Z", "8 December 2026, 11:55 UTC"),
        ("2026-12-08T11:55:00.123456+00:00", "8 December 2026, 11:55 UTC"),
        ("2026-12-08T01:55:00+02:00", "7 December 2026, 23:55 UTC"),
        ("2026-13-08T11:55:00Z", "2026-13-08T11:55:00Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00+23:59"),
        ("12041", "12,041"),
        ("9" * 40, "9" * 40),
        ("", None),
    ],
)
def test_moments_and_numbers_are_written_for_people(value: str, said: str | None) -> None:
    text = rendered(kind=NoticeKind.SECRET_ROTATED, facts={"some_fact": value}).text
    if said is None:
        assert "Some fact" not in text
    else:
        assert f"Some fact:    {said}\n" in text


@pytest.mark.parametrize(
    "waiting, said",
    [
        ("0", "every event from now on is kept"),
        ("1", "at least 1"),
        ("1000", "at least 1,000"),
        ("at least 7", "at least 7"),
    ],
)
def test_what_waits_is_told_as_a_least_number(waiting: str, said: str) -> None:
    assert f"Events waiting: {said}\n" in rendered(facts={"waiting": waiting}).text


@pytest.mark.parametrize(
    "succeeded, said", [("0", "It is active again"), ("1", "1 event that"), ("2", "2 events that")]
)
def test_a_recovery_says_how_much_was_delivered(succeeded: str, said: str) -> None:
    assert said in rendered(kind=NoticeKind.RECOVERED, facts={"succeeded": succeeded}).text


def test_the_page_fetches_nothing_and_opening_its_link_changes_nothing() -> None:
    mail = rendered()
    assert "url(" not in mail.html
    assert not {"img", "script", "form", "link", "iframe", "object"} & set(Page(mail).elements)
    assert "Opening a page changes nothing" in Page(mail).text


def test_a_mail_is_tagged_so_that_its_bounce_finds_its_notice() -> None:
    tags = rendered().tags
    assert tags["notice"] == a_notice().id
    assert (tags["tenant"], tags["mode"], tags["kind"]) == ("acme", "live", "suspended")
    assert all(re.fullmatch(r"[A-Za-z0-9_.@-]{1,256}", value) for value in tags.values())


# ── several in one mail ──────────────────────────────────────────────────────────────────────────

SEVERAL = [
    a_notice(key=a_key(1), kind=NoticeKind.AT_RISK, facts=FACTS),
    a_notice(key=a_key(2), facts=FACTS, endpoint_url="https://two.customer.example/in"),
    a_notice(key=a_key(3), facts={**FACTS, "failures": "31"}, endpoint_url="https://three.customer.example/"),
]


def test_several_are_told_in_one_mail_each_with_its_own_facts_and_link_once() -> None:
    mail = render(SEVERAL, console_url=CONSOLE)
    page = Page(mail)
    assert page.links == [f"{CONSOLE}/subscriptions/{a_key(n).subscription_id}" for n in (2, 3, 1)]
    for part in (mail.text, page.text):
        for notice in SEVERAL:
            assert part.count(notice.endpoint_url + "\n") == 1
    assert re.findall(r"(\d+) deliveries in a row", mail.text) == ["25", "31", "25"]
    assert re.findall(r"^\d\. .*$", mail.text, re.MULTILINE)[:3] == [
        "1. Your webhook endpoint is suspended",
        "2. Your webhook endpoint is suspended",
        "3. Your webhook endpoint keeps failing",
    ]
    assert mail.tags["kind"] == mail.tags["notice"] == "digest"


def test_what_wants_something_done_stands_before_good_news() -> None:
    kinds = [NoticeKind.RECOVERED, NoticeKind.SECRET_ROTATED, NoticeKind.EXPIRING, NoticeKind.SUSPENDED]
    mail = render([a_notice(key=a_key(n), kind=kind) for n, kind in enumerate(kinds)], console_url=CONSOLE)
    assert mail.subject == "Webhook endpoint suspended, and 3 more webhook notices"
    assert re.findall(r"^\d\. (.*)$", mail.text, re.MULTILINE)[:4] == [
        "Your webhook endpoint is suspended",
        "Events for your endpoint are about to expire",
        "Your webhook endpoint is back",
        "Your signing secret was rotated",
    ]


def test_a_step_that_several_kinds_share_is_told_once() -> None:
    mail = render([*SEVERAL, a_notice(key=a_key(4), kind=NoticeKind.PROBE_FAILED)], console_url=CONSOLE)
    assert mail.text.count("Mend the endpoint") == 1
    assert mail.text.count("Re-enable it:") == 1
    assert "You can try again at once." in re.sub(r"\s+", " ", mail.text)


def test_the_subject_of_several_says_how_many_and_still_takes_no_user_text() -> None:
    assert render(SEVERAL[1:], console_url=CONSOLE).subject == "Webhook endpoint suspended: 2 subscriptions"
    assert render(SEVERAL, console_url=CONSOLE).subject == (
        "Webhook endpoint suspended, and 2 more webhook notices"
    )
    test = [a_notice(key=a_key(n, a_scope(mode=Mode.TEST))) for n in (1, 2)]
    assert render(test, console_url=CONSOLE).subject.startswith("[test] ")


@pytest.mark.parametrize("value", HOSTILE)
def test_t57_bb09_what_a_user_wrote_stands_literally_in_a_shared_mail_too(value: str) -> None:
    def mail(said: str) -> Mail:
        hostile = a_notice(
            key=a_key(4), facts={"last_error": said}, endpoint_url=f"https://x.example/?{said}"
        )
        return render([*SEVERAL, hostile], console_url=CONSOLE)

    page = Page(mail(value))
    assert page.text.count(value) == mail(value).text.count(value) == 2
    assert page.elements == Page(mail("x")).elements
    assert page.links == Page(mail("x")).links


def test_a_full_mail_has_a_link_for_each_and_is_shown_whole_by_gmail() -> None:
    facts = {**FACTS, "last_error": "connection reset by peer"}
    mail = render([a_notice(key=a_key(n), facts=facts) for n in range(MAX_IN_ONE_MAIL)], console_url=CONSOLE)
    assert len(mail.html.encode()) < 102_000
    assert len(Page(mail).links) == MAX_IN_ONE_MAIL


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_each_kind_has_a_title_for_several(kind: NoticeKind) -> None:
    mail = render([a_notice(key=a_key(n), kind=kind) for n in (1, 2)], console_url=CONSOLE)
    assert re.fullmatch(r"2 [a-z ]+", mail.text.split("\n")[0])
    assert mail.tags["kind"] == kind.value


def test_the_days_last_mail_says_what_becomes_of_the_rest() -> None:
    last = render([a_notice()], console_url=CONSOLE, last_of=20)
    assert "at most 20 a day" in re.sub(r"\s+", " ", last.text)
    assert "at most 20 a day" in Page(last).text
    assert "a day" not in rendered().text
