"""A self-signed certificate, made in memory when a TLS client meets a server that has no certificate file.

It lets encrypted connections work out of the box, as at Apache's servers in their test mode. It proves nothing about
who the server is: a client that checks certificates will refuse it.
"""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["self_signed_context", "self_signed_pem"]

VALID_DAYS = 3650
_CLOCK_SKEW = timedelta(days=1)  # a client whose clock is behind must not meet a certificate from the future


def self_signed_pem(*, now_ms: int, name: str = "skyrocketmq") -> bytes:
    """A new private key and its certificate, one after the other, as PEM."""
    # Imported here: most processes never come this far, and the import costs more than everything else together.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())  # about a millisecond; an RSA key would stop the loop for a hundred
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem + certificate.public_bytes(serialization.Encoding.PEM)


def self_signed_context(*, now_ms: int) -> ssl.SSLContext:
    """A server context with a certificate made now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # `ssl` takes certificates from files only. This one is readable by its owner alone, and gone a moment later.
    with tempfile.TemporaryDirectory(prefix="skyrocketmq-tls-") as directory:
        path = Path(directory) / "self-signed.pem"
        path.write_bytes(self_signed_pem(now_ms=now_ms))
        context.load_cert_chain(path)
    return context
