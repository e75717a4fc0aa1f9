"""Topics made, changed, deleted and looked at by administrators."""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skyrocketmq.config import BrokerRole, NamesrvConfig
from skyrocketmq.model import ConsumerData, SubscriptionData, TopicConfig, TopicFilterType
from skyrocketmq.nameserver import NameServer
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_admin import QueueOffsets, TopicStats
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from tests.broker.desk import Desk, open_desk
from tests.broker.support import BROKER, CLUSTER, member

MAKE = RequestCode.UPDATE_AND_CREATE_TOPIC
FIELDS = {"readQueueNums": 4, "writeQueueNums": 2, "perm": 6, "topicFilterType": "MULTI_TAG", "order": "true"}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk() as opened:
        yield opened


async def test_a_topic_is_in_use_and_in_its_file_when_its_making_is_answered(desk: Desk) -> None:
    await desk.ok(MAKE, FIELDS | {"topic": "orders", "topicSysFlag": 1})
    assert desk.tables.topics.find("orders") == TopicConfig("orders", 4, 2, 6, TopicFilterType.MULTI_TAG, 1)
    saved = desk.file("topics.json")
    assert saved["topicConfigTable"]["orders"]["writeQueueNums"] == 2
    assert saved["dataVersion"]["counter"] == 1


async def test_name_servers_know_a_topic_when_its_making_is_answered(tmp_path: Path) -> None:
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties")
    async with (
        NameServer.open(config, host="127.0.0.1", port=0) as name_server,
        open_desk(namesrv_addresses=(name_server.address,)) as desk,
    ):
        await desk.make_topic("orders")
        assert name_server.tables.find_route("orders") is not None


async def test_a_topic_can_be_changed(desk: Desk) -> None:
    await desk.make_topic("orders")
    await desk.make_topic("orders", writeQueueNums=0, perm=4)
    assert desk.tables.topics.find("orders") == TopicConfig("orders", 4, 0, 4)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"topic": "a topic"}, "contains"),
        ({"topic": "x" * 128}, "127"),
        ({"topic": ""}, "topic"),
        ({"topic": "TBW102"}, "TBW102"),
        ({"topic": CLUSTER}, CLUSTER),
        ({"topic": "rmq_sys_mine"}, "rmq_sys_mine"),
        ({"readQueueNums": "many"}, "readQueueNums"),
        ({"readQueueNums": -1}, "readQueueNums"),
        ({"writeQueueNums": 2_000_000_000}, "writeQueueNums"),
        ({"perm": 16}, "perm"),
        ({"topicFilterType": "NO_TAG"}, "SINGLE_TAG"),
    ],
)
async def test_a_topic_that_cannot_be_is_refused_with_what_is_wrong(
    desk: Desk, change: dict[str, object], word: str
) -> None:
    before = desk.tables.topics.table()
    code, remark = await desk.refused(MAKE, FIELDS | {"topic": "orders"} | change)
    assert code == ResponseCode.SYSTEM_ERROR
    assert word in remark
    assert desk.tables.topics.table() == before


async def test_a_field_that_is_missing_is_named(desk: Desk) -> None:
    for field in ("topic", "readQueueNums", "writeQueueNums", "perm"):
        fields = FIELDS | {"topic": "orders"}
        del fields[field]
        code, remark = await desk.refused(MAKE, fields)
        assert code == ResponseCode.SYSTEM_ERROR
        assert field in remark


async def test_a_topic_that_could_not_be_written_down_is_not_reported_as_made(desk: Desk) -> None:
    desk.disk.fail("pwrite", error=errno.ENOSPC, path="*/topics.json*", times=None)
    _, remark = await desk.refused(MAKE, FIELDS | {"topic": "orders"})
    assert "No space" in remark
    assert desk.tables.topics.find("orders") is not None  # it works, and is written as soon as the disk lets it
    desk.disk.heal()
    await desk.tables.topics_saver.save()
    assert "orders" in desk.file("topics.json")["topicConfigTable"]


