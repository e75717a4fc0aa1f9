"""The network keys: how servers listen, and how a broker talks to name servers and to its master.

At Apache these are the settings of Netty. Those that size its thread groups and buffers mean nothing here and stand in
`ignored`.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.config.fields import MIB, Section, conf, part
from skyrocketmq.config.ignored import IgnoredClientKeys, IgnoredServerKeys

__all__ = ["ClientConfig", "ServerConfig"]

FRAME_MAX_LENGTH = "com.rocketmq.remoting.frameMaxLength"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig(Section, title="network: server"):
    """How a name server or a broker listens."""

    listen_port: int = conf(
        "listenPort",
        default=8888,
        default_text="9876 (name server), 10911 (broker)",
        doc="port that is listened on; 0 takes any free one",
        at_least=0,
        at_most=65535,
        reserved=True,
    )
    bind_address: str = conf(
        "bindAddress",
        default="0.0.0.0",
        doc="address that is listened on (from Apache 5; 4.9 listens on all)",
        reserved=True,
    )
    oneway_requests_max: int = conf(
        "serverOnewaySemaphoreValue",
        default=256,
        doc="one-way requests to clients under way at once",
        unused="limited by unsent bytes, see writeBufferHighWaterMark",
    )
    async_requests_max: int = conf(
        "serverAsyncSemaphoreValue", default=64, doc="requests to one client under way at once", at_least=1
    )
    idle_timeout_s: int = conf(
        "serverChannelMaxIdleTimeSeconds",
        default=120,
        doc="a connection on which nothing is read or written for so long is closed; 0 keeps it open",
        at_least=0,
    )
    send_buffer_bytes: int = conf(
        "serverSocketSndBufSize", default=0, doc="send buffer of a socket; 0 leaves it to the system", at_least=0
    )
    receive_buffer_bytes: int = conf(
        "serverSocketRcvBufSize", default=0, doc="receive buffer of a socket; 0 leaves it to the system", at_least=0
    )
    write_high_water_bytes: int = conf(
        "writeBufferHighWaterMark",
        default=0,
        doc="unsent bytes at which no more is read from a connection; 0 keeps the built-in mark",
        at_least=0,
    )
    write_low_water_bytes: int = conf(
        "writeBufferLowWaterMark",
        default=0,
        doc="unsent bytes at which reading goes on; 0 keeps the built-in mark",
        at_least=0,
    )
    backlog: int = conf("serverSocketBacklog", default=1024, doc="connections that may wait to be accepted", at_least=1)
    frame_bytes_max: int = conf(
        FRAME_MAX_LENGTH,
        default=16 * MIB,
        doc="a larger frame closes its connection",
        unused="the limit is the protocol's 16 MiB",
    )
    loop_stall_ms: int = conf(
        "loopStallMillis",
        default=50,
        doc="a request or a background job that holds all others up for longer is counted and logged",
        at_least=1,
    )
    ignored: IgnoredServerKeys = part(IgnoredServerKeys)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientConfig(Section, title="network: client"):
    """How a broker talks to name servers and to its master."""

    oneway_requests_max: int = conf(
        "clientOnewaySemaphoreValue",
        default=65535,
        doc="one-way requests under way at once",
        unused="limited by unsent bytes, see writeBufferHighWaterMark",
    )
    async_requests_max: int = conf(
        "clientAsyncSemaphoreValue", default=65535, doc="requests under way at once", at_least=1
    )
    connect_timeout_ms: int = conf(
        "connectTimeoutMillis", default=3000, doc="how long a connection may take to open", at_least=1
    )
    idle_timeout_s: int = conf(
        "clientChannelMaxIdleTimeSeconds",
        default=120,
        doc="a connection on which nothing is read or written for so long is closed; 0 keeps it open",
        at_least=0,
    )
    send_buffer_bytes: int = conf(
        "clientSocketSndBufSize", default=0, doc="send buffer of a socket; 0 leaves it to the system", at_least=0
    )
    receive_buffer_bytes: int = conf(
        "clientSocketRcvBufSize", default=0, doc="receive buffer of a socket; 0 leaves it to the system", at_least=0
    )
    close_on_timeout: bool = conf(
        "clientCloseSocketIfTimeout", default=True, doc="close a connection whose request got no answer in time"
    )
    use_tls: bool = conf(
        "useTLS",
        default=False,
        default_text="as tls.enable",
        doc="TLS towards name servers and master; where nothing is said, on if tls.server.mode is enforcing",
        reserved=True,
    )
    write_high_water_bytes: int = conf(
        "writeBufferHighWaterMark",
        default=0,
        doc="unsent bytes at which no more is read from a connection; 0 keeps the built-in mark",
        at_least=0,
    )
    write_low_water_bytes: int = conf(
        "writeBufferLowWaterMark",
        default=0,
        doc="unsent bytes at which reading goes on; 0 keeps the built-in mark",
        at_least=0,
    )
    frame_bytes_max: int = conf(
        FRAME_MAX_LENGTH,
        default=16 * MIB,
        doc="a larger frame closes its connection",
        unused="the limit is the protocol's 16 MiB",
    )
    ignored: IgnoredClientKeys = part(IgnoredClientKeys)
