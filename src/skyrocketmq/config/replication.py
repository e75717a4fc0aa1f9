"""The keys of the replication port: who may copy the log, and how it travels. All are ours: Apache's asks nobody."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.config.fields import Section, conf
from skyrocketmq.config.tls import TlsMode

__all__ = ["ReplicationPortConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationPortConfig(Section, title="Replication port"):
    """A slave that is let in gets every message of the broker, and on a SYNC_MASTER says what is safe."""

    slave_addresses: str = conf(
        "haSlaveAddresses",
        default="",
        doc="ours: addresses of slaves that need no signature, as in a white list; without them the white list's with "
        "aclEnable, else all",
        reserved=True,
    )
    signature_required: bool = conf(
        "haSignatureRequired",
        default=False,
        doc="ours: a slave must sign (brokerAccessKey), wherever it comes from; Apache's slaves cannot",
        reserved=True,
    )
    slave_count_max: int = conf(
        "haSlavesMax",
        default=16,
        doc="ours: connections of slaves at a time; more are refused",
        at_least=1,
        reserved=True,
    )
    tls_mode: TlsMode | None = conf(
        "haTlsMode",
        default=None,
        default_text="as tls.server.mode",
        doc="ours: TLS on the replication port; permissive lets Apache's slaves in, which have none",
        reserved=True,
    )
    use_tls: bool | None = conf(
        "haUseTLS",
        default=None,
        default_text="as useTLS",
        doc="ours: a slave copies the log through TLS; false for a master of Apache's",
        reserved=True,
    )
