"""What went wrong on the way to an endpoint, told by exception type, errno and code, never by text."""

import errno
import socket
import ssl

from hookkeeper.domain.errors import HookkeeperError
from hookkeeper.domain.outcome import Fault


class AttemptFaultError(HookkeeperError):
    """The request got no answer; `note` is for operators and may name an address."""

    def __init__(self, fault: Fault, note: str = "") -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.note = note


NO_ROUTE_ERRNOS = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})

_LOOKUP = {
    socket.EAI_NONAME: Fault.DNS_NOT_FOUND,
    socket.EAI_NODATA: Fault.DNS_NO_DATA,
    socket.EAI_ADDRFAMILY: Fault.DNS_NO_DATA,
    socket.EAI_AGAIN: Fault.DNS_TEMPORARY,
}

_CERT_NOT_YET_VALID, _CERT_HAS_EXPIRED = 9, 10
_SELF_SIGNED_LEAF, _SELF_SIGNED_ROOT, _NO_LOCAL_ISSUER, _NO_LEAF_SIGNATURE, _NO_ISSUER = 18, 19, 20, 21, 2
_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_VERIFICATION = {
    _CERT_NOT_YET_VALID: Fault.TLS_EXPIRED,
    _CERT_HAS_EXPIRED: Fault.TLS_EXPIRED,
    _SELF_SIGNED_LEAF: Fault.TLS_UNKNOWN_CA,
    _SELF_SIGNED_ROOT: Fault.TLS_UNKNOWN_CA,
    _NO_LOCAL_ISSUER: Fault.TLS_UNKNOWN_CA,
    _NO_LEAF_SIGNATURE: Fault.TLS_UNKNOWN_CA,
    _NO_ISSUER: Fault.TLS_UNKNOWN_CA,
    _HOSTNAME_MISMATCH: Fault.TLS_HOSTNAME,
    _ADDRESS_MISMATCH: Fault.TLS_HOSTNAME,
}
"""OpenSSL's X509_V_ERR_* numbers (x509_vfy.h)."""


def lookup_fault(error: OSError) -> Fault:
    """A failed getaddrinfo; whatever is no answer of the DNS means that our resolver cannot be reached."""
    return _LOOKUP.get(error.errno or 0, Fault.RESOLVER_UNREACHABLE)


def connection_fault(error: Exception | None) -> Fault:
    """How a connection failed or ended: made, in its TLS handshake, or in use (None: closed by the peer)."""
    match error:
        case ssl.SSLCertVerificationError():
            return _VERIFICATION.get(error.verify_code, Fault.TLS_OTHER)
        case None | ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return Fault.CLOSED_EARLY
        case ssl.SSLSyscallError() | ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            return Fault.RESET
        case ssl.SSLError():
            return Fault.TLS_OTHER
        case ConnectionRefusedError():
            return Fault.REFUSED
        case TimeoutError():
            return Fault.TIMEOUT
        case OSError() if error.errno in NO_ROUTE_ERRNOS:
            return Fault.UNREACHABLE
    return Fault.OTHER
