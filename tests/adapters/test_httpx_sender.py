"""What the one way out promises, against endpoints that do their worst."""

import asyncio
import errno
import gzip
import json
import logging
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.adapters import httpx_sender, httpx_transport
from hookkeeper.adapters.dns_resolver import registration_fault
from hookkeeper.adapters.egress_faults import AttemptFaultError, connection_fault
from hookkeeper.adapters.httpx_sender import HttpxSender
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import GRADED, STRICT, Answer, Fault, Outcome, classify
from hookkeeper.domain.signature import Secret, encode_secret, sign
from standardwebhooks import Webhook

from tests.adapters.hostile import (
    HOST,
    OK,
    PUBLIC,
    Authority,
    Endpoint,
    Script,
    ScriptedResolver,
    Switchboard,
    Visit,
    answering,
    closing,
    serving,
)

VECTORS = Path(__file__).parents[1] / "vectors"
CLASSIFICATION = json.loads((VECTORS / "classification.json").read_text())["cases"]
ADDRESSES = json.loads((VECTORS / "addresses.json").read_text())["cases"]
DENIED = [case["address"] for case in ADDRESSES if case["verdict"] == "deny"]
SHORT = 0.4
"""A deadline in seconds that only those tests meet which wait for it."""
LONG = 5.0
BODY = '{"type":"invoice.paid","note":"café","amount":1.10}'.encode()

Serve = Callable[[Script], AbstractContextManager[Endpoint]]
MakeSender = Callable[..., HttpxSender]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("authority")


@pytest.fixture(scope="module")
def authority(directory: Path) -> Authority:
    return Authority(directory)


@pytest.fixture(scope="module")
def serve(authority: Authority) -> Serve:
    return lambda script: serving(script, authority.server_context())


@pytest.fixture
def make_sender(authority: Authority) -> Iterator[MakeSender]:
    """A sender that trusts the test authority, hears public addresses and dials loopback."""
    made: list[HttpxSender] = []

    def make(**options: Any) -> HttpxSender:
        options.setdefault("resolve", ScriptedResolver())
        options.setdefault("dial", Switchboard())
        options.setdefault("extra_ca_file", str(authority.file))
        made.append(HttpxSender(**options))
        return made[-1]

    yield make
    for sender in made:
        sender.close()


@pytest.fixture
def sender(make_sender: MakeSender) -> HttpxSender:
    return make_sender()


def a_request(url: str, **changes: Any) -> OutboundRequest:
    values: dict[str, Any] = {
        "headers": (("webhook-id", "evt_1"), ("content-type", "application/json")),
        "body": BODY,
        "timeout_seconds": LONG,
        "endpoint_key": "tnt_1#live#sub_1",
    }
    return OutboundRequest(url=url, **(values | changes))


def send(sender: HttpxSender, url: str, **changes: Any) -> Answer:
    (answer,) = sender.send([a_request(url, **changes)])
    return answer


def exchanged(sender: HttpxSender, serve: Serve, script: Script, **changes: Any) -> Answer:
    with serve(script) as endpoint:
        return send(sender, endpoint.url(), **changes)


# ── what goes out ────────────────────────────────────────────────────────────────────────────────


def test_the_request_on_the_wire_is_the_one_that_was_asked_for(sender: HttpxSender, serve: Serve) -> None:
    headers = (("webhook-id", "evt_1"), ("Content-Type", "application/json"), ("accept-encoding", "identity"))
    with serve(answering(OK)) as endpoint:
        answer = send(sender, endpoint.url("/in?x=1"), headers=headers)
    assert endpoint.requests == [
        (
            "POST /in?x=1 HTTP/1.1\r\n"
            f"Host: {HOST}:{endpoint.port}\r\n"
            "webhook-id: evt_1\r\n"
            "Content-Type: application/json\r\n"
            "accept-encoding: identity\r\n"
            f"Content-Length: {len(BODY)}\r\n"
            "\r\n"
        ).encode()
        + BODY
    ]
    assert endpoint.names == [HOST]
    assert (answer.status_code, answer.fault, answer.excerpt, answer.body) == (200, None, "ok", b"ok")


@pytest.mark.parametrize(
    "target",
    [
        "/h/~a~/x;y?type=application/pdf&sig=%2Fa%2bB&q=a|b&e=",
        *("/a/../b/./c//d", "/?", "//", '/"<>^`{}', "/a%20b?q=%E2%9C%93", "/[x]?a=[1]&b='"),
    ],
)
def test_the_request_target_is_the_stored_one_byte_for_byte(
    sender: HttpxSender, serve: Serve, target: str
) -> None:
    with serve(answering(OK)) as endpoint:
        assert send(sender, endpoint.url(target)).status_code == 200
    assert endpoint.requests[0].startswith(f"POST {target} HTTP/1.1\r\n".encode())


def test_the_default_port_is_not_spelled_out_in_host(make_sender: MakeSender, serve: Serve) -> None:
    with serve(answering(OK)) as endpoint:

        async def dial(_address: str, port: int) -> socket.socket:
            assert port == 443
            return await Switchboard()(PUBLIC, endpoint.port)

        assert send(make_sender(dial=dial), f"https://{HOST}/").status_code == 200
    assert f"\r\nHost: {HOST}\r\n".encode() in endpoint.requests[0]


def test_the_published_library_verifies_what_arrived(sender: HttpxSender, serve: Serve) -> None:
    secret = Secret(bytes(range(24)))
    timestamp = int(datetime.now(UTC).timestamp())
    signature = sign([secret], webhook_id="evt_1", timestamp=timestamp, body=BODY)
    headers = (
        *(("webhook-id", "evt_1"), ("webhook-timestamp", str(timestamp)), ("webhook-signature", signature)),
    )
    with serve(answering(OK)) as endpoint:
        send(sender, endpoint.url(), headers=headers)
    head, _, body = endpoint.requests[0].partition(b"\r\n\r\n")
    arrived = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert Webhook(encode_secret(secret.key)).verify(body, arrived) == json.loads(BODY)


