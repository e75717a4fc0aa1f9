"""Pulls through a real port: what is found, how much of it, and what every other outcome is called."""

from __future__ import annotations

import json

import pytest

from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.java import string_hash
from tests.broker.house import open_house
from tests.broker.requests import (
    GROUP,
    TOPIC,
    heartbeat_frame,
    properties_text,
    pull_frame,
    send_frame,
    subscription,
)
from tests.broker.support import BROKER
from tests.store.reader import Record, read_records


def numbers(answer: Frame) -> tuple[int, int, int, int]:
    """(next, min, max, suggested broker)"""
    ext = answer.ext
    assert ext is not None
    names = ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")
    return tuple(int(ext[name] or "") for name in names)  # type: ignore[return-value]


def bodies(answer: Frame) -> list[bytes]:
    return [record.body for record in read_records(answer.body)]


# ----------------------------------------------------------------------------------------------------------- found


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_pull_gives_the_messages_of_its_queue_from_its_offset_on(is_binary: bool) -> None:
    async with open_house() as house:
        await house.send_many(100)
        peer = await house.connect()
        answer = await peer.ok(pull_frame(offset=10, count=5, is_binary=is_binary, opaque=-7))
        assert answer.opaque == -7
        assert answer.remark == "FOUND"
        assert answer.encoding is (Encoding.BINARY if is_binary else Encoding.JSON)
        assert bodies(answer) == [b"10", b"11", b"12", b"13", b"14"]
        assert [record.queue_offset for record in read_records(answer.body)] == [10, 11, 12, 13, 14]
        assert numbers(answer) == (15, 0, 100, 0)


async def test_messages_of_many_queues_are_given_apart() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(40):
            await peer.ok(send_frame(TOPIC, number % 4, body=b"%d" % number))
        for queue_id in range(4):
            found = await house.pull_all(TOPIC, queue_id)
            assert [int(record.body) for record in found] == list(range(queue_id, 40, 4))


@pytest.mark.parametrize(
    ("body_bytes", "asked", "given"),
    [
        (10, 32, 32),
        (10, 1000, 256),  # however many are asked for
        (10, 1, 1),
        (10, 0, 1),  # the first one is always given
        (10, -1, 1),
        (16 * 1024, 32, 15),  # 256 KiB together
        (300 * 1024, 32, 1),  # the first one is given whatever its size
    ],
)
async def test_a_pull_gives_a_limited_number_of_messages_and_bytes(body_bytes: int, asked: int, given: int) -> None:
    async with open_house() as house:
        await house.send_many(300 if body_bytes < 1024 else 40, body=bytes(body_bytes))
        peer = await house.connect()
        answer = await peer.ok(pull_frame(count=asked))
        assert len(read_records(answer.body)) == given
        assert numbers(answer)[0] == given


async def test_the_limits_of_a_pull_may_be_changed() -> None:
    async with open_house() as house:
        await house.send_many(40)
        await house.set_config(maxTransferCountOnMessageInMemory=7)
        peer = await house.connect()
        assert len(read_records((await peer.ok(pull_frame())).body)) == 7


async def test_whoever_asks_for_billions_of_messages_does_not_hold_up_the_others() -> None:
    async with open_house(store={"queue_file_bytes": 20 * 100_000}) as house:
        await house.send_many(5000)
        peer = await house.connect()
        for tags, given, looked_at in (("*", 256, 256), ("Other", 0, 2000)):
            answer = await peer.ask(pull_frame(count=2**31 - 1, subscription=tags))
            assert len(read_records(answer.body)) == given
            assert numbers(answer)[0] == looked_at, "of five thousand"


async def test_messages_that_left_the_memory_are_read_from_the_disk() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        await house.send_many(200)
    async with open_house(disk=disk, clock=clock) as house:  # nothing of before is in its warm tail
        disk.cool()
        reads = house.broker.store.statistics.cold_reads
        peer = await house.connect()
        await peer.write(*[pull_frame(opaque=start, offset=start) for start in range(0, 200, 32)])
        answers = await peer.all(7)
        found = [body for start in range(0, 200, 32) for body in bodies(answers[start])]
        assert found == [b"%d" % number for number in range(200)]
        assert house.broker.store.statistics.cold_reads > reads


