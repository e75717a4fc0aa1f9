"""A real broker on a real disk that is full: it refuses and says why, keeps what it has, and goes on by itself."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.ports import LocalDisk
from skyrocketmq.wire.frames import Frame
from tests.broker.house import Peer
from tests.broker.requests import properties_text, pull_frame, send_frame, unique_id
from tests.cli.processes import BIN, running
from tests.store.reader import Sizes, check_store, read_records
from tests.system.test_broker_kill import ready

DISK_MIB = 48
SIZES = Sizes(log_file=4 << 20, queue_file=20 * 1000, slots=500, entries=2000)
TOPIC = "Orders"
QUEUES = 4
CONF = f"""brokerName=broker-a
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
listenPort=0
cleanFileForciblyEnable=false
mappedFileSizeCommitLog={SIZES.log_file}
mappedFileSizeConsumeQueue={SIZES.queue_file}
maxHashSlotNum={SIZES.slots}
maxIndexNum={SIZES.entries}
"""
SERVICE_NOT_AVAILABLE = 14
HEALS_WITHIN_S = 25.0  # the disk is looked at every ten seconds


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a few megabytes."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no small file system here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Producer:
    """Sends one message after the other, and knows which were acknowledged, and where they are."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._chance = random.Random(3)
        self.number = 0
        self.acknowledged: dict[str, tuple[int, int]] = {}  # unique id -> queue, offset

    async def connect(self) -> Peer:
        host, _, port = self._address.rpartition(":")
        return Peer(*await asyncio.open_connection(host, int(port)))

    async def send(self, peer: Peer) -> Frame:
        number, self.number = self.number, self.number + 1
        text = properties_text([("KEYS", f"order-{number}"), ("UNIQ_KEY", unique_id(number)), ("TAGS", "TagA")])
        body = self._chance.randbytes(20_000)
        answer = await peer.ask(send_frame(TOPIC, number % QUEUES, opaque=number, body=body, properties=text, d=QUEUES))
        if answer.code == 0:
            assert answer.ext is not None
            self.acknowledged[unique_id(number)] = (number % QUEUES, int(answer.ext["queueOffset"] or ""))
        return answer

    async def send_until_refused(self) -> Frame:
        peer = await self.connect()
        try:
            while True:
                answer = await self.send(peer)
                if answer.code:
                    return answer
        finally:
            await peer.close()

    async def send_until_taken(self) -> None:
        peer = await self.connect()
        deadline = time.monotonic() + HEALS_WITHIN_S
        try:
            while (answer := await self.send(peer)).code:
                assert time.monotonic() < deadline, answer.remark
                await asyncio.sleep(0.2)
        finally:
            await peer.close()

    async def check_all_are_there(self) -> None:
        peer = await self.connect()
        found: dict[str, tuple[int, int]] = {}
        for queue_id in range(QUEUES):
            offset = 0
            while (answer := await peer.ask(pull_frame(TOPIC, queue_id, offset))).code == 0:
                records = read_records(answer.body)
                found |= {record.properties["UNIQ_KEY"]: (queue_id, record.queue_offset) for record in records}
                offset += len(records)
        await peer.close()
        assert self.acknowledged.items() <= found.items()


@pytest.mark.system
@pytest.mark.timeout(150)
def test_a_full_disk_refuses_sends_says_why_and_heals_by_itself(small_disk: Path, tmp_path: Path) -> None:
    store = small_disk / "store"
    (tmp_path / "broker.conf").write_text(CONF + f"storePathRootDir={store}\n")
    hog = small_disk / "somebody else's"
    hog.write_bytes(bytes(16 << 20))
    command: list[str | Path] = [
        BIN / "skyrocketmq",
        "broker",
        "-c",
        tmp_path / "broker.conf",
        "--log-level",
        "warning",
    ]
    with running(command, home=tmp_path) as process:
        producer = Producer(ready(process))
        refused = asyncio.run(producer.send_until_refused())
        assert refused.code == SERVICE_NOT_AVAILABLE
        assert "disk is full" in (refused.remark or "")
        assert len(producer.acknowledged) > 500
        asyncio.run(producer.check_all_are_there())

        time.sleep(3)  # nothing changes by itself, and nothing breaks
        assert asyncio.run(producer.send_until_refused()).code == SERVICE_NOT_AVAILABLE
        hog.unlink()
        asyncio.run(producer.send_until_taken())
        asyncio.run(producer.send_until_refused())
        asyncio.run(producer.check_all_are_there())
        process.signal(signal.SIGKILL)
        process.wait()

    with running(command, home=tmp_path) as process:
        producer._address = ready(process)
        asyncio.run(producer.check_all_are_there())
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.errors
        assert "Traceback" not in process.errors
    disk = LocalDisk(threads=1)
    stored = {record.properties["UNIQ_KEY"] for record in check_store(disk, store, SIZES).records}
    disk.close()
    assert producer.acknowledged.keys() <= stored
