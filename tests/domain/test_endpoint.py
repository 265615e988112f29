"""What may be registered as an endpoint, and what it may resolve to."""

import json
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.endpoint import (
    EndpointRefusedError,
    address_allowed,
    canonical_url,
    uniqueness_url,
)
from hookkeeper.domain.errors import InvalidInputError
from hypothesis import given
from hypothesis import strategies as st

VECTORS = Path(__file__).parents[1] / "vectors"
URLS = json.loads((VECTORS / "endpoint_urls.json").read_text())["cases"]
ADDRESSES = json.loads((VECTORS / "addresses.json").read_text())["cases"]
LOCAL = frozenset({"localhost"})


def refusal(url: str, **exceptions: frozenset[str]) -> str:
    with pytest.raises(EndpointRefusedError) as refused:
        canonical_url(url, **exceptions)
    return refused.value.code


@pytest.mark.parametrize("case", URLS, ids=lambda case: case["case"])
def test_every_url_of_the_table_gets_its_verdict(case: dict[str, Any]) -> None:
    if case["verdict"] == "accept":
        assert canonical_url(case["url"]).text == case["canonical"]
    else:
        assert refusal(case["url"]) == case["code"]


@pytest.mark.parametrize("case", ADDRESSES, ids=lambda case: case["address"])
def test_every_address_of_the_table_gets_its_verdict(case: dict[str, Any]) -> None:
    assert address_allowed(case["address"]) is (case["verdict"] == "allow")


METADATA = [
    *(
        "169.254.169.254",
        "fd00:ec2::254",
        "169.254.170.2",
        "169.254.170.23",
        "fd00:ec2::23",
        "169.254.169.253",
    ),
    *("169.254.169.123", "127.0.0.1", "169.254.100.1", "169.254.79.129", "fd20:ce::254", "168.63.129.16"),
    *("100.100.100.200", "192.0.0.192", "169.254.0.23", "fe80::a9fe:a9fe"),
]
WRAPPED = [
    *("2002:ac14:000a::1", "::ffff:172.20.0.10", "2a00:1450::0200:5efe:7f00:1", "64:ff9b::7f00:1"),
    *("0.0.0.0", "255.255.255.255", "::"),
]
NO_ADDRESSES = [
    "",
    "fe80::1%eth0",
    "2606:4700::1%1",
    "127.1",
    "0x7f000001",
    "localhost",
    "1.2.3.4\n",
    "１.2.3.4",
]


@pytest.mark.parametrize("address", METADATA + WRAPPED + NO_ADDRESSES)
def test_metadata_wrapped_and_odd_addresses_are_never_dialled(address: str) -> None:
    assert not address_allowed(address)


def test_a_stage_allows_the_private_ranges_it_names_and_no_others() -> None:
    assert address_allowed("127.0.0.1", allowed_private_cidrs=("127.0.0.0/8", "::1/128"))
    assert address_allowed("::1", allowed_private_cidrs=("127.0.0.0/8", "::1/128"))
    assert not address_allowed("169.254.169.254", allowed_private_cidrs=("127.0.0.0/8", "::1/128"))
    assert not address_allowed("::1%lo", allowed_private_cidrs=("::1/128",))


def test_the_longest_url_is_2048_characters_in_both_spellings() -> None:
    longest = "https://acme-test.com/" + "a" * (2048 - 22)
    assert canonical_url(longest).text == longest
    assert refusal(longest + "a") == "too_long"
    assert refusal("https://acme-test.com?" + "a" * (2048 - 22)) == "too_long"


@pytest.mark.parametrize(
    "port,allowed",
    [
        *((443, True), (1024, True), (8443, True), (65535, True)),
        *((0, False), (80, False), (22, False), (1023, False), (65536, False), (99999, False)),
        *((6379, False), (5432, False), (9001, False), (9200, False), (2375, False), (11211, False)),
    ],
)
def test_a_port_is_443_or_high_and_no_internal_service(port: int, *, allowed: bool) -> None:
    url = f"https://acme-test.com:{port}/"
    if allowed:
        assert canonical_url(url).port == port
    else:
        assert refusal(url) == "port"


@pytest.mark.parametrize("port", ["0443", "+443", "4 43", "443:443", "١"])
def test_a_port_has_one_spelling(port: str) -> None:
    assert refusal(f"https://acme-test.com:{port}/") in {"port", "bad_char"}


@pytest.mark.parametrize(
    "host", ["a.home.arpa", "x.onion", "printer.lan", "x.test", "x.localhost", "x.invalid", "x.corp"]
)
def test_names_that_are_not_on_the_public_internet_are_refused(host: str) -> None:
    assert refusal(f"https://{host}/") == "special_use"


def test_a_stage_may_name_a_host_that_the_rules_refuse() -> None:
    assert canonical_url("https://LOCALHOST:8443/in", allowed_hosts=LOCAL).text == "https://localhost:8443/in"
    assert refusal("https://printer:8443/in", allowed_hosts=LOCAL) == "single_label"
    assert refusal("https://localhost:6379/in", allowed_hosts=LOCAL) == "port"
    assert refusal("https://127.0.0.1/in", allowed_hosts=frozenset({"127.0.0.1"})) == "ip_literal"


def test_our_own_host_is_refused_in_any_spelling() -> None:
    own = frozenset({"api.hookkeeper-test.com"})
    assert refusal("https://API.hookkeeper-test.com./v1/events", own_hosts=own) == "own_host"
    assert canonical_url("https://other.hookkeeper-test.com/", own_hosts=own).host not in own


def test_a_punycode_label_must_decode() -> None:
    assert refusal("https://xn--9.com/") == "host"
    assert canonical_url("https://xn--bcher-kva.example.com/").host == "xn--bcher-kva.example.com"


@pytest.mark.parametrize(
    "target",
    ["/a/../b/./c//d", "/?", "/x;y?a=b|c&e=", '/"<>^`{}', "/h/~a~?sig=%2Fa%2bB", "/a?b?c", "//", "/@:"],
)
def test_path_and_query_are_kept_byte_for_byte(target: str) -> None:
    url = canonical_url(f"https://acme-test.com{target}#fragment?x")
    assert (url.target, url.text) == (target, f"https://acme-test.com{target}")


def test_one_trailing_slash_of_the_path_makes_no_second_subscription() -> None:
    def key(url: str) -> str:
        return uniqueness_url(canonical_url(url))

    assert key("https://acme-test.com/in/?a=/") == key("https://Acme-Test.com:443/in?a=/#x")
    assert key("https://acme-test.com/") == key("https://acme-test.com")
    assert key("https://acme-test.com:8443/in/") == key("https://acme-test.com:8443/in")
    distinct = ["/in", "/in//", "/in?a=", "/in?a", "/in?a=/", "/IN"]
    assert len({key(f"https://acme-test.com{target}") for target in distinct}) == len(distinct)


def test_a_refusal_points_at_the_field_and_is_an_invalid_input() -> None:
    with pytest.raises(InvalidInputError) as refused:
        canonical_url("http://acme-test.com/")
    assert (refused.value.code, refused.value.pointer) == ("scheme", "/endpoint_url")


@given(st.text() | st.from_regex(r"https://[a-zA-Z0-9.:@%\[\]-]{0,40}[!-~]{0,40}", fullmatch=True))
def test_any_text_is_refused_or_canonical_and_a_canonical_url_is_its_own_canonical_form(text: str) -> None:
    try:
        url = canonical_url(text)
    except EndpointRefusedError:
        return
    assert canonical_url(url.text) == url
