"""The TLS context of every request to an endpoint, with flags of our own.

Python's defaults change between versions (3.13 refuses chains without an Authority Key Identifier), and a
runtime upgrade must not suspend customers. No environment variable is read.
"""

import functools
import ssl
from pathlib import Path

import certifi

CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:DHE+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""CPython's own list since 3.10, pinned here."""


@functools.cache
def tls_context(*, extra_ca_file: str | None = None) -> ssl.SSLContext:
    """TLS 1.2 and up, certifi's authorities, the host checked against subjectAltName alone.

    `extra_ca_file` is a PEM file of further authorities, for a local stage. Built once per process (some
    20 ms, nearly all of it certifi's file); nobody changes it afterwards.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags = ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST
    context.hostname_checks_common_name = False
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cafile=certifi.where())
    if extra_ca_file is not None:
        context.load_verify_locations(cafile=Path(extra_ca_file))
    return context
