"""The common pull is answered as any other: the same request, written so that only the general way reads it, tells."""

from __future__ import annotations

import pytest

from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.broker.house import House, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, properties_text, pull_frame, send_frame, subscription


def in_another_hand(frame: Frame) -> bytes:
    """The same request with a space where Java writes none."""
    data = encode_frame(frame)
    header = b"{ " + data[9:]
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


async def answers(house: House, frame: Frame) -> tuple[Frame, Frame]:
    peer = await house.connect()
    first = await peer.ask(frame)
    second = await peer.ask(in_another_hand(frame))
    await peer.close()
    return first, second


@pytest.mark.parametrize(
    "frame",
    [
        pull_frame(offset=0),
        pull_frame(offset=7, count=3, opaque=-12),
        pull_frame(offset=39, count=5),
        pull_frame(offset=40),  # nothing there
        pull_frame(offset=41),
        pull_frame(offset=-1),
        pull_frame(offset="many"),
        pull_frame(queue_id=99),
        pull_frame("NoSuchTopic"),
        pull_frame(subscription="odd"),
        pull_frame(subscription=None),  # nobody of the group has sent a heartbeat
        pull_frame(group=None),  # type: ignore[arg-type]
        pull_frame(offset=3, commit=3),
    ],
)
async def test_it_answers_as_the_general_way_does(frame: Frame) -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(40):
            properties = properties_text({"TAGS": "odd" if number % 2 else "even"})
            await peer.ok(send_frame(TOPIC, 0, body=b"%d" % number, properties=properties))
        first, second = await answers(house, frame)
        assert first == second


@pytest.mark.parametrize(
    ("expression", "offset", "code"),
    [
        ("n BETWEEN 3 AND 9", 0, ResponseCode.SUCCESS),
        ("n >= 0", 7, ResponseCode.SUCCESS),
        ("n = 3", 4, ResponseCode.PULL_RETRY_IMMEDIATELY),  # looked at all, and none matches
        ("n >= 0", 40, ResponseCode.PULL_NOT_FOUND),
        ("n >= ", 0, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
async def test_it_answers_pulls_with_an_expression_as_the_general_way_does(
    expression: str, offset: int, code: ResponseCode
) -> None:
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        for number in range(40):
            await peer.ok(send_frame(TOPIC, 0, body=b"%d" % number, properties=properties_text({"n": str(number)})))
        frame = pull_frame(offset=offset, count=5, subscription=expression, expressionType="SQL92")
        for _ in range(2):  # before the layout of the messages is known, and after
            first, second = await answers(house, frame)
            assert first.code == code
            assert first == second


async def test_it_gives_scattered_messages_as_the_general_way_does() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(40):
            await peer.ok(send_frame(TOPIC, number % 4, body=b"%d" % number))
        first, second = await answers(house, pull_frame(queue_id=2))
        assert first == second
        assert first.remark == "FOUND"


async def test_it_knows_what_heartbeats_subscribed_to() -> None:
    async with open_house() as house:
        await house.send_many(10)
        peer = await house.connect()
        await peer.ok(heartbeat_frame(subscription("*")))
        first, second = await answers(house, pull_frame(subscription=None))
        assert first == second
        assert first.code == 0


async def test_it_commits_what_a_pull_commits() -> None:
    async with open_house() as house:
        await house.send_many(10)
        peer = await house.connect()
        await peer.ok(pull_frame(offset=5, commit=5))
        assert house.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 5


async def test_pulls_and_sends_of_one_buffer_act_in_their_order() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        sends = [send_frame(TOPIC, 0, body=b"%d" % number, opaque=100 + number) for number in range(4)]
        pulls = [pull_frame(offset=0, opaque=200 + number) for number in range(5)]
        await peer.write(pulls[0], sends[0], pulls[1], sends[1], sends[2], pulls[2], pulls[3], sends[3], pulls[4])
        found = await peer.all(9)
        counts = [int((found[200 + number].ext or {})["maxOffset"] or "") for number in range(5)]
        assert counts == [1, 2, 4, 4, 5]


async def test_a_frame_that_is_an_answer_changes_nothing() -> None:
    async with open_house() as house:
        await house.send_many(10)
        peer = await house.connect()
        frame = pull_frame(offset=5, commit=5)
        frame.flag = 1
        await peer.write(frame)
        await peer.ok(pull_frame(offset=0, opaque=9))
        assert house.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) is None


@pytest.mark.parametrize("hold_ms", [None, 15_000])
@pytest.mark.parametrize("offset", [0, 10])
async def test_a_one_way_pull_commits_and_is_not_answered(offset: int, hold_ms: int | None) -> None:
    async with open_house() as house:
        await house.send_many(10)
        peer = await house.connect()
        frame = pull_frame(offset=offset, commit=3, hold_ms=hold_ms)
        frame.flag = 2
        await peer.write(frame)
        await peer.ok(pull_frame(offset=0, opaque=9))
        await peer.ok(send_frame(TOPIC, 0, body=b"new", opaque=10))
        await peer.silence()
        assert house.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 3
