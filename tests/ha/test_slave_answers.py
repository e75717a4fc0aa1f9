"""What a slave answers: it is read from, and changes nothing by itself."""

from __future__ import annotations

import pytest

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.requests import GROUP, TOPIC, pull_frame, send_frame
from tests.ha.pair import Pair, open_pair


async def with_messages(pair: Pair, count: int = 10) -> None:
    await pair.master.make_topic()
    await pair.master.send_many(count)
    await pair.caught_up()
    await pair.until(lambda: pair.slave.broker.tables.topics.find(TOPIC))


async def test_a_slave_refuses_sends_and_says_where_to_go() -> None:
    async with open_pair() as pair:
        await with_messages(pair)
        peer = await pair.slave.connect()
        for frame in (send_frame(), send_frame("New"), send_frame(is_binary=True)):
            code, remark = await peer.refused(frame)
            assert code == 14
            assert "slave" in remark
            assert "master" in remark
        assert pair.slave.broker.tables.topics.find("New") is None


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {"topic": "New", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"},
        ),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC}),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP}),
    ],
)
async def test_what_only_the_master_decides_is_refused(code: int, ext: dict[str, str | None]) -> None:
    async with open_pair() as pair:
        await with_messages(pair)
        peer = await pair.slave.connect()
        refused, remark = await peer.refused(Frame(code, 1, ext=ext))
        assert refused == 1
        assert "slave" in remark


async def test_a_pull_at_the_end_of_a_slaves_queue_waits_for_what_comes_from_the_master() -> None:
    async with open_pair() as pair:
        await with_messages(pair)
        reader = await pair.slave.connect()
        await reader.write(pull_frame(offset=10, hold_ms=8000))
        await pair.pass_time(0.2)
        await reader.silence()
        await pair.master.send_many(1, body=b"news")
        answer = await reader.next()
        assert answer.code == 0
        assert b"news" in answer.body


async def test_a_slave_does_not_take_the_offset_that_a_pull_brings_along() -> None:
    async with open_pair() as pair:
        await with_messages(pair)
        for member in (pair.master, pair.slave):
            await (await member.connect()).ok(pull_frame(offset=5, commit=5))
        found = [member.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) for member in pair.members]
        assert found == [5, None]


async def test_an_offset_that_the_slave_does_not_have_is_asked_of_the_master() -> None:
    async with open_pair() as pair:
        await with_messages(pair)
        answer = await (await pair.slave.connect()).ask(pull_frame(offset=99, hold_ms=8000))
        assert answer.code == 20
        assert (answer.ext or {})["nextBeginOffset"] == "99"
        assert (answer.ext or {})["suggestWhichBrokerId"] == "0"


async def test_while_there_is_no_master_such_a_pull_waits_a_moment_instead_of_spinning() -> None:
    async with open_pair() as pair:
        await with_messages(pair)
        await pair.master.stop()
        await pair.until(lambda: not pair.slave.broker.replication.is_following)
        peer = await pair.slave.connect()
        started = pair.clock.monotonic()
        answer = await pair.moving(peer.ask(pull_frame(offset=99, hold_ms=8000)))
        assert answer.code == 20
        assert 0.9 <= pair.clock.monotonic() - started < 1.2


async def test_a_slave_that_may_corrects_offsets_itself() -> None:
    async with open_pair(slave_store={"offset_check_in_slave": True}) as pair:
        await with_messages(pair)
        answer = await (await pair.slave.connect()).ask(pull_frame(offset=99))
        assert answer.code == 21
        assert (answer.ext or {})["nextBeginOffset"] == "10"


@pytest.mark.parametrize(
    ("slave_read", "memory_percent", "expected"), [(False, 0, "0"), (True, 40, "0"), (True, 0, "1")]
)
async def test_a_master_sends_readers_that_are_far_behind_to_the_slave_if_that_is_allowed(
    slave_read: bool, memory_percent: int, expected: str
) -> None:
    async with open_pair(slave_read_enable=slave_read, store={"memory_ratio_percent": memory_percent}) as pair:
        await with_messages(pair, 100)
        answer = await (await pair.master.connect()).ok(pull_frame(offset=0, count=1))
        assert (answer.ext or {})["suggestWhichBrokerId"] == expected
