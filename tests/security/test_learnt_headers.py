"""Headers that a peer sends to fill the broker's memory: nothing is kept of a refused one, nothing of a long one.

The send path looks up what producers repeat. Whoever sends other headers all the time, or long ones, would fill its
tables; they were bounded by count, and a header may have 16 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest

from skyrocketmq.broker import send_headers
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import signed
from tests.broker.house import House, Peer, open_house
from tests.broker.requests import TOPIC, properties_text, send_frame, unique_id
from tests.broker.test_access import guarded_house, make_topic

LONG_BYTES = 200_000


def kept_bytes(house: House) -> int:
    """The texts in all tables of the send path."""
    headers = house.broker.parts._headers
    texts: list[bytes] = [*headers._starts, *headers._ends, *headers._flags]
    for topic in headers._topics.values():
        texts += [*topic.routes, *topic._shapes]
        texts += [text for shape in topic._shapes.values() for text in (shape.before, shape.middle, shape.after)]
    return sum(map(sys.getsizeof, texts))


def sends(count: int, **fields: Any) -> Iterable[Frame]:
    for number in range(count):
        properties = properties_text([("UNIQ_KEY", unique_id(number)), ("x", fields.get("x", "y") + str(number))])
        group = fields.get("group", "writers") + str(number)
        yield send_frame(opaque=number, is_binary=fields.get("is_binary", False), a=group, properties=properties)


async def send_all(peer: Peer, frames: Iterable[Frame]) -> None:
    for frame in frames:
        await peer.ok(frame)
        await peer.ok(frame)  # the second time it may be recognised, and is learnt in another way


@pytest.mark.parametrize("is_oneway", [False, True])
@pytest.mark.parametrize("is_binary", [False, True])
async def test_nothing_is_learnt_from_a_refused_send(is_binary: bool, is_oneway: bool) -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        for number in range(10):
            await peer.write(send_frame(is_binary=is_binary, is_oneway=is_oneway, a=f"group-{number}"))
            assert is_oneway or (await peer.next()).code != 0
        await peer.ok(signed(Frame(RequestCode.GET_BROKER_CONFIG, 5), "the-admin"))  # by then all have been handled
        assert kept_bytes(house) == 0
        assert house.broker.parts._headers._topics == {}
        await peer.ok(signed(send_frame(is_binary=is_binary), "the-writer"))
        assert TOPIC in house.broker.parts._headers._topics, "from others it is"


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("field", ["group", "x"])
async def test_nothing_is_learnt_from_long_texts(field: str, is_binary: bool) -> None:
    size = LONG_BYTES if field == "group" else 30_000
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        await send_all(peer, sends(20, is_binary=is_binary, **{field: "y" * size}))
        assert kept_bytes(house) < size


@pytest.mark.parametrize("is_binary", [False, True])
async def test_the_tables_of_all_topics_have_one_budget(is_binary: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_headers, "LEARNT_BYTES_MAX", 100_000)
    async with open_house() as house:
        peer = await house.connect()
        for name in ("One", "Two", "Three"):
            await house.make_topic(name)
            for number in range(60):
                pairs = [("UNIQ_KEY", unique_id(number)), ("x", f"{'y' * 400}{number}")]
                frame = send_frame(name, a=f"g{number}", is_binary=is_binary, properties=properties_text(pairs))
                await peer.ok(frame)
                await peer.ok(frame)
                assert kept_bytes(house) < 300_000, "texts are in several places, and have heads of their own"
