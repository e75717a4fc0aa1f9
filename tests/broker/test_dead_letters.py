"""One dead letter a message, however often it is given up: repeated requests, restarts, copies that clients send."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.broker import dead_letters
from skyrocketmq.broker.dead_letters import INFLATED_BYTES_MAX
from skyrocketmq.broker.hand_backs import KNOWN_COUNT_MAX, KNOWN_S, REPEATED_S, HandBack, HandBacks
from skyrocketmq.model import CompressionType
from skyrocketmq.store import PutResult, RunningFlag
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.compression import compress, compression_bits, decompress
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT
from tests.broker.requests import TOPIC, properties_text, send_frame, unique_id
from tests.broker.support import BROKER
from tests.broker.test_retry import RETRY, Shop, back_frame, open_shop

LIMIT = 3


def properties_of(number: int) -> str:
    return properties_text({"UNIQ_KEY": unique_id(number), "TAGS": "TagA"})


async def send_poison(shop: Shop, number: int = 1, body: bytes = b"poison") -> int:
    return await shop.send(body=body, properties=properties_of(number))


async def give_up(shop: Shop, offset: int) -> None:
    await shop.hand_back(offset, level=-1)


def copy_frame(number: int = 1, *, origin: str, body: bytes = b"poison", sys_flag: int = 0) -> Frame:
    """The last attempt, sent to the retry topic by a client whose request to take it back was not answered."""
    pairs = {"UNIQ_KEY": unique_id(number), "TAGS": "TagA", "RETRY_TOPIC": TOPIC, "ORIGIN_MESSAGE_ID": origin}
    return send_frame(
        RETRY, body=body, properties=properties_text(pairs), reconsume_times=LIMIT, l=LIMIT, sys_flag=sys_flag
    )


async def test_a_message_that_is_given_up_twice_has_one_letter() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        for _ in range(3):
            await give_up(shop, offset)
        assert [letter.body for letter in await shop.dead()] == [b"poison"]


async def test_two_requests_at_the_same_time_make_one_letter() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        other = await shop.house.connect()
        await asyncio.gather(
            shop.peer.ok(back_frame(offset, level=-1)), other.ok(back_frame(offset, level=-1, group="billing"))
        )
        assert len(await shop.dead()) == 1


async def test_a_letter_is_known_again_after_a_restart() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_shop(disk, clock) as shop:
        offset = await send_poison(shop)
        await give_up(shop, offset)
    async with open_shop(disk, clock) as shop:
        await give_up(shop, offset)
        other = await send_poison(shop, 2)
        await give_up(shop, other)
        assert [letter.properties["UNIQ_KEY"] for letter in await shop.dead()] == [unique_id(1), unique_id(2)]


async def test_copies_that_went_different_ways_end_in_one_letter() -> None:
    """The answer to the first hand-back was lost with the broker: after its restart there are two copies."""
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_shop(disk, clock) as shop:
        offset = await send_poison(shop)
        await shop.hand_back(offset, level=1)
    async with open_shop(disk, clock) as shop:
        await shop.hand_back(offset, level=1)
        await clock.advance(2)
        copies = await shop.retries()
        assert [copy.reconsume_times for copy in copies] == [1, 1]
        for copy in copies:
            await shop.hand_back(copy.log_offset, maxReconsumeTimes=1)
        assert len(await shop.dead()) == 1


@pytest.mark.parametrize("origin", ["", "unique id"])
async def test_a_copy_that_a_client_sends_is_the_same_message(origin: str) -> None:
    async with open_shop() as shop:
        await give_up(shop, await send_poison(shop))
        (letter,) = await shop.dead()
        first_copy = unique_id(1) if origin else letter.properties["ORIGIN_MESSAGE_ID"]
        answer = await shop.peer.ok(copy_frame(origin=first_copy))
        assert answer.ext is not None
        assert (answer.ext["queueOffset"], int((answer.ext["msgId"] or "")[16:], 16)) == ("0", letter.log_offset)
        assert len(await shop.dead()) == 1


async def test_a_copy_that_is_compressed_in_another_way_is_the_same_message() -> None:
    body = b"poison" * 1000
    ways = [(CompressionType.ZLIB, 1), (CompressionType.ZLIB, 9), (CompressionType.ZSTD, 3)]
    async with open_shop() as shop:
        for kind, level in ways:
            frame = copy_frame(
                origin=unique_id(1), body=compress(body, kind, level=level), sys_flag=compression_bits(kind)
            )
            await shop.peer.ok(frame)
        assert len(await shop.dead()) == 1


async def test_a_body_is_inflated_only_where_nothing_else_tells_and_only_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inflated: list[int] = []

    def decompress_and_note(body: bytes, kind: CompressionType, *, bytes_max: int) -> bytes:
        inflated.append(bytes_max)
        return decompress(body, kind, bytes_max=bytes_max)

    monkeypatch.setattr(dead_letters, "decompress", decompress_and_note)
    ways = [compress(bytes(INFLATED_BYTES_MAX + 1), CompressionType.ZLIB, level=level) for level in (1, 9)]
    bits = compression_bits(CompressionType.ZLIB)
    async with open_shop() as shop:
        for _ in range(3):
            for body in ways:
                await give_up(shop, await shop.send(body=body, properties=properties_of(1), sys_flag=bits))
        assert len(await shop.dead()) == 6, "each has a place of its own"
        assert inflated == []
        for body in [*ways, *ways]:
            await shop.peer.ok(copy_frame(origin=unique_id(1), body=body, sys_flag=bits))
        assert len(await shop.dead()) == 6, "the bytes are the same"
        assert inflated == [INFLATED_BYTES_MAX] * (6 + 4), "a letter once, a copy each time"
        third = compress(bytes(INFLATED_BYTES_MAX + 1), CompressionType.ZLIB, level=5) + b" "
        await shop.peer.ok(copy_frame(origin=unique_id(1), body=third, sys_flag=bits))
        assert len(await shop.dead()) == 7, "too long to be compared: a second letter rather than none"


async def test_letters_are_compared_by_their_bodies_after_a_restart_too() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_shop(disk=disk, clock=clock) as shop:
        await shop.peer.ok(copy_frame(origin=unique_id(1)))
    async with open_shop(disk=disk, clock=clock) as shop:
        await shop.peer.ok(copy_frame(origin=unique_id(1)))
        await shop.peer.ok(copy_frame(origin=unique_id(1), body=b"other"))
        assert [letter.body for letter in await shop.dead()] == [b"poison", b"other"]


async def test_two_messages_under_one_unique_id_have_a_letter_each() -> None:
    async with open_shop() as shop:
        for body in (b"first", b"second", b"second"):  # a producer that sends the same object again and again
            await give_up(shop, await send_poison(shop, body=body))
        assert [letter.body for letter in await shop.dead()] == [b"first", b"second", b"second"]


async def test_messages_without_unique_id_are_told_apart_by_their_place() -> None:
    async with open_shop() as shop:
        offsets = [await shop.send(body=b"same") for _ in range(2)]
        for offset in [*offsets, *offsets]:
            await give_up(shop, offset)
        assert len(await shop.dead()) == 2


async def test_each_group_has_its_own_letter() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        await give_up(shop, offset)
        await shop.hand_back(offset, level=-1, group="shipping")
        assert len(await shop.dead()) == len(await shop.house.pull_all("%DLQ%shipping")) == 1


async def test_without_an_index_the_latest_letters_are_known() -> None:
    async with open_shop(store={"index_enable": False}) as shop:
        offset = await send_poison(shop)
        await give_up(shop, offset)
        await give_up(shop, offset)
        assert len(await shop.dead()) == 1


# ------------------------------------------------------------------------------------------------- repeated hand-backs


async def test_a_hand_back_that_is_repeated_makes_one_copy() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        await shop.hand_back(offset)
        await shop.hand_back(offset)
        assert shop.waiting() == {3: 1}
        await shop.hand_back(offset, group="shipping")
        await shop.hand_back(offset, level=4)
        assert shop.waiting() == {3: 2, 4: 1}, "another group, and another wish"


async def test_a_message_that_fails_again_after_a_reset_is_taken_back_again() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        await shop.hand_back(offset, level=1)
        await shop.clock.advance(KNOWN_S + 1)
        await shop.hand_back(offset, level=1)
        assert shop.waiting() == {1: 2}


async def test_a_message_is_taken_back_again_once_its_copy_was_delivered_and_no_client_repeats_itself_any_more() -> (
    None
):
    async with open_shop() as shop:
        offset = await send_poison(shop)
        for level, known_s in ((1, REPEATED_S), (0, REPEATED_S), (4, 30)):  # 0 is the third, for a first attempt
            await shop.hand_back(offset, level=level)
            await shop.clock.advance(known_s - 0.5)
            await shop.hand_back(offset, level=level)
            await shop.clock.advance(0.6)
            await shop.hand_back(offset, level=level)
        assert shop.waiting() == {1: 2, 3: 2, 4: 2}


def test_a_hand_back_is_known_while_its_copy_waits_or_a_client_may_ask_again_but_no_longer_than_a_minute() -> None:
    known, stored = HandBacks(), PutResult(PutStatus.PUT_OK)
    for delay_s, known_s in ((1, REPEATED_S), (30, 30), (7200, KNOWN_S)):
        known.remember(HandBack("g", 1, 0), stored, delay_s=delay_s, now_s=5)
        assert known.find(HandBack("g", 1, 0), now_s=5 + known_s - 0.1) is stored
        assert known.find(HandBack("g", 1, 0), now_s=5 + known_s) is None


def own_copy(handed_back: str, *, opaque: int = 77) -> Frame:
    """What a client sends when its request to take a message back was not answered."""
    pairs = {"UNIQ_KEY": unique_id(1), "RETRY_TOPIC": TOPIC, "DELAY": "3", "HANDED_BACK": handed_back}
    return send_frame(RETRY, body=b"poison", properties=properties_text(pairs), reconsume_times=1, l=16, opaque=opaque)


async def test_a_clients_own_copy_is_left_out_where_its_request_was_carried_out() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        await shop.hand_back(offset)
        answer = await shop.peer.ok(own_copy(f"{offset}/0 {BROKER}"))
        assert shop.waiting() == {3: 1}
        assert (answer.ext or {})["queueOffset"] == "0", "it is told of the copy that is there"
        for other in (f"{offset}/4 {BROKER}", f"{offset}/0 another-broker", f"{offset + 1}/0 {BROKER}", "nonsense", ""):
            await shop.peer.ok(own_copy(other))
        assert shop.waiting() == {3: 6}, "of whatever else it speaks, it is stored"


async def test_a_request_that_comes_after_the_clients_own_copy_makes_no_second_one() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        await shop.peer.ok(own_copy(f"{offset}/0 {BROKER}"))
        await shop.hand_back(offset)
        assert shop.waiting() == {3: 1}


async def test_a_hand_back_that_could_not_be_stored_may_be_repeated() -> None:
    async with open_shop() as shop:
        offset = await send_poison(shop)
        state = shop.house.broker.store.state
        state.raise_flag(RunningFlag.DISK_FULL)
        await shop.peer.refused(back_frame(offset))
        state.lower_flag(RunningFlag.DISK_FULL)
        await shop.hand_back(offset)
        assert shop.waiting() == {3: 1}


def test_the_oldest_hand_backs_are_forgotten() -> None:
    known, stored = HandBacks(), PutResult(PutStatus.PUT_OK)
    for number in range(KNOWN_COUNT_MAX + 1):
        known.remember(HandBack("g", number, 0), stored, delay_s=100, now_s=1.0)
    assert known.find(HandBack("g", 0, 0), now_s=1.0) is None
    assert known.find(HandBack("g", 1, 0), now_s=1.0) is stored
    known.remember(HandBack("g", 1, 0), stored, delay_s=100, now_s=1.0 + KNOWN_S + 1)
    assert known.find(HandBack("g", 2, 0), now_s=1.0) is None
