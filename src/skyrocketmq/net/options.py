"""The limits of connections: each has a name, a unit and an outcome, and nothing in `net` waits or grows beyond one.

What happens at each limit stands beside it. `docs/connections.md` has the same list as a table.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClientOptions", "ConnectionOptions", "ServerOptions", "backoff_s"]

KIB = 1024
MIB = 1024 * KIB
_EXPONENT_MAX = 64  # keeps a factor to the power of a million failures a number


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionOptions:
    """What both ends of a connection keep to."""

    idle_s: float = 120.0  # nothing read and nothing written for so long: closed; 0 = never
    handlers_max: int = 1024  # requests of one peer being handled by tasks: above, nothing more is read from it
    requests_max: int = 65_535  # our requests waiting for answers of one peer: above, senders wait in turn
    # Incomplete frames of more than 256 KiB, of all peers together: above, the host that holds most of it loses the
    # connection whose frame began first.
    incomplete_bytes_max: int = 512 * MIB
    frame_s: float = 120.0  # a frame that has begun and is not complete after so long: closed

    write_high_bytes: int = 1 * MIB  # unsent bytes: above, senders wait, and a server stops reading from the peer
    write_low_bytes: int = 256 * KIB  # unsent bytes: below again, both go on
    write_bytes_max: int = 64 * MIB  # unsent bytes: above, the peer is cut off at once
    write_stall_s: float = 30.0  # above the high mark and not one byte taken for so long: the peer is cut off

    tls_handshake_s: float = 10.0  # a handshake that takes longer: closed
    linger_s: float = 5.0  # a close waits so long for unsent bytes to leave, then cuts

    socket_send_bytes: int = 0  # the kernel's send buffer; 0 = the system's choice
    socket_receive_bytes: int = 0  # the kernel's receive buffer; 0 = the system's choice

    def __post_init__(self) -> None:
        assert 0 <= self.write_low_bytes <= self.write_high_bytes <= self.write_bytes_max
        assert self.handlers_max > 0
        assert self.requests_max > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions(ConnectionOptions):
    """What a listening server adds."""

    backlog: int = 1024  # connections the kernel completes before they are accepted: above, it refuses or delays them
    connections_max: int = 50_000  # open connections: above, a new one is closed as soon as it is accepted
    grace_s: float = 10.0  # closing waits so long for requests in progress, then cancels them


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions(ConnectionOptions):
    """What a client adds."""

    connect_timeout_s: float = 3.0  # a connection, TLS included, that takes longer: ConnectFailed
    backoff_first_s: float = 0.1  # after a first failure an address is left alone for so long
    backoff_factor: float = 2.0  # and after each further one for so many times longer
    backoff_max_s: float = 5.0  # but never longer than this
    backoff_jitter: float = 0.5  # up to this share is taken off at random, so that clients do not come back as one
    # A request without an answer closes its connection if not a byte came from the peer since it was sent, and for
    # `silent_s` at least: that is how a machine that vanished is noticed, and a hasty request harms no others. Apache's
    # key is clientCloseSocketIfTimeout; it closes a busy connection too.
    close_if_timeout: bool = True
    silent_s: float = 3.0  # a peer that owes an answer and sends nothing for less than this is only slow
    grace_s: float = 3.0  # closing waits so long for requests in progress, then cancels them


def backoff_s(failure_count: int, *, chance: float, options: ClientOptions) -> float:
    """How long an address is left alone after `failure_count` failures in a row; `chance` is a number in [0, 1).

    The wait grows by `backoff_factor` up to `backoff_max_s`; `backoff_jitter` of it, at most, is taken off by chance.
    """
    if failure_count <= 0:
        return 0.0
    exponent = min(failure_count - 1, _EXPONENT_MAX)
    whole = min(options.backoff_first_s * options.backoff_factor**exponent, options.backoff_max_s)
    return whole * (1.0 - options.backoff_jitter * chance)
