"""Bytes that are not the protocol close the connection they came on, and nothing else."""

from __future__ import annotations

import asyncio
import random
import struct

import pytest

from skyrocketmq.net import Server, ServerOptions
from skyrocketmq.wire.frames import FRAME_BYTES_MAX, Frame, encode_frame
from tests.net.support import ECHO, LOOPBACK, EchoService, raw_peer, until

GARBAGE = {
    "a length above the limit": struct.pack(">I", FRAME_BYTES_MAX - 3),
    "a negative length": b"\xff\xff\xff\xff",
    "a length of zero": bytes(4),
    "an unknown encoding": struct.pack(">II", 100, 0x02000010),
    "a header longer than its frame": struct.pack(">II", 100, 0x00000100),
    "an empty header": struct.pack(">II", 100, 0),
    "a header that is not JSON": struct.pack(">II", 9, 5) + b"hello",
    "a request of the web": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100a0010000"),
    "random bytes": random.Random(1).randbytes(4096),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_closes_its_connection_and_the_others_go_on(name: str) -> None:
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        raw_peer(server) as good,
        raw_peer(server) as bad,
    ):
        bad.send_bytes(GARBAGE[name])
        assert await bad.is_hung_up()
        good.send(Frame(ECHO, body=b"unharmed"))
        assert (await good.receive()).body == b"unharmed"
        assert len(server.connections) == 1


@pytest.mark.parametrize("name", ["a length of zero", "a header that is not JSON", "an unknown encoding"])
async def test_good_frames_before_garbage_are_handled_and_answered(name: str) -> None:
    service = EchoService()
    good = b"".join(encode_frame(Frame(ECHO, opaque=number, body=b"good")) for number in range(5))
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        peer.send_bytes(good + GARBAGE[name])
        assert [(await peer.receive()).opaque for _ in range(5)] == [0, 1, 2, 3, 4]
        assert await peer.is_hung_up()
    assert len(service.received) == 5


async def test_the_largest_frame_is_taken_and_one_byte_more_is_not() -> None:
    head = len(encode_frame(Frame(ECHO, body=b"x"))) - 1
    largest = encode_frame(Frame(ECHO, body=bytes(FRAME_BYTES_MAX - head)))
    assert len(largest) == FRAME_BYTES_MAX
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        peer.send_bytes(largest)
        await until(lambda: service.received)
        assert len(service.received[0].body) == FRAME_BYTES_MAX - head
        peer.writer.transport.abort()
    too_large = struct.pack(">I", FRAME_BYTES_MAX - 4 + 1) + largest[4:]
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        peer.send_bytes(too_large[:100])  # its length says enough: nobody waits for 16 MiB to find out
        assert await peer.is_hung_up()


async def test_half_a_frame_is_kept_and_the_other_half_completes_it() -> None:
    frame = encode_frame(Frame(ECHO, body=bytes(5_000_000)))
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        peer.send_bytes(frame[:2_500_000])
        await peer.writer.drain()
        await until(lambda: any(connection._rest.have_bytes == 2_500_000 for connection in server.connections))
        peer.send_bytes(frame[2_500_000:])
        assert len((await peer.receive()).body) == 5_000_000


async def test_random_damage_never_harms_the_server() -> None:
    """Whole frames with bytes changed, on fresh connections: each is answered or closed."""
    chance = random.Random(7)
    frame = encode_frame(Frame(ECHO, ext={"topic": "T", "k": "true"}, body=b"body"))
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server:
        for _ in range(100):
            damaged = bytearray(frame * 3)
            for _ in range(chance.randint(1, 6)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            async with raw_peer(server) as peer:
                peer.send_bytes(bytes(damaged))
        async with raw_peer(server) as peer:
            peer.send(Frame(ECHO, body=b"alive"))
            assert (await peer.receive()).body == b"alive"
        await until(lambda: not server.connections)
        await asyncio.sleep(0)


async def test_incomplete_large_frames_have_a_limit_together_and_small_ones_go_on() -> None:
    options = ServerOptions(incomplete_bytes_max=8 * 1024 * 1024)
    most_of_a_large_frame = struct.pack(">II", FRAME_BYTES_MAX - 4, 100) + bytes(3 * 1024 * 1024)
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher, options=options) as server,
        raw_peer(server) as good,
        raw_peer(server) as first,
        raw_peer(server) as second,
        raw_peer(server) as third,
    ):
        kept = server._setup.incomplete
        first.send_bytes(most_of_a_large_frame)
        await until(lambda: kept.used_bytes == len(most_of_a_large_frame))
        second.send_bytes(most_of_a_large_frame)
        await until(lambda: kept.used_bytes == 2 * len(most_of_a_large_frame))
        third.send_bytes(most_of_a_large_frame)
        assert await first.is_hung_up(), "it has been at its frame longest"
        assert len(server.connections) == 3
        good.send(Frame(ECHO, body=b"small"))
        assert (await good.receive()).body == b"small"
        # Whoever comes with a large frame that does get complete is served, however much is held by others.
        good.send(Frame(ECHO, body=bytes(4 * 1024 * 1024)))
        assert len((await good.receive()).body) == 4 * 1024 * 1024


async def test_a_frame_that_never_gets_complete_has_a_deadline() -> None:
    options = ServerOptions(frame_s=0.1)
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher, options=options) as server,
        raw_peer(server) as slow,
        raw_peer(server) as good,
    ):
        for byte in struct.pack(">II", 1000, 100) + bytes(900):
            slow.send_bytes(bytes([byte]))
            await asyncio.sleep(0.002)
            if len(server.connections) != 2:
                break
        assert await slow.is_hung_up()
        good.send(Frame(ECHO, body=b"alive"))
        assert (await good.receive()).body == b"alive"
