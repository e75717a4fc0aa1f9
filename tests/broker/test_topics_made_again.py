"""A topic is deleted and made again while groups live on: they get each of its new messages, and none twice."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from skyrocketmq.testing import FaultyDisk
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, open_house
from tests.broker.requests import TOPIC, pull_frame, send_frame
from tests.broker.test_progress_after_power_cuts import GROUP, commit_frame


async def make_again(house: House, *, read: int) -> None:
    """Thirty messages, of which a group has read some; then the topic goes, comes back and gets ten."""
    await house.make_topic()
    peer = await house.connect()
    for _ in range(30):
        await peer.ok(send_frame(body=b"old"))
    if read:
        await peer.ok(commit_frame(read))
    await peer.ok(Frame(RequestCode.DELETE_TOPIC_IN_BROKER, 77, ext={"topic": TOPIC}))
    await house.make_topic()
    for _ in range(10):
        await peer.ok(send_frame(body=b"new"))


def where_to_begin(group: str) -> Frame:
    fields = {"consumerGroup": group, "topic": TOPIC, "queueId": "0"}
    return Frame(RequestCode.QUERY_CONSUMER_OFFSET, 5, ext=dict(fields))


@pytest.mark.parametrize("read", [0, 12, 30], ids=["a new group", "a group that was behind", "a group at the end"])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_group_gets_all_messages_of_a_topic_that_was_made_again(read: int, is_restarted: bool) -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(open_house(disk=disk, check=False))
        await make_again(house, read=read)
        if is_restarted:
            await stack.aclose()
            house = await stack.enter_async_context(open_house(disk=disk, check=False))
        peer = await house.connect()
        answer = await peer.ok(where_to_begin(GROUP))
        offset = int((answer.ext or {})["offset"] or "")
        answer = await peer.ask(pull_frame(TOPIC, 0, offset))
        if offset < 30:  # those are gone
            assert answer.code == 21
            offset = int((answer.ext or {})["nextBeginOffset"] or "")
            answer = await peer.ask(pull_frame(TOPIC, 0, offset))
        assert (answer.code, offset) == (0, 30)
        assert (answer.ext or {})["nextBeginOffset"] == "40"


@pytest.mark.parametrize("own_offset", [0, 7, 30, 33])
async def test_a_consumer_with_an_offset_of_its_own_misses_nothing_that_it_has_not_read(own_offset: int) -> None:
    async with open_house(check=False) as house:
        await make_again(house, read=0)
        peer = await house.connect()
        answer = await peer.ask(pull_frame(TOPIC, 0, own_offset))
        if own_offset < 30:
            assert (answer.code, (answer.ext or {})["nextBeginOffset"]) == (21, "30")
        else:
            assert (answer.code, (answer.ext or {})["nextBeginOffset"]) == (0, "40")