@pytest.mark.parametrize("code", [MAKE, RequestCode.DELETE_TOPIC_IN_BROKER])
async def test_a_slave_leaves_topics_to_its_master(code: int) -> None:
    async with open_desk(role=BrokerRole.SLAVE, broker_id=1) as desk:
        answer, remark = await desk.refused(code, FIELDS | {"topic": "orders"})
        assert answer == ResponseCode.SYSTEM_ERROR
        assert "master" in remark


async def test_a_deleted_topic_is_gone_with_its_queues_and_goes_on_where_they_ended(desk: Desk) -> None:
    await desk.make_topic("orders")
    desk.put("orders", count=3)
    await desk.ok(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert desk.tables.topics.find("orders") is None
    assert "orders" not in desk.file("topics.json")["topicConfigTable"]
    assert desk.store.min_offset("orders", 0) == desk.store.max_offset("orders", 0) == 3
    await desk.ok(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    await desk.make_topic("orders")
    desk.put("orders")
    assert desk.store.max_offset("orders", 0) == 4


async def test_system_topics_cannot_be_deleted(desk: Desk) -> None:
    code, remark = await desk.refused(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": BROKER})
    assert code == ResponseCode.SYSTEM_ERROR
    assert BROKER in remark
    assert desk.tables.topics.find(BROKER) is not None


async def test_all_topics_are_listed_with_their_version(desk: Desk) -> None:
    await desk.make_topic("orders")
    table = decode_body(TopicConfigTable, (await desk.ok(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
    assert table.topic_config_table == desk.tables.topics.table()
    assert table.data_version == desk.tables.topics.data_version


async def test_system_topics_are_listed(desk: Desk) -> None:
    answer = await desk.ok(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    assert {"TBW102", CLUSTER, BROKER} <= set(json.loads(answer.body)["topicList"])


async def test_the_bounds_of_all_queues_that_can_be_written_are_told(desk: Desk) -> None:
    await desk.make_topic("orders", readQueueNums=4, writeQueueNums=2)
    await desk.clock.advance(5)
    desk.put("orders", 1, count=3)
    stored_ms = desk.clock.now_ms()
    await desk.clock.advance(5)
    stats = decode_body(TopicStats, (await desk.ok(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})).body)
    found = {queue.queue_id: bounds for queue, bounds in stats.offset_table.items()}
    assert found == {
        0: QueueOffsets(),
        1: QueueOffsets(min_offset=0, max_offset=3, last_update_timestamp=stored_ms),
    }
    assert {queue.broker_name for queue in stats.offset_table} == {BROKER}


async def test_a_topic_with_very_many_queues_is_told_in_slices(desk: Desk) -> None:
    answer = await desk.ok(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "BenchmarkTest"})
    assert len(decode_body(TopicStats, answer.body).offset_table) == 1024


async def test_the_bounds_of_an_unknown_topic_are_an_error_that_says_what_to_do(desk: Desk) -> None:
    code, remark = await desk.refused(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "nowhere"})
    assert code == ResponseCode.TOPIC_NOT_EXIST
    assert "nowhere" in remark
    assert "updateTopic" in remark


async def test_groups_of_a_topic_are_those_that_subscribe_and_those_that_once_read(desk: Desk) -> None:
    desk.tables.offsets.commit(group="once", topic="orders", queue_id=0, offset=1)
    desk.tables.offsets.commit(group="now", topic="orders", queue_id=0, offset=1)
    data = ConsumerData(group_name="now", subscription_data_set=(SubscriptionData(topic="orders"),))
    desk.tables.consumers.register(member("c1"), data)
    answer = await desk.ok(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"})
    assert sorted(json.loads(answer.body)["groupList"]) == ["now", "once"]


async def test_one_topic_is_shown_as_it_is(desk: Desk) -> None:
    await desk.make_topic("orders", readQueueNums=3, perm=4)
    answer = await desk.ok(RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"})
    shown = json.loads(answer.body)
    assert (shown["topicName"], shown["readQueueNums"], shown["perm"]) == ("orders", 3, 4)
    code, remark = await desk.refused(RequestCode.GET_TOPIC_CONFIG, {"topic": "none"})
    assert (code, "none" in remark) == (ResponseCode.TOPIC_NOT_EXIST, True)
