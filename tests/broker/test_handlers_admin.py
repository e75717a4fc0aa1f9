"""Groups, configuration and runtime information, as administrators ask for them."""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator

import pytest

from skyrocketmq import hot
from skyrocketmq.config import BrokerRole, read_properties
from skyrocketmq.model import SubscriptionGroupConfig
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable, SubscriptionGroupTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from tests.broker.desk import Desk, open_desk
from tests.broker.house import ROOT, open_house
from tests.broker.support import BROKER

PUT_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
DELETE_GROUP = RequestCode.DELETE_SUBSCRIPTIONGROUP


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk() as opened:
        yield opened


# -- groups


async def test_a_group_is_in_use_and_in_its_file_when_its_making_is_answered(desk: Desk) -> None:
    await desk.ok(PUT_GROUP, body={"groupName": "billing", "retryMaxTimes": 3, "consumeEnable": False})
    expected = SubscriptionGroupConfig(group_name="billing", retry_max_times=3, consume_enable=False)
    assert desk.tables.groups.find("billing") == expected
    assert desk.file("subscriptionGroup.json")["subscriptionGroupTable"]["billing"]["retryMaxTimes"] == 3
    table = decode_body(SubscriptionGroupTable, (await desk.ok(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
    assert table.subscription_group_table["billing"] == expected
    assert table.data_version == desk.tables.groups.data_version


@pytest.mark.parametrize(
    "body",
    [b"", b"[", {"groupName": "a b"}, {"consumeEnable": True}, {"groupName": "g", "retryQueueNums": 2_000_000_000}],
)
async def test_a_group_that_cannot_be_is_refused(desk: Desk, body: object) -> None:
    before = desk.tables.groups.table()
    code, _ = await desk.refused(PUT_GROUP, body=body)
    assert code == ResponseCode.SYSTEM_ERROR
    assert desk.tables.groups.table() == before


@pytest.mark.parametrize(("remove_offset", "offsets_left"), [("true", {}), ("false", {"orders@billing": {0: 5}})])
async def test_a_deleted_group_leaves_its_offsets_unless_told_otherwise(
    desk: Desk, remove_offset: str, offsets_left: dict[str, dict[int, int]]
) -> None:
    await desk.ok(PUT_GROUP, body={"groupName": "billing"})
    desk.tables.offsets.commit(group="billing", topic="orders", queue_id=0, offset=5)
    await desk.ok(DELETE_GROUP, {"groupName": "billing", "removeOffset": remove_offset})
    assert desk.tables.groups.find("billing") is None
    assert "billing" not in desk.file("subscriptionGroup.json")["subscriptionGroupTable"]
    assert desk.tables.offsets.table() == offsets_left


async def test_deleting_a_group_that_is_not_there_is_no_error_but_naming_none_is(desk: Desk) -> None:
    await desk.ok(DELETE_GROUP, {"groupName": "nobody"})
    assert "groupName" in (await desk.refused(DELETE_GROUP))[1]


async def test_a_group_that_could_not_be_written_down_is_not_reported_as_made(desk: Desk) -> None:
    desk.disk.fail("pwrite", error=errno.ENOSPC, path="*/subscriptionGroup.json*", times=None)
    code, remark = await desk.refused(PUT_GROUP, body={"groupName": "billing"})
    assert code == ResponseCode.SYSTEM_ERROR
    assert "billing" in remark
    desk.disk.heal()


@pytest.mark.parametrize("code", [PUT_GROUP, DELETE_GROUP])
async def test_a_slave_leaves_groups_to_its_master(code: int) -> None:
    async with open_desk(role=BrokerRole.SLAVE, broker_id=1) as desk:
        answer, remark = await desk.refused(code, {"groupName": "g"}, body={"groupName": "g"})
        assert answer == ResponseCode.SYSTEM_ERROR
        assert "master" in remark


async def test_one_group_is_shown_as_it_is_and_asking_makes_none(desk: Desk) -> None:
    await desk.ok(PUT_GROUP, body={"groupName": "billing", "retryMaxTimes": 3})
    answer = await desk.ok(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "billing"})
    assert json.loads(answer.body)["retryMaxTimes"] == 3
    code, remark = await desk.refused(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "none"})
    assert (code, "none" in remark) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, True)
    assert desk.tables.groups.find("none") is None


# -- configuration


async def test_the_configuration_is_told_with_its_version(desk: Desk) -> None:
    answer = await desk.ok(RequestCode.GET_BROKER_CONFIG)
    keys = read_properties(answer.body)
    assert keys["brokerName"] == BROKER
    assert keys["storePathRootDir"] == str(ROOT)
    assert answer.ext is not None
    assert json.loads(answer.ext["version"] or "") == {"counter": 0, "timestamp": desk.clock.now_ms()}