async def test_a_consumer_may_ask_to_be_sent_to_a_slave_when_it_is_far_behind() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        assert numbers(await peer.ok(pull_frame()))[3] == 0
        await house.set_config(slaveReadEnable="true")
        group = {"groupName": GROUP, "brokerId": 5, "whichBrokerWhenConsumeSlowly": 1}
        await house.administer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps(group).encode())
        assert numbers(await peer.ok(pull_frame()))[3] == 5


# -------------------------------------------------------------------------------------------------------- not found


async def test_a_pull_at_the_end_of_a_queue_finds_nothing() -> None:
    async with open_house() as house:
        await house.send_many(3)
        peer = await house.connect()
        answer = await peer.ask(pull_frame(offset=3))
        assert (answer.code, answer.remark, answer.body) == (19, "OFFSET_OVERFLOW_ONE", b"")
        assert numbers(answer) == (3, 0, 3, 0)


async def test_a_pull_of_an_empty_queue_finds_nothing() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        for queue_id in range(4):
            answer = await peer.ask(pull_frame(queue_id=queue_id))
            assert (answer.code, answer.remark) == (19, "NO_MESSAGE_IN_QUEUE")
            assert numbers(answer) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("stored", "offset", "status", "new"),
    [
        (0, 5, "NO_MESSAGE_IN_QUEUE", 0),
        (3, 4, "OFFSET_OVERFLOW_BADLY", 3),
        (3, 2**63 - 1, "OFFSET_OVERFLOW_BADLY", 3),
        (3, -1, "OFFSET_TOO_SMALL", 0),
        (3, -(2**63), "OFFSET_TOO_SMALL", 0),
    ],
)
async def test_an_offset_out_of_range_is_moved_and_the_move_is_an_event(
    stored: int, offset: int, status: str, new: int
) -> None:
    async with open_house() as house:
        await house.make_topic()
        await house.send_many(stored, queue_id=2)
        peer = await house.connect()
        answer = await peer.ask(pull_frame(queue_id=2, offset=offset))
        assert (answer.code, answer.remark) == (21, status)
        assert numbers(answer) == (new, 0, stored, 0)
        (event,) = await house.pull_all("OFFSET_MOVED_EVENT")
        assert event.properties == {"TAGS": GROUP, "KEYS": GROUP}
        queue = {"brokerName": BROKER, "queueId": 2, "topic": TOPIC}
        assert json.loads(event.body) == {
            "consumerGroup": GROUP,
            "messageQueue": queue,
            "offsetNew": new,
            "offsetRequest": offset,
        }
        assert (await peer.ask(pull_frame(queue_id=2, offset=new))).code == (0 if offset < 0 else 19)


async def test_an_offset_before_the_oldest_message_is_moved_to_it() -> None:
    async with open_house(check=False) as house:
        await house.send_many(10)
        house.broker.store.queue(TOPIC, 0).min_offset = 4  # type: ignore[assignment]  # as cleaning leaves it
        peer = await house.connect()
        answer = await peer.ask(pull_frame(offset=3))
        assert (answer.code, answer.remark) == (21, "OFFSET_TOO_SMALL")
        assert numbers(answer) == (4, 4, 10, 0)
        assert bodies(await peer.ok(pull_frame(offset=4)))[0] == b"4"


async def test_a_moved_offset_is_answered_even_if_its_event_cannot_be_stored() -> None:
    async with open_house() as house:
        await house.send_many(1)
        assert isinstance(house.disk, FaultyDisk)
        house.disk.fail("pwrite", path="*/commitlog/*")
        peer = await house.connect()
        assert (await peer.ask(pull_frame(offset=9))).code == 21
        assert not await house.pull_all("OFFSET_MOVED_EVENT")


# ------------------------------------------------------------------------------------------------------------- tags


