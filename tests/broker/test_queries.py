"""Messages found by key, by unique id and by their place in the log, through a real port."""

from __future__ import annotations

import pytest

from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from tests.broker.house import ROOT, Peer, open_house
from tests.broker.requests import TOPIC, as_version_1, properties_text, send_frame, unique_id
from tests.store.reader import read_records

ALWAYS = 2**63 - 1


def query(
    key: str | None,
    *,
    topic: str | None = TOPIC,
    count: object = 32,
    begin: object = 0,
    end: object = ALWAYS,
    encoding: Encoding = Encoding.JSON,
    **others: str,
) -> Frame:
    fields: dict[str, object] = {
        "topic": topic,
        "key": key,
        "maxNum": count,
        "beginTimestamp": begin,
        "endTimestamp": end,
    }
    ext: dict[str, str | None] = {name: str(value) for name, value in (fields | others).items() if value is not None}
    return Frame(RequestCode.QUERY_MESSAGE, 3, ext=ext, encoding=encoding)


def view(offset: object) -> Frame:
    return Frame(RequestCode.VIEW_MESSAGE_BY_ID, 4, ext={"offset": str(offset)})


async def send(peer: Peer, number: int, *, keys: str = "", topic: str = TOPIC) -> str:
    """Send a message with keys; the id that its answer gives."""
    pairs = [("KEYS", keys)] if keys else []
    pairs += [("UNIQ_KEY", unique_id(number)), ("TAGS", "TagA")]
    frame = send_frame(topic, number % 4, body=b"%d" % number, properties=properties_text(pairs))
    answer = await peer.ok(as_version_1(frame) if number % 5 == 4 else frame)
    assert answer.ext is not None
    return answer.ext["msgId"] or ""


async def found(peer: Peer, frame: Frame) -> list[int]:
    answer = await peer.ok(frame)
    return [int(record.body) for record in read_records(answer.body)]


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_message_is_found_by_each_of_its_keys_and_by_its_unique_id(encoding: Encoding) -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(30):
            await send(peer, number, keys=f"order-{number} customer-{number % 3}")
        assert await found(peer, query("order-7", encoding=encoding)) == [7]
        assert await found(peer, query("customer-1", encoding=encoding)) == list(range(1, 30, 3))
        unique = query(unique_id(12), encoding=encoding, _UNIQUE_KEY_QUERY="true")
        assert await found(peer, unique) == [12]
        assert await found(peer, query(unique_id(12), encoding=encoding)) == [12]


async def test_keys_are_found_after_a_restart() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk) as house:
        peer = await house.connect()
        ids = [await send(peer, number, keys=f"order-{number}") for number in range(20)]
    async with open_house(disk=disk) as house:
        peer = await house.connect()
        for number in range(20):
            assert await found(peer, query(f"order-{number}")) == [number]
            (record,) = read_records((await peer.ok(view(int(ids[number][16:], 16)))).body)
            assert record.body == b"%d" % number


async def test_the_answer_tells_how_far_the_index_is() -> None:
    clock = ManualClock()
    async with open_house(clock=clock) as house:
        peer = await house.connect()
        last = [await send(peer, number, keys="k") for number in range(3)][-1]
        for frame in (query("k"), query("unknown")):
            answer = await peer.ask(frame)
            assert answer.ext == {
                "indexLastUpdateTimestamp": str(clock.now_ms()),
                "indexLastUpdatePhyoffset": str(int(last[16:], 16)),
            }


async def test_the_newest_messages_of_a_key_are_given_oldest_first() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(100):
            await send(peer, number, keys="same")
        assert await found(peer, query("same", count=5)) == [95, 96, 97, 98, 99]
        assert await found(peer, query("same", count=1000)) == list(range(36, 100)), "64 at most"
        assert await found(peer, query("same", count=1, _UNIQUE_KEY_QUERY="true")) == list(range(68, 100)), "32"


async def test_only_messages_of_the_time_asked_for_are_given() -> None:
    clock = ManualClock()
    async with open_house(clock=clock) as house:
        peer = await house.connect()
        start = clock.now_ms()
        for number in range(10):
            await send(peer, number, keys="k")
            await clock.advance(60)
        minute = 60_000
        assert await found(peer, query("k", begin=start + 3 * minute, end=start + 5 * minute)) == [3, 4, 5]
        assert (await peer.ask(query("k", begin=start + 11 * minute))).code == 22
        assert (await peer.ask(query("k", end=start - minute))).code == 22
        assert await found(peer, query("k", begin=None, end=None)) == list(range(10)), "all times"


@pytest.mark.parametrize("key", ["unknown", "", " ", "ключ", "x" * 1000, "order-1 customer-1"])
async def test_a_key_that_no_message_has_is_not_found(key: str) -> None:
    async with open_house() as house:
        peer = await house.connect()
        await send(peer, 1, keys="order-1 customer-1")
        code, remark = await peer.refused(query(key))
        assert code == 22
        assert TOPIC in remark


async def test_keys_belong_to_their_topics() -> None:
    async with open_house() as house:
        peer = await house.connect()
        await send(peer, 1, keys="k", topic="One")
        await send(peer, 2, keys="k", topic="Two")
        assert await found(peer, query("k", topic="One")) == [1]
        assert await found(peer, query("k", topic="Two")) == [2]
        assert (await peer.ask(query("k", topic="Three"))).code == 22


async def test_keys_of_any_script_are_found() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for _ in range(2):
            await send(peer, 1, keys="ключ 中文 😀 a-b_c.d")
        for key in ("ключ", "中文", "😀", "a-b_c.d"):
            assert await found(peer, query(key)) == [1, 1]


async def test_a_query_without_topic_or_key_is_refused() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for frame in (query(None), query("k", topic=None), Frame(RequestCode.QUERY_MESSAGE)):
            frame.opaque = 3
            code, remark = await peer.refused(frame)
            assert code == 1
            assert "topic and key" in remark


async def test_a_message_is_viewed_by_its_place_in_the_log() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for number in range(5):
            message_id = await send(peer, number)
            assert message_id[:16] == f"7F000001{house.port:08X}"
            answer = await peer.ok(view(int(message_id[16:], 16)))
            (record,) = read_records(answer.body)
            assert record.properties["UNIQ_KEY"] == unique_id(number)


async def test_a_place_without_a_message_is_refused() -> None:
    async with open_house() as house:
        peer = await house.connect()
        message_id = await send(peer, 1)
        await send(peer, 2)
        end = int(house.broker.store.log.max_offset)
        for offset in (1, int(message_id[16:], 16) + 8, end, end - 3, 10**12, -1, 2**63 - 1, -(2**63)):
            code, remark = await peer.refused(view(offset))
            assert code == 1
            assert f"offset {offset}" in remark
            assert "another broker" in remark
        for bad in (view("x"), Frame(RequestCode.VIEW_MESSAGE_BY_ID, 4)):
            assert (await peer.refused(bad))[0] == 1
