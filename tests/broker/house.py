"""A whole broker behind real ports, on a disk in memory, and a peer that speaks to it frame by frame or byte by byte.

    async with open_house() as house:
        peer = await house.connect()
        answer = await peer.ask(send_frame("TopicTest", body=b"hello"))

When the broker has stopped, the independent reader of the store checks every file that it left.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skyrocketmq.broker import Broker
from skyrocketmq.config import BrokerConfig, FlushDiskType, ServerConfig, StoreConfig
from skyrocketmq.ports import Clock, Disk, Link, SystemClock
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.broker.requests import TOPIC, properties_text, pull_frame, send_frame
from tests.broker.support import BROKER, CLUSTER
from tests.store.reader import Content, Record, check_store, read_records
from tests.store.support import sizes_of
from tests.waiting import PATIENCE_S

ROOT = Path("/store")
WAIT_S = PATIENCE_S


# ---------------------------------------------------------------------------------------------------------------- peers


class Peer:
    """A client that is little more than a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self.requests: list[Frame] = []  # what the broker has asked, or told, by itself

    async def write(self, *parts: Frame | bytes) -> None:
        """Send everything in one go."""
        self._writer.write(b"".join([encode_frame(part) if isinstance(part, Frame) else part for part in parts]))
        await self._writer.drain()

    async def next(self, *, seconds: float = WAIT_S) -> Frame:
        """The next answer that arrives."""
        await self._read_until(self._frames, seconds)
        return self._frames.pop(0)

    async def next_request(self, *, seconds: float = WAIT_S) -> Frame:
        """The next thing that the broker asks, or tells, by itself."""
        await self._read_until(self.requests, seconds)
        return self.requests.pop(0)

    async def _read_until(self, frames: list[Frame], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not frames:
                data = await self._reader.read(1 << 20)
                if not data:
                    raise ConnectionResetError("the broker closed the connection")
                for frame in self._decoder.feed(data):
                    (self._frames if frame.is_response else self.requests).append(frame)

    async def all(self, count: int) -> dict[int, Frame]:
        """So many answers, by their request numbers."""
        frames = [await self.next() for _ in range(count)]
        answers = {frame.opaque: frame for frame in frames}
        assert len(answers) == count, "one answer a request"
        return answers

    async def ask(self, frame: Frame | bytes) -> Frame:
        """The answer, whatever its code. One request at a time."""
        await self.write(frame)
        answer = await self.next()
        assert not isinstance(frame, Frame) or answer.opaque == frame.opaque, f"this answers another request: {answer}"
        return answer

    async def ok(self, frame: Frame | bytes) -> Frame:
        answer = await self.ask(frame)
        assert answer.code == 0, answer.remark
        return answer

    async def refused(self, frame: Frame | bytes) -> tuple[int, str]:
        """The code and the remark of a refusal."""
        answer = await self.ask(frame)
        assert answer.code != 0
        return int(answer.code), answer.remark or ""

    async def silence(self, seconds: float = 0.05) -> None:
        """Nothing arrives for a while."""
        try:
            frame = await self.next(seconds=seconds)
        except TimeoutError:
            return
        raise AssertionError(f"an answer came too early: {frame}")

    async def ended(self) -> None:
        """The broker closes the connection, and sends nothing more."""
        async with asyncio.timeout(WAIT_S):
            try:
                assert await self._reader.read() == b""
            except ConnectionResetError:
                pass

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass

    def abort(self) -> None:
        """Gone without a word."""
        self._writer.transport.abort()


# ---------------------------------------------------------------------------------------------------------- the broker


class House:
    """A broker that runs, and those who talk to it."""

    def __init__(self, broker: Broker, disk: Disk, clock: Clock) -> None:
        self.broker = broker
        self.disk = disk
        self.clock = clock
        self._peers: list[Peer] = []

    @property
    def port(self) -> int:
        return int(self.broker.address.rpartition(":")[2])

    async def connect(
        self, *, is_fast: bool = False, source: str | None = None, tls: ssl.SSLContext | None = None
    ) -> Peer:
        """A new peer; `source` is the address of this machine that it connects from."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port - (2 if is_fast else 0), local_addr=source and (source, 0), ssl=tls
        )
        peer = Peer(reader, writer)
        self._peers.append(peer)
        return peer

    async def make_topic(self, topic: str = TOPIC, **fields: object) -> None:
        """Ask for a topic, as an administrator does."""
        ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        ext |= {"topicFilterType": "SINGLE_TAG", "order": "false"} | fields
        await self.administer(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)

    async def set_config(self, **values: object) -> None:
        """Change keys while the broker runs."""
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        await self.administer(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())

    async def administer(self, code: int, ext: Mapping[str, object] | None = None, *, body: bytes = b"") -> Frame:
        peer = await self.connect()
        fields: dict[str, str | None] = {name: str(value) for name, value in (ext or {}).items()}
        answer = await peer.ok(Frame(code, 1, ext=fields, body=body))
        await peer.close()
        return answer

    async def send_many(self, count: int, *, body: bytes = b"", tags: str = "TagA", queue_id: int = 0) -> None:
        """Messages whose bodies are their numbers, unless one is given."""
        peer = await self.connect()
        properties = properties_text([("TAGS", tags)]) if tags else ""
        for start in range(0, count, 64):
            some = range(start, min(start + 64, count))
            await peer.write(
                *[
                    send_frame(TOPIC, queue_id, opaque=number, body=body or b"%d" % number, properties=properties)
                    for number in some
                ]
            )
            assert {answer.code for answer in (await peer.all(len(some))).values()} == {0}
        await peer.close()

    async def pull_all(self, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
        """Everything that a queue holds, read by the independent reader."""
        peer = await self.connect()
        records: list[Record] = []
        offset = 0
        while True:
            answer = await peer.ask(pull_frame(topic, queue_id, offset))
            assert answer.ext is not None, answer.remark
            offset = int(answer.ext["nextBeginOffset"] or 0)
            if answer.code == 19:
                await peer.close()
                return records
            assert answer.code in (0, 20, 21), answer.remark
            records += read_records(answer.body)

    def forget(self, peer: Peer) -> None:
        """Let a peer stay connected until the broker has stopped."""
        self._peers.remove(peer)

    async def close_peers(self) -> None:
        for peer in self._peers:
            await peer.close()


def house_config(**changes: Any) -> BrokerConfig:
    """Settings of a small broker on free ports; `store` changes those of its store."""
    store: dict[str, Any] = {
        "root_path": ROOT,
        "commit_log_file_bytes": 1 << 20,
        "queue_file_bytes": 20 * 1000,
        "index_slot_count": 100,
        "index_entry_count": 2000,
    }
    settings: dict[str, Any] = {
        "cluster_name": CLUSTER,
        "broker_name": BROKER,
        "broker_ip": "127.0.0.1",
        "ha_ip": "127.0.0.1",
        "server": ServerConfig(listen_port=0, bind_address="127.0.0.1"),
        "store": StoreConfig(**(store | changes.pop("store", {}))),
    }
    return BrokerConfig(**(settings | changes))


@asynccontextmanager
async def open_house(
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
    link: Link | None = None,
    check: bool = True,
    **changes: Any,
) -> AsyncIterator[House]:
    """A broker; `check` reads its store afterwards, which must be in order."""
    clock = clock or SystemClock()
    disk = disk or FaultyDisk(directories=[ROOT], clock=clock)
    config = house_config(**changes)
    async with Broker.open(config, disk=disk, clock=clock, link=link) as broker:
        house = House(broker, disk, clock)
        try:
            yield house
        finally:
            await house.close_peers()
    if check:
        read_store(disk, config)


def read_store(disk: Disk, config: BrokerConfig | None = None) -> Content:
    """What a broker that has stopped left, after every check of the independent reader."""
    store = (config or house_config()).store
    return check_store(disk, store.root_path, sizes_of(store), has_index=store.index_enable)


@asynccontextmanager
async def open_patient_house(*, sync_seconds: float = 1.0, **changes: Any) -> AsyncIterator[tuple[House, ManualClock]]:
    """A broker that answers only once a message is on disk, and a clock that the test moves."""
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock, sync_seconds=sync_seconds)
    store = {"flush_disk_type": FlushDiskType.SYNC_FLUSH} | changes.pop("store", {})
    async with _closed_with_time(clock, open_house(disk=disk, clock=clock, store=store, **changes)) as house:
        yield house, clock


@asynccontextmanager
async def _closed_with_time(clock: ManualClock, opening: Any) -> AsyncIterator[House]:
    """Opening and closing wait for the disk too: somebody has to move the clock meanwhile."""

    async def with_time(step: Any) -> Any:
        task = asyncio.ensure_future(step)
        while not task.done():
            await clock.advance(0.1)
            await asyncio.sleep(0.001)
        return await task

    house = await with_time(opening.__aenter__())
    try:
        yield house
    finally:
        await with_time(opening.__aexit__(None, None, None))