async def test_a_pull_gives_the_messages_with_its_tags() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(60):
            tags = ("TagA", "TagB", "TagC", "", "метка", "TagA||TagB")[number % 6]
            text = properties_text([("TAGS", tags)] if tags else [])
            await peer.ok(send_frame(body=b"%d" % number, properties=text))

        async def found(tags: str) -> list[int]:
            answer = await peer.ok(pull_frame(count=32, subscription=tags))
            assert numbers(answer)[0] == 60 or tags in ("*", ""), "all have been looked at"
            return [int(body) for body in bodies(answer)]

        assert await found("*") == list(range(32))
        assert await found("") == list(range(32))
        assert await found("TagA") == list(range(0, 60, 6))
        assert await found(" TagA || TagC ") == [n for n in range(60) if n % 6 in (0, 2)]
        assert await found("метка") == list(range(4, 60, 6))


async def test_tags_of_the_same_hash_are_given_together_and_the_consumer_sorts_them_out() -> None:
    async with open_house() as house:
        assert string_hash("AaAa") == string_hash("BBBB")
        peer = await house.connect()
        for tags in ("AaAa", "BBBB", "AaBB", "Other"):
            await peer.ok(send_frame(body=tags.encode(), properties=properties_text([("TAGS", tags)])))
        assert bodies(await peer.ok(pull_frame(subscription="AaAa"))) == [b"AaAa", b"BBBB", b"AaBB"]


async def test_where_nothing_matches_the_consumer_goes_on_behind_what_was_looked_at() -> None:
    async with open_house(store={"queue_file_bytes": 20 * 10_000}) as house:
        await house.send_many(1000)
        peer = await house.connect()
        answer = await peer.ask(pull_frame(subscription="Other"))
        assert (answer.code, answer.remark, answer.body) == (20, "NO_MATCHED_MESSAGE", b"")
        assert numbers(answer) == (800, 0, 1000, 0)
        assert numbers(await peer.ask(pull_frame(subscription="Other", offset=800)))[0] == 1000


async def test_a_group_subscribes_by_its_heartbeat() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(30):
            await peer.ok(send_frame(body=b"%d" % number, properties=f"TAGS\x01Tag{number % 3}"))

        async def found() -> list[int]:
            return [int(body) for body in bodies(await peer.ok(pull_frame(subscription=None)))]

        await peer.ok(heartbeat_frame(subscription("Tag1 || Tag2")))
        assert await found() == [n for n in range(30) if n % 3]
        await peer.ok(heartbeat_frame(subscription("*", version=2)))
        assert await found() == list(range(30))
        await peer.ok(heartbeat_frame(subscription("Tag0", version=3)))
        assert await found() == list(range(0, 30, 3))
        await peer.ok(heartbeat_frame(subscription("*", version=4, code_set=frozenset({1}))))
        assert await found() == list(range(30)), "the star decides"
        await peer.ok(heartbeat_frame(subscription("Tag0", version=5, code_set=frozenset())))
        assert (await peer.ask(pull_frame(subscription=None))).code == 20, "and without codes nothing matches"


# ---------------------------------------------------------------------------------------------------------- commits


async def test_a_pull_commits_an_offset_if_it_says_so() -> None:
    async with open_house() as house:
        await house.send_many(10)
        peer = await house.connect()
        offsets = house.broker.tables.offsets
        await peer.ok(pull_frame())
        assert offsets.find(group=GROUP, topic=TOPIC, queue_id=0) is None
        await peer.ok(pull_frame(offset=7, commit=7))
        assert offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 7
        await peer.ok(pull_frame(offset=7, commit=3))
        assert offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 3, "also backwards"
        await peer.ask(pull_frame(offset=10, commit=10))
        assert offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 10, "also where nothing is found"


async def test_a_client_that_reads_slowly_gets_everything() -> None:
    """Ten megabytes are waiting for it; it is not cut off, and no message is lost or repeated."""
    async with open_house(store={"commit_log_file_bytes": 4 << 20}) as house:
        await house.send_many(40, body=bytes(100 * 1024))
        peer = await house.connect()
        await peer.write(*[pull_frame(opaque=number, offset=number, count=1) for number in range(40)] * 1)
        found: list[Record] = []
        for _ in range(40):
            found += read_records((await peer.next()).body)
        assert sorted(record.queue_offset for record in found) == list(range(40))
