"""Standard Webhooks signatures, secrets that do not show, tokens that odd input cannot upset."""

import base64
import copy
import dataclasses
import json
import secrets as random_source
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.signature import (
    Secret,
    encode_secret,
    parse_secret,
    secret_texts,
    sign,
    token_hash,
    token_matches,
)
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "signatures.json").read_text())["cases"]
KEY = bytes(range(32))
TOKEN = "YutCeCAXjXETLZbkff26aKyYHcHFd0LZulwyq3nJ0vE"


def text_of(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_every_signature_of_the_table(case: dict[str, Any]) -> None:
    signature = sign(
        [parse_secret(text) for text in case["secrets"]],
        webhook_id=case["id"],
        timestamp=case["timestamp"],
        body=case["body"].encode(),
    )
    assert signature == case["signature"]


def test_the_published_library_accepts_old_and_new_secret_during_a_rotation() -> None:
    old, new, other = (Secret(random_source.token_bytes(24)) for _ in range(3))
    timestamp = int(datetime.now(UTC).timestamp())
    body = '{"type":"invoice.paid","note":"café"}'.encode()
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign([new, old], webhook_id="evt_1", timestamp=timestamp, body=body),
    }
    for secret in (new, old):
        assert Webhook(encode_secret(secret.key)).verify(body, headers) == json.loads(body)
    with pytest.raises(WebhookVerificationError):
        Webhook(encode_secret(other.key)).verify(body, headers)


def test_signatures_are_those_of_the_bytes_sent_not_of_a_new_serialisation() -> None:
    body = '{"type":"invoice.paid","note":"café","amount":1.10}'.encode()
    again = json.dumps(json.loads(body)).encode()
    assert sign([Secret(KEY)], webhook_id="msg_rel0001", timestamp=1700000000, body=body) != sign(
        [Secret(KEY)], webhook_id="msg_rel0001", timestamp=1700000000, body=again
    )


def test_nothing_is_signed_without_a_secret_or_with_a_dot_in_the_id() -> None:
    with pytest.raises(ValueError, match="unsigned"):
        sign([], webhook_id="evt_1", timestamp=1, body=b"{}")
    with pytest.raises(ValueError, match="dot"):
        sign([Secret(KEY)], webhook_id="a.b", timestamp=1, body=b"{}")


@pytest.mark.parametrize("length", [24, 25, 32, 64])
def test_a_secret_of_24_to_64_bytes_survives_its_text(length: int) -> None:
    key = random_source.token_bytes(length)
    assert parse_secret(encode_secret(key)).key == key


@pytest.mark.parametrize(
    "text",
    [
        *("", "whsec_", "whsec_====", "whsec_!!!!", "whsec_AAAA", "WHSEC_" + "A" * 32, "A" * 32),
        *(
            text_of(bytes(23)),
            text_of(bytes(65)),
            text_of(KEY) + "\n",
            " " + text_of(KEY),
            text_of(KEY) + "==",
        ),
        *(text_of(KEY).rstrip("="), text_of(KEY)[:-2] + "9=", text_of(b"\xff" * 24).replace("/", "_")),
        *("whsec_" + "ﬁ" * 32, "whsec_" + "\ud800" * 32),
    ],
    ids=ascii,
)
def test_any_other_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_secret(text)
    assert refused.value.code == "secret"
    assert len(text) < 8 or text not in str(refused.value)


def test_a_secret_shows_itself_to_nobody_who_does_not_ask() -> None:
    secret = parse_secret(text_of(KEY))

    @dataclasses.dataclass
    class Holder:
        secret: Secret

    shown = [
        *(repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", repr([secret]), repr(Holder(secret))),
        *(str(dataclasses.asdict(Holder(secret))), json.dumps({"s": secret}, default=str)),
    ]
    for spelling in (*secret_texts(secret), repr(KEY)):
        assert not any(spelling in text for text in shown)
    assert copy.deepcopy(secret) == secret != Secret(bytes(32))


@pytest.mark.parametrize(
    "given_token",
    [
        *(
            "",
            "ﬀ",
            TOKEN[: len(TOKEN) // 2],
            TOKEN[:1],
            TOKEN + "\0",
            TOKEN + "\n",
            TOKEN * 50_000,
            TOKEN + "é",
        ),
        *("\ud800", b"", b"\xff\xfe", None, 0, True, 1.5, [TOKEN], {"challenge": TOKEN}, object()),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_no_odd_echo_matches_and_none_raises(given_token: object) -> None:
    assert token_matches(given_token, token_hash(TOKEN)) is False


def test_the_token_itself_matches_as_text_and_as_bytes() -> None:
    assert token_matches(TOKEN, token_hash(TOKEN))
    assert token_matches(TOKEN.encode(), token_hash(TOKEN))
    assert not token_matches(TOKEN, "ﬀ")


@given(st.text(), st.text())
def test_a_token_matches_exactly_itself(one: str, other: str) -> None:
    assert token_matches(one, token_hash(other)) is (one == other)