def test_a_body_of_256_kib_arrives_whole(sender: HttpxSender, serve: Serve) -> None:
    body = bytes(range(256)) * 1024
    with serve(answering(OK)) as endpoint:
        assert send(sender, endpoint.url(), body=body).status_code == 200
    assert endpoint.requests[0].endswith(body)


@pytest.mark.parametrize(
    "name,value",
    [
        *(("X-A", "b\r\nX-Evil: 1"), ("X-A", "b\n"), ("X A", "b"), ("", "b"), ("X-A:", "b"), ("X\r\nY", "b")),
        *(("Host", "evil.test"), ("host", "evil.test"), ("transfer-encoding", "chunked"), ("TE", "trailers")),
        *(("Content-Length", "0"), ("content-length", str(len(BODY))), ("Connection", "upgrade")),
        *(("WEBHOOK-ID", "forged"), ("Expect", "100-continue"), ("Proxy-Authorization", "Basic x")),
        *(("X-A", "é"), ("X-Ä", "b"), ("X-A", "\x00"), ("X-A", " b"), ("X-A", "b" * 5000), ("x" * 65, "b")),
    ],
)
def test_a_header_that_could_change_the_request_is_refused_before_anything_is_sent(
    make_sender: MakeSender, name: str, value: str
) -> None:
    dial = Switchboard()
    headers = (("webhook-id", "evt_1"), (name, value))
    answer = send(make_sender(dial=dial), f"https://{HOST}/", headers=headers)
    assert answer.fault is Fault.INVALID_CONFIG
    assert dial.dialled == []


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://xn--/",
            "https://a..b/",
            f"http://{HOST}/",
            "https://127.0.0.1/",
            f"https://{HOST}",
            "",
            "\ud800",
        ),
        *(
            f"https://{HOST}/#x",
            f"https://{HOST}:443/",
            f"https://{HOST.upper()}/",
            "https://own.acme-test.com/",
        ),
        *(f"https://u:p@{HOST}/", f"https://{HOST}/a b", f"https://{HOST}/\r\nX: 1", "https://localhost/"),
    ],
    ids=ascii,
)
def test_a_stored_url_that_todays_rules_refuse_is_that_deliverys_fault_alone(
    make_sender: MakeSender, serve: Serve, url: str
) -> None:
    sender = make_sender(own_hosts=("own.acme-test.com",))
    with serve(answering(OK)) as endpoint:
        bad, good = sender.send([a_request(url), a_request(endpoint.url())])
    assert (bad.fault, good.status_code) == (Fault.INVALID_CONFIG, 200)


# ── where it goes ────────────────────────────────────────────────────────────────────────────────


def test_the_address_that_was_vetted_is_dialled_and_the_name_is_looked_up_once(
    make_sender: MakeSender, serve: Serve
) -> None:
    resolve, dial = ScriptedResolver([PUBLIC], ["127.0.0.1"]), Switchboard()
    with serve(answering(OK)) as endpoint:
        assert send(make_sender(resolve=resolve, dial=dial), endpoint.url()).status_code == 200
    assert (resolve.calls, dial.dialled) == ([HOST], [PUBLIC])


def test_each_attempt_vets_anew_where_no_connection_is_kept(make_sender: MakeSender, serve: Serve) -> None:
    resolve = ScriptedResolver(["198.35.26.96"], ["100.100.100.200"], ["198.35.26.96", "fd00:ec2::254"])
    dial = Switchboard()
    sender = make_sender(resolve=resolve, dial=dial, keepalive_seconds=0)
    with serve(answering(OK)) as endpoint:
        answers = [send(sender, endpoint.url()) for _ in range(4)]
    assert [answer.error for answer in answers] == [None, *["blocked_address"] * 3]
    assert (len(resolve.calls), dial.dialled) == (4, ["198.35.26.96"])


METADATA = [
    *(
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.169.253",
        "fd00:ec2::254",
        "fd20:ce::254",
    ),
    *("168.63.129.16", "100.100.100.200", "192.0.0.192", "127.0.0.1", "fe80::a9fe:a9fe"),
]


@pytest.mark.parametrize(
    "answers",
    [
        *([address] for address in [*DENIED, *METADATA]),
        *([PUBLIC, "169.254.169.254"], ["169.254.169.254", PUBLIC]),
        *(["151.101.1.140", "151.101.65.140", "172.20.0.10"], ["2606:4700::6810:1", "2002:ac14:000a::1"]),
        *(["::ffff:172.20.0.10"], ["10.0.0.5"], ["fe80::1%eth0"]),
    ],
    ids=str,
)
def test_one_forbidden_answer_refuses_the_endpoint_without_a_socket(
    make_sender: MakeSender, answers: list[str]
) -> None:
    dial = Switchboard()
    answer = send(make_sender(resolve=ScriptedResolver(answers), dial=dial), f"https://{HOST}/")
    assert (answer.fault, dial.dialled) == (Fault.BLOCKED_ADDRESS, [])
    assert classify(answer, preset_rules=GRADED) is Outcome.PERMANENT


def test_the_tenant_sees_one_refusal_whatever_the_address_and_operators_see_which(
    make_sender: MakeSender,
) -> None:
    answers = [
        send(make_sender(resolve=ScriptedResolver([address])), f"https://{HOST}/")
        for address in ("10.0.0.5", "169.254.169.254", "::1")
    ]
    assert {(answer.error, answer.excerpt, answer.location_host) for answer in answers} == {
        ("blocked_address", "", None)
    }
    assert "10.0.0.5" in answers[0].operator_note


