"""TLS on the port of the plain protocol: the first byte of a connection decides.

0x16 begins a TLS hello. A plain frame that began with it would be larger than any frame may be, so there is no doubt.
TLS then runs inside the connection, between the socket's bytes and the frames, as bytes in and bytes out
(`ssl.MemoryBIO`): nothing here knows a socket or a loop.

| mode | plain connection | TLS connection |
|---|---|---|
| disabled | served | closed |
| permissive | served | served |
| enforcing | closed | served |
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skyrocketmq.config import ClientAuth, TlsMode
from skyrocketmq.errors import ConfigError
from skyrocketmq.net.certificates import self_signed_context

__all__ = ["TLS_HELLO_BYTE", "ClientAuth", "ClientTls", "ServerTls", "TlsMode", "TlsSession"]

TLS_HELLO_BYTE = 0x16
_RECORD_BYTES_MAX = 65_536  # more than a TLS record can hold: one read takes one whole record


@dataclass(kw_only=True)
class ServerTls:
    """A server's side of TLS. Without a certificate file it makes a self-signed one when the first TLS client comes.

    `client_auth` needs `trust_path`, the certificates that sign the clients'. Files are read by `load`, which the
    server calls at its start, so that a wrong path is found then; calling it again takes up changed files for new
    connections.
    """

    mode: TlsMode = TlsMode.PERMISSIVE
    certificate_path: Path | None = None
    key_path: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    client_auth: ClientAuth = ClientAuth.NONE
    trust_path: Path | None = None
    _context: ssl.SSLContext | None = field(default=None, repr=False)

    def load(self) -> None:
        """Read the files, if there are any; raise `ConfigError` if they cannot be used."""
        if self.mode is TlsMode.DISABLED:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self.certificate_path is None:
            self._ask_clients(context)  # only to find a wrong file now, and not when the first TLS client comes
            return
        load_certificate(context, self.certificate_path, self.key_path, self.key_password)
        self._ask_clients(context)
        self._context = context

    def context(self, *, now_ms: int) -> ssl.SSLContext:
        """What a new connection uses; makes the self-signed certificate if it comes to that."""
        if self._context is None:
            self._context = self_signed_context(now_ms=now_ms)
            self._ask_clients(self._context)
        return self._context

    def _ask_clients(self, context: ssl.SSLContext) -> None:
        if self.client_auth is ClientAuth.NONE:
            return
        if self.trust_path is None:
            raise ConfigError(
                f"client certificates are set to {self.client_auth.value}, but no file says which to trust: "
                "set tls.server.trustCertPath, or tls.server.need.client.auth=none"
            )
        load_trust(context, self.trust_path)
        required = self.client_auth is ClientAuth.REQUIRE
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL


@dataclass(kw_only=True)
class ClientTls:
    """A client's side of TLS. The server's certificate must be signed by one in `trust_path` (the system's without one)
    and be made out to the host that is dialled: brokers are dialled by the addresses they register, mostly numbers,
    which their certificates then have to name. `check_hostname=False` leaves that out, as Apache's clients do.

    `verify=False` trusts any server: for tests, and for servers that make their certificate themselves. It can be
    pickled: the copy reads the files anew.
    """

    verify: bool = True
    trust_path: Path | None = None
    check_hostname: bool = True
    certificate_path: Path | None = None
    key_path: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    _context: ssl.SSLContext | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_context": None}

    def context(self) -> ssl.SSLContext:
        """What connections use; made once. Raises `ConfigError` if a file cannot be used."""
        if self._context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = self.verify and self.check_hostname
            context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
            if self.verify and self.trust_path is None:
                context.load_default_certs()
            elif self.trust_path is not None:
                load_trust(context, self.trust_path)
            if self.certificate_path is not None:
                load_certificate(context, self.certificate_path, self.key_path, self.key_password)
            self._context = context
        return self._context


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None, password: str | None) -> None:
    def ask() -> str:  # without this OpenSSL would ask for a password on the terminal, and a server would hang there
        return password or ""

    try:
        context.load_cert_chain(certificate, key, ask)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the TLS certificate {certificate} with key {key or certificate}: {error}") from error


def load_trust(context: ssl.SSLContext, trust: Path) -> None:
    try:
        context.load_verify_locations(trust)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the trusted TLS certificates {trust}: {error}") from error


class TlsSession:
    """One connection's TLS: encrypted bytes in, plain bytes out, and back. Raises `ssl.SSLError` for a bad peer."""

    __slots__ = ("_incoming", "_outgoing", "_ssl", "is_ended", "is_open")

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, hostname: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=hostname)
        self.is_open = False  # the handshake is done
        self.is_ended = False  # the peer has said that it will send no more

    @property
    def version(self) -> str | None:
        return self._ssl.version()

    def receive(self, data: bytes) -> bytes:
        """The plain bytes in `data`. Whatever happens, send `take_output` afterwards: answers, tickets and alerts."""
        if data:
            self._incoming.write(data)
        if not self.is_open:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self.is_open = True
        parts = []
        try:
            while part := self._ssl.read(_RECORD_BYTES_MAX):
                parts.append(part)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seal(self, parts: Sequence[bytes | memoryview]) -> bytes:
        """The encrypted form of `parts`, one record after another. Small parts share records."""
        self._ssl.write(parts[0] if len(parts) == 1 else b"".join(parts))
        return self._outgoing.read()

    def take_output(self) -> bytes:
        return self._outgoing.read()

    def close(self) -> bytes:
        """The bytes that tell the peer goodbye."""
        try:
            if self.is_open:
                self._ssl.unwrap()
        except ssl.SSLError:
            pass  # it waits for the peer's goodbye, and we do not
        return self._outgoing.read()
