"""A broker that is killed under load, again and again: what it has acknowledged is there.

The page cache survives a process, so nothing may be lost that was answered, whatever the broker was doing when it was
killed: appending, rolling to the next file, writing queues and index, or recovering from the kill before. All that was
acknowledged is looked for in three ways: by pulling every queue, by querying for keys, and by the independent reader
of the store's files.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.ports import LocalDisk
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.broker.house import Peer
from tests.broker.requests import as_version_1, properties_text, pull_frame, send_frame, unique_id
from tests.cli.processes import BIN, Running, running
from tests.store.reader import Record, Sizes, check_store, read_records

KILLS = int(os.environ.get("BROKER_KILLS", "4"))  # with each way to flush
TOPICS = ("Orders", "Payments")
QUEUES = 4
PRODUCERS = 3
MESSAGES = 2500  # of each producer, between two kills
KILL_AT_BYTES = (50_000, 600_000)  # of answers: a few hundred, or up to a third of them
SIZES = Sizes(log_file=1 << 20, queue_file=20 * 1000, slots=500, entries=2000)
CONF = f"""brokerName=broker-a
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
listenPort=0
mappedFileSizeCommitLog={SIZES.log_file}
mappedFileSizeConsumeQueue={SIZES.queue_file}
maxHashSlotNum={SIZES.slots}
maxIndexNum={SIZES.entries}
"""

Place = tuple[str, int, int]  # topic, queue id, queue offset


class Load:
    """Producers on connections of their own, and what they were told."""

    def __init__(self, chance: random.Random) -> None:
        self.acknowledged: dict[str, tuple[Place, int]] = {}  # unique id -> its place, its log offset
        self._numbers: Iterator[int] = iter(range(10**9))
        self._chance = chance

    async def run(self, address: str, process: Running, end: signal.Signals = signal.SIGKILL) -> int:
        """Send faster than the broker stores, and end it in the middle of that; returns how many were sent.

        Frames are made before and answers are read afterwards, so that the broker has no time to rest meanwhile.
        """
        host, _, port = address.rpartition(":")
        sends = [[self._message(way) for _ in range(MESSAGES)] for way in range(PRODUCERS)]
        data = [b"".join([encode_frame(frame) for frame, _, _ in some]) for some in sends]
        received = [bytearray() for _ in range(PRODUCERS)]
        kill_at = self._chance.randrange(*KILL_AT_BYTES)
        signalled = asyncio.Event()
        streams = [await asyncio.open_connection(host, int(port)) for _ in range(PRODUCERS)]

        async def produce(way: int) -> None:
            reader, writer = streams[way]
            try:
                writer.write(data[way])
                while part := await reader.read(1 << 16):
                    received[way] += part
                    if not signalled.is_set() and sum(map(len, received)) >= kill_at:
                        signalled.set()
                        process.signal(end)
            except ConnectionError:
                pass
            writer.transport.abort()

        await asyncio.gather(*[produce(way) for way in range(PRODUCERS)])
        for some, answers in zip(sends, received, strict=True):
            asked = {frame.opaque: (topic, ids) for frame, topic, ids in some}
            for answer in FrameDecoder().feed(bytes(answers)):
                self._note(answer, *asked[answer.opaque])
        return sum(len(ids) for some in sends for _, _, ids in some)

    def _message(self, way: int) -> tuple[Frame, str, list[str]]:
        """A send of one kind or another, its topic, and the unique ids in it."""
        number = next(self._numbers)
        topic, key = TOPICS[number % 2], f"order-{number}"
        body = b"%d " % number + bytes(self._chance.choice((0, 50, 400)))
        zeros = [("name", "text of C\0" * 60)] if number % 50 == 7 else []  # no mark of a torn record
        text = properties_text([("KEYS", key), ("UNIQ_KEY", unique_id(number)), ("TAGS", "TagA"), *zeros])
        frame = send_frame(
            topic, number % QUEUES, opaque=number, body=body, is_binary=way == 1, properties=text, d=QUEUES
        )
        if number % 40 == 13:
            ids = [unique_id(number), *[unique_id(next(self._numbers)) for _ in range(4)]]
            entries = [(0, body, properties_text([("UNIQ_KEY", each)]).encode()) for each in ids]
            batch = {"code": RequestCode.SEND_BATCH_MESSAGE, "m": "true", "body": encode_batch(entries)}
            return send_frame(topic, number % QUEUES, opaque=number, d=QUEUES, **batch), topic, ids  # type: ignore[arg-type]
        return (as_version_1(frame) if number % 20 == 7 else frame), topic, [unique_id(number)]

    def _note(self, answer: Frame, topic: str, ids: list[str]) -> None:
        assert answer.code == 0, answer.remark
        assert answer.ext is not None
        queue_id, first = int(answer.ext["queueId"] or ""), int(answer.ext["queueOffset"] or "")
        for index, message_id in enumerate((answer.ext["msgId"] or "").split(",")):
            self.acknowledged[ids[index]] = ((topic, queue_id, first + index), int(message_id[16:], 16))


def start(home: Path) -> list[str | Path]:
    return [BIN / "skyrocketmq", "broker", "-c", home / "broker.conf", "--log-level", "warning"]


def ready(process: Running) -> str:
    match = re.fullmatch(r"broker broker-a ready on (\S+)", process.line())
    assert match is not None, process.errors
    return match[1]


async def pull_everything(address: str) -> dict[Place, Record]:
    host, _, port = address.rpartition(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    found: dict[Place, Record] = {}
    for topic in TOPICS:
        for queue_id in range(QUEUES):
            offset = 0
            while (answer := await peer.ask(pull_frame(topic, queue_id, offset))).code == 0:
                records = read_records(answer.body)
                assert [record.queue_offset for record in records] == list(range(offset, offset + len(records)))
                found |= {(topic, queue_id, record.queue_offset): record for record in records}
                offset += len(records)
            assert answer.code == 19, answer.remark
            assert (answer.ext or {})["maxOffset"] == str(offset)
    await peer.close()
    return found


async def find_by_key(address: str, topic: str, key: str) -> list[Record]:
    host, _, port = address.rpartition(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    ext: dict[str, str | None] = {
        "topic": topic,
        "key": key,
        "maxNum": "64",
        "beginTimestamp": "0",
        "endTimestamp": str(2**62),
    }
    answer = await peer.ask(Frame(RequestCode.QUERY_MESSAGE, 1, ext=ext))
    await peer.close()
    return read_records(answer.body)


def check_files(store: Path, load: Load) -> int:
    """Every acknowledged message is in the files, where its answer said; returns how many there are."""
    disk = LocalDisk(threads=1)
    content = check_store(disk, store, SIZES)
    disk.close()
    stored = {record.properties.get("UNIQ_KEY"): record for record in content.records}
    for unique, (place, log_offset) in load.acknowledged.items():
        record = stored[unique]
        assert ((record.topic, record.queue_id, record.queue_offset), record.log_offset) == (place, log_offset)
    return len(content.records)


@pytest.mark.system
@pytest.mark.timeout(200 + 20 * KILLS)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_every_acknowledged_message_survives_kills_under_load(
    flush: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker.conf").write_text(CONF + f"storePathRootDir={tmp_path}/store\nflushDiskType={flush}\n")
    chance = random.Random(7)
    load = Load(chance)
    sent, began = 0, time.monotonic()
    restarts: list[float] = []
    for turn in range(KILLS):
        if turn % 4 == 3:  # killed while it starts and recovers, at any moment of it
            with running(start(tmp_path), home=tmp_path) as process:
                time.sleep(chance.uniform(0.2, 1.0))
                process.signal(signal.SIGKILL)
        with running(start(tmp_path), home=tmp_path) as process:
            started = time.monotonic()
            address = ready(process)
            restarts.append(time.monotonic() - started)
            sent += asyncio.run(load.run(address, process))
            assert process.wait() == -signal.SIGKILL

    with running(start(tmp_path), home=tmp_path) as process:
        address = ready(process)
        found = asyncio.run(pull_everything(address))
        for unique, (place, log_offset) in load.acknowledged.items():
            record = found[place]
            assert record.properties["UNIQ_KEY"] == unique
            assert record.log_offset == log_offset
        uniques = [record.properties["UNIQ_KEY"] for record in found.values()]
        assert len(uniques) == len(set(uniques)), "each message was sent once, and is there once"
        for unique in [*chance.sample(sorted(load.acknowledged), 100), *list(load.acknowledged)[-20:]]:
            (topic, _, _), log_offset = load.acknowledged[unique]
            by_id = asyncio.run(find_by_key(address, topic, unique))
            assert log_offset in [record.log_offset for record in by_id]
            if key := by_id[-1].properties.get("KEYS"):
                assert log_offset in [each.log_offset for each in asyncio.run(find_by_key(address, topic, key))]
        process.signal(signal.SIGTERM)
        assert process.wait() == 0

    assert 0 < len(load.acknowledged) < sent, "the broker was killed while it worked"
    stored_count = check_files(tmp_path / "store", load)
    with capsys.disabled():
        print(
            f"\n{flush}, {KILLS} kills in {time.monotonic() - began:.0f} s: {sent} messages sent, {stored_count} "
            f"stored, {len(load.acknowledged)} acknowledged, lost=0; ready again after "
            f"{statistics.median(restarts):.2f} s at the median"
        )


@pytest.mark.system
def test_a_broker_that_is_stopped_under_load_leaves_its_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(CONF + f"storePathRootDir={tmp_path}/store\n")
    load = Load(random.Random(8))
    for _ in range(3):
        with running(start(tmp_path), home=tmp_path) as process:
            asyncio.run(load.run(ready(process), process, signal.SIGTERM))
            assert process.wait() == 0
            assert "Traceback" not in process.errors
        assert check_files(tmp_path / "store", load) >= len(load.acknowledged) > 0
