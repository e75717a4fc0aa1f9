"""From the operator's keys to the limits and the TLS of connections: the one place where the two meet."""

from __future__ import annotations

from skyrocketmq.config import ClientAuth, ClientConfig, ServerConfig, TlsConfig
from skyrocketmq.net.options import ClientOptions, ServerOptions
from skyrocketmq.net.tls import ClientTls, ServerTls
from skyrocketmq.ports.machine import descriptors_max

RESERVED_DESCRIPTORS = 1_024  # for files: a store has some hundred open, and each file that is replaced needs two

__all__ = ["client_options", "client_tls", "server_options", "server_tls"]


def server_options(config: ServerConfig, *, descriptors: int | None = None) -> ServerOptions:
    """The limits of a server's connections; a water mark of 0 leaves the built-in one.

    Each connection is a descriptor, of which a process has `descriptors`: some are left for files, without which
    nothing could be stored.
    """
    built_in = ServerOptions()
    allowed = descriptors_max() if descriptors is None else descriptors
    high = config.write_high_water_bytes or built_in.write_high_bytes
    low = config.write_low_water_bytes or built_in.write_low_bytes
    return ServerOptions(
        idle_s=config.idle_timeout_s,
        requests_max=config.async_requests_max,
        backlog=config.backlog,
        connections_max=min(built_in.connections_max, max(1, allowed - min(RESERVED_DESCRIPTORS, allowed // 2))),
        write_high_bytes=high,
        write_low_bytes=min(low, high),
        write_bytes_max=max(built_in.write_bytes_max, high),
        socket_send_bytes=config.send_buffer_bytes,
        socket_receive_bytes=config.receive_buffer_bytes,
    )


def client_options(config: ClientConfig) -> ClientOptions:
    """The limits of the connections that a broker opens."""
    built_in = ClientOptions()
    high = config.write_high_water_bytes or built_in.write_high_bytes
    low = config.write_low_water_bytes or built_in.write_low_bytes
    return ClientOptions(
        connect_timeout_s=config.connect_timeout_ms / 1000,
        idle_s=config.idle_timeout_s,
        requests_max=config.async_requests_max,
        close_if_timeout=config.close_on_timeout,
        write_high_bytes=high,
        write_low_bytes=min(low, high),
        write_bytes_max=max(built_in.write_bytes_max, high),
        socket_send_bytes=config.send_buffer_bytes,
        socket_receive_bytes=config.receive_buffer_bytes,
    )


def server_tls(config: TlsConfig) -> ServerTls:
    """A server's side of TLS. Without files the certificate is made when the first TLS client comes.

    Test mode, which is the default, means just that; it undoes nothing that another key says.
    """
    # `authClient` without a word on whether a certificate is needed asks for one and checks those that come.
    auth = config.server_need_client_auth
    if config.server_auth_client and auth is ClientAuth.NONE:
        auth = ClientAuth.OPTIONAL
    return ServerTls(
        mode=config.server_mode,
        certificate_path=config.server_cert_path,
        key_path=config.server_key_path,
        key_password=config.server_key_password,
        client_auth=auth,
        trust_path=config.server_trust_cert_path,
    )


def client_tls(config: TlsConfig) -> ClientTls:
    """A client's side of TLS. A server is checked if `tls.client.authServer` says so, test mode or not."""
    return ClientTls(
        verify=config.client_auth_server,
        check_hostname=config.client_check_hostname,
        trust_path=config.client_trust_cert_path,
        certificate_path=config.client_cert_path,
        key_path=config.client_key_path,
        key_password=config.client_key_password,
    )
