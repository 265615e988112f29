"""A certificate authority of one checkout, and certificates for `localhost` that its receivers show."""

import datetime as dt
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFE = dt.timedelta(days=3650)
CERTIFICATE_LIFE = dt.timedelta(days=90)
_SKEW = dt.timedelta(minutes=5)

_NO_USAGE = {
    "digital_signature": False,
    "content_commitment": False,
    "key_encipherment": False,
    "data_encipherment": False,
    "key_agreement": False,
    "key_cert_sign": False,
    "crl_sign": False,
    "encipher_only": False,
    "decipher_only": False,
}


def ensure_authority(certificate: Path, key: Path) -> None:
    """Make the authority once; its files stay as they are afterwards."""
    if certificate.exists() and key.exists():
        return
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Hookkeeper local authority")])
    made = (
        _builder(name, name, secret.public_key(), secret.public_key(), CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"key_cert_sign": True, "crl_sign": True}), critical=True)
        .sign(secret, hashes.SHA256())
    )
    key.touch(mode=0o600)
    key.write_bytes(_pem(secret))
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))


def server_context(certificate: Path, key: Path, host: str = "localhost") -> ssl.SSLContext:
    """A server's TLS context with a fresh certificate for the host."""
    authority = x509.load_pem_x509_certificate(certificate.read_bytes())
    authority_key = serialization.load_pem_private_key(key.read_bytes(), password=None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{key} holds no key of ours")
    secret = ec.generate_private_key(ec.SECP256R1())
    issued = (
        _builder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]),
            authority.subject,
            secret.public_key(),
            authority_key.public_key(),
            CERTIFICATE_LIFE,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return _loaded(issued.public_bytes(serialization.Encoding.PEM) + _pem(secret))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    life: dt.timedelta,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _pem(secret: ec.EllipticCurvePrivateKey) -> bytes:
    return secret.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _loaded(chain_and_key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "server.pem")
        file.write_bytes(chain_and_key)
        context.load_cert_chain(file)
    return context
