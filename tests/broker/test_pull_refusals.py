"""Bad pulls: each gets its code and a remark that says what was wrong and what to do, and the broker goes on."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocketmq.model import MessageModel
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from tests.broker.house import Peer, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, pull_frame, send_frame, subscription
from tests.broker.support import BROKER


async def check_refused(peer: Peer, frame: Frame, code: int, *words: str) -> None:
    found, remark = await peer.refused(frame)
    assert (found, remark) == (code, remark)
    for word in words:
        assert word in remark
    await peer.ok(send_frame("Good"))


async def test_a_broker_that_may_not_be_read_from_refuses_every_pull() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        await house.set_config(brokerPermission=2)
        await check_refused(peer, pull_frame(), 16, BROKER, "brokerPermission")
        await house.set_config(brokerPermission=6)
        await peer.ok(pull_frame())


async def test_an_unknown_group_is_refused_where_none_is_created() -> None:
    async with open_house(auto_create_group=False) as house:
        await house.send_many(1)
        peer = await house.connect()
        await check_refused(peer, pull_frame(), 26, GROUP, "autoCreateSubscriptionGroup is false", "updateSubGroup")
        await peer.ok(pull_frame(group="TOOLS_CONSUMER"))
        await house.administer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"readers"}')
        await peer.ok(pull_frame())


async def test_a_group_with_an_illegal_name_is_refused() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        for name in ("", "a b", "x" * 256):
            await check_refused(peer, pull_frame(group=name), 26, "not legal")


async def test_a_group_that_is_switched_off_is_refused() -> None:
    async with open_house() as house:
        await house.send_many(1)
        body = b'{"groupName":"readers","consumeEnable":false}'
        await house.administer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        peer = await house.connect()
        await check_refused(peer, pull_frame(), 16, GROUP, "consumeEnable", "updateSubGroup")


async def test_an_unknown_topic_is_refused() -> None:
    async with open_house() as house:
        peer = await house.connect()
        await check_refused(peer, pull_frame("Unknown"), 17, "Unknown", "updateTopic")
        assert house.broker.tables.topics.find("Unknown") is None


async def test_a_topic_that_may_not_be_read_is_refused() -> None:
    async with open_house() as house:
        await house.make_topic(perm=2)
        await house.send_many(1)
        peer = await house.connect()
        await check_refused(peer, pull_frame(), 16, TOPIC, "perm is 2", "updateTopic")


async def test_a_queue_that_may_not_be_read_is_refused() -> None:
    async with open_house() as house:
        await house.make_topic(readQueueNums=3, writeQueueNums=8)
        await house.send_many(1, queue_id=5)
        peer = await house.connect()
        for queue_id in (-1, 3, 5, 2**31 - 1):
            await check_refused(peer, pull_frame(queue_id=queue_id), 1, f"queue {queue_id}", "0 to 2", "route")


async def test_a_subscription_that_names_nothing_is_refused() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        for text in ("||", " || || "):
            await check_refused(peer, pull_frame(subscription=text), 23, "names no tag")


async def test_a_group_whose_subscription_is_not_known_is_refused() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        pull = pull_frame(subscription=None, version=5)
        await check_refused(peer, pull, 24, GROUP, "heartbeat")
        await peer.ok(heartbeat_frame(subscription("*", topic="Other")))
        await check_refused(peer, pull, 24, GROUP, TOPIC, "same topics")
        await peer.ok(heartbeat_frame(subscription("*", version=4)))
        await check_refused(peer, pull, 25, GROUP, TOPIC, "older", "heartbeat")
        await peer.ok(heartbeat_frame(subscription("*", version=5)))
        await peer.ok(pull)


async def test_a_group_that_may_not_broadcast_is_refused() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        await peer.ok(heartbeat_frame(subscription("*"), message_model=MessageModel.BROADCASTING))
        await peer.ok(pull_frame(subscription=None))
        body = b'{"groupName":"readers","consumeBroadcastEnable":false}'
        await house.administer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        await check_refused(peer, pull_frame(subscription=None), 16, GROUP, "consumeBroadcastEnable")
        await peer.ok(pull_frame())


async def test_a_filter_by_sql_is_refused_where_it_is_switched_off() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        await check_refused(peer, pull_frame(subscription="a > 5", expressionType="SQL92"), 1, "SQL92", "tags")
        await peer.ok(heartbeat_frame(subscription("a > 5", expression_type="SQL92", code_set=frozenset())))
        await check_refused(peer, pull_frame(subscription=None), 1, "SQL92", "tags")


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_header_without_a_needed_field_or_with_a_wrong_number_is_refused(is_binary: bool) -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        for name in ("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"):
            fields: dict[str, Any] = {name: None}
            frame = pull_frame(is_binary=is_binary, **fields)
            await check_refused(peer, frame, 1, name)
        for name in ("queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subVersion"):
            for bad in ("x", "1.5x", "9" * 30):
                fields = {name: bad}
                frame = pull_frame(is_binary=is_binary, **fields)
                await check_refused(peer, frame, 1, name, "not a number")
        no_fields = Frame(11, encoding=Encoding.BINARY if is_binary else Encoding.JSON)
        await check_refused(peer, no_fields, 1, "consumerGroup")
        # What a pull does not ask for it need not bring.
        await peer.ok(pull_frame(commitOffset=None, suspendTimeoutMillis=None, subVersion=None, expressionType=None))
        await check_refused(peer, pull_frame(commit=1, commitOffset=None), 1, "commitOffset")
        await check_refused(peer, pull_frame(hold_ms=1, suspendTimeoutMillis=None), 1, "suspendTimeoutMillis")
        await check_refused(peer, pull_frame(subscription=None, subVersion=None), 1, "subVersion")
