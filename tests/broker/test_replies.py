"""Replies: passed on to the client that asked, stored, and refused with a reason where nobody can have them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skyrocketmq.model.heartbeats import HeartbeatData, ProducerData
from skyrocketmq.testing import FaultyDisk
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.properties import decode_properties
from tests.broker.house import ROOT, House, Peer, open_house, open_patient_house
from tests.broker.requests import BORN_MS, V1_NAMES, properties_text, send_fields
from tests.broker.support import CLUSTER

REPLY_TOPIC = f"{CLUSTER}_REPLY_TOPIC"
ASKER = "127.0.0.1@asker"
PROPERTIES = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": ASKER, "TTL": "3000", "MSG_TYPE": "reply", "WAIT": "true"}


def reply_frame(
    *, body: bytes = b"pong", opaque: int = 1, is_version_1: bool = False, is_oneway: bool = False, **fields: Any
) -> Frame:
    given = {"topic": REPLY_TOPIC, "properties": properties_text(PROPERTIES), **fields}
    ext = send_fields(**given)
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    if is_version_1:
        code, ext = RequestCode.SEND_REPLY_MESSAGE, {V1_NAMES[letter]: value for letter, value in ext.items()}
    return Frame(code, opaque, 2 if is_oneway else 0, ext, body, language=0, encoding=Encoding.JSON)


async def connect_asker(house: House) -> Peer:
    """A producer that the broker knows by its client id."""
    asker = await house.connect()
    beat = HeartbeatData(client_id=ASKER, producer_data_set=(ProducerData("askers"),))
    await asker.ok(Frame(RequestCode.HEART_BEAT, 1, body=encode_body(beat), language=0))
    return asker


async def take_push(asker: Peer, *, code: int = 0, remark: str | None = None) -> Frame:
    """The reply that the broker pushes, acknowledged."""
    while not asker.requests:
        with pytest.raises(TimeoutError):
            await asker.next(seconds=0.01)
    push = asker.requests.pop(0)
    await asker.write(push.reply(code, remark=remark))
    return push


async def passed_on(house: House, frame: Frame) -> tuple[Frame, Frame]:
    """A reply on its way: what its sender is answered, and what the asker gets."""
    asker, replier = await connect_asker(house), await house.connect()
    answering = asyncio.create_task(replier.ask(frame))
    push = await take_push(asker)
    return await answering, push


@pytest.mark.parametrize("is_version_1", [False, True], ids=["325", "324"])
async def test_a_reply_reaches_its_asker_with_all_it_carries(is_version_1: bool) -> None:
    async with open_house() as house:
        frame = reply_frame(is_version_1=is_version_1, flag=7, sys_flag=0x301, reconsume_times=2)
        answer, push = await passed_on(house, frame)
        [stored] = await house.pull_all(REPLY_TOPIC)
        store_host = house.broker.address

    assert push.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert push.body == b"pong"
    ext = dict(push.ext or {})
    properties = decode_properties(ext.pop("properties") or "")
    pushed_at = properties.pop("PUSH_REPLY_TIME")
    assert properties == PROPERTIES
    assert ext.pop("storeTimestamp") == pushed_at
    assert (ext.pop("bornHost") or "").startswith("127.0.0.1:")
    assert ext == {
        "producerGroup": "writers",
        "topic": REPLY_TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": str(0x301),
        "bornTimestamp": str(BORN_MS),
        "flag": "7",
        "reconsumeTimes": "2",
        "unitMode": "false",
        "storeHost": store_host,
    }
    assert answer.code == 0
    assert answer.ext is not None
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", "0")
    assert len(answer.ext["msgId"] or "") == 32
    assert (answer.ext["MSG_REGION"], answer.ext["TRACE_ON"]) == ("DefaultRegion", "true")
    assert (stored.body, stored.sys_flag, stored.flag) == (b"pong", 0x301, 7)
    assert stored.properties == PROPERTIES


async def test_replies_are_not_stored_where_that_is_switched_off() -> None:
    async with open_house(store_reply_messages=False) as house:
        answer, _ = await passed_on(house, reply_frame())
        assert await house.pull_all(REPLY_TOPIC) == []
    assert answer.code == 0
    assert answer.ext is not None
    assert (answer.ext["msgId"], answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", "0", "0")


async def test_the_broker_picks_a_queue_if_asked_to() -> None:
    async with open_house() as house:
        answer, push = await passed_on(house, reply_frame(queue_id=-1))
    assert answer.ext is not None
    assert push.ext is not None
    assert answer.ext["queueId"] == push.ext["queueId"] == "0"


class TestRefusals:
    async def test_a_reply_to_a_client_that_is_not_there_is_refused_and_kept(self) -> None:
        async with open_house() as house:
            peer = await house.connect()
            answer = await peer.ask(reply_frame())
            stored = await house.pull_all(REPLY_TOPIC)
        assert answer.code == 1
        assert f"{ASKER} that asked is not connected" in (answer.remark or "")
        assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert [record.body for record in stored] == [b"pong"]

    async def test_a_reply_to_a_client_that_has_gone_is_refused(self) -> None:
        async with open_house() as house:
            asker, replier = await connect_asker(house), await house.connect()
            answering = asyncio.create_task(replier.ask(reply_frame()))
            while not asker.requests:
                with pytest.raises(TimeoutError):
                    await asker.next(seconds=0.01)
            asker.abort()
            answer = await answering
        assert answer.code == 1
        assert "did not take the reply" in (answer.remark or "")

    async def test_what_the_asker_says_against_it_is_passed_back(self) -> None:
        async with open_house() as house:
            asker, replier = await connect_asker(house), await house.connect()
            answering = asyncio.create_task(replier.ask(reply_frame()))
            await take_push(asker, code=1, remark="cannot read that")
            answer = await answering
        assert answer.code == 1
        assert "code 1: cannot read that" in (answer.remark or "")

    async def test_an_asker_that_keeps_silent_is_given_up_after_ten_seconds(self) -> None:
        async with open_patient_house() as (house, clock):
            asker, replier = await connect_asker(house), await house.connect()
            await replier.write(reply_frame())
            while not asker.requests:
                with pytest.raises(TimeoutError):
                    await asker.next(seconds=0.01)
            await clock.advance(9.9)
            await replier.silence()
            for _ in range(30):  # the push is given up, then the reply is flushed
                await clock.advance(0.1)
            answer = await replier.next()
        assert answer.code == 1
        assert "within 10 s" in (answer.remark or "")

    async def test_a_reply_that_does_not_say_who_asked_is_refused(self) -> None:
        async with open_house() as house:
            peer = await house.connect()
            code, remark = await peer.refused(reply_frame(properties=properties_text({"CORRELATION_ID": "c-1"})))
        assert code == 1
        assert "REPLY_TO_CLIENT" in remark

    async def test_the_checks_of_every_send_hold_for_replies_too(self) -> None:
        async with open_house(auto_create_topic=False) as house:
            peer = await house.connect()
            answers = [
                await peer.ask(reply_frame(topic="nowhere")),
                await peer.ask(reply_frame(topic="SCHEDULE_TOPIC_XXXX")),
                await peer.ask(reply_frame(queue_id=9)),
                await peer.ask(reply_frame(g=None)),
            ]
        assert [answer.code for answer in answers] == [17, 16, 1, 1]
        assert all((answer.ext or {}).get("MSG_REGION") == "DefaultRegion" for answer in answers)


async def test_a_oneway_reply_is_passed_on_without_an_answer() -> None:
    async with open_house() as house:
        asker, replier = await connect_asker(house), await house.connect()
        await replier.write(reply_frame(is_oneway=True))
        push = await take_push(asker)
        await replier.silence()
    assert push.body == b"pong"


async def test_a_reply_that_cannot_be_stored_is_passed_on_all_the_same() -> None:
    async with open_house(disk=FaultyDisk(directories=[ROOT])) as house:
        too_large = bytes(house.broker.config.current.store.message_bytes_max + 1)
        answer, push = await passed_on(house, reply_frame(body=too_large))
        assert await house.pull_all(REPLY_TOPIC) == []
    assert len(push.body) == len(too_large)
    assert answer.code == 0
    assert answer.ext is not None
    assert answer.ext["msgId"] == "0"


async def test_other_requests_are_answered_while_a_reply_waits_for_its_asker() -> None:
    async with open_house() as house:
        asker, replier = await connect_asker(house), await house.connect()
        await replier.write(reply_frame(opaque=1), Frame(RequestCode.GET_BROKER_CONFIG, 2))
        assert (await replier.next()).opaque == 2
        await take_push(asker)
        assert (await replier.next()).opaque == 1
