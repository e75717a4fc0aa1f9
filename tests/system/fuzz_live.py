"""Damaged frames on running servers: they answer everybody else, say nothing but the protocol's own errors, and go on.

    python -m tests.system.fuzz_live --frames 1000000 [--seed 1] [--state FILE]

A name server and a broker run as a process. Requests of every code, with the fields of its header, right and wrong
values, in both encodings, damaged or whole, go to the broker's three ports and to the name server's, many on a
connection and cut anywhere. Meanwhile a well-behaved client asks both servers and must be answered in time. In the end
the servers stop cleanly, nothing in their logs is a traceback, and a start on the same store succeeds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame
from tests.broker.house import Peer
from tests.declared import REQUEST_HEADERS
from tests.interop.ours import Up, running
from tests.own_time import OwnTime, waited_s
from tests.wire.fuzz import damaged
from tests.wire.fuzz_state import PACKAGES, FuzzState

FRAMES_A_CONNECTION = 30
CONNECTIONS = 4
ANSWER_SECONDS_MAX = 5.0  # what a request may cost others is bounded by tests of its own
ANSWERED_WITHIN_S = 0.05  # or it is held back
PIECE_FRAMES = 20_000
VALUES = [
    *("", "0", "1", "-1", "3", "true", "false", "null", "2147483647", "-2147483648", "9223372036854775807"),
    *("1e9", "NaN", "TopicTest", "readers", "%RETRY%readers", "broker-a", "DefaultCluster", "127.0.0.1:10911"),
    *("TBW102", "TagA || TagB", "a = 1 AND b IS NOT NULL", "KEYS\x01k\x02", "\x00", "é", "中", "../../etc"),
    *("x" * 300, "{}", "[1,2", "TAG", "SQL92"),
]  # fmt: skip
BODIES = [
    b"",
    b"hello",
    b"{}",
    b'{"clientID":"c","producerDataSet":[],"consumerDataSet":[]}',
    b"[]",
    bytes(100),
    b"key=1\n",
]


@dataclass
class Outcome:
    frames: int = 0
    connections: int = 0
    answered_bytes: int = 0
    asked: int = 0
    slowest_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def wild_frame(chance: random.Random) -> bytes:
    """A request of any code, well formed, with fields that its header knows and values and a body that may be wrong."""
    code = chance.choice(list(RequestCode))
    names = [each.encode_name for each in msgspec.structs.fields(REQUEST_HEADERS[code])]
    ext: dict[str, str | None] = {name: chance.choice(VALUES) for name in names if chance.random() < 0.9}
    body = chance.choice(BODIES)
    frame = Frame(
        code,
        chance.randrange(1 << 31),
        chance.choice((0, 0, 0, 0, 2, 1)),
        ext,
        damaged(chance, [body]) if chance.random() < 0.3 else body,
        encoding=chance.choice((Encoding.JSON, Encoding.BINARY)),
    )
    return encode_frame(frame)


def damaged_frame(chance: random.Random) -> bytes:
    """One that is broken: a server may end the connection here, so it comes last."""
    whole = wild_frame(chance)
    if chance.random() < 0.3:
        return damaged(chance, [whole])
    inside = damaged(chance, [whole[4:]])  # the frame's length is right, so that what is inside is looked at
    return len(inside).to_bytes(4, "big") + inside


async def feed(ports: list[int], frames: int, seed: int, pid: int, outcome: Outcome) -> None:
    """Send so many frames, on one connection after the other; what is answered is read and thrown away."""
    chance = random.Random(seed)
    while frames > 0:
        count = min(frames, chance.randint(1, FRAMES_A_CONNECTION))
        frames -= count
        outcome.frames += count
        outcome.connections += 1
        data = b"".join([*[wild_frame(chance) for _ in range(count - 1)], damaged_frame(chance)])
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", chance.choice(ports))
        except OSError as error:
            outcome.failures.append(f"a server takes no connection: {error}")
            return
        try:
            at = 0
            while at < len(data):
                piece = chance.choice((1 << 16, 1 << 16, 700, 13))
                writer.write(data[at : at + piece])
                at += piece
                await writer.drain()
            while answers := await _read(reader, pid):
                outcome.answered_bytes += len(answers)
        except OSError:
            pass  # closed by the server
        finally:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader, pid: int) -> bytes:
    """What comes next; nothing if the server has had its time for an answer, and has given none."""
    began, waited = time.perf_counter(), waited_s(pid)
    while time.perf_counter() - began - (waited_s(pid) - waited) < ANSWERED_WITHIN_S:
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return await reader.read(1 << 16)
        except TimeoutError:
            pass
    return b""


async def ask_meanwhile(port: int, request: RequestCode, pid: int, outcome: Outcome) -> None:
    """A client that behaves: it is answered in time, whatever the others do."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    try:
        while True:
            timer = OwnTime(pid)
            answer = await peer.ask(Frame(request, 1))
            seconds = timer.seconds()
            outcome.asked += 1
            outcome.slowest_seconds = max(outcome.slowest_seconds, seconds)
            if answer.code:
                outcome.failures.append(f"{request.name}: {answer.code} {answer.remark}")
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        outcome.failures.append(f"{request.name} was not answered: {error!r}")
    finally:
        peer.abort()


async def trouble(up: Up, frames: int, seed: int) -> Outcome:
    outcome, pid = Outcome(), up.process.pid
    ports = [up.port, up.port, up.port, up.port - 2, up.port + 1, up.namesrv_port, up.namesrv_port]
    asking = [
        asyncio.create_task(ask_meanwhile(port, request, pid, outcome))
        for port, request in (
            (up.port, RequestCode.GET_BROKER_RUNTIME_INFO),
            (up.namesrv_port, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        )
    ]
    await asyncio.gather(
        *[feed(ports, frames // CONNECTIONS, seed * 100 + n, pid, outcome) for n in range(CONNECTIONS)]
    )
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return outcome


def run(directory: Path, frames: int, seed: int) -> Outcome:
    """One life of the servers with so many frames, and a start afterwards."""
    up = Up(directory / f"up-{seed}", config={"mappedFileSizeCommitLog": str(1 << 24)})
    with running(up):
        outcome = asyncio.run(trouble(up, frames, seed))
        said = up.process.said()
    if "Traceback" in said:
        outcome.failures.append("a traceback: " + said[said.index("Traceback") :][:3000])
    if outcome.slowest_seconds > ANSWER_SECONDS_MAX:
        outcome.failures.append(f"somebody waited for {outcome.slowest_seconds:.1f} s")
    with running(up):
        pass
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=PIECE_FRAMES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="where to note what was done, to go on there")
    arguments = parser.parse_args()
    state = (
        FuzzState(arguments.state, packages=(*PACKAGES, "broker", "store", "nameserver")) if arguments.state else None
    )
    first = state.pieces if state else 0
    total, slowest = first * PIECE_FRAMES, 0.0
    for number in range(first, -(-arguments.frames // PIECE_FRAMES)):
        with tempfile.TemporaryDirectory() as directory:
            outcome = run(Path(directory), PIECE_FRAMES, arguments.seed + number)
        total += outcome.frames
        slowest = max(slowest, outcome.slowest_seconds)
        if outcome.failures:
            print(f"FAILED with seed {arguments.seed + number}:", *outcome.failures, sep="\n")
            return 1
        if state:
            state.note(number + 1)
        print(f"{total:,} of {arguments.frames:,} frames; others were answered within {slowest:.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