async def test_changed_keys_are_in_effect_and_count_as_a_new_version(desk: Desk) -> None:
    await desk.ok(RequestCode.UPDATE_BROKER_CONFIG, body=b"autoCreateTopicEnable=false\nsomethingElse=1\n")
    assert not desk.config.current.auto_create_topic
    answer = await desk.ok(RequestCode.GET_BROKER_CONFIG)
    assert read_properties(answer.body)["autoCreateTopicEnable"] == "false"
    assert answer.ext is not None
    assert json.loads(answer.ext["version"] or "")["counter"] == 1


@pytest.mark.parametrize("body", [b"brokerPermission=many", b"listenPort=none", b"a=\\u12"])
async def test_a_change_that_cannot_be_made_changes_nothing(desk: Desk, body: bytes) -> None:
    before = desk.config.current
    code, remark = await desk.refused(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false\n" + body)
    assert code == ResponseCode.SYSTEM_ERROR
    assert "nothing was changed" in remark
    assert desk.config.current == before


async def test_a_key_that_counts_at_a_start_only_is_taken_and_the_answer_says_so(desk: Desk) -> None:
    answer = await desk.ok(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false\nbrokerName=other\n")
    assert answer.remark == "these keys count from the next start: brokerName"
    assert desk.config.current.broker_name == BROKER
    assert not desk.config.current.trace_on
    shown = read_properties((await desk.ok(RequestCode.GET_BROKER_CONFIG)).body)
    assert shown["brokerName"] == "other"


# -- runtime information


async def test_the_runtime_information_has_what_tools_look_for(desk: Desk) -> None:
    await desk.make_topic("orders")
    desk.put("orders", count=3, body=b"x" * 100)
    stored_ms = desk.clock.now_ms()
    for _ in range(11):
        desk.figures.sample()
        await desk.clock.advance(1)
    table = decode_body(KvTable, (await desk.ok(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert (table["brokerVersionDesc"], table["brokerVersion"]) == ("V4_9_7", "407")
    assert table["codeForm"] == hot.description()
    assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "3"
    assert table["putTps"].split() == ["0.0"]
    assert table["commitLogMinOffset"] == "0"
    assert int(table["commitLogMaxOffset"]) == desk.store.log.max_offset > 300
    assert table["earliestMessageTimeStamp"] == str(stored_ms)
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert table["commitLogDiskRatio"] == table[f"commitLogDiskRatio_{ROOT}/commitlog"]
    assert table["commitLogDirCapacity"].startswith("Total : 1.0 TiB, Free : ")
    assert table["runtime"] == "[ 0 days, 0 hours, 0 minutes, 11 seconds ]"
    assert table["sendThreadPoolQueueSize"] == table["pullThreadPoolQueueHeadWaitTimeMills"] == "0"
    assert table["remainHowManyDataToFlush"].endswith("B")


async def test_a_broker_without_messages_has_no_earliest_time(desk: Desk) -> None:
    table = decode_body(KvTable, (await desk.ok(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert table["earliestMessageTimeStamp"] == "-1"
    assert table["commitLogMaxOffset"] == "0"


RUNTIME_KEYS = [
    "brokerVersionDesc",
    "brokerVersion",
    "bootTimestamp",
    "runtime",
    "putMessageEntireTimeMax",
    "putMessageTimesTotal",
    "putMessageFailedTimes",
    "putMessageSizeTotal",
    "putMessageDistributeTime",
    "putMessageAverageSize",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "putTps",
    "getFoundTps",
    "getMissTps",
    "getTotalTps",
    "getTransferedTps",
    "putLatency99",
    "putLatency999",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "commitLogDirCapacity",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "sendThreadPoolQueueSize",
    "sendThreadPoolQueueCapacity",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueSize",
    "queryThreadPoolQueueCapacity",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "earliestMessageTimeStamp",
    "startAcceptSendRequestTimeStamp",
    "remainTransientStoreBufferNumbs",
    "remainHowManyDataToFlush",
]


async def test_the_runtime_information_has_every_key_of_apaches(desk: Desk) -> None:
    for _ in range(62):
        desk.figures.sample()
        await desk.clock.advance(1)
    table = decode_body(KvTable, (await desk.ok(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert [key for key in RUNTIME_KEYS if key not in table] == []


async def test_what_waits_in_the_transient_pool_is_told_where_there_is_one() -> None:
    async with open_house(store={"transient_pool_enable": True}) as house:
        answer = await house.administer(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert decode_body(KvTable, answer.body).table["remainHowManyDataToCommit"] == "0 B"