def test_of_a_huge_answer_sixteen_addresses_are_considered(make_sender: MakeSender) -> None:
    dialled: list[str] = []

    async def dial(address: str, _port: int) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError

    many = [f"93.184.{n // 250}.{n % 250 + 1}" for n in range(4000)]
    answer = send(make_sender(resolve=ScriptedResolver(many), dial=dial), f"https://{HOST}/")
    assert (answer.fault, dialled) == (Fault.REFUSED, many[:16])


def test_the_next_vetted_address_is_tried_when_one_cannot_be_reached(
    make_sender: MakeSender, serve: Serve
) -> None:
    with serve(answering(OK)) as endpoint:

        async def dial(address: str, port: int) -> socket.socket:
            if address != PUBLIC:
                raise OSError(113, "no route")
            return await Switchboard()(address, port)

        resolve = ScriptedResolver(["2606:4700::1", "93.184.216.33", PUBLIC])
        assert send(make_sender(resolve=resolve, dial=dial), endpoint.url()).status_code == 200


@pytest.mark.parametrize(
    "error,fault",
    [
        (socket.gaierror(socket.EAI_NONAME, "any text"), Fault.DNS_NOT_FOUND),
        (socket.gaierror(socket.EAI_NODATA, "any text"), Fault.DNS_NO_DATA),
        (socket.gaierror(socket.EAI_AGAIN, "Name or service not known"), Fault.DNS_TEMPORARY),
        (socket.gaierror(socket.EAI_FAIL, "any text"), Fault.RESOLVER_UNREACHABLE),
        (socket.gaierror(socket.EAI_SYSTEM, "any text"), Fault.RESOLVER_UNREACHABLE),
        (socket.gaierror(socket.EAI_MEMORY, "any text"), Fault.RESOLVER_UNREACHABLE),
        (UnicodeError("label too long"), Fault.INVALID_CONFIG),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_failed_look_up_is_told_by_its_code(
    make_sender: MakeSender, error: Exception, fault: Fault
) -> None:
    assert send(make_sender(resolve=ScriptedResolver(error)), f"https://{HOST}/").fault is fault

    def lookup(_host: str, _port: int) -> list[str]:
        raise error

    assert registration_fault(HOST, 443, lookup=lookup) is fault


def test_registration_judges_every_address_and_an_empty_answer() -> None:
    verdicts = [
        registration_fault(HOST, 443, lookup=partial(lambda answers, _host, _port: answers, answers))
        for answers in ([PUBLIC], [PUBLIC, "10.0.0.1"], list[str]())
    ]
    assert verdicts == [None, Fault.BLOCKED_ADDRESS, Fault.DNS_NO_DATA]


def test_a_look_up_that_hangs_ends_at_the_deadline_and_delays_nobody(
    make_sender: MakeSender, serve: Serve
) -> None:
    async def resolve(host: str, _port: int) -> list[str]:
        if host == "hangs.acme-test.com":
            await asyncio.sleep(3600)
        return [PUBLIC]

    with serve(answering(OK)) as endpoint:
        hung, good = make_sender(resolve=resolve).send(
            [a_request("https://hangs.acme-test.com/", timeout_seconds=SHORT), a_request(endpoint.url())]
        )
    assert (hung.fault, good.status_code) == (Fault.DNS_TEMPORARY, 200)
    assert 390 <= hung.latency_ms < 900
    assert good.latency_ms < 390


def test_requests_for_one_name_at_one_moment_share_a_look_up_but_no_connection(
    make_sender: MakeSender, serve: Serve
) -> None:
    resolve = ScriptedResolver()
    with serve(answering(OK)) as endpoint:
        requests = [a_request(endpoint.url(), endpoint_key=f"tnt_{n}") for n in range(5)]
        answers = make_sender(resolve=resolve).send(requests)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert (len(resolve.calls), endpoint.connections) == (1, 5)


def test_a_shared_look_up_outlives_the_first_deadline_that_waited_for_it(
    make_sender: MakeSender, serve: Serve
) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return await asyncio.sleep(SHORT / 2, [PUBLIC])

    with serve(answering(OK)) as endpoint:
        hasty, patient = make_sender(resolve=resolve).send(
            [a_request(endpoint.url(), timeout_seconds=SHORT / 8), a_request(endpoint.url())]
        )
    assert (hasty.fault, patient.status_code) == (Fault.DNS_TEMPORARY, 200)


@pytest.mark.parametrize(
    "error,fault",
    [
        (None, Fault.CLOSED_EARLY),
        (ssl.SSLEOFError(8, "certificate has expired"), Fault.CLOSED_EARLY),
        (ssl.SSLZeroReturnError(6, ""), Fault.CLOSED_EARLY),
        (ssl.SSLSyscallError(5, ""), Fault.RESET),
        (ssl.SSLError(1, ""), Fault.TLS_OTHER),
        (ConnectionResetError(), Fault.RESET),
        (BrokenPipeError(), Fault.RESET),
        (ConnectionRefusedError("timed out"), Fault.REFUSED),
        (OSError(errno.ETIMEDOUT, ""), Fault.TIMEOUT),
        (OSError(errno.EHOSTUNREACH, ""), Fault.UNREACHABLE),
        (OSError(errno.EPROTO, "connection refused"), Fault.OTHER),
        (ValueError(), Fault.OTHER),
    ],
    ids=repr,
)
def test_a_broken_connection_is_told_by_type_and_number_never_by_text(
    error: Exception | None, fault: Fault
) -> None:
    assert connection_fault(error) is fault


@pytest.mark.parametrize("local,fault", [("224.0.0.1", Fault.NO_ROUTE), ("127.0.0.1", Fault.REFUSED)])
def test_what_our_own_host_refuses_is_told_from_what_the_network_answers(
    make_sender: MakeSender, local: str, fault: Fault
) -> None:
    """TCP to a multicast address fails inside connect(), like a missing route; a closed port does not."""

    async def dial(_address: str, _port: int) -> socket.socket:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            closed_port: int = listener.getsockname()[1]
        return await httpx_transport.dial(local, closed_port)

    assert send(make_sender(dial=dial), f"https://{HOST}/").fault is fault


@pytest.mark.parametrize(
    "addresses,fault",
    [
        (["2606:4700::1"], Fault.UNREACHABLE),
        (["2606:4700::1", PUBLIC], Fault.NO_ROUTE),
        ([PUBLIC], Fault.NO_ROUTE),
    ],
    ids=str,
)
def test_an_endpoint_with_ipv6_alone_cannot_pass_for_a_fault_of_ours(
    make_sender: MakeSender, addresses: list[str], fault: Fault
) -> None:
    async def dial(_address: str, _port: int) -> socket.socket:
        raise AttemptFaultError(Fault.NO_ROUTE)

    sender = make_sender(resolve=ScriptedResolver(addresses), dial=dial)
    assert send(sender, f"https://{HOST}/").fault is fault


def test_a_connect_without_an_answer_is_cut_after_its_own_limit(
    monkeypatch: pytest.MonkeyPatch, make_sender: MakeSender
) -> None:
    async def dial(_address: str, _port: int) -> socket.socket:
        return await asyncio.sleep(3600, socket.socket())

    sender = make_sender(dial=dial)
    monkeypatch.setattr(sender._transport, "_connect_seconds", SHORT / 4)
    answer = send(sender, f"https://{HOST}/")
    assert (answer.fault, answer.latency_ms < 1000) == (Fault.CONNECT_TIMEOUT, True)


def test_a_local_stage_reaches_the_private_range_and_host_it_names(authority: Authority) -> None:
    sender = HttpxSender(
        allowed_private_cidrs=("127.0.0.0/8", "::1/128"),
        allowed_hosts=("localhost",),
        extra_ca_file=str(authority.file),
    )
    with serving(answering(OK), authority.server_context("localhost")) as endpoint:
        answer = send(sender, endpoint.url(host="localhost"))
    sender.close()
    assert answer.status_code == 200


def test_without_that_exception_the_real_resolver_and_dial_refuse_loopback(authority: Authority) -> None:
    sender = HttpxSender(allowed_hosts=("localhost",), extra_ca_file=str(authority.file))
    with serving(answering(OK), authority.server_context("localhost")) as endpoint:
        answer = send(sender, endpoint.url(host="localhost"))
    sender.close()
    assert (answer.fault, endpoint.connections) == (Fault.BLOCKED_ADDRESS, 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location,host",
    [
        ("http://169.254.169.254/latest/meta-data/?token=x", "169.254.169.254"),
        ("https://user:pw@Other.acme-test.com/x", "other.acme-test.com"),
        *(("/relative", None), ("https://[broken", None), ("http://a b\x80/", "a b\ufffd")),
    ],
)
def test_a_redirect_is_never_followed_and_only_its_host_is_kept(
    sender: HttpxSender, serve: Serve, status: int, location: str, host: str | None
) -> None:
    head = f"HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode("latin-1")
    with serve(answering(head)) as endpoint:
        answer = send(sender, endpoint.url())
    assert (answer.status_code, len(endpoint.requests)) == (status, 1)
    assert (answer.location_host or "").isprintable()
    assert host is None or "\ufffd" in host or answer.location_host == host
    assert classify(answer, preset_rules=GRADED) is Outcome.PERMANENT


def test_no_proxy_netrc_or_authority_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    serve: Serve,
    make_sender: MakeSender,
) -> None:
    (tmp_path / ".netrc").write_text(f"machine {HOST} login a password b\n")
    (tmp_path / "empty.pem").write_text("")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "empty.pem"))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with serve(answering(OK)) as endpoint:
        assert send(make_sender(), endpoint.url()).status_code == 200
    assert b"authorization" not in endpoint.requests[0].lower()


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    "certificate,fault",
    [
        ({"host": "other.acme-test.com"}, Fault.TLS_HOSTNAME),
        ({"ends_in": -DAY}, Fault.TLS_EXPIRED),
        ({"starts_in": DAY}, Fault.TLS_EXPIRED),
        ({"self_signed": True}, Fault.TLS_UNKNOWN_CA),
        ({"common_name_only": True}, Fault.TLS_HOSTNAME),
    ],
    ids=str,
)
def test_a_wrong_certificate_is_permanent_and_the_body_is_never_sent(
    sender: HttpxSender, authority: Authority, certificate: dict[str, Any], fault: Fault
) -> None:
    with serving(answering(OK), authority.server_context(**certificate)) as endpoint:
        answer = send(sender, endpoint.url())
    assert (answer.fault, endpoint.requests) == (fault, [])
    assert classify(answer, preset_rules=GRADED) is Outcome.PERMANENT
    assert classify(answer, preset_rules=STRICT) is Outcome.PERMANENT


