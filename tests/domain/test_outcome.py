"""What an attempt's end means, per preset."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.outcome import (
    GRADED,
    OWN_FAULTS,
    STRICT,
    Answer,
    Fault,
    Outcome,
    classify,
    clean_excerpt,
    feeds_circuit,
    is_our_fault,
    retry_after_floor,
)
from hypothesis import given
from hypothesis import strategies as st

VECTORS = Path(__file__).parents[1] / "vectors"
CLASSIFICATION = json.loads((VECTORS / "classification.json").read_text())["cases"]
RETRY_AFTER = json.loads((VECTORS / "retry_after.json").read_text())["cases"]
PRESETS = {"graded": GRADED, "strict": STRICT}
NOW = datetime(2015, 10, 21, 7, 27, tzinfo=UTC)
DEADLINE = NOW + timedelta(hours=2, minutes=36)

SEEN = {
    "connect timeout": Fault.CONNECT_TIMEOUT,
    "deadline reached while the body drips, no status yet": Fault.TIMEOUT,
    "connection refused": Fault.REFUSED,
    "connection reset before a status": Fault.RESET,
    "EAI_AGAIN": Fault.DNS_TEMPORARY,
    "EAI_NONAME": Fault.DNS_NOT_FOUND,
    "EAI_NODATA": Fault.DNS_NO_DATA,
    "certificate expired": Fault.TLS_EXPIRED,
    "certificate for another host": Fault.TLS_HOSTNAME,
    "unknown certificate authority": Fault.TLS_UNKNOWN_CA,
    "address refused by the SSRF guard": Fault.BLOCKED_ADDRESS,
    "response header block over 64 KiB": Fault.HEADERS_TOO_LARGE,
    "malformed status line": Fault.MALFORMED_RESPONSE,
    "1xx without end until the deadline": Fault.ENDLESS_INFORMATIONAL,
}


def answer_of(seen: dict[str, Any]) -> Answer:
    return Answer(status_code=seen["status"]) if "status" in seen else Answer(fault=SEEN[seen["error"]])


@pytest.mark.parametrize("case", CLASSIFICATION, ids=lambda case: f"{case['preset']} {case['seen']}")
def test_every_row_of_the_classification_table(case: dict[str, Any]) -> None:
    answer = answer_of(case["seen"])
    assert classify(answer, preset_rules=PRESETS[case["preset"]]) == case["outcome"]
    assert not is_our_fault(answer)


RETRYABLE_FAULTS = {
    *(
        Fault.TIMEOUT,
        Fault.CONNECT_TIMEOUT,
        Fault.REFUSED,
        Fault.RESET,
        Fault.UNREACHABLE,
        Fault.CLOSED_EARLY,
    ),
    *(Fault.DNS_TEMPORARY, Fault.HEADERS_TOO_LARGE, Fault.MALFORMED_RESPONSE, Fault.ENDLESS_INFORMATIONAL),
    Fault.OTHER,
}
PERMANENT_FAULTS = {
    *(Fault.TLS_EXPIRED, Fault.TLS_HOSTNAME, Fault.TLS_UNKNOWN_CA, Fault.TLS_OTHER),
    *(Fault.BLOCKED_ADDRESS, Fault.INVALID_CONFIG),
}
FATAL_FAULTS = {Fault.DNS_NOT_FOUND, Fault.DNS_NO_DATA}


def test_every_fault_is_an_outcome_or_our_own() -> None:
    for fault in Fault:
        if fault in OWN_FAULTS:
            with pytest.raises(ValueError, match="our own fault"):
                classify(Answer(fault=fault), preset_rules=GRADED)
            continue
        expected = {
            fault in RETRYABLE_FAULTS: Outcome.RETRYABLE,
            fault in PERMANENT_FAULTS: Outcome.PERMANENT,
            fault in FATAL_FAULTS: Outcome.FATAL,
        }
        assert classify(Answer(fault=fault), preset_rules=GRADED) is expected[True]


def test_strict_is_permanent_for_four_statuses_and_tls_alone_and_fatal_for_nothing() -> None:
    statuses = {
        status
        for status in range(200, 600)
        if classify(Answer(status_code=status), preset_rules=STRICT) is Outcome.PERMANENT
    }
    faults = {
        fault: classify(Answer(fault=fault), preset_rules=STRICT)
        for fault in Fault
        if fault not in OWN_FAULTS
    }
    assert statuses == {401, 403, 404, 410}
    assert {fault for fault, outcome in faults.items() if outcome is Outcome.PERMANENT} == {
        *(Fault.TLS_EXPIRED, Fault.TLS_HOSTNAME, Fault.TLS_UNKNOWN_CA, Fault.TLS_OTHER)
    }
    assert Outcome.FATAL not in faults.values()


@pytest.mark.parametrize(
    "answer,feeds",
    [
        *(
            (Answer(status_code=status), False)
            for status in (200, 204, 400, 402, 405, 408, 409, 422, 425, 429)
        ),
        *((Answer(status_code=status), True) for status in (401, 403, 404, 410, 302, 500, 503, 600)),
        *((Answer(fault=fault), fault not in OWN_FAULTS) for fault in Fault),
    ],
    ids=lambda value: str(getattr(value, "error", value)),
)
def test_what_says_nothing_of_the_endpoint_does_not_feed_its_circuit(answer: Answer, *, feeds: bool) -> None:
    outcome = Outcome.RETRYABLE if is_our_fault(answer) else classify(answer, preset_rules=GRADED)
    assert feeds_circuit(answer, outcome) is feeds


@pytest.mark.parametrize("case", RETRY_AFTER, ids=lambda case: ascii(case["value"]))
def test_every_retry_after_of_the_table(case: dict[str, Any]) -> None:
    floor = retry_after_floor(case["value"], now=NOW, deadline=DEADLINE)
    seconds = case["floor_seconds"]
    if seconds is None:
        assert floor is None
    else:
        assert floor == (DEADLINE - NOW if seconds == "deadline" else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "value",
    [
        *(None, "9" * 70_000, "Wed, 21 Oct 2015 07:28:00 -0000", "Wed, 31 Feb 2015 07:28:00 GMT"),
        *("Wed, 21 Oct 0000 07:28:00 GMT", "Wed, 21 Oct 2015 25:28:00 GMT", "\x00", "١٢", "1_0", "+5"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_an_odd_retry_after_is_ignored_or_capped(value: str | None) -> None:
    assert retry_after_floor(value, now=NOW, deadline=DEADLINE) in {None, DEADLINE - NOW}


def test_a_deadline_that_has_passed_leaves_no_wait() -> None:
    assert retry_after_floor("120", now=NOW, deadline=NOW - timedelta(hours=1)) == timedelta()


@given(st.text())
def test_a_retry_after_is_never_an_error_and_never_past_the_deadline(value: str) -> None:
    floor = retry_after_floor(value, now=NOW, deadline=DEADLINE)
    assert floor is None or timedelta() <= floor <= DEADLINE - NOW


def test_an_answer_is_a_status_or_a_fault() -> None:
    with pytest.raises(ValueError, match="status code or a fault"):
        Answer()
    with pytest.raises(ValueError, match="status code or a fault"):
        Answer(status_code=200, fault=Fault.TIMEOUT)


def test_an_answers_error_names_its_kind() -> None:
    assert Answer(status_code=204).error is None
    assert Answer(status_code=503).error == "http_503"
    assert Answer(fault=Fault.TLS_EXPIRED).error == "tls_expired"


@pytest.mark.parametrize(
    "raw,text",
    [
        (b"plain", "plain"),
        (b"a\x00b\x1b[2Jc\x7f", "ab[2Jc"),
        (b"one\r\ntwo\tthree\rfour", "one  two three four"),
        ("caf\u00e9 \u65e5\u672c".encode(), "caf\u00e9 \u65e5\u672c"),
        (b"caf\xe9", "caf\ufffd"),
        ("a\u202eb\u2066c\u200bd\ufeffe\u00ad\U000e0041\u2028f".encode(), "abcde f"),
        ("\ue000\U0010ffff\x85".encode(), ""),
        (b'</script><a href="x">{{7*7}}${jndi:x}', '</script><a href="x">{{7*7}}${jndi:x}'),
    ],
)
def test_an_excerpt_is_text_without_controls_or_bidi_marks(raw: bytes, text: str) -> None:
    assert clean_excerpt(raw, 1024) == text


def test_an_excerpt_is_cut_in_bytes_and_never_inside_a_character() -> None:
    assert clean_excerpt("é".encode() * 20_000, 1024) == "é" * 512
    assert clean_excerpt("日".encode() * 100, 256) == "日" * 85


def test_secrets_are_cut_out_before_the_text_is_and_short_ones_are_no_secrets() -> None:
    secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    echoed = b"x" * 1010 + secret.encode()
    assert clean_excerpt(echoed, 1024, [secret]) == "x" * 1010 + "***"
    assert clean_excerpt(b"token=abcd-efgh abcd", 99, ["abcd", "abcd-efgh"]) == "token=*** ***"
    assert clean_excerpt(b"1 + 1", 99, ["1", ""]) == "1 + 1"


@given(st.binary(max_size=300), st.integers(min_value=0, max_value=64))
def test_an_excerpt_is_printable_and_within_its_limit_whatever_came(raw: bytes, limit: int) -> None:
    text = clean_excerpt(raw, limit)
    assert len(text.encode()) <= limit
    assert all(character.isprintable() or character.isspace() for character in text)
    assert not set(text) & set("\r\n\t\x00\u202e")
