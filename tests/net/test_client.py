"""A client's connections: one for each address, made when needed, made again after a decent pause."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from skyrocketmq.errors import ConnectFailed, ConnectionLost, IllegalArgument, NetError
from skyrocketmq.net import Client, ClientOptions, Connection, Server, ServerOptions, bind
from skyrocketmq.testing import FaultyLink, ManualClock
from skyrocketmq.wire.frames import Frame
from tests.net.support import ECHO, LOOPBACK, SLOW, EchoService, address_of, until

OPTIONS = ClientOptions(backoff_first_s=0.1, backoff_factor=2, backoff_max_s=1.0, backoff_jitter=0.5)


async def test_requests_to_one_address_share_one_connection() -> None:
    link = FaultyLink()
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, Client(link=link) as client:
        await asyncio.gather(*[client.request(address_of(server), Frame(ECHO), 3) for _ in range(50)])
        assert (link.dial_count, len(server.connections)) == (1, 1)
        assert client.addresses == [address_of(server)]
        await client.request(f"localhost:{server.port}", Frame(ECHO), 3)
        assert link.dial_count == 2  # another text is another address


async def test_nobody_listening_is_an_error_that_names_the_address() -> None:
    with closing(bind(*LOOPBACK)) as bound:
        port = bound.port
    async with Client() as client:
        with pytest.raises(ConnectFailed, match=f"no connection to 127.0.0.1:{port}"):
            await client.request(f"127.0.0.1:{port}", Frame(ECHO), 3)


async def test_an_address_without_a_port_is_the_callers_mistake() -> None:
    async with Client() as client:
        with pytest.raises(IllegalArgument):
            await client.request("localhost", Frame(ECHO), 3)


async def test_failed_connects_back_off_and_requests_in_between_fail_at_once() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    link.is_refusing = True
    waits = []
    async with Client(clock=clock, link=link, options=OPTIONS, chance=lambda: 0.0) as client:
        for dialled in range(1, 7):
            with pytest.raises(ConnectFailed, match="refuses on demand"):
                await client.request("127.0.0.1:9", Frame(ECHO), 3)
            assert link.dial_count == dialled
            with pytest.raises(ConnectFailed, match=f"{dialled} failures, next try in"):
                await client.request("127.0.0.1:9", Frame(ECHO), 3)
            assert link.dial_count == dialled  # left alone for now
            wait_s = client._target("127.0.0.1:9").next_try_at - clock.monotonic()
            waits.append(wait_s)
            await clock.advance(wait_s)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


async def test_jitter_spreads_the_clients() -> None:
    clock = ManualClock()
    waits = []
    for chance in (0.0, 0.5, 0.99):
        link = FaultyLink(clock=clock)
        link.is_refusing = True
        async with Client(clock=clock, link=link, options=OPTIONS, chance=lambda value=chance: value) as client:  # type: ignore[misc]
            with pytest.raises(ConnectFailed):
                await client.request("127.0.0.1:9", Frame(ECHO), 3)
            waits.append(client._target("127.0.0.1:9").next_try_at - clock.monotonic())
    assert waits == pytest.approx([0.1, 0.075, 0.0505])


async def test_connect_tries_again_until_the_server_is_there() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    link.is_refusing = True
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        Client(clock=clock, link=link, options=OPTIONS) as client,
    ):
        connecting = asyncio.create_task(client.connect(address_of(server), 60))
        await clock.advance(5)
        assert not connecting.done()
        assert 5 <= link.dial_count <= 12
        link.is_refusing = False
        await clock.advance(1)
        connection = await connecting
        assert (await connection.request(Frame(ECHO, body=b"at last"), 3)).body == b"at last"


async def test_connect_gives_up_at_its_deadline() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    link.is_refusing = True
    async with Client(clock=clock, link=link, options=OPTIONS) as client:
        connecting = asyncio.create_task(client.connect("127.0.0.1:9", 3))
        await clock.advance(3)
        with pytest.raises(ConnectFailed):
            await connecting


async def test_a_lost_connection_that_worked_is_made_again_without_a_pause() -> None:
    link = FaultyLink()
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, Client(link=link) as client:
        for dialled in range(1, 4):
            assert (await client.request(address_of(server), Frame(ECHO, body=b"hi"), 3)).body == b"hi"
            assert link.dial_count == dialled
            link.cut()
            await until(lambda: not client.addresses)


async def test_a_connection_that_worked_makes_up_for_the_failures_before_it() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    client = Client(clock=clock, link=link, options=OPTIONS, chance=lambda: 0.0)
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, client:
        link.is_refusing = True
        for _ in range(4):
            with pytest.raises(ConnectFailed):
                await client.request(address_of(server), Frame(ECHO), 3)
            await clock.advance(1)
        link.is_refusing = False
        await client.request(address_of(server), Frame(ECHO), 3)
        link.cut()
        await until(lambda: not client.addresses)
        link.is_refusing = True
        with pytest.raises(ConnectFailed, match="refuses on demand"):
            await client.request(address_of(server), Frame(ECHO), 3)
        with pytest.raises(ConnectFailed, match=r"1 failures, next try in 0\.1 s"):
            await client.request(address_of(server), Frame(ECHO), 3)


async def test_a_server_that_accepts_and_hangs_up_is_not_dialled_in_a_tight_loop() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)

    def hang_up(connection: Connection) -> None:
        connection.abort()

    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher, on_open=hang_up) as server,
        Client(clock=clock, link=link, options=OPTIONS) as client,
    ):
        for _ in range(20):
            with pytest.raises((ConnectionLost, ConnectFailed)):
                await client.request(address_of(server), Frame(ECHO), 3)
            await asyncio.sleep(0.002)
        assert link.dial_count == 1


async def test_connecting_counts_against_the_deadline_and_has_a_limit_of_its_own() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    link.delay(10)
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        Client(clock=clock, link=link) as client,
    ):
        short = asyncio.create_task(client.request(address_of(server), Frame(ECHO), 1))
        long = asyncio.create_task(client.request(address_of(server), Frame(ECHO), 60))
        await clock.advance(1)
        with pytest.raises(ConnectFailed, match="within 1 s"):
            await short
        assert not long.done()
        await clock.advance(2)
        with pytest.raises(ConnectFailed, match="within 3 s"):
            await long
        assert link.dial_count == 1  # both waited for the same attempt


async def test_a_request_that_is_given_up_does_not_end_the_attempt_that_others_wait_for() -> None:
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    link.delay(2)
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        Client(clock=clock, link=link) as client,
    ):
        given_up = asyncio.create_task(client.request(address_of(server), Frame(ECHO), 60))
        waits = asyncio.create_task(client.request(address_of(server), Frame(ECHO, body=b"made it"), 60))
        await clock.advance(1)
        given_up.cancel()
        link.delay(0)
        await clock.advance(1)
        assert (await waits).body == b"made it"


async def test_every_request_passes_the_hook_that_signs_it() -> None:
    service = EchoService()

    def sign(address: str, frame: Frame) -> None:
        frame.ext = {**(frame.ext or {}), "Signature": f"for {address}"}

    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client(before_request=sign) as client:
        await client.request(address_of(server), Frame(ECHO, ext={"topic": "T"}), 3)
        await client.oneway(address_of(server), Frame(ECHO), 3)
        await until(lambda: len(service.received) == 2)
    signature = f"for {address_of(server)}"
    assert [frame.ext for frame in service.received] == [
        {"topic": "T", "Signature": signature},
        {"Signature": signature},
    ]


async def test_owners_hear_of_connections_opened_and_closed() -> None:
    heard: list[tuple[str, str]] = []
    client = Client(
        on_open=lambda connection: heard.append(("open", connection.peer)),
        on_close=lambda connection: heard.append(("close", connection.peer)),
    )
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, client:
        await client.request(address_of(server), Frame(ECHO), 3)
        client.drop(address_of(server))
        await until(lambda: len(heard) == 2)
        assert heard == [("open", address_of(server)), ("close", address_of(server))]
        assert client.find(address_of(server)) is None
        await client.request(address_of(server), Frame(ECHO), 3)


async def test_a_listener_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(connection: Connection) -> None:
        raise RuntimeError("a listener's bug")

    server = await Server.start(LOOPBACK, EchoService().dispatcher, on_open=fail, on_close=fail)
    async with server, Client(on_open=fail, on_close=fail) as client:
        assert (await client.request(address_of(server), Frame(ECHO, body=b"fine"), 3)).body == b"fine"
    assert "connection listener failed" in [record.message for record in caplog.records]


async def test_closing_fails_requests_under_way_and_attempts_too() -> None:
    service = EchoService()
    clock = ManualClock()
    link = FaultyLink(clock=clock)
    async with await Server.start(LOOPBACK, service.dispatcher) as server:
        client = Client(link=link, clock=clock)
        waiting = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 60))
        await until(lambda: service.slow_count == 1)
        link.delay(1)
        connecting = asyncio.create_task(client.request(f"localhost:{server.port}", Frame(ECHO), 60))
        await clock.settle()
        link.release()
        link.connections[0].delay(0)
        await client.close()
        await client.close()
        with pytest.raises(ConnectionLost, match="the client is closing"):
            await waiting
        with pytest.raises(ConnectFailed):
            await connecting
        with pytest.raises(NetError, match="closed"):
            await client.request(address_of(server), Frame(ECHO), 3)
        service.released.set()


async def test_connections_above_the_servers_limit_are_closed_as_they_come() -> None:
    service = EchoService()
    options = ServerOptions(connections_max=2)
    async with await Server.start(LOOPBACK, service.dispatcher, options=options) as server:
        clients = [Client() for _ in range(3)]
        for client in clients[:2]:
            await client.request(address_of(server), Frame(ECHO), 3)
        with pytest.raises(NetError):
            await clients[2].request(address_of(server), Frame(ECHO), 3)
        assert len(server.connections) == 2
        await clients[0].close()
        await until(lambda: len(server.connections) == 1)
        await asyncio.sleep(0.11)  # the third one's back-off
        await clients[2].request(address_of(server), Frame(ECHO), 3)
        for client in clients:
            await client.close()