def test_an_unknown_authority_is_permanent(sender: HttpxSender, directory: Path) -> None:
    stranger = Authority(directory, "stranger")
    with serving(answering(OK), stranger.server_context()) as endpoint:
        assert send(sender, endpoint.url()).fault is Fault.TLS_UNKNOWN_CA
    assert endpoint.requests == []


def test_one_bad_certificate_loosens_nothing_for_the_next_endpoint(
    sender: HttpxSender, authority: Authority, serve: Serve
) -> None:
    bad = authority.server_context("other.acme-test.com")
    with serve(answering(OK)) as good, serving(answering(OK), bad) as endpoint:
        answers = [send(sender, url) for url in (good.url(), endpoint.url(), good.url(), endpoint.url())]
    assert [answer.error for answer in answers] == [None, "tls_hostname", None, "tls_hostname"]


def test_a_chain_without_key_identifiers_passes_on_every_python(
    make_sender: MakeSender, directory: Path, authority: Authority, serve: Serve
) -> None:
    """Python 3.13's own default context refuses it (VERIFY_X509_STRICT): an upgrade must not suspend."""
    plain = Authority(directory, "plain authority", key_identifiers=False)

    def strictly(port: int, authority: Authority) -> None:
        context = ssl.create_default_context(cafile=str(authority.file))
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
        with socket.create_connection(("127.0.0.1", port)) as raw:
            context.wrap_socket(raw, server_hostname=HOST).close()

    with serving(answering(OK), plain.server_context()) as endpoint, serve(answering(OK)) as usual:
        strictly(usual.port, authority)
        with pytest.raises(ssl.SSLCertVerificationError):
            strictly(endpoint.port, plain)
        assert send(make_sender(extra_ca_file=str(plain.file)), endpoint.url()).status_code == 200


