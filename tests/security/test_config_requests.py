"""Requests that change the configuration (25, 318), with more in them than there are keys."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import open_house
from tests.loop_limit import LIMIT_S
from tests.nameserver.test_access import town

HUGE = b"".join(b"k%d=v\n" % number for number in range(10_000))
MANY = b"".join(b"k%d=v\n" % number for number in range(5_000))


async def test_a_broker_is_not_held_up_by_keys_that_there_are_not(caplog: pytest.LogCaptureFixture) -> None:
    async with open_house() as house:
        peer = await house.connect()
        code, remark = await peer.refused(Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=HUGE))
        assert (code, "at most 65536" in remark) == (1, True)
        took_s = []
        for _ in range(3):
            started = time.thread_time()
            await peer.ok(Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=MANY))
            took_s.append(time.thread_time() - started)
        assert min(took_s) < LIMIT_S
    assert sum("unknown configuration key" in record.msg for record in caplog.records) == 3 * 11


async def test_nor_is_a_name_server(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        peer = await here.peer()
        answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, {}, body=HUGE)
        assert (answer.code, "at most 65536" in (answer.remark or "")) == (1, True)
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, {}, body=b"orderMessageEnable=true\n")).code == 0
