from __future__ import annotations

import socket
from contextlib import closing

import pytest

from skyrocketmq.errors import NetError
from skyrocketmq.net import Client, Server, bind, bind_three
from skyrocketmq.wire.frames import Frame
from tests.net.support import ECHO, EchoService


def test_port_0_finds_three_free_ports_that_belong_together() -> None:
    three = bind_three("127.0.0.1", 0)
    try:
        port = three[0].port
        assert [bound.port for bound in three] == [port, port - 2, port + 1]
    finally:
        for bound in three:
            bound.close()


def test_three_ports_are_all_claimed_or_none_is() -> None:
    main, fast, replication = bind_three("127.0.0.1", 0)
    port = main.port
    main.close()
    fast.close()
    try:
        with pytest.raises(NetError, match=str(port + 1)):
            bind_three("127.0.0.1", port)
        bind("127.0.0.1", port).close()
        bind("127.0.0.1", port - 2).close()
    finally:
        replication.close()


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with closing(bind("127.0.0.1", 0)) as bound:
        port = bound.port
        with pytest.raises(NetError, match=f"cannot listen on 127.0.0.1:{port}"):
            bind("127.0.0.1", port)


def test_a_host_that_does_not_exist_is_an_error_that_names_it() -> None:
    with pytest.raises(NetError, match=r"no-such-host\.invalid"):
        bind("no-such-host.invalid", 0)


@pytest.mark.parametrize("host", ["", "*"])
async def test_an_empty_host_serves_both_families_and_shows_ipv4_peers_as_ipv4(host: str) -> None:
    async with await Server.start((host, 0), EchoService().dispatcher) as server, Client() as client:
        await client.request(f"127.0.0.1:{server.port}", Frame(ECHO), 3)
        (connection,) = server.connections
        assert connection.peer.startswith("127.0.0.1:")
        assert connection.peer_host[:4] == bytes([127, 0, 0, 1])


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
async def test_ipv6_peers_have_addresses_of_their_own() -> None:
    try:
        listener = bind("::1", 0)
    except NetError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    async with await Server.start(listener, EchoService().dispatcher) as server, Client() as client:
        reply = await client.request(f"::1:{server.port}", Frame(ECHO, body=b"six"), 3)
        (connection,) = server.connections
        assert reply.body == b"six"
        assert connection.peer.startswith("::1:")
        assert len(connection.peer_host) == 20
