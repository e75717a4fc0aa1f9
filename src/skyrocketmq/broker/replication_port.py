"""The replication port as it is configured: who may copy the log there, and whether it travels inside TLS.

The rules are `ha.admission`'s; here the operator's keys, the accounts and the white list become what it asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.access import AccountBook
from skyrocketmq.access.addresses import parse_addresses
from skyrocketmq.config import BrokerConfig, TlsMode
from skyrocketmq.errors import ConfigError
from skyrocketmq.ha.admission import Admission
from skyrocketmq.ha.slave import SlaveAccount
from skyrocketmq.net.configured import client_tls
from skyrocketmq.net.tls import ClientTls, ServerTls

__all__ = ["ReplicationPort", "replication_port", "slave_account", "slave_tls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPort:
    """A master's side."""

    admission: Admission
    slave_count_max: int
    tls_mode: TlsMode
    tls: ServerTls


def replication_port(config: BrokerConfig, book: AccountBook | None, tls: ServerTls) -> ReplicationPort:
    """`book` is None where there are no accounts; `tls` is the broker's own. Raises `ConfigError`."""
    port = config.replication_port
    mode = port.tls_mode or config.tls.server_mode
    if mode is not TlsMode.DISABLED and config.tls.server_mode is TlsMode.DISABLED:
        raise ConfigError(f"haTlsMode={mode.value} needs TLS: set tls.server.mode, which is disabled, to permissive")
    if port.signature_required and book is None and not config.access_key:
        raise ConfigError(
            "haSignatureRequired=true, and nobody could sign: set brokerAccessKey and brokerSecretKey, the same at "
            "master and slaves, or aclEnable"
        )
    return ReplicationPort(
        admission=_admission(config, book), slave_count_max=port.slave_count_max, tls_mode=mode, tls=tls
    )


def _admission(config: BrokerConfig, book: AccountBook | None) -> Admission:
    port = config.replication_port
    is_listed = parse_addresses(port.slave_addresses)

    def is_allowed(address: bytes) -> bool:
        if port.slave_addresses:
            return is_listed(address)
        return book is None or book.table.is_white(address)

    def find_secret(access_key: str) -> str | None:
        if access_key == config.access_key:
            return config.secret_key or None
        account = None if book is None else book.table.accounts.get(access_key)
        return account.secret_key if account is not None and account.is_admin else None

    return Admission(
        broker_name=config.broker_name,
        is_allowed=is_allowed,
        find_secret=find_secret,
        can_check=lambda: book is not None or bool(config.access_key),
        is_signature_required=port.signature_required,
    )


def slave_account(config: BrokerConfig) -> SlaveAccount | None:
    """What a slave shows of itself; None if it has no account."""
    if not config.access_key:
        return None
    return SlaveAccount(access_key=config.access_key, secret_key=config.secret_key, broker_name=config.broker_name)


def slave_tls(config: BrokerConfig) -> ClientTls | None:
    """How a slave copies the log: like its requests to the master, unless the key says otherwise."""
    use_tls = config.replication_port.use_tls
    return client_tls(config.tls) if (config.client.use_tls if use_tls is None else use_tls) else None
