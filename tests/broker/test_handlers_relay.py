"""What administrators ask of consumers through the broker: both sides are real connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.model import MessageQueue
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import ConsumerStatus, ResetOffsets
from skyrocketmq.wire.codes import Language, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.ids import encode_offset_id
from tests.broker.house import House, Peer, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, subscription
from tests.broker.support import BROKER
from tests.store.reader import read_records

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
DIRECTLY = RequestCode.CONSUME_MESSAGE_DIRECTLY
TOLD = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
OLD_VERSION = 20


@asynccontextmanager
async def house_with_admin(clock: ManualClock | None = None) -> AsyncIterator[tuple[House, Peer]]:
    """A broker with one topic of two queues, and an administrator."""
    async with open_house(clock=clock) as house:
        await house.make_topic(readQueueNums=2, writeQueueNums=2)
        yield house, await house.connect()


@pytest.fixture
async def admin() -> AsyncIterator[tuple[House, Peer]]:
    async with house_with_admin() as both:
        yield both


async def join(house: House, client_id: str = "client-1", *, version: int = 407) -> Peer:
    """A consumer that has made itself known."""
    peer = await house.connect()
    frame = heartbeat_frame(subscription("*"), client_id=client_id)
    frame.version = version
    await peer.ok(frame)
    return peer


async def next_question(consumer: Peer) -> Frame:
    """The next request of the broker that is no notice of a change in the group."""
    while (frame := await consumer.next_request()).code == TOLD:
        pass
    return frame


def ask(code: int, **ext: object) -> Frame:
    return Frame(code, 7, ext={name: str(value) for name, value in ext.items()}, language=Language.JAVA)


def reset(*, timestamp: int, force: bool = True) -> Frame:
    return ask(RESET, topic=TOPIC, group=GROUP, timestamp=timestamp, isForce=str(force).lower())


def commit(house: House, *offsets: int) -> None:
    for queue_id, offset in enumerate(offsets):
        house.broker.tables.offsets.commit(group=GROUP, topic=TOPIC, queue_id=queue_id, offset=offset)


def by_queue(body: bytes) -> dict[int, int]:
    table = decode_body(ResetOffsets, body).offset_table
    assert {(queue.topic, queue.broker_name) for queue in table} == {(TOPIC, BROKER)}
    return {queue.queue_id: offset for queue, offset in table.items()}


# -- reset


async def test_every_member_is_told_the_offsets_of_a_time_and_the_broker_keeps_its_own() -> None:
    clock = ManualClock()
    async with house_with_admin(clock) as (house, admin):
        consumers = [await join(house, f"client-{number}") for number in range(2)]
        await house.send_many(2)
        await clock.advance(60)
        middle_ms = clock.now_ms()
        await house.send_many(3)
        commit(house, 5, 0)
        answer = await admin.ok(reset(timestamp=middle_ms))
        assert by_queue(answer.body) == {0: 2, 1: 0}
        for consumer in consumers:
            told = await next_question(consumer)
            assert (told.code, told.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
            assert by_queue(told.body) == {0: 2, 1: 0}
            assert told.ext == {"topic": TOPIC, "group": GROUP, "timestamp": str(middle_ms), "isForce": "false"}
        assert house.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 5


async def test_minus_one_stands_for_the_end_of_each_queue(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    await join(house)
    await house.send_many(4)
    commit(house, 1, 0)
    assert by_queue((await peer.ok(reset(timestamp=-1))).body) == {0: 4, 1: 0}


async def test_without_force_nobody_is_sent_forward(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    await join(house)
    await house.send_many(4)
    commit(house, 1, 0)
    assert by_queue((await peer.ok(reset(timestamp=-1, force=False))).body) == {0: 1, 1: 0}
    commit(house, 4, 0)
    assert by_queue((await peer.ok(reset(timestamp=0, force=False))).body) == {0: 0, 1: 0}


async def test_an_administrator_in_cpp_has_a_list_sent_but_gets_a_table(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    consumer = await join(house)
    commit(house, 0, 0)
    frame = reset(timestamp=0)
    frame.language = Language.CPP
    assert by_queue((await peer.ok(frame)).body) == {0: 0, 1: 0}
    told = json.loads((await next_question(consumer)).body)["offsetTable"]
    assert told == [{"brokerName": BROKER, "offset": 0, "queueId": number, "topic": TOPIC} for number in (0, 1)]


async def test_a_group_without_members_is_told_to_be_offline(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    commit(house, 0, 0)
    assert (await peer.refused(reset(timestamp=0)))[0] == ResponseCode.CONSUMER_NOT_ONLINE


@pytest.mark.parametrize("offsets", [(), (3,)], ids=["none", "for one queue of two"])
async def test_a_group_that_lacks_an_offset_is_not_reset(admin: tuple[House, Peer], offsets: tuple[int, ...]) -> None:
    house, peer = admin
    consumer = await join(house)
    commit(house, *offsets)
    code, remark = await peer.refused(reset(timestamp=0))
    assert code == ResponseCode.SYSTEM_ERROR
    assert f"queue {len(offsets)}" in remark
    await consumer.silence()


async def test_an_unknown_topic_and_members_too_old_are_refused(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    code, remark = await peer.refused(ask(RESET, topic="none", group=GROUP, timestamp=0, isForce="true"))
    assert (code, "none" in remark) == (ResponseCode.SYSTEM_ERROR, True)
    await join(house, version=OLD_VERSION)
    commit(house, 0, 0)
    code, remark = await peer.refused(reset(timestamp=0))
    assert (code, "V3_0_7_SNAPSHOT" in remark) == (ResponseCode.SYSTEM_ERROR, True)


# -- how far members are


async def answer_status(consumer: Peer, offset: int) -> None:
    asked = await next_question(consumer)
    assert asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    table = {MessageQueue(TOPIC, BROKER, 0): offset}
    await consumer.write(asked.reply(body=encode_body(ConsumerStatus(message_queue_table=table))))


async def test_the_offsets_of_all_members_are_collected(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    consumers = [await join(house, f"client-{number}") for number in range(2)]
    answering = asyncio.gather(*(answer_status(each, 10 + number) for number, each in enumerate(consumers)))
    answer = await peer.ok(ask(STATUS, topic=TOPIC, group=GROUP))
    await answering
    queue = MessageQueue(TOPIC, BROKER, 0)
    expected = {"client-0": {queue: 10}, "client-1": {queue: 11}}
    assert decode_body(ConsumerStatus, answer.body).consumer_table == expected


async def test_one_member_can_be_asked_alone_and_a_silent_one_is_left_out() -> None:
    clock = ManualClock()
    async with house_with_admin(clock) as (house, admin):
        consumers = [await join(house, f"client-{number}") for number in range(2)]
        answering = asyncio.create_task(answer_status(consumers[1], 4))
        answer = await admin.ok(ask(STATUS, topic=TOPIC, group=GROUP, clientAddr="client-1"))
        await answering
        assert list(decode_body(ConsumerStatus, answer.body).consumer_table) == ["client-1"]

        await admin.write(ask(STATUS, topic=TOPIC, group=GROUP))
        await answer_status(consumers[1], 5)
        await next_question(consumers[0])  # and says nothing
        await clock.advance(5.1)
        assert list(decode_body(ConsumerStatus, (await admin.next()).body).consumer_table) == ["client-1"]


async def test_a_group_without_members_has_no_status(admin: tuple[House, Peer]) -> None:
    assert (await admin[1].refused(ask(STATUS, topic=TOPIC, group=GROUP)))[0] == ResponseCode.SYSTEM_ERROR


# -- passed on


async def test_how_a_consumer_is_doing_is_its_own_answer(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    consumer = await join(house)
    await join(house, "client-2")
    frame = ask(INFO, consumerGroup=GROUP, clientId="client-1", jstackEnable="true")
    assert frame.ext is not None
    frame.ext |= {"AccessKey": "the-admin", "Signature": "abc"}
    await peer.write(frame)
    asked = await next_question(consumer)
    assert asked.code == INFO
    assert asked.ext == {"consumerGroup": GROUP, "clientId": "client-1", "jstackEnable": "true"}
    await consumer.write(asked.reply(0, body=b'{"jstack":"all is well"}'))
    answer = await peer.next()
    assert (answer.opaque, answer.code, answer.body) == (7, 0, b'{"jstack":"all is well"}')


async def test_a_consumers_refusal_is_the_answer_too(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    consumer = await join(house)
    await peer.write(ask(INFO, consumerGroup=GROUP, clientId="client-1"))
    await consumer.write((await next_question(consumer)).reply(1, remark="not here"))
    answer = await peer.next()
    assert (answer.code, answer.remark) == (1, "not here")


async def test_a_message_is_given_to_a_consumer_as_it_is_stored(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    consumer = await join(house)
    await house.send_many(1, body=b"hello")
    [record] = await house.pull_all()
    stored_id = encode_offset_id(record.store_host, record.log_offset)
    await peer.write(ask(DIRECTLY, consumerGroup=GROUP, clientId="client-1", msgId=stored_id))
    asked = await next_question(consumer)
    assert asked.ext is not None
    assert (asked.code, asked.ext["brokerName"], asked.ext["msgId"]) == (DIRECTLY, BROKER, stored_id)
    assert [each.body for each in read_records(asked.body)] == [b"hello"]
    await consumer.write(asked.reply(body=b'{"consumeResult":"CR_SUCCESS"}'))
    assert (await peer.next()).body == b'{"consumeResult":"CR_SUCCESS"}'


@pytest.mark.parametrize(
    ("message_id", "words"),
    [(None, "msgId"), ("nonsense", "no message id"), ("7F0000010000000000000000000FFFFF", "there is no message")],
)
async def test_a_message_that_is_not_there_cannot_be_given(
    admin: tuple[House, Peer], message_id: str | None, words: str
) -> None:
    house, peer = admin
    consumer = await join(house)
    fields = {} if message_id is None else {"msgId": message_id}
    code, remark = await peer.refused(ask(DIRECTLY, consumerGroup=GROUP, clientId="client-1", **fields))
    assert code == ResponseCode.SYSTEM_ERROR
    assert words in remark
    await consumer.silence()


@pytest.mark.parametrize("code", [INFO, DIRECTLY])
async def test_a_consumer_that_is_not_there_or_too_old_cannot_be_asked(admin: tuple[House, Peer], code: int) -> None:
    house, peer = admin
    await join(house, "old", version=OLD_VERSION)
    for client_id, words in (("none", "not connected"), ("old", "V3_1_8_SNAPSHOT"), ("", "clientId")):
        answer, remark = await peer.refused(ask(code, consumerGroup=GROUP, clientId=client_id, msgId="A" * 32))
        assert answer == ResponseCode.SYSTEM_ERROR
        assert words in remark


async def test_a_consumer_that_says_nothing_for_ten_seconds_has_timed_out() -> None:
    clock = ManualClock()
    async with house_with_admin(clock) as (house, admin):
        consumer = await join(house)
        await admin.write(ask(INFO, consumerGroup=GROUP, clientId="client-1"))
        await next_question(consumer)
        await clock.advance(9.9)
        await admin.silence()
        await clock.advance(0.2)
        assert (await admin.next()).code == ResponseCode.CONSUME_MSG_TIMEOUT


async def test_a_consumer_that_goes_while_it_is_asked_is_a_failure(admin: tuple[House, Peer]) -> None:
    house, peer = admin
    consumer = await join(house)
    await peer.write(ask(INFO, consumerGroup=GROUP, clientId="client-1"))
    await next_question(consumer)
    consumer.abort()
    answer = await peer.next()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "could not be asked" in (answer.remark or "")
