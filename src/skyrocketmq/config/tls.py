"""The TLS keys. At Apache they are system properties of the Java process; here they are keys like any other.

They may stand in `tls.properties` (`tls.config.file`), in the server's own file, in the environment
(`TLS_SERVER_MODE=enforcing`) or after `--set`; the later of these wins.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from skyrocketmq.config.fields import Section, conf
from skyrocketmq.errors import ConfigError

__all__ = ["DEFAULT_TLS_FILE", "ClientAuth", "TlsConfig", "TlsMode"]

DEFAULT_TLS_FILE = Path("/etc/rocketmq/tls.properties")


class TlsMode(StrEnum):
    """What a server makes of a connection that begins with a TLS hello, and of one that does not."""

    DISABLED = "disabled"  # TLS is refused
    PERMISSIVE = "permissive"  # both, on the same port
    ENFORCING = "enforcing"  # plain connections are refused


class ClientAuth(StrEnum):
    """Whether a server asks its clients for a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"

    @classmethod
    def _missing_(cls, value: object) -> ClientAuth | None:
        lowered = str(value).lower()  # Apache takes any case here, unlike for the mode
        return next((member for member in cls if member.value == lowered), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsConfig(Section, title="TLS"):
    """Certificates, keys and modes of both sides; paths name PEM files."""

    server_mode: TlsMode = conf(
        "tls.server.mode",
        default=TlsMode.PERMISSIVE,
        doc="disabled, permissive (TLS and plain on one port) or enforcing",
    )
    enable: bool = conf("tls.enable", default=False, doc="TLS for connections that are opened from here")
    config_file: Path = conf(
        "tls.config.file", default=DEFAULT_TLS_FILE, doc="properties file with the tls keys; read if it exists"
    )
    test_mode: bool = conf(
        "tls.test.mode.enable",
        default=True,
        doc="Apache's word for a certificate made at start; here that is so unless tls.server.certPath names one, and "
        "no other key is undone",
    )
    server_key_path: Path | None = conf("tls.server.keyPath", default=None, doc="private key of the server")
    server_key_password: str | None = conf(
        "tls.server.keyPassword", default=None, doc="password of that key", secret=True
    )
    server_cert_path: Path | None = conf("tls.server.certPath", default=None, doc="certificate chain of the server")
    server_auth_client: bool = conf(
        "tls.server.authClient", default=False, doc="check a client's certificate against the trusted ones"
    )
    server_trust_cert_path: Path | None = conf(
        "tls.server.trustCertPath", default=None, doc="certificates that vouch for clients"
    )
    server_need_client_auth: ClientAuth = conf(
        "tls.server.need.client.auth",
        default=ClientAuth.NONE,
        doc="whether a client must show a certificate: none, optional or require",
    )
    client_key_path: Path | None = conf("tls.client.keyPath", default=None, doc="private key of the client side")
    client_key_password: str | None = conf(
        "tls.client.keyPassword", default=None, doc="password of that key", secret=True
    )
    client_cert_path: Path | None = conf(
        "tls.client.certPath", default=None, doc="certificate chain of the client side"
    )
    client_auth_server: bool = conf(
        "tls.client.authServer", default=False, doc="check the server's certificate against the trusted ones"
    )
    client_check_hostname: bool = conf(
        "tls.client.checkHostname",
        default=True,
        doc="ours: with authServer, the certificate must be made out to the host or address that is dialled",
    )
    client_trust_cert_path: Path | None = conf(
        "tls.client.trustCertPath", default=None, doc="certificates that vouch for servers"
    )

    def settled(self, given: Collection[str]) -> tuple[TlsConfig, tuple[str, ...]]:
        """What an operator may think is checked, and is not; see `Section.settled`."""
        if self.server_key_path is not None and self.server_cert_path is None:
            raise ConfigError("tls.server.keyPath is set and tls.server.certPath is not: a key needs its certificate")
        if self.client_key_path is not None and self.client_cert_path is None:
            raise ConfigError("tls.client.keyPath is set and tls.client.certPath is not: a key needs its certificate")
        warnings = []
        asks = self.server_need_client_auth is ClientAuth.REQUIRE
        if asks and self.server_mode is not TlsMode.ENFORCING:
            warnings.append(
                f"tls.server.need.client.auth = require asks TLS clients, and tls.server.mode = {self.server_mode} "
                "serves others too, which show no certificate: set tls.server.mode = enforcing"
            )
        if self.client_trust_cert_path is not None and not self.client_auth_server:
            warnings.append(
                "tls.client.trustCertPath has no effect while tls.client.authServer is false: set it to true"
            )
        named = (self.server_cert_path, self.server_trust_cert_path, self.client_cert_path, self.client_trust_cert_path)
        if "tls.test.mode.enable" in given and self.test_mode and (any(named) or asks or self.client_auth_server):
            warnings.append(
                "tls.test.mode.enable = true is ignored, because other keys say what is checked: take it out"
            )
        return self, tuple(warnings)
