"""What an operator asks of the cleaner: old files now, queues of what is gone, queues of topics nobody knows."""

from __future__ import annotations

from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, open_house
from tests.broker.requests import TOPIC, send_frame

SMALL = {"commit_log_file_bytes": 4096, "queue_file_bytes": 200, "index_enable": False}


async def test_old_log_files_go_at_any_hour_when_an_operator_asks() -> None:
    clock = ManualClock(1_700_053_200_000)  # no night hour in any of the usual time zones
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    store = SMALL | {"delete_when": "99"}
    async with open_house(disk=disk, clock=clock, store=store) as house:
        peer = await house.connect()
        for number in range(12):
            await peer.ok(send_frame(TOPIC, 0, opaque=number, body=b"x" * 1200, d=1))
        await house.broker.store.flush()
        for name in list(disk.list(ROOT / "commitlog"))[:2]:
            disk.set_modified_ms(ROOT / "commitlog" / name, 0)
        await clock.advance(75)
        assert house.broker.store.log.min_offset == 0
        await peer.ok(Frame(RequestCode.DELETE_EXPIRED_COMMITLOG, 100))
        await clock.advance(15)
        assert house.broker.store.log.min_offset == 2 * 4096
        await peer.ok(Frame(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, 101))
        assert house.broker.store.min_offset(TOPIC, 0) > 0


async def test_queues_of_topics_that_nobody_knows_go() -> None:
    async with open_house(check=False) as house:
        peer = await house.connect()
        await peer.ok(send_frame(TOPIC, 0, opaque=1, body=b"known"))
        await peer.ok(send_frame("Forgotten", 0, opaque=2, body=b"unknown"))
        house.broker.tables.topics.delete("Forgotten")
        await peer.ok(Frame(RequestCode.CLEAN_UNUSED_TOPIC, 3))
        assert house.broker.store.queues.topics() == [TOPIC]
