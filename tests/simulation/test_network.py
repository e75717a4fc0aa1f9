"""The network of a simulation: what arrives, what waits, and who notices that a peer is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from skyrocketmq.errors import NetError
from skyrocketmq.testing.simulation.loop import Process, SimLoop
from skyrocketmq.testing.simulation.network import SimLink, SimNet


class Talker(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost: Exception | str | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = error or "closed"


class World:
    def __init__(self, loop: SimLoop) -> None:
        self.net = SimNet(loop, seed=5)
        self.server, self.client = self.net.link("server"), self.net.link("client")
        self.served = loop.process("server")
        self.accepted: list[Talker] = []

    async def listen(self) -> None:
        def accept() -> Talker:
            self.accepted.append(Talker())
            return self.accepted[-1]

        async def listening(link: SimLink) -> None:
            await link.listen(accept, link.bind("", 80, backlog=5), backlog=5)

        await self.served.call(listening(self.server), name="listen")

    async def dial(self) -> Talker:
        _, protocol = await self.client.connect(Talker, self.server.address, 80)
        assert isinstance(protocol, Talker)
        await asyncio.sleep(0.1)
        return protocol


def simulated(story: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        loop = SimLoop()

        async def main() -> None:
            world = World(loop)
            await world.listen()
            await story(world)

        loop.run(main())

    test.__name__ = story.__name__
    return test


@simulated
async def test_what_is_written_arrives_in_order(world: World) -> None:
    caller = await world.dial()
    for number in range(50):
        caller.transport.write(b"%d " % number)
        await asyncio.sleep(0.0005)
    world.accepted[0].transport.writelines([b"an", memoryview(b"swer")])
    await asyncio.sleep(1)
    assert world.accepted[0].received == b"".join(b"%d " % number for number in range(50))
    assert caller.received == b"answer"


@simulated
async def test_one_way_that_is_cut_holds_what_is_on_it(world: World) -> None:
    caller = await world.dial()
    world.net.cut("client", "server")
    caller.transport.write(b"question")
    world.accepted[0].transport.write(b"the other way is free")
    await asyncio.sleep(30)
    assert (world.accepted[0].received, caller.received) == (b"", b"the other way is free")
    world.net.heal("client", "server")
    await asyncio.sleep(1)
    assert world.accepted[0].received == b"question"


@simulated
async def test_dialling_over_a_cut_waits_and_a_port_without_a_listener_refuses(world: World) -> None:
    world.net.cut("server", "*")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20):
            await world.dial()
    world.net.heal("server", "*")
    await world.dial()
    with pytest.raises(ConnectionRefusedError):
        await world.client.connect(Talker, world.server.address, 81)
    with pytest.raises(OSError, match="no node"):
        await world.client.connect(Talker, "10.9.9.9", 80)


@simulated
async def test_the_kernel_ends_the_connections_of_a_killed_process_and_delivers_its_bytes(world: World) -> None:
    caller = await world.dial()
    world.accepted[0].transport.write(b"last words")
    world.served.kill()
    world.server.close_process(world.served)
    await asyncio.sleep(1)
    assert (caller.received, caller.lost) == (b"last words", "closed")
    assert world.accepted[0].lost is None  # not a line of it runs
    with pytest.raises(ConnectionRefusedError):
        await world.dial()


@simulated
async def test_a_machine_without_power_says_nothing_until_it_is_back(world: World) -> None:
    caller = await world.dial()
    world.accepted[0].transport.write(b"not on the wire yet")
    world.served.kill()
    world.server.go_dark()
    caller.transport.write(b"hello?")
    await asyncio.sleep(600)
    assert (caller.received, caller.lost) == (b"", None)
    world.server.come_up()
    await asyncio.sleep(1)
    assert isinstance(caller.lost, ConnectionResetError)


@simulated
async def test_a_paused_process_gets_everything_when_it_goes_on(world: World) -> None:
    caller = await world.dial()
    world.served.pause()
    caller.transport.write(b"while you slept")
    second = await world.dial()  # the kernel takes it
    second.transport.write(b"me too")
    await asyncio.sleep(5)
    assert [talker.received for talker in world.accepted] == [b""]
    world.served.resume()
    await asyncio.sleep(1)
    assert [talker.received for talker in world.accepted] == [b"while you slept", b"me too"]


@simulated
async def test_a_reset_is_seen_at_both_ends(world: World) -> None:
    caller = await world.dial()
    world.net.reset("client", "server")
    await asyncio.sleep(1)
    assert isinstance(caller.lost, ConnectionResetError)
    assert isinstance(world.accepted[0].lost, ConnectionResetError)
    assert not world.client.transports
    assert not world.server.transports


@simulated
async def test_a_slow_way_is_slow(world: World) -> None:
    caller = await world.dial()
    world.net.slow("client", "server", 5.0)
    caller.transport.write(b"slowly")
    await asyncio.sleep(4.9)
    assert world.accepted[0].received == b""
    await asyncio.sleep(0.2)
    assert world.accepted[0].received == b"slowly"


@simulated
async def test_a_reader_that_pauses_holds_up_the_writer(world: World) -> None:
    caller = await world.dial()
    paused: list[bool] = []
    caller.pause_writing = lambda: paused.append(True)  # type: ignore[method-assign]
    caller.resume_writing = lambda: paused.append(False)  # type: ignore[method-assign]
    world.accepted[0].transport.pause_reading()
    caller.transport.write(bytes(100_000))
    await asyncio.sleep(1)
    assert (paused, world.accepted[0].received) == ([True], b"")
    world.accepted[0].transport.resume_reading()
    await asyncio.sleep(1)
    assert (paused, len(world.accepted[0].received)) == ([True, False], 100_000)


@simulated
async def test_a_port_is_taken_once(world: World) -> None:
    with pytest.raises(NetError, match="taken"):
        world.server.bind("", 80, backlog=5)
    assert isinstance(world.served, Process)
