"""Messages that a consumer could not handle: handed back, tried again later and later, and in the end a dead letter."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.store import RunningFlag
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.ids import encode_offset_id
from tests.broker.house import ROOT, House, Peer, open_house
from tests.broker.requests import TOPIC, as_version_1, properties_text, pull_frame, send_frame
from tests.store.reader import Record
from tests.store.support import new_message, put_ok

GROUP = "billing"
RETRY = f"%RETRY%{GROUP}"
DEAD = f"%DLQ%{GROUP}"
OLD_VERSION = 120  # the last one whose limit in the request is not looked at
SHORT_LEVELS = " ".join(f"{seconds}s" for seconds in range(1, 19))


class Shop:
    """A broker with a topic, a consumer who hands messages back, and a clock that the test moves."""

    def __init__(self, house: House, peer: Peer, clock: ManualClock) -> None:
        self.house = house
        self.peer = peer
        self.clock = clock

    async def send(self, *, body: bytes = b"order", **fields: Any) -> int:
        """Send a message; returns its log offset, by which a consumer hands it back."""
        before = self.log_end
        await self.peer.ok(send_frame(body=body, **fields))
        return before

    @property
    def log_end(self) -> int:
        return int(self.house.broker.store.log.max_offset)

    async def hand_back(self, offset: int, **fields: Any) -> None:
        await self.peer.ok(back_frame(offset, **fields))

    async def retries(self, queue_id: int = 0) -> list[Record]:
        return await self.house.pull_all(RETRY, queue_id)

    async def dead(self) -> list[Record]:
        return await self.house.pull_all(DEAD, 0) if self.house.broker.tables.topics.find(DEAD) else []

    def waiting(self) -> dict[int, int]:
        """How many messages each delay level has taken, by level."""
        counts = {level: int(self.house.broker.store.max_offset(SCHEDULE_TOPIC, level - 1)) for level in range(1, 19)}
        return {level: count for level, count in counts.items() if count}

    async def make_group(self, **fields: object) -> None:
        body = json.dumps({"groupName": GROUP} | fields).encode()
        await self.house.administer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def back_frame(offset: object, *, level: object = 0, group: str = GROUP, version: int = 407, **others: object) -> Frame:
    """What a consumer sends; fields that are None are left out."""
    fields: dict[str, object] = {
        "offset": offset,
        "group": group,
        "delayLevel": level,
        "originMsgId": "0A00000200002A9F0000000000001000",
        "originTopic": TOPIC,
        "unitMode": "false",
        "maxReconsumeTimes": 16,
    }
    ext: dict[str, str | None] = {name: str(value) for name, value in (fields | others).items() if value is not None}
    return Frame(RequestCode.CONSUMER_SEND_MSG_BACK, 1, ext=ext, language=0, version=version)


@asynccontextmanager
async def open_shop(
    disk: FaultyDisk | None = None, clock: ManualClock | None = None, **changes: Any
) -> AsyncIterator[Shop]:
    clock = clock or ManualClock()
    disk = disk or FaultyDisk(directories=[ROOT], clock=clock)
    # The independent reader knows the usual delays only.
    changes = {"check": "delay_levels" not in changes.get("store", {})} | changes
    async with open_house(disk=disk, clock=clock, **changes) as house:
        shop = Shop(house, await house.connect(), clock)
        if house.broker.tables.topics.find(TOPIC) is None:
            await house.make_topic()
        yield shop


# ------------------------------------------------------------------------------------------------ the way of a message


async def test_a_message_that_is_handed_back_comes_again_after_ten_seconds() -> None:
    async with open_shop() as shop:
        await shop.hand_back(await shop.send())
        await shop.clock.advance(9.9)
        assert await shop.retries() == []
        await shop.clock.advance(0.1)
        (again,) = await shop.retries()
        assert (again.body, again.reconsume_times) == (b"order", 1)


async def test_the_copy_says_where_it_came_from_and_keeps_everything_else() -> None:
    async with open_shop() as shop:
        sent = {"TAGS": "TagA", "KEYS": "k1", "UNIQ_KEY": "0A0B", "mine": "x", "WAIT": "true"}
        offset = await shop.send(
            queue_id=2, properties=properties_text(sent), flag=5, sys_flag=0x301, born_ms=1_600_000_000_000
        )
        (original,) = await shop.house.pull_all(TOPIC, 2)
        await shop.hand_back(offset)
        await shop.clock.advance(10)
        (again,) = await shop.retries()
        host = shop.house.broker.store.writer.store_host
        first_id = encode_offset_id(host, offset)
        assert again.properties == {
            **original.properties,
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": first_id,
            "WAIT": "false",
            "DELAY": "3",
            "REAL_TOPIC": RETRY,
            "REAL_QID": "0",
        }
        assert (again.flag, again.sys_flag, again.born_ms) == (5, 0x301, 1_600_000_000_000)
        assert (again.born_host, again.store_host) == (original.born_host, original.store_host)
        assert again.prepared_offset == 0

        await shop.hand_back(again.log_offset)
        await shop.clock.advance(30)
        third = (await shop.retries())[1]
        assert third.reconsume_times == 2
        assert third.properties == {**again.properties, "DELAY": "4"}, "where it came from stays what it was"


async def test_delays_grow_with_each_attempt_and_end_in_one_dead_letter() -> None:
    async with open_shop(store={"delay_levels": SHORT_LEVELS}) as shop:
        offset = await shop.send()
        for attempt in range(1, 17):
            handed_back_ms = shop.clock.now_ms()
            await shop.hand_back(offset)
            await shop.clock.advance(18)
            records = await shop.retries()
            assert len(records) == attempt
            assert records[-1].reconsume_times == attempt
            assert records[-1].store_ms - handed_back_ms == (2 + attempt) * 1000, (
                "level 3 first, then one more each time"
            )
            offset = records[-1].log_offset
        await shop.hand_back(offset)
        await shop.clock.advance(60)
        assert len(await shop.retries()) == 16
        (dead,) = await shop.dead()
        assert (dead.body, dead.reconsume_times) == (b"order", 17)
        assert (dead.properties["RETRY_TOPIC"], dead.properties["DELAY"]) == (TOPIC, "0")
        assert shop.waiting() == dict.fromkeys(range(3, 19), 1)


async def test_a_waiting_consumer_gets_the_message_the_moment_it_comes_again() -> None:
    async with open_shop() as shop:
        await shop.hand_back(await shop.send())
        consumer = await shop.house.connect()
        await consumer.write(pull_frame(RETRY, 0, 0, hold_ms=20_000))
        await consumer.silence()
        await shop.clock.advance(10)
        assert (await consumer.next()).code == 0


async def test_a_restart_in_between_loses_nothing_and_repeats_nothing() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_shop(disk, clock) as shop:
        offset = await shop.send()
        await shop.hand_back(offset)
    async with open_shop(disk, clock) as shop:
        await shop.clock.advance(10)
        (again,) = await shop.retries()
        await shop.hand_back(again.log_offset)
    await clock.advance(60)
    async with open_shop(disk, clock) as shop:
        await clock.settle()
        assert [record.reconsume_times for record in await shop.retries()] == [1, 2]
        await shop.clock.advance(60)
        assert len(await shop.retries()) == 2


# ------------------------------------------------------------------------------------------------ who decides, and what


@pytest.mark.parametrize(("level", "expected"), [(0, 3), (1, 1), (5, 5), (18, 18), (19, 18), (1000, 18)])
async def test_the_consumer_may_choose_the_level(level: int, expected: int) -> None:
    async with open_shop(check=False) as shop:
        await shop.hand_back(await shop.send(), level=level)
        assert shop.waiting() == {expected: 1}


@pytest.mark.parametrize("level", [-1, -2])
async def test_a_consumer_may_give_a_message_up_at_once(level: int) -> None:
    async with open_shop() as shop:
        await shop.hand_back(await shop.send(), level=level)
        (dead,) = await shop.dead()
        assert (dead.body, dead.reconsume_times, dead.queue_id) == (b"order", 1, 0)
        assert (dead.properties["DELAY"], dead.properties["WAIT"]) == ("0", "false")
        assert shop.waiting() == {}
        topic = shop.house.broker.tables.topics.find(DEAD)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


async def test_the_dead_letter_of_a_transaction_does_not_point_to_its_half_message() -> None:
    async with open_shop() as shop:
        committed = new_message(TOPIC, body=b"committed", sys_flag=8, prepared_transaction_offset=77)
        await shop.hand_back(put_ok(shop.house.broker.store, committed).log_offset, level=-1)
        (dead,) = await shop.dead()
        assert (dead.body, dead.sys_flag, dead.prepared_offset) == (b"committed", 8, 0)


@pytest.mark.parametrize(
    ("version", "in_request", "of_group", "is_dead"),
    [
        (407, 0, 16, True),
        (121, 0, 16, True),
        (OLD_VERSION, 0, 16, False),
        (OLD_VERSION, 16, 0, True),
        (407, 16, 0, False),
        (407, None, 0, True),
        (407, None, 16, False),
        (407, -1, 16, True),
    ],
)
async def test_the_limit_of_the_request_counts_from_version_121_on_and_else_the_groups(
    version: int, in_request: int | None, of_group: int, is_dead: bool
) -> None:
    async with open_shop() as shop:
        await shop.make_group(retryMaxTimes=of_group)
        await shop.hand_back(await shop.send(), version=version, maxReconsumeTimes=in_request)
        assert len(await shop.dead()) == is_dead
        assert shop.waiting() == ({} if is_dead else {3: 1})


async def test_a_group_without_retry_queues_wants_no_message_again() -> None:
    async with open_shop() as shop:
        await shop.make_group(retryQueueNums=0)
        offset = await shop.send()
        end = shop.log_end
        await shop.hand_back(offset)
        await shop.hand_back(offset, level=-1)
        assert shop.log_end == end
        assert shop.house.broker.tables.topics.find(RETRY) is None


async def test_a_group_with_several_retry_queues_uses_all_of_them() -> None:
    async with open_shop() as shop:
        await shop.make_group(retryQueueNums=3)
        for _ in range(40):
            await shop.hand_back(await shop.send(), level=1)
        await shop.clock.advance(1)
        counts = [len(await shop.retries(queue_id)) for queue_id in range(3)]
        assert sum(counts) == 40
        assert min(counts) > 0


async def test_the_retry_topic_is_made_when_it_is_needed() -> None:
    async with open_shop() as shop:
        await shop.hand_back(await shop.send(), unitMode="true")
        topic = shop.house.broker.tables.topics.find(RETRY)
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag) == (1, 1, 6, 2)
        assert shop.house.broker.tables.groups.find(GROUP) is not None


# ------------------------------------------------------------------------------------------------------------- refusals


async def test_an_unknown_group_is_refused_where_groups_are_not_made_by_use() -> None:
    async with open_shop(auto_create_group=False) as shop:
        offset = await shop.send()
        end = shop.log_end
        code, remark = await shop.peer.refused(back_frame(offset))
        assert code == 26
        assert GROUP in remark
        assert shop.log_end == end


async def test_a_broker_that_may_not_be_written_to_takes_nothing_back() -> None:
    async with open_shop() as shop:
        offset = await shop.send()
        await shop.house.set_config(brokerPermission=4)
        code, remark = await shop.peer.refused(back_frame(offset))
        assert (code, "brokerPermission" in remark) == (16, True)
        await shop.house.set_config(brokerPermission=6)
        await shop.hand_back(offset)


async def test_the_group_is_looked_at_before_the_permission_and_the_permission_before_the_queues() -> None:
    async with open_shop(auto_create_group=False) as shop:
        await shop.house.set_config(brokerPermission=4)
        assert (await shop.peer.refused(back_frame(0)))[0] == 26
        await shop.make_group(retryQueueNums=0)
        assert (await shop.peer.refused(back_frame(0)))[0] == 16


async def test_a_retry_topic_that_may_not_be_written_takes_nothing_back() -> None:
    async with open_shop() as shop:
        offset = await shop.send()
        await shop.house.make_topic(RETRY, perm=4)
        code, remark = await shop.peer.refused(back_frame(offset))
        assert code == 16
        assert RETRY in remark


@pytest.mark.parametrize("shift", [1, 10**6, -(10**6)])
async def test_a_message_that_is_not_there_is_refused(shift: int) -> None:
    async with open_shop() as shop:
        offset = await shop.send() + shift
        code, remark = await shop.peer.refused(back_frame(offset))
        assert code == 1
        assert str(offset) in remark
        assert shop.waiting() == {}


@pytest.mark.parametrize("missing", ["offset", "group"])
async def test_a_request_that_lacks_a_field_is_refused(missing: str) -> None:
    async with open_shop() as shop:
        offset = await shop.send()
        fields: dict[str, Any] = {"offset": offset, missing: None}
        code, _ = await shop.peer.refused(back_frame(fields.pop("offset"), **fields))
        assert code in (1, 26)
        assert shop.waiting() == {}
        await shop.hand_back(offset)


async def test_a_store_that_takes_nothing_says_so() -> None:
    async with open_shop() as shop:
        offset = await shop.send()
        shop.house.broker.store.state.raise_flag(RunningFlag.DISK_FULL)
        code, remark = await shop.peer.refused(back_frame(offset))
        assert code == 1
        assert remark.startswith("SERVICE_NOT_AVAILABLE")
        shop.house.broker.store.state.lower_flag(RunningFlag.DISK_FULL)
        await shop.hand_back(offset)


async def test_a_group_whose_retry_topic_would_have_too_long_a_name_hears_of_it_at_once() -> None:
    async with open_shop() as shop:
        code, _ = await shop.peer.refused(back_frame(await shop.send(), group="g" * 121))
        assert code == 1
        assert shop.waiting() == {}


# --------------------------------------------------------------------- consumers that send the message back themselves


def fallback_frame(*, attempt: int, limit: int | None = 16, level: int | None = None, version: int = 407) -> Frame:
    """What a consumer sends when handing back has failed: the message, to the retry topic, as a producer sends it."""
    pairs = {"TAGS": "TagA", "UNIQ_KEY": "0A0B", "RETRY_TOPIC": TOPIC, "ORIGIN_MESSAGE_ID": "0A00", "WAIT": "true"}
    pairs["DELAY"] = str(3 + attempt if level is None else level)
    frame = send_frame(RETRY, body=b"order", properties=properties_text(pairs), reconsume_times=attempt, l=limit)
    frame.version = version
    return frame


@pytest.mark.parametrize("is_version_1", [False, True])
async def test_a_message_that_a_consumer_sends_to_the_retry_topic_comes_again_too(is_version_1: bool) -> None:
    async with open_shop(auto_create_topic=False) as shop:
        frame = fallback_frame(attempt=1)
        answer = await shop.peer.ok(as_version_1(frame) if is_version_1 else frame)
        assert answer.ext is not None
        assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", "0")
        assert shop.waiting() == {4: 1}
        await shop.clock.advance(30)
        (again,) = await shop.retries()
        assert again.reconsume_times == 1
        assert (again.properties["RETRY_TOPIC"], again.properties["ORIGIN_MESSAGE_ID"]) == (TOPIC, "0A00")


@pytest.mark.parametrize(
    ("version", "attempt", "in_request", "of_group", "is_dead"),
    [
        (407, 15, 16, 16, False),
        (407, 16, 16, 16, True),
        (407, 17, 16, 16, True),
        (407, 3, 3, 16, True),
        (OLD_VERSION, 3, 3, 16, False),
        (OLD_VERSION, 3, 16, 3, True),
        (407, 3, None, 3, True),
    ],
)
async def test_after_the_last_attempt_it_is_a_dead_letter_at_once(
    version: int, attempt: int, in_request: int | None, of_group: int, is_dead: bool
) -> None:
    async with open_shop(check=False) as shop:
        await shop.make_group(retryMaxTimes=of_group)
        await shop.peer.ok(fallback_frame(attempt=attempt, limit=in_request, version=version))
        dead = await shop.dead()
        assert len(dead) == is_dead
        if is_dead:
            assert shop.waiting() == {}
            assert dead[0].reconsume_times == attempt
            assert "DELAY" not in dead[0].properties
            assert "WAIT" not in dead[0].properties, "the wish of a sender is not stored"
        else:
            assert shop.waiting() == {min(3 + attempt, 18): 1}


async def test_a_dead_letter_can_be_sent_to_no_unknown_group() -> None:
    async with open_shop(auto_create_group=False) as shop:
        code, remark = await shop.peer.refused(fallback_frame(attempt=16))
        assert code == 26
        assert GROUP in remark
        assert shop.house.broker.tables.topics.find(DEAD) is None
