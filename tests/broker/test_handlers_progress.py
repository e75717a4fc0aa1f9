"""How far groups are, asked for over a real connection: progress, times, clones, corrections."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from skyrocketmq.model import ConsumerData, MessageQueue, SubscriptionData
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_admin import ConsumeOffsets, ConsumeStats, ConsumeStatsList, ConsumeTimeSpans
from skyrocketmq.wire.bodies_tables import CorrectionOffsets
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from tests.broker.desk import Desk, open_desk
from tests.broker.support import BROKER, member

COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
QUEUE = {"consumerGroup": "g", "topic": "orders", "queueId": 1}
CORRECTION = RequestCode.QUERY_CORRECTION_OFFSET
CLONE = RequestCode.CLONE_GROUP_OFFSET


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk() as opened:
        await opened.make_topic("orders")
        yield opened


def commit(desk: Desk, group: str, **offsets: int) -> None:
    """Offsets of a group by topic, in queue 0."""
    for topic, offset in offsets.items():
        desk.tables.offsets.commit(group=group, topic=topic, queue_id=0, offset=offset)


def subscribe(desk: Desk, group: str, *topics: str) -> None:
    subscriptions = tuple(SubscriptionData(topic=topic) for topic in topics)
    desk.tables.consumers.register(member("c1"), ConsumerData(group_name=group, subscription_data_set=subscriptions))


# -- progress


async def stats(desk: Desk, **fields: object) -> dict[MessageQueue, ConsumeOffsets]:
    answer = await desk.ok(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"} | fields)
    return decode_body(ConsumeStats, answer.body).offset_table


async def test_how_far_a_group_is_covers_every_queue_that_can_be_read(desk: Desk) -> None:
    await desk.make_topic("orders", readQueueNums=2, writeQueueNums=1)
    desk.put("orders", 1)
    second_ms = desk.clock.now_ms()
    await desk.clock.advance(1)
    desk.put("orders", 1, count=4)
    await desk.ok(COMMIT, QUEUE | {"commitOffset": 1})
    assert await stats(desk, topic="orders") == {
        MessageQueue("orders", BROKER, 0): ConsumeOffsets(),
        MessageQueue("orders", BROKER, 1): ConsumeOffsets(broker_offset=5, consumer_offset=1, last_timestamp=second_ms),
    }


async def test_without_a_topic_all_that_the_group_has_read_are_covered(desk: Desk) -> None:
    await desk.make_topic("refunds", readQueueNums=1)
    for topic in ("orders", "refunds", "deleted"):
        await desk.ok(COMMIT, QUEUE | {"topic": topic, "commitOffset": 1})
    assert {queue.topic for queue in await stats(desk)} == {"orders", "refunds"}
    assert await stats(desk, consumerGroup="unknown") == {}


async def test_topics_that_a_connected_group_no_longer_subscribes_to_are_left_out(desk: Desk) -> None:
    await desk.make_topic("refunds", readQueueNums=1)
    for topic in ("orders", "refunds"):
        await desk.ok(COMMIT, QUEUE | {"topic": topic, "commitOffset": 1})
    data = ConsumerData(group_name="g", subscription_data_set=(SubscriptionData(topic="refunds"),))
    desk.tables.consumers.register(member("c1"), data)
    assert {queue.topic for queue in await stats(desk)} == {"refunds"}


async def all_stats(desk: Desk, *, is_order: bool = False) -> ConsumeStatsList:
    answer = await desk.ok(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": str(is_order).lower()})
    return decode_body(ConsumeStatsList, answer.body)


async def test_how_far_all_groups_are_has_each_group_with_its_topics(desk: Desk) -> None:
    await desk.make_topic("orders", readQueueNums=1, writeQueueNums=2)
    desk.put("orders", 0, count=5)
    desk.tables.groups.find_or_create("g")
    desk.tables.groups.find_or_create("idle")
    commit(desk, "g", orders=2, deleted=1)
    commit(desk, "nobody-knows-it", orders=1)
    found = await all_stats(desk)
    by_group = {group: stats for entry in found.consume_stats_list for group, stats in entry.items()}
    assert by_group["idle"] == []
    assert "nobody-knows-it" not in by_group
    [of_orders] = by_group["g"]
    assert {queue.queue_id: (at.consumer_offset, at.broker_offset) for queue, at in of_orders.offset_table.items()} == {
        0: (2, 5),
        1: (0, 0),
    }
    assert (found.broker_addr, found.total_diff) == (desk.address, 3)


async def test_how_far_all_groups_are_in_topics_with_an_order_leaves_out_the_others(desk: Desk) -> None:
    await desk.make_topic("steps", readQueueNums=1, writeQueueNums=1)
    desk.tables.topics.apply_order_topics(["steps"])
    desk.tables.groups.find_or_create("g")
    commit(desk, "g", orders=0, steps=0)
    found = await all_stats(desk, is_order=True)
    [of_group] = [entry["g"] for entry in found.consume_stats_list if "g" in entry]
    assert [queue.topic for stats in of_group for queue in stats.offset_table] == ["steps"]


async def test_how_far_all_groups_are_leaves_out_what_members_no_longer_subscribe_to(desk: Desk) -> None:
    desk.tables.groups.find_or_create("g")
    commit(desk, "g", orders=0)
    subscribe(desk, "g", "refunds")
    found = await all_stats(desk)
    assert {"g": []} in found.consume_stats_list


async def test_the_rate_of_a_group_is_what_its_pulls_were_given_in_the_last_minute(desk: Desk) -> None:
    commit(desk, "g", orders=0)
    await desk.statistics.sample()
    desk.statistics.pulled("orders", "g", 0, 30, 3000)
    desk.statistics.pulled("orders", "g", 1, 10, 1000)
    await desk.clock.advance(10)
    await desk.statistics.sample()
    answer = await desk.ok(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
    assert decode_body(ConsumeStats, answer.body).consume_tps == pytest.approx(4.0)


# -- times


async def test_the_times_of_a_group_are_told_for_every_queue(desk: Desk) -> None:
    await desk.make_topic("orders", readQueueNums=1, writeQueueNums=2)
    times_ms = []
    for _ in range(3):
        times_ms.append(desk.clock.now_ms())
        desk.put("orders", 0)
        await desk.clock.advance(10)
    commit(desk, "g", orders=2)
    answer = await desk.ok(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "g"})
    read, empty = decode_body(ConsumeTimeSpans, answer.body).consume_time_span_set
    assert (read.min_timestamp, read.consume_timestamp, read.max_timestamp) == tuple(times_ms)
    assert read.delay_time == 10_000
    assert read.message_queue == MessageQueue("orders", BROKER, 0)
    assert (empty.min_timestamp, empty.consume_timestamp, empty.max_timestamp, empty.delay_time) == (-1, -1, -1, 0)
    assert json.loads(answer.body)["consumeTimeSpanSet"][0]["minTimeStampStr"].count("#") == 1


async def test_a_group_that_has_consumed_nothing_stands_at_the_oldest_message_and_is_as_late(desk: Desk) -> None:
    await desk.make_topic("orders", readQueueNums=1, writeQueueNums=1)
    first_ms = desk.clock.now_ms()
    desk.put("orders", 0)
    await desk.clock.advance(4)
    answer = await desk.ok(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "new"})
    [span] = decode_body(ConsumeTimeSpans, answer.body).consume_time_span_set
    assert (span.consume_timestamp, span.delay_time) == (first_ms, 4_000)


async def test_the_times_of_an_unknown_topic_are_refused(desk: Desk) -> None:
    code, _ = await desk.refused(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "none", "group": "g"})
    assert code == ResponseCode.TOPIC_NOT_EXIST


# -- one group's offsets for another


async def test_a_group_gets_the_offsets_of_another(desk: Desk) -> None:
    await desk.make_topic("refunds")
    commit(desk, "g", orders=7, refunds=3)
    desk.tables.offsets.commit(group="g", topic="orders", queue_id=2, offset=9)
    await desk.ok(CLONE, {"srcGroup": "g", "destGroup": "copy", "topic": "orders", "offline": "false"})
    assert desk.tables.offsets.queues_of(group="copy", topic="orders") == {0: 7, 2: 9}
    assert desk.tables.offsets.queues_of(group="copy", topic="refunds") == {}


async def test_without_a_topic_all_offsets_are_copied(desk: Desk) -> None:
    await desk.make_topic("refunds")
    commit(desk, "g", orders=7, refunds=3, deleted=1)
    await desk.ok(CLONE, {"srcGroup": "g", "destGroup": "copy"})
    assert sorted(desk.tables.offsets.topics_of("copy")) == ["orders", "refunds"]


@pytest.mark.parametrize(("is_offline", "copied"), [("false", ["refunds"]), ("true", ["orders", "refunds"])])
async def test_what_members_no_longer_subscribe_to_is_copied_only_from_a_group_that_is_said_to_be_offline(
    desk: Desk, is_offline: str, copied: list[str]
) -> None:
    await desk.make_topic("refunds")
    commit(desk, "g", orders=7, refunds=3)
    subscribe(desk, "g", "refunds")
    await desk.ok(CLONE, {"srcGroup": "g", "destGroup": "copy", "offline": is_offline})
    assert sorted(desk.tables.offsets.topics_of("copy")) == copied


async def corrections(desk: Desk, **fields: object) -> dict[int, int]:
    answer = await desk.ok(CORRECTION, {"topic": "orders", "compareGroup": "none"} | fields)
    return decode_body(CorrectionOffsets, answer.body).correction_offsets


async def test_the_smallest_offset_among_groups_is_told_and_nothing_is_deleted(desk: Desk) -> None:
    for group, offset in (("a", 9), ("b", 5), ("c", 2)):
        commit(desk, group, orders=offset)
    assert await corrections(desk) == {0: 2}
    assert await corrections(desk, filterGroups="c") == {0: 5}
    assert await corrections(desk, filterGroups="c,b") == {0: 9}
    assert sorted(desk.tables.offsets.groups_of("orders")) == ["a", "b", "c"]


async def test_an_offset_beyond_that_of_the_group_to_compare_with_is_no_correction(desk: Desk) -> None:
    commit(desk, "a", orders=9)
    commit(desk, "slow", orders=4)
    assert await corrections(desk, filterGroups="slow", compareGroup="slow") == {0: INT64_MAX}
    assert await corrections(desk, compareGroup="slow") == {0: 4}


async def test_an_offset_of_messages_that_are_gone_counts_for_nothing(desk: Desk) -> None:
    desk.put("orders", 0, count=5)
    desk.store.queue("orders", 0).correct_min_offset(300)
    commit(desk, "old", orders=0)
    commit(desk, "new", orders=5)
    assert await corrections(desk) == {0: 5}


# -- what groups read


async def test_the_topics_that_a_group_has_read_are_listed(desk: Desk) -> None:
    commit(desk, "g", orders=7, refunds=3)
    answer = await desk.ok(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})
    assert json.loads(answer.body) == {"brokerAddr": desk.address, "topicList": ["orders", "refunds"]}


async def test_what_a_group_subscribes_to_is_told_while_it_is_there(desk: Desk) -> None:
    ask = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "g", "topic": "orders"}
    assert json.loads((await desk.ok(*ask)).body) == {"group": "g", "topic": "orders"}
    subscribe(desk, "g", "orders")
    assert json.loads((await desk.ok(*ask)).body)["subscriptionData"]["topic"] == "orders"


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_CONSUME_STATS, {}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders"}),
        (CLONE, {"srcGroup": "g"}),
        (CORRECTION, {"compareGroup": "g"}),
        (RequestCode.QUERY_TOPICS_BY_CONSUMER, {}),
        (RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "g"}),
    ],
)
async def test_a_request_that_names_too_little_is_refused(desk: Desk, code: int, fields: dict[str, str]) -> None:
    answer, remark = await desk.refused(code, fields)
    assert answer == ResponseCode.SYSTEM_ERROR
    assert "is missing" in remark