def test_tls_below_1_2_is_refused(sender: HttpxSender, authority: Authority) -> None:
    context = authority.server_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with serving(answering(OK), context) as endpoint:
        assert send(sender, endpoint.url()).fault is Fault.TLS_OTHER


def test_an_endpoint_that_does_not_speak_tls_is_never_spoken_to_in_the_clear(sender: HttpxSender) -> None:
    seen: list[bytes] = []

    def plain(visit: Visit) -> None:
        seen.append(visit.sock.recv(65536))
        visit.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with serving(plain, None) as endpoint:
        assert send(sender, endpoint.url()).fault is Fault.TLS_OTHER
    assert b"POST" not in seen[0]


def test_a_connection_cut_inside_the_handshake_is_no_tls_failure(sender: HttpxSender) -> None:
    faults = set()
    for end in (lambda visit: visit.sock.close(), Visit.reset):

        def cut(visit: Visit, end: Callable[[Visit], None] = end) -> None:
            visit.sock.recv(65536)
            end(visit)

        with serving(cut, None) as endpoint:
            faults.add(send(sender, endpoint.url()).fault)
    assert faults <= {Fault.RESET, Fault.CLOSED_EARLY}


# ── slow, large and broken answers ───────────────────────────────────────────────────────────────


def slow_header(visit: Visit) -> None:
    visit.request()
    visit.sock.sendall(b"HTTP/1.1 200 OK\r\n")
    visit.drip(b"X")


def slow_header_lines(visit: Visit) -> None:
    visit.request()
    visit.sock.sendall(b"HTTP/1.1 200 OK\r\n")
    visit.drip(b"X-A: b\r\n")


def informational_without_end(visit: Visit) -> None:
    visit.request()
    visit.drip(b"HTTP/1.1 100 Continue\r\n\r\n")


def silence(visit: Visit) -> None:
    visit.request()
    visit.stopped.wait(30)


def never_reads(visit: Visit) -> None:
    visit.stopped.wait(30)


def slow_body(visit: Visit) -> None:
    visit.request()
    visit.sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\nbegun")
    visit.drip(b".")


@pytest.mark.parametrize(
    "script,fault,body",
    [
        (slow_header, Fault.TIMEOUT, BODY),
        (slow_header_lines, Fault.TIMEOUT, BODY),
        (informational_without_end, Fault.ENDLESS_INFORMATIONAL, BODY),
        (silence, Fault.TIMEOUT, BODY),
        (never_reads, Fault.TIMEOUT, bytes(30_000_000)),
    ],
)
def test_a_peer_that_keeps_sending_a_little_is_cut_at_the_one_deadline(
    sender: HttpxSender, serve: Serve, script: Script, fault: Fault, body: bytes
) -> None:
    answer = exchanged(sender, serve, script, timeout_seconds=SHORT, body=body)
    assert answer.fault is fault
    assert classify(answer, preset_rules=GRADED) is Outcome.RETRYABLE
    assert 390 <= answer.latency_ms < 900


def test_a_handshake_that_never_ends_is_cut_at_the_one_deadline(sender: HttpxSender) -> None:
    def handshake_drip(visit: Visit) -> None:
        visit.drip(b"\x16")

    for script in (never_reads, handshake_drip):
        with serving(script, None) as endpoint:
            answer = send(sender, endpoint.url(), timeout_seconds=SHORT)
        assert answer.latency_ms < 900
        assert answer.fault in {Fault.TIMEOUT, Fault.TLS_OTHER}


def test_a_status_that_arrived_in_time_counts_though_the_body_does_not_end(
    sender: HttpxSender, serve: Serve
) -> None:
    answer = exchanged(sender, serve, slow_body, timeout_seconds=SHORT)
    assert answer.status_code == 200
    assert answer.excerpt.startswith("begun")
    assert 390 <= answer.latency_ms < 900


def test_ten_slow_endpoints_do_not_delay_a_healthy_one(sender: HttpxSender, serve: Serve) -> None:
    with serve(slow_header) as slow, serve(answering(OK)) as healthy:
        requests = [a_request(slow.url(), timeout_seconds=SHORT, endpoint_key=f"sub_{n}") for n in range(10)]
        *slow_answers, answer = sender.send([*requests, a_request(healthy.url())])
    assert {slow_answer.fault for slow_answer in slow_answers} == {Fault.TIMEOUT}
    assert (answer.status_code, answer.latency_ms < 390) == (200, True)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def flood(head: bytes, chunk: bytes) -> Script:
    def script(visit: Visit) -> None:
        visit.request()
        visit.sock.sendall(head)
        visit.drip(chunk, every_seconds=0)

    return script


