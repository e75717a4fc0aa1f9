"""Bytes of a message that look like a record of their own: nobody is given them, or what follows them, as a message.

An account that may write one topic and read another way into the log would otherwise read every topic: it puts a
record's head into a body or into properties, names a topic of its own there and a length that reaches over the messages
of others, and asks for that place.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.store import Buffer
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.ids import decode_offset_id, encode_offset_id
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.records import HEAD, HEAD_BYTES, MESSAGE_MAGIC
from tests.broker.accounts import ACL_PATH, SECRETS, signed
from tests.broker.house import ROOT, House, Peer, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, send_frame, subscription
from tests.store.reader import read_records
from tests.store.support import memory_disk, new_message, open_store, put_ok

SECRET = b"for the eyes of others"
HOST = bytes([127, 0, 0, 1]) + struct.pack(">i", 9)
ACCOUNTS = f"""
accounts:
  - accessKey: the-admin
    secretKey: {SECRETS["the-admin"]}
    admin: true
  - accessKey: the-reader
    secretKey: {SECRETS["the-reader"]}
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - {TOPIC}=PUB|SUB
    groupPerms:
      - {GROUP}=SUB
"""


def forged_head(log_offset: int, *, total: int, queue_id: int = 0, queue_offset: int = 0) -> bytes:
    """The head of a record with an empty body, its topic, and properties that are whatever follows."""
    head = HEAD.pack(
        total, MESSAGE_MAGIC, body_crc(b""), queue_id, 0, queue_offset, log_offset, 0, 1, HOST, 1, HOST, 0, 0, 0
    )
    topic = TOPIC.encode()
    return head + bytes([len(topic)]) + topic + struct.pack(">H", total - len(head) - len(topic) - 3)


def test_the_forged_head_has_the_layout_of_a_record() -> None:
    forged = forged_head(64, total=200)
    record = read_records(forged + bytes(200 - len(forged)))[0]
    assert (record.topic, record.log_offset) == (TOPIC, 64)


# ------------------------------------------------------------------------------------------------------------ the store


@pytest.mark.parametrize("queue_offset", [0, 1, 2, -1, 1 << 40])
@pytest.mark.parametrize("queue_id", [0, 1, -1])
async def test_only_what_a_queue_points_at_is_a_message(queue_offset: int, queue_id: int) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        first = put_ok(store, new_message(TOPIC, body=b"to learn the place"))
        place = store.log.max_offset + HEAD_BYTES
        forged = forged_head(place, total=300, queue_id=queue_id, queue_offset=queue_offset)
        second = put_ok(store, new_message(TOPIC, body=forged))
        put_ok(store, new_message("Secret", body=SECRET * 20))
        assert await store.record_at(place) is not None, "it does look like a record"
        assert await store.message_at(place) is None
        assert await store.message_at(first.log_offset) is not None
        assert await store.message_at(second.log_offset) is not None
    async with open_store(disk) as store:  # an earlier process wrote it: every record is looked at
        disk.cool()
        assert await store.message_at(place) is None
        assert await store.message_at(second.log_offset) is not None


async def test_messages_of_a_deleted_topic_are_found_by_no_id() -> None:
    async with open_store(memory_disk()) as store:
        place = put_ok(store, new_message(TOPIC)).log_offset
        await store.delete_topic_queues(TOPIC)
        assert await store.message_at(place) is None
        assert await store.record_at(place) is not None


# ----------------------------------------------------------------------------------------------------------- the broker


@asynccontextmanager
async def forged_house() -> AsyncIterator[tuple[House, Peer, int]]:
    """A broker with accounts, where a reader of one topic has forged a record in front of another topic's messages."""
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT, ACL_PATH.parent], clock=clock)
    disk.replace(ACL_PATH, ACCOUNTS.encode())
    async with open_house(disk=disk, clock=clock, acl_enable=True, acl_file=ACL_PATH) as house:
        peer = await house.connect()
        for topic in (TOPIC, "Secret"):
            await peer.ok(signed(_topic_frame(topic), "the-admin"))
        sent = await peer.ok(signed(send_frame(body=b""), "the-reader"))
        assert sent.ext is not None
        start = decode_offset_id(sent.ext["msgId"] or "")[1]
        record_bytes = house.broker.store.log.max_offset - start
        place = house.broker.store.log.max_offset + HEAD_BYTES
        await peer.ok(signed(send_frame(body=forged_head(place, total=record_bytes + 1000)), "the-reader"))
        for _ in range(20):
            await peer.ok(signed(send_frame("Secret", body=SECRET), "the-admin"))
        yield house, peer, place


def _topic_frame(topic: str) -> Frame:
    ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    return Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, ext={**ext, "topicFilterType": "SINGLE_TAG", "order": "false"})


@pytest.mark.parametrize("ext", [{}, {"anyRecord": "true"}])
async def test_viewing_a_forged_record_gives_nothing(ext: dict[str, str]) -> None:
    async with forged_house() as (house, peer, place):
        assert SECRET in bytes(await house.broker.store.record_at(place) or b""), "the forgery reaches over them"
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": str(place), **ext})
        answer = await peer.ask(signed(view, "the-reader"))
        assert answer.code != 0
        assert SECRET not in answer.body
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": "0", **ext})
        assert len(read_records((await peer.ok(signed(view, "the-reader"))).body)) == 1, "true ones can be viewed"


async def test_handing_a_forged_record_back_stores_nothing() -> None:
    async with forged_house() as (house, peer, place):
        await peer.ok(signed(heartbeat_frame(subscription("*")), "the-reader"))
        end = house.broker.store.log.max_offset
        ext = {"offset": str(place), "group": GROUP, "delayLevel": "0", "originMsgId": "", "originTopic": TOPIC}
        answer = await peer.ask(signed(Frame(RequestCode.CONSUMER_SEND_MSG_BACK, 1, ext=dict(ext)), "the-reader"))
        assert answer.code != 0
        assert house.broker.store.log.max_offset == end


async def test_a_forged_record_is_given_to_no_consumer() -> None:
    async with forged_house() as (_, peer, place):
        await peer.ok(signed(heartbeat_frame(subscription("*"), client_id="its"), "the-reader"))
        ext = {"consumerGroup": GROUP, "clientId": "its", "msgId": encode_offset_id(HOST, place)}
        answer = await peer.ask(signed(Frame(RequestCode.CONSUME_MESSAGE_DIRECTLY, 1, ext=dict(ext)), "the-admin"))
        assert answer.code != 0
        assert not peer.requests


async def test_an_account_that_is_deleted_while_a_message_is_read_is_not_shown_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with forged_house() as (house, peer, _):
        store, access = house.broker.store, house.broker.access
        assert access is not None
        place = store.log.max_offset
        await peer.ok(signed(send_frame("Secret", body=SECRET), "the-admin"))
        read = store.message_at

        async def read_slowly(offset: int) -> Buffer | None:
            await access.book.delete_account("the-reader")
            return await read(offset)

        monkeypatch.setattr(store, "message_at", read_slowly)
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": str(place)})
        answer = await peer.ask(signed(view, "the-reader"))
        assert (answer.code, answer.body) == (1, b"")
