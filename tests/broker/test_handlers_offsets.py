"""Offsets of groups and of queues, asked for over a real connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from skyrocketmq.wire.codes import RequestCode, ResponseCode
from tests.broker.desk import Desk, open_desk
from tests.broker.house import ROOT

QUERY = RequestCode.QUERY_CONSUMER_OFFSET
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
QUEUE = {"consumerGroup": "g", "topic": "orders", "queueId": 1}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk() as opened:
        await opened.make_topic("orders")
        yield opened


async def offset(desk: Desk, code: int, **fields: object) -> int:
    answer = await desk.ok(code, {"topic": "orders", "queueId": 1} | fields)
    assert answer.ext is not None
    return int(answer.ext["offset"] or "")


async def test_a_committed_offset_is_found_again(desk: Desk) -> None:
    await desk.ok(COMMIT, QUEUE | {"commitOffset": 17})
    assert await offset(desk, QUERY, consumerGroup="g") == 17
    await desk.ok(COMMIT, QUEUE | {"commitOffset": 4})
    assert await offset(desk, QUERY, consumerGroup="g") == 4


async def test_a_new_group_starts_at_the_beginning_of_a_young_queue(desk: Desk) -> None:
    assert await offset(desk, QUERY, consumerGroup="new") == 0
    desk.put("orders", 1, count=5)
    assert await offset(desk, QUERY, consumerGroup="new") == 0


async def test_a_new_group_decides_by_itself_in_a_queue_whose_beginning_is_gone(desk: Desk) -> None:
    desk.put("orders", 1, count=5)
    desk.store.queue("orders", 1).correct_min_offset(300)
    assert desk.store.min_offset("orders", 1) > 0
    code, remark = await desk.refused(QUERY, QUEUE)
    assert code == ResponseCode.QUERY_NOT_FOUND
    assert "orders" in remark


async def test_a_new_group_decides_by_itself_in_a_queue_whose_beginning_is_cold(desk: Desk) -> None:
    desk.put("orders", 1, count=5)
    await desk.config.update({"accessMessageInMemoryMaxRatio": "0"})
    desk.store.apply_config(desk.config.current.store)
    assert (await desk.refused(QUERY, QUEUE))[0] == ResponseCode.QUERY_NOT_FOUND


async def test_a_negative_offset_counts_as_none(desk: Desk) -> None:
    await desk.ok(COMMIT, QUEUE | {"commitOffset": -1})
    assert await offset(desk, QUERY, consumerGroup="g") == 0


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (QUERY, ("consumerGroup", "topic", "queueId")),
        (COMMIT, ("consumerGroup", "topic", "queueId", "commitOffset")),
        (RequestCode.GET_MAX_OFFSET, ("topic", "queueId")),
        (RequestCode.GET_MIN_OFFSET, ("topic", "queueId")),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, ("topic", "queueId")),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ("topic", "queueId", "timestamp")),
    ],
)
async def test_a_missing_or_unreadable_field_is_refused_by_name(desk: Desk, code: int, fields: tuple[str, ...]) -> None:
    complete = QUEUE | {"commitOffset": 1, "timestamp": 1}
    for field in fields:
        wrong: list[dict[str, object]] = [{key: value for key, value in complete.items() if key != field}]
        if field not in ("consumerGroup", "topic"):
            wrong.append(complete | {field: "many"})
        for ext in wrong:
            answer, remark = await desk.refused(code, ext)
            assert answer == ResponseCode.SYSTEM_ERROR
            assert field in remark
    assert desk.tables.offsets.table() == {}


async def test_the_bounds_of_a_queue_are_told(desk: Desk) -> None:
    assert await offset(desk, RequestCode.GET_MAX_OFFSET) == 0
    assert await offset(desk, RequestCode.GET_MIN_OFFSET) == 0
    desk.put("orders", 1, count=3)
    assert await offset(desk, RequestCode.GET_MAX_OFFSET) == 3
    assert await offset(desk, RequestCode.GET_MAX_OFFSET, queueId=99) == 0
    assert await offset(desk, RequestCode.GET_MAX_OFFSET, topic="nowhere") == 0


async def test_messages_are_found_by_their_time(desk: Desk) -> None:
    begin = desk.clock.now_ms()
    for _ in range(3):
        desk.put("orders", 1)
        await desk.clock.advance(10)

    async def found(milliseconds: int) -> int:
        return await offset(desk, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=begin + milliseconds)

    assert [await found(at) for at in (-5, 0, 4_000, 6_000, 10_000, 15_000, 99_000)] == [0, 0, 0, 1, 1, 1, 2]
    assert await offset(desk, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queueId=3, timestamp=begin) == 0


async def test_the_time_of_the_oldest_message_is_told(desk: Desk) -> None:
    ext = {"topic": "orders", "queueId": 1}
    assert (await desk.ok(RequestCode.GET_EARLIEST_MSG_STORETIME, ext)).ext == {"timestamp": "-1"}
    desk.put("orders", 1)
    first_ms = desk.clock.now_ms()
    await desk.clock.advance(1)
    desk.put("orders", 1)
    assert (await desk.ok(RequestCode.GET_EARLIEST_MSG_STORETIME, ext)).ext == {"timestamp": str(first_ms)}


async def test_slaves_are_given_all_offsets(desk: Desk) -> None:
    await desk.ok(COMMIT, QUEUE | {"commitOffset": 17})
    answer = await desk.ok(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert json.loads(answer.body) == {"offsetTable": {"orders@g": {"1": 17}}}


async def test_slaves_are_given_the_delay_offsets_that_the_file_holds(desk: Desk) -> None:
    assert (await desk.ok(RequestCode.GET_ALL_DELAY_OFFSET)).body == b'{"offsetTable":{}}'
    desk.disk.replace(ROOT / "config" / "delayOffset.json", b'{\n\t"offsetTable":{3:10,12:2\n\t}\n}')
    assert (await desk.ok(RequestCode.GET_ALL_DELAY_OFFSET)).body == b'{"offsetTable":{3:10,12:2}}'