@pytest.mark.parametrize(
    "script,status,fault",
    [
        (closing(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000 + b"\r\n\r\n"), None, Fault.HEADERS_TOO_LARGE),
        (flood(b"HTTP/1.1 200 OK\r\nX: ", b"a" * 10_000), None, Fault.HEADERS_TOO_LARGE),
        (flood(b"HTTP/1.1 200 OK\r\n", b"set-cookie: a=b\r\n" * 99), None, Fault.HEADERS_TOO_LARGE),
        (closing(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 101 + b"\r\n"), None, Fault.HEADERS_TOO_LARGE),
        (flood(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 99), None, Fault.ENDLESS_INFORMATIONAL),
        (flood(CHUNKED, b"4000\r\n" + b"a" * 0x4000 + b"\r\n"), 200, None),
        (flood(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n", b"a" * 10_000), 200, None),
        (flood(b"HTTP/1.1 500 No\r\n\r\n", b"a" * 10_000), 500, None),
        (flood(CHUNKED + b"1;", b"x" * 10_000), 200, None),
    ],
    ids=lambda value: getattr(value, "__qualname__", str(value)),
)  # fmt: skip
def test_an_answer_without_bounds_is_cut_at_ours(
    sender: HttpxSender, serve: Serve, script: Script, status: int | None, fault: Fault | None
) -> None:
    answer = exchanged(sender, serve, script)
    assert (answer.status_code, answer.fault) == (status, fault)
    assert len(answer.body) <= 16 * 1024
    assert len(answer.excerpt.encode()) <= 1024
    assert answer.latency_ms < 1000


def test_a_hundred_header_lines_and_the_last_byte_of_64_kib_are_still_read(
    sender: HttpxSender, serve: Serve
) -> None:
    lines = b"a: b\r\n" * 98 + b"c: " + b"d" * 60_000 + b"\r\nretry-after: 7\r\n"
    answer = exchanged(sender, serve, closing(b"HTTP/1.1 503 No\r\n" + lines + b"\r\n" + b"x" * 100_000))
    assert (answer.status_code, answer.retry_after, len(answer.body)) == (503, "7", 16 * 1024)


def test_a_compressed_body_is_never_expanded(sender: HttpxSender, serve: Serve) -> None:
    bomb = gzip.compress(bytes(50_000_000))[: 15 * 1024]
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(bomb)}\r\n\r\n".encode()
    answer = exchanged(sender, serve, answering(head + bomb))
    assert (answer.status_code, answer.body) == (200, bomb)


@pytest.mark.parametrize(
    "response",
    [
        *(b"HTTP/1.1 99 Low\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n"),
        *(b"\x00" * 99, b"220 smtp\r\n", b"HTTP/1.1 \xff\xfe OK\r\n\r\n", b"HTTP/1.1 200 OK\rX: 1\r\r"),
        *(b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 1e12\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    ],
)
def test_an_answer_that_is_no_http_is_malformed_and_retryable(
    sender: HttpxSender, serve: Serve, response: bytes
) -> None:
    answer = exchanged(sender, serve, closing(response))
    assert answer.fault is Fault.MALFORMED_RESPONSE
    assert classify(answer, preset_rules=GRADED) is Outcome.RETRYABLE


@pytest.mark.parametrize(
    "response,status,excerpt",
    [
        (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, ""),
        (b"HTTP/1.1 500 caf\xe9\r\nx: caf\xe9\r\n\r\n\x1b[2J\x00\xff", 500, "[2J\ufffd"),
        (b"HTTP/1.0 404 No\r\n\r\n</script>\r\n", 404, "</script>"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nzz", 200, "ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nretry-after: 9\r\n\r\n" + OK, 200, "ok"),
        (b"HTTP/1.1 204 None\r\n\r\n", 204, ""),
    ],
)
def test_an_odd_but_readable_answer_is_read(
    sender: HttpxSender, serve: Serve, response: bytes, status: int, excerpt: str
) -> None:
    answer = exchanged(sender, serve, closing(response))
    assert (answer.status_code, answer.excerpt, answer.retry_after) == (status, excerpt, None)


def test_a_status_then_a_reset_is_the_status(sender: HttpxSender, serve: Serve) -> None:
    def script(visit: Visit) -> None:
        visit.request()
        visit.sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab")
        visit.reset()

    assert exchanged(sender, serve, script).status_code == 200


def test_a_new_connection_that_ends_without_a_status_is_not_tried_again(
    sender: HttpxSender, serve: Serve
) -> None:
    def cut(visit: Visit) -> None:
        visit.request()
        visit.reset()

    with serve(cut) as endpoint:
        answer = send(sender, endpoint.url())
    assert answer.fault in {Fault.RESET, Fault.CLOSED_EARLY}
    assert endpoint.connections == 1


def test_an_excerpt_keeps_1_kib_of_a_failure_256_bytes_of_a_success_and_no_secret(
    sender: HttpxSender, serve: Serve
) -> None:
    def script(visit: Visit) -> None:
        for status in (200, 500):
            visit.request()
            body = b"key whsec_abcdefgh " + b"x" * 5000
            visit.sock.sendall(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))

    with serve(script) as endpoint:
        success, failure = (
            send(sender, endpoint.url(), secrets_to_hide=("whsec_abcdefgh",)) for _ in range(2)
        )
    assert (success.excerpt[:12], len(success.excerpt)) == ("key *** xxxx", 256)
    assert (failure.excerpt[:12], len(failure.excerpt)) == ("key *** xxxx", 1024)


def test_retry_after_comes_back_raw_and_two_of_them_are_joined(sender: HttpxSender, serve: Serve) -> None:
    def with_headers(lines: bytes) -> Answer:
        return exchanged(sender, serve, closing(b"HTTP/1.1 503 X\r\n" + lines + b"\r\n"))

    assert with_headers(b"Retry-After: 120\r\n").retry_after == "120"
    assert with_headers(b"retry-after: 1\r\nRETRY-AFTER: 2\r\n").retry_after == "1, 2"


@pytest.mark.parametrize("preset,rules", [("graded", GRADED), ("strict", STRICT)])
def test_every_status_of_the_table_comes_over_the_wire_as_its_outcome(
    sender: HttpxSender, serve: Serve, preset: str, rules: Any
) -> None:
    cases = [case for case in CLASSIFICATION if case["preset"] == preset and "status" in case["seen"]]
    cases = [case for case in cases if case["seen"]["status"] >= 200]
    responses = [b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n\r\n" % case["seen"]["status"] for case in cases]
    with serve(answering(*responses)) as endpoint:
        answers = [send(sender, endpoint.url()) for _ in cases]
    assert [classify(answer, preset_rules=rules) for answer in answers] == [case["outcome"] for case in cases]
    assert endpoint.connections == 1


# ── kept connections ─────────────────────────────────────────────────────────────────────────────


def test_requests_of_one_endpoint_share_a_kept_connection_over_calls(
    make_sender: MakeSender, serve: Serve
) -> None:
    resolve = ScriptedResolver()
    sender = make_sender(resolve=resolve)
    with serve(answering(OK)) as endpoint:
        answers = [send(sender, endpoint.url(f"/{n}")) for n in range(20)]
    assert {answer.status_code for answer in answers} == {200}
    assert (endpoint.connections, len(resolve.calls)) == (1, 1)


def test_at_most_ten_requests_are_in_flight_per_endpoint(sender: HttpxSender, serve: Serve) -> None:
    arrived, most = 0, 0
    lock = threading.Lock()
    full = threading.Barrier(10)

    def script(visit: Visit) -> None:
        nonlocal arrived, most
        while visit.request():
            with lock:
                arrived += 1
                most = max(most, arrived)
            full.wait(5)
            with lock:
                arrived -= 1
            full.wait(5)
            visit.sock.sendall(OK)

    with serve(script) as endpoint:
        answers = sender.send([a_request(endpoint.url(f"/{n}")) for n in range(30)])
    assert [answer.status_code for answer in answers] == [200] * 30
    assert (most, endpoint.connections) == (10, 10)


def test_two_endpoints_of_one_host_never_share_a_connection(sender: HttpxSender, serve: Serve) -> None:
    with serve(answering(OK)) as endpoint:
        for key in ("tnt_1#live#sub_1", "tnt_2#live#sub_2"):
            send(sender, endpoint.url(), endpoint_key=key)
    assert endpoint.connections == 2


def test_a_connection_is_not_used_over_a_minute_after_its_address_was_vetted(
    monkeypatch: pytest.MonkeyPatch, make_sender: MakeSender, serve: Serve
) -> None:
    """By either clock: a frozen function may see no time pass on one of them."""
    for name in ("time", "monotonic"):
        resolve = ScriptedResolver([PUBLIC], [PUBLIC], ["127.0.0.1"])
        sender = make_sender(resolve=resolve)
        real = getattr(time, name)
        with serve(answering(OK)) as endpoint:
            errors = []
            for moved in (0, 59, 61, 122):
                monkeypatch.setattr(time, name, lambda moved=moved, real=real: real() + moved)
                errors.append(send(sender, endpoint.url()).error)
        monkeypatch.undo()
        assert (errors, endpoint.connections) == ([None, None, None, "blocked_address"], 2)


@pytest.mark.parametrize("end", [lambda visit: visit.sock.close(), Visit.reset], ids=["closed", "reset"])
def test_a_kept_connection_that_died_is_replaced_once_and_that_is_no_attempt(
    sender: HttpxSender, serve: Serve, end: Callable[[Visit], None]
) -> None:
    def dies_on_the_second_request(visit: Visit) -> None:
        visit.request()
        visit.sock.sendall(OK)
        if visit.request() and visit.number > 1:
            visit.sock.sendall(OK)
        end(visit)

    with serve(dies_on_the_second_request) as endpoint:
        answers = [send(sender, endpoint.url(f"/{n}")) for n in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert endpoint.connections == 2


def test_a_replacement_that_dies_as_well_is_the_endpoints_fault(sender: HttpxSender, serve: Serve) -> None:
    def script(visit: Visit) -> None:
        visit.request()
        if visit.number == 1:
            visit.sock.sendall(OK)
            visit.request()

    with serve(script) as endpoint:
        answers = [send(sender, endpoint.url()) for _ in range(2)]
    assert [answer.error for answer in answers] == [None, "closed_early"]
    assert endpoint.connections == 2


def test_a_kept_connection_that_times_out_or_began_to_answer_is_not_replaced(
    sender: HttpxSender, serve: Serve
) -> None:
    for last in (b"", b"HTTP/1.1 2"):

        def script(visit: Visit, last: bytes = last) -> None:
            visit.request()
            visit.sock.sendall(OK)
            visit.request()
            visit.sock.sendall(last) if last else visit.stopped.wait(30)

        with serve(script) as endpoint:
            first = send(sender, endpoint.url())
            second = send(sender, endpoint.url(), timeout_seconds=SHORT)
        assert (first.error, second.fault) == (None, Fault.CLOSED_EARLY if last else Fault.TIMEOUT)
        assert endpoint.connections == 1


@pytest.mark.parametrize(
    "extra", [OK.replace(b"200", b"500"), b"garbage", b"\x00"], ids=["response", "garbage", "byte"]
)
def test_what_comes_after_an_answer_is_never_taken_for_the_next_ones(
    sender: HttpxSender, serve: Serve, extra: bytes
) -> None:
    with serve(answering(OK + extra)) as endpoint:
        answers = [send(sender, endpoint.url()) for _ in range(3)]
    assert [(answer.status_code, answer.excerpt) for answer in answers] == [(200, "ok")] * 3
    assert endpoint.connections == 3


def test_an_answer_sent_ahead_on_an_idle_connection_closes_it(sender: HttpxSender, serve: Serve) -> None:
    answered, sent_ahead = threading.Event(), threading.Event()

    def script(visit: Visit) -> None:
        visit.request()
        visit.sock.sendall(OK)
        if visit.number == 1:
            answered.wait(5)
            visit.sock.sendall(OK.replace(b"200 OK", b"500 No"))
            sent_ahead.set()
        while visit.request():
            visit.sock.sendall(OK)

    with serve(script) as endpoint:
        send(sender, endpoint.url())
        answered.set()
        assert sent_ahead.wait(5)
        assert send(sender, endpoint.url()).status_code == 200
    assert endpoint.connections == 2


def test_a_connection_is_not_kept_where_the_endpoint_says_close(sender: HttpxSender, serve: Serve) -> None:
    response = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    with serve(answering(response)) as endpoint:
        for _ in range(2):
            assert send(sender, endpoint.url()).status_code == 200
    assert endpoint.connections == 2


def test_a_cookie_is_never_sent_back(sender: HttpxSender, serve: Serve) -> None:
    response = b"HTTP/1.1 200 OK\r\nset-cookie: session=1; path=/\r\ncontent-length: 0\r\n\r\n"
    with serve(answering(response)) as endpoint:
        for _ in range(2):
            send(sender, endpoint.url())
    assert not any(b"cookie" in request.lower() for request in endpoint.requests)


def test_idle_connections_are_bounded(
    monkeypatch: pytest.MonkeyPatch, sender: HttpxSender, serve: Serve
) -> None:
    monkeypatch.setattr(sender._transport._idle, "_limit", 3)
    with serve(answering(OK)) as endpoint:
        for _ in range(2):
            sender.send([a_request(endpoint.url(), endpoint_key=f"sub_{n}") for n in range(8)])
    assert endpoint.connections == 8 + 5


# ── the batch ────────────────────────────────────────────────────────────────────────────────────


def test_answers_come_in_order_and_every_fault_is_its_own_requests(
    make_sender: MakeSender, serve: Serve
) -> None:
    async def resolve(host: str, _port: int) -> list[str]:
        if host.startswith("gone"):
            raise socket.gaierror(socket.EAI_NONAME, "")
        if host.startswith("bug"):
            raise ZeroDivisionError
        return [PUBLIC]

    with serve(answering(OK)) as endpoint, serve(closing(b"HTTP/1.1 500 No\r\n\r\n")) as broken:
        answers = make_sender(resolve=resolve).send(
            [
                a_request(endpoint.url()),
                a_request("https://gone.acme-test.com/"),
                a_request(broken.url(), endpoint_key="sub_2"),
                a_request("https://bug.acme-test.com/"),
                a_request("https://xn--/"),
                a_request(endpoint.url("/last")),
            ]
        )
    assert [answer.error for answer in answers] == [
        *(None, "dns_not_found", "http_500", "other", "invalid_config", None)
    ]
    assert answers[3].operator_note == "ZeroDivisionError"


def test_an_empty_batch_is_no_work(sender: HttpxSender) -> None:
    assert list(sender.send([])) == []


def test_a_request_that_could_not_end_in_time_is_not_begun_and_is_our_own_fault(
    sender: HttpxSender, serve: Serve
) -> None:
    with serve(answering(OK)) as endpoint:
        short = a_request(endpoint.url(), timeout_seconds=1.0)
        long = a_request(endpoint.url(), timeout_seconds=15.0)
        answers = sender.send([short, long, short], stop_at_seconds=3.0)
    assert [answer.error for answer in answers] == [None, "out_of_time", None]
    assert len(endpoint.requests) == 2


def test_requests_that_waited_for_their_place_too_long_are_handed_back(
    sender: HttpxSender, serve: Serve
) -> None:
    with serve(silence) as endpoint:
        requests = [a_request(endpoint.url(), timeout_seconds=SHORT) for _ in range(25)]
        answers = sender.send(requests, stop_at_seconds=SHORT + 0.6)
    assert [answer.fault for answer in answers] == [Fault.TIMEOUT] * 10 + [Fault.OUT_OF_TIME] * 15


def test_a_slow_endpoint_keeps_its_batch_for_one_round_of_requests_and_no_more(
    sender: HttpxSender, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpx_sender, "PLACE_PATIENCE_SECONDS", SHORT / 2)
    with serve(silence) as endpoint:
        started = time.monotonic()
        requests = [a_request(endpoint.url(), timeout_seconds=SHORT) for _ in range(25)]
        answers = sender.send(requests)
        took = time.monotonic() - started
    assert [answer.fault for answer in answers] == [Fault.TIMEOUT] * 10 + [Fault.NO_PLACE] * 15
    assert took < 2 * SHORT


def test_a_batch_of_slow_but_sound_endpoints_takes_no_longer_than_one(
    sender: HttpxSender, serve: Serve
) -> None:
    def script(visit: Visit) -> None:
        while visit.request():
            visit.stopped.wait(0.2)
            visit.sock.sendall(OK)

    with serve(script) as endpoint:
        started = time.monotonic()
        answers = sender.send([a_request(endpoint.url(), endpoint_key=f"sub_{n % 5}") for n in range(25)])
        took = time.monotonic() - started
    assert {answer.status_code for answer in answers} == {200}
    assert took < 1.0


def test_nothing_is_logged_of_urls_bodies_or_headers(
    sender: HttpxSender, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with serve(answering(OK)) as endpoint:
        send(sender, endpoint.url("/in?token=planted"), headers=(("x-key", "planted"),), body=b"planted")
    assert "planted" not in caplog.text


def test_a_request_and_its_answer_do_not_show_what_they_carry() -> None:
    shown = repr(a_request(f"https://{HOST}/", body=b"planted", headers=(("a", "planted"),)))
    assert "planted" not in shown + repr(Answer(status_code=200, body=b"planted"))
