"""What a broker keeps of the sends it gets: the topics that exist, and nothing that a client could fill."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import signed
from tests.broker.house import open_house
from tests.broker.requests import TOPIC, properties_text, send_frame, unique_id
from tests.broker.test_access import guarded_house, make_topic


@pytest.mark.parametrize("is_oneway", [False, True])
@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_refused_send_opens_no_topic(is_binary: bool, is_oneway: bool) -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        for number in range(10):
            await peer.write(send_frame(is_binary=is_binary, is_oneway=is_oneway, a=f"group-{number}"))
            assert is_oneway or (await peer.next()).code != 0
        await peer.ok(signed(Frame(RequestCode.GET_BROKER_CONFIG, 5), "the-admin"))  # by then all have been handled
        assert opened_topics(house) == set()
        await peer.ok(signed(send_frame(is_binary=is_binary), "the-writer"))
        assert opened_topics(house) == {TOPIC.encode()}


@pytest.mark.parametrize("is_binary", [False, True])
async def test_only_topics_that_exist_are_kept_however_many_others_are_named(is_binary: bool) -> None:
    async with open_house(auto_create_topic=False) as house:
        await house.make_topic()
        peer = await house.connect()
        for number in range(50):
            pairs = [("UNIQ_KEY", unique_id(number)), ("x" * 100 + str(number), "y" * 1000)]
            await peer.ok(send_frame(is_binary=is_binary, a=f"g{number}", properties=properties_text(pairs)))
            assert (await peer.ask(send_frame(f"Other-{number}", is_binary=is_binary))).code != 0
        assert opened_topics(house) == {TOPIC.encode()}


def opened_topics(house: Any) -> set[bytes]:
    return set(house.broker.parts._sends._reader.topics)
