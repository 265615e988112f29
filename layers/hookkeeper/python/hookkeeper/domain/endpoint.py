"""The customer's URL: its canonical form, and which addresses it may resolve to.

Names are judged here, answers of a resolver by `address_allowed`; looking names up is left to the adapters.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NoReturn

from hookkeeper.domain.errors import InvalidInputError

MAX_URL_CHARACTERS = 2048
MAX_HOST_CHARACTERS = 253
HTTPS_PORT = 443

# fmt: off
DENIED_PORTS = frozenset({
    1433, 1434, 1521, 1883, 2049, 2181, 2375, 2376, 2377, 2379, 2380, 3128, 3260, 3268, 3269, 3306, 3389,
    4194, 4369, 4505, 4506, 4646, 5037, 5060, 5061, 5432, 5433, 5439, 5555, 5601, 5671, 5672, 5900, 5901,
    5984, 5985, 5986, 6000, 6379, 6380, 6432, 6443, 6660, 6667, 6697, 7000, 7001, 7077, 7199, 7474, 7687,
    8009, 8020, 8086, 8088, 8125, 8200, 8300, 8301, 8302, 8500, 8529, 8600, 9000, 9001, 9042, 9090, 9092,
    9093, 9094, 9100, 9160, 9200, 9229, 9300, 9418, 10248, 10249, 10250, 10255, 10256, 10257, 10259, 11211,
    11434, 15672, 16379, 19530, 25672, 26257, 26379, 27017, 27018, 27019, 28015, 29092,
})
# fmt: on
"""Databases, caches, brokers, cluster control, remote desktops, and the Lambda runtime API (9001)."""

SPECIAL_USE_SUFFIXES = frozenset(
    {"localhost", "local", "internal", "invalid", "test", "example", "onion", "alt", "arpa"}
    | {"home", "corp", "lan", "mail", "intranet", "private", "localdomain"}
)
"""RFC 6761's registry, ICANN's `.internal`, and the names that networks use and ICANN will not delegate."""

_CLEAN = re.compile(r"[\x21-\x5b\x5d-\x7e]*")
"""Printable ASCII but the backslash, which browsers read as a slash."""

_SHAPE = re.compile(r"https://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL_ESCAPE = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")


class EndpointRefusedError(InvalidInputError):
    """The URL cannot be an endpoint; `code` is one of the stable codes of the API."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail, code=code, pointer="/endpoint_url")


@dataclass(frozen=True, slots=True)
class CanonicalUrl:
    """An endpoint's one spelling; `target` is path and query as they stand on the request line."""

    text: str
    host: str
    port: int
    target: str


def canonical_url(
    text: str, *, own_hosts: frozenset[str] = frozenset(), allowed_hosts: frozenset[str] = frozenset()
) -> CanonicalUrl:
    """Rebuild the URL from its parsed parts, or raise EndpointRefusedError.

    `own_hosts` are ours and refused; `allowed_hosts` are a stage's named exceptions to the rules on names
    (one label, special use), such as `localhost` for a local stage.
    """
    _refuse_if(len(text) > MAX_URL_CHARACTERS, "too_long", f"at most {MAX_URL_CHARACTERS} characters")
    _refuse_if(not _CLEAN.fullmatch(text), "bad_char", "only printable ASCII without spaces or backslashes")
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        _refuse("scheme", "must begin with https://")
    authority, path, query = shape.groups(default="")
    host, port = _host_and_port(authority)
    _check_name(host, allowed_hosts=allowed_hosts)
    _refuse_if(host in own_hosts, "own_host", "this host is ours; it would deliver to itself")
    target = (path or "/") + query
    _check_escapes(target)
    canonical = f"https://{_netloc(host, port)}{target}"
    _refuse_if(len(canonical) > MAX_URL_CHARACTERS, "too_long", f"at most {MAX_URL_CHARACTERS} characters")
    return CanonicalUrl(canonical, host, port, target)


def uniqueness_url(canonical: CanonicalUrl) -> str:
    """The text that two spellings of one endpoint share: one trailing slash of the path is ignored."""
    path, mark, query = canonical.target.partition("?")
    return f"https://{_netloc(canonical.host, canonical.port)}{path.removesuffix('/')}{mark}{query}"


