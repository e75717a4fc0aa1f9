"""Looking into consume queues: what cells hold, and what a group's filter makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from skyrocketmq.model import SQL92_EXPRESSION
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_admin import ConsumeQueueEntries
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.java import string_hash
from tests.broker.house import House, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, properties_text, send_frame, subscription

CELLS = RequestCode.QUERY_CONSUME_QUEUE


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        await opened.make_topic()
        yield opened


async def cells(house: House, **fields: object) -> ConsumeQueueEntries:
    ext = {"topic": TOPIC, "queueId": 0, "index": 0, "count": 10} | fields
    return decode_body(ConsumeQueueEntries, (await house.administer(CELLS, ext)).body)


async def test_the_cells_of_a_queue_say_where_its_messages_lie(house: House) -> None:
    await house.send_many(2, tags="A")
    await house.send_many(3, tags="B")
    records = await house.pull_all()
    found = await cells(house)
    assert (found.min_queue_index, found.max_queue_index) == (0, 5)
    assert [(cell.log_offset, cell.size_bytes) for cell in found.queue_data] == [
        (record.log_offset, record.total) for record in records
    ]
    assert [cell.tags_code for cell in found.queue_data] == [string_hash("A")] * 2 + [string_hash("B")] * 3
    assert all(cell.eval for cell in found.queue_data)
    assert (found.subscription_data, found.filter_data) == (None, None)
    some = await cells(house, index=3, count=1)
    assert some.queue_data == found.queue_data[3:4]


async def test_the_tags_of_a_connected_group_decide_on_each_cell(house: House) -> None:
    await house.send_many(1, tags="A")
    await house.send_many(1, tags="B")
    peer = await house.connect()
    await peer.ok(heartbeat_frame(subscription("B || C")))
    found = await cells(house, consumerGroup=GROUP)
    assert found.subscription_data is not None
    assert found.subscription_data.sub_string == "B || C"
    assert [cell.eval for cell in found.queue_data] == [False, True]
    offline = await cells(house, consumerGroup="others")
    assert offline.filter_data == f"others@{TOPIC} is not online"
    assert [cell.eval for cell in offline.queue_data] == [True, True]


async def test_an_sql_filter_is_shown_and_decides_by_bit_maps() -> None:
    store: dict[str, Any] = {"queue_ext_enable": True}
    async with open_house(check=False, sql_filter_enable=True, calc_filter_bit_map=True, store=store) as house:
        await house.make_topic()
        peer = await house.connect()
        await peer.ok(heartbeat_frame(subscription("a > 5", expression_type=SQL92_EXPRESSION, tags_set=frozenset())))
        await asyncio.sleep(0.005)  # a filter counts for messages that are stored after it came
        for value in ("3", "7"):
            await peer.ok(send_frame(properties=properties_text({"a": value})))
        found = await cells(house, consumerGroup=GROUP)
        assert '"expression":"a > 5"' in (found.filter_data or "")
        assert [cell.eval for cell in found.queue_data] == [False, True]
        assert [("1" in (cell.bit_map or ""), bool(cell.extend_data_json)) for cell in found.queue_data] == [
            (False, True),
            (True, True),
        ]


@pytest.mark.parametrize("index", [-1, 2, 99])
async def test_a_place_that_does_not_exist_is_a_success_without_a_body(house: House, index: int) -> None:
    await house.send_many(2)
    answer = await house.administer(CELLS, {"topic": TOPIC, "queueId": 0, "index": index, "count": 1})
    assert answer.body == b""
    assert "does not exist" in (answer.remark or "")


async def test_a_queue_that_does_not_exist_is_refused(house: House) -> None:
    peer = await house.connect()
    code, remark = await peer.refused(Frame(CELLS, 1, ext={"topic": TOPIC, "queueId": "9", "count": "1"}))
    assert code == ResponseCode.SYSTEM_ERROR
    assert "queue 9" in remark
