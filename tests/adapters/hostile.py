"""Endpoints that misbehave on purpose: raw TLS sockets on loopback under an authority of their own."""

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "hooks.acme-test.com"
PUBLIC = "93.184.216.34"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Authority:
    """A certificate authority that issues right and wrong certificates into one directory."""

    def __init__(
        self, directory: Path, name: str = "test authority", *, key_identifiers: bool = True
    ) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._key_identifiers = key_identifiers
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_SIGNS_CERTIFICATES, critical=True)
        self.file = directory / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def server_context(
        self,
        host: str = HOST,
        *,
        starts_in: dt.timedelta = dt.timedelta(days=-2),
        ends_in: dt.timedelta = dt.timedelta(days=2),
        common_name_only: bool = False,
        self_signed: bool = False,
    ) -> ssl.SSLContext:
        """A server's TLS context whose certificate names `host`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(host)
        issuer, signer = (subject, key) if self_signed else (self._name, self._key)
        now = dt.datetime.now(dt.UTC)
        builder = self._builder(subject, key.public_key(), issuer=issuer, issuer_key=signer.public_key())
        builder = builder.not_valid_before(now + starts_in).not_valid_after(now + ends_in)
        if not common_name_only:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        file = self._directory / f"{x509.random_serial_number()}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + _pem(builder.sign(signer, hashes.SHA256())))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _builder(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        *,
        issuer: x509.Name | None = None,
        issuer_key: ec.EllipticCurvePublicKey | None = None,
    ) -> x509.CertificateBuilder:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
        )
        if issuer is None:
            now = dt.datetime.now(dt.UTC)
            builder = builder.not_valid_before(now - dt.timedelta(days=3))
            builder = builder.not_valid_after(now + dt.timedelta(days=3))
        if self._key_identifiers:
            builder = builder.add_extension(
                x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
            ).add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key or public_key), critical=False
            )
        return builder


_SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass
class Visit:
    """One connection that a script serves. `stopped` is set when the test is over."""

    sock: socket.socket
    number: int
    stopped: threading.Event
    requests: list[bytes]

    def request(self) -> bytes:
        """The next whole request, or b"" when the client has gone."""
        raw = b""
        while b"\r\n\r\n" not in raw:
            data = self.sock.recv(65536)
            if not data:
                return b""
            raw += data
        head, _, body = raw.partition(b"\r\n\r\n")
        lengths = [
            line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-len")
        ]
        while len(body) < int(lengths[0]):
            data = self.sock.recv(65536)
            if not data:
                return b""
            body += data
            raw += data
        self.requests.append(raw)
        return raw

    def drip(self, chunk: bytes, every_seconds: float = 0.05) -> None:
        """The chunk over and over until the client goes away."""
        while not self.stopped.wait(every_seconds):
            self.sock.sendall(chunk)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.sock.close()


Script = Callable[[Visit], None]


@dataclass
class Endpoint:
    """A listening server and what it has seen."""

    port: int
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """The server names (SNI) that clients asked for."""

    def url(self, target: str = "/in", host: str = HOST) -> str:
        return f"https://{host}:{self.port}{target}"


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None) -> Iterator[Endpoint]:
    """Serve every connection by the script, each in its own thread; without `tls` the socket stays plain."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    endpoint = Endpoint(listener.getsockname()[1])
    stopped = threading.Event()
    opened: list[socket.socket] = []
    if tls is not None:
        tls.sni_callback = lambda _sock, name, _context: endpoint.names.append(name)

    def serve(raw: socket.socket, number: int) -> None:
        with suppress(OSError):
            sock = tls.wrap_socket(raw, server_side=True) if tls is not None else raw
            opened.append(sock)
            with sock:
                script(Visit(sock, number, stopped, endpoint.requests))

    def accept() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            endpoint.connections += 1
            opened.append(raw)
            threading.Thread(target=serve, args=(raw, endpoint.connections), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield endpoint
    finally:
        stopped.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for sock in opened:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def answering(*responses: bytes) -> Script:
    """Answers each request of a connection with the next response, the last one for ever."""

    def script(visit: Visit) -> None:
        turn = 0
        while visit.request():
            visit.sock.sendall(responses[min(turn, len(responses) - 1)])
            turn += 1

    return script


def closing(response: bytes) -> Script:
    """Answers one request and closes the connection."""

    def script(visit: Visit) -> None:
        visit.request()
        visit.sock.sendall(response)

    return script


class ScriptedResolver:
    """Answers call by call, the last answer for ever; an exception is raised. Counts its calls."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self._answers = answers or ([PUBLIC],)
        self.calls: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        answer = self._answers[min(len(self.calls), len(self._answers) - 1)]
        self.calls.append(host)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Switchboard:
    """A dial that notes the address asked for and connects to loopback, whatever it was."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    async def __call__(self, address: str, port: int) -> socket.socket:
        self.dialled.append(address)
        sock = socket.create_connection(("127.0.0.1", port))
        sock.settimeout(0)
        return sock