def _netloc(host: str, port: int) -> str:
    return host if port == HTTPS_PORT else f"{host}:{port}"


def _host_and_port(authority: str) -> tuple[str, int]:
    _refuse_if("@" in authority, "userinfo", "must not carry a user name or password")
    _refuse_if("[" in authority or "]" in authority, "ip_literal", "must name a host, not an address")
    host, colon, port = authority.partition(":")
    return host.lower().removesuffix("."), _port(port) if colon else HTTPS_PORT


def _port(text: str) -> int:
    _refuse_if(not _PORT.fullmatch(text), "port", "the port must be a number from 1 to 65535")
    port = int(text)
    allowed = port == HTTPS_PORT or (1024 <= port <= 65535 and port not in DENIED_PORTS)
    _refuse_if(not allowed, "port", "the port must be 443, or 1024 and up and no internal service's")
    return port


def _check_name(host: str, *, allowed_hosts: frozenset[str]) -> None:
    _refuse_if("%" in host, "host_percent", "the host must not be percent-encoded")
    labels = host.split(".")
    _refuse_if(_NUMBER.fullmatch(labels[-1]) is not None, "ip_literal", "must name a host, not an address")
    _refuse_if(
        len(host) > MAX_HOST_CHARACTERS or not all(map(_label_ok, labels)),
        "host",
        "the host must be a DNS name of letters, digits and hyphens",
    )
    if host not in allowed_hosts:
        _refuse_if(len(labels) == 1, "single_label", "the host must have at least two labels")
        special = labels[-1] in SPECIAL_USE_SUFFIXES
        _refuse_if(special, "special_use", f".{labels[-1]} is not on the public internet")


def _label_ok(label: str) -> bool:
    if not _LABEL.fullmatch(label):
        return False
    try:
        label.removeprefix("xn--").encode().decode("punycode" if label.startswith("xn--") else "ascii")
    except UnicodeError:
        return False
    return True


def _check_escapes(target: str) -> None:
    _refuse_if(_BROKEN_ESCAPE.search(target) is not None, "bad_percent", "a % must begin a two-digit escape")
    _refuse_if(_CONTROL_ESCAPE.search(target) is not None, "ctrl_escape", "must not escape controls")


def _refuse_if(broken: bool, code: str, detail: str) -> None:  # noqa: FBT001  # reads as a sentence
    if broken:
        _refuse(code, detail)


def _refuse(code: str, detail: str) -> NoReturn:
    raise EndpointRefusedError(code, detail)


# --- addresses ---

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
        ),
    )
)
"""IANA's special-purpose registry, multicast and above, and Azure's platform address."""

_UNICAST_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "2620:4f:8000::/48",
            "3ffe::/16",
            "3fff::/20",
        ),
    )
)
"""IETF assignments with Teredo and ORCHID, documentation, 6to4, AS112, 6bone."""

_ISATAP = 0x0000_5EFE
_UNIVERSAL_BIT = 0x0200_0000


def address_allowed(address: str, *, allowed_private_cidrs: tuple[str, ...] = ()) -> bool:
    """Whether a resolver's answer may be dialled: public unicast, or inside a range the stage names.

    Whatever is no plain address (a zone id, a name, garbage) is not.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        return parsed.scope_id is None and (_named(parsed, allowed_private_cidrs) or _public_v6(parsed))
    return _named(parsed, allowed_private_cidrs) or not _inside(parsed, _SPECIAL_V4)


def _named(address: IPv4Address | IPv6Address, cidrs: tuple[str, ...]) -> bool:
    return any(address in ip_network(cidr) for cidr in cidrs)


def _public_v6(address: IPv6Address) -> bool:
    interface_high = int(address) >> 32 & 0xFFFF_FFFF & ~_UNIVERSAL_BIT
    return address in _UNICAST_V6 and not _inside(address, _SPECIAL_V6) and interface_high != _ISATAP


def _inside(address: IPv4Address | IPv6Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)
