"""What a connection costs: requests a second and CPU time a request, for an echo server on loopback.

    python -m benchmarks.net_echo                      every row below, on both event loops
    python -m benchmarks.net_echo --seconds 5

The server runs in a process of its own, and its CPU time is the figure: rates depend on the load generator and on what
else the machine does. Frames are 1 KB, requests and answers alike in number; the answer is small.

| row | what the server does with a request |
|---|---|
| split | splits the buffer and answers with the same bytes each time: the floor |
| binary, json | decodes the frame, finds the handler, encodes its answer |
| later | the same in a coroutine: a task a request, answers sent when they come |
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any, cast

import uvloop

from skyrocketmq.net import Client, ClientOptions, Connection, Dispatcher, Server, ServerOptions
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame, split_frames

CODE = 310
BODY_BYTES = 900
EXT: dict[str, str | None] = {"a": "group", "b": "TopicTest", "e": "3", "g": "1700000000000"}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
ROWS = [  # (kind, connections, in flight on each)
    ("split", 2, 128),
    ("binary", 2, 128),
    ("json", 2, 128),
    ("later", 2, 128),
    ("split", 1, 1),
    ("binary", 1, 1),
    ("json", 1, 1),
]


def request_bytes(kind: str) -> bytes:
    encoding = Encoding.JSON if kind == "json" else Encoding.BINARY
    return encode_frame(Frame(CODE, opaque=7, ext=EXT, body=bytes(BODY_BYTES), encoding=encoding))


def make_feed(kind: str) -> Any:
    if kind == "split":
        answer = encode_frame(Frame(0, opaque=7, flag=1, encoding=Encoding.BINARY))

        def feed(data: bytes, connection: Connection) -> tuple[int, list[bytes]]:
            places, used_bytes = split_frames(data)
            return used_bytes, [answer] * len(places)

        return feed
    dispatcher = Dispatcher()

    async def later(frame: Frame, connection: Connection) -> Frame:
        await asyncio.sleep(0)
        return frame.reply()

    if kind == "later":
        dispatcher.register(CODE, later)
    else:
        dispatcher.register(CODE, lambda frame, connection: frame.reply())
    return dispatcher.feed


def serve(loop_name: str, kind: str, pipe: Pipe) -> None:
    """The server's process: report the port, then the CPU time used between two messages on the pipe."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with await Server.start(("127.0.0.1", 0), make_feed(kind), options=ServerOptions()) as server:
            pipe.send(server.port)
            await loop.run_in_executor(None, pipe.recv)
            before = resource.getrusage(resource.RUSAGE_SELF)
            pipe.send(None)
            await loop.run_in_executor(None, pipe.recv)
            after = resource.getrusage(resource.RUSAGE_SELF)
            pipe.send(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(run())


class Load(asyncio.Protocol):
    """Keeps a number of requests in flight: one more for each answer, all of one buffer in one write."""

    def __init__(self, request: bytes, in_flight: int) -> None:
        self._request = request
        self._in_flight = in_flight
        self._rest = b""
        self.answered_count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request * self._in_flight)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        places, used_bytes = split_frames(data)
        self._rest = data[used_bytes:]
        self.answered_count += len(places)
        self._transport.write(self._request * len(places))

    def stop(self) -> None:
        self._transport.abort()


async def load(port: int, kind: str, connections: int, in_flight: int, seconds: float, pipe: Pipe) -> tuple[int, float]:
    loop = asyncio.get_running_loop()
    protocols = []
    for _ in range(connections):
        _, protocol = await loop.create_connection(lambda: Load(request_bytes(kind), in_flight), "127.0.0.1", port)
        protocols.append(protocol)
    await asyncio.sleep(0.5)
    pipe.send("start")
    await loop.run_in_executor(None, pipe.recv)
    started_at, before = time.perf_counter(), sum(protocol.answered_count for protocol in protocols)
    await asyncio.sleep(seconds)
    count = sum(protocol.answered_count for protocol in protocols) - before
    elapsed_s = time.perf_counter() - started_at
    for protocol in protocols:
        protocol.stop()
    return count, elapsed_s


def measure_server(loop_name: str, kind: str, connections: int, in_flight: int, seconds: float) -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(loop_name, kind, theirs))
    process.start()
    port = ours.recv()
    count, elapsed_s = uvloop.run(load(port, kind, connections, in_flight, seconds, ours))
    ours.send("stop")
    cpu_s = ours.recv()
    process.join()
    print(
        f"server {loop_name:8} {kind:7} {connections} x {in_flight:<4} {count / elapsed_s:>10,.0f} /s"
        f"  {cpu_s / count * 1e6:6.2f} us CPU a request",
        flush=True,
    )


async def ask(port: int, in_flight: int, seconds: float) -> tuple[int, float]:
    """Our own client: so many requests in flight, each with a deadline; the count, and the CPU time of this process."""
    count = 0
    stop_at = time.perf_counter() + seconds
    address = f"127.0.0.1:{port}"

    async def asker(client: Client) -> None:
        nonlocal count
        while time.perf_counter() < stop_at:
            await client.request(address, Frame(CODE, ext=EXT, body=bytes(BODY_BYTES), encoding=Encoding.BINARY), 3)
            count += 1

    async with Client(options=ClientOptions()) as client:
        await client.connect(address, 3)
        before_s = time.process_time()
        await asyncio.gather(*[asker(client) for _ in range(in_flight)])
        return count, time.process_time() - before_s


def measure_client(loop_name: str, in_flight: int, seconds: float) -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(loop_name, "binary", theirs))
    process.start()
    port = ours.recv()
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        count, cpu_s = runner.run(ask(port, in_flight, seconds))
    ours.send("start")
    ours.recv()
    ours.send("stop")
    ours.recv()
    process.join()
    print(
        f"client {loop_name:8} request 1 x {in_flight:<4} {count / seconds:>10,.0f} /s"
        f"  {cpu_s / count * 1e6:6.2f} us CPU a request",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    for loop_name in LOOPS:
        for kind, connections, in_flight in ROWS:
            measure_server(loop_name, kind, connections, in_flight, seconds)
        for in_flight in (1, 128, 2000):
            measure_client(loop_name, in_flight, seconds)


if __name__ == "__main__":
    main()
