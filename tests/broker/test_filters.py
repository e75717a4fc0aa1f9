"""SQL92 filters at a broker: pulled, held, checked, saved; and every way to be refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skyrocketmq.broker.pull_filters import SCAN_MIN
from skyrocketmq.filters import SqlFilter
from skyrocketmq.model.names import retry_topic
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_clients import CheckClientRequest
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, Peer, open_house
from tests.broker.requests import (
    GROUP,
    TOPIC,
    heartbeat_frame,
    properties_text,
    pull_frame,
    send_frame,
    subscription,
)
from tests.broker.support import until
from tests.store.reader import read_records

SQL: dict[str, Any] = {"expressionType": "SQL92"}


def sql_subscription(expression: str, *, version: int = 1, topic: str = TOPIC) -> Frame:
    return heartbeat_frame(
        subscription(expression, version=version, topic=topic, expression_type="SQL92", code_set=frozenset())
    )


async def send_numbered(peer: Peer, count: int, **properties: str) -> None:
    """Messages whose property `n` is their number."""
    for number in range(count):
        text = properties_text({"n": str(number), **properties})
        await peer.ok(send_frame(body=b"%d" % number, properties=text, opaque=number))


def bodies(answer: Frame) -> list[int]:
    return [int(record.body) for record in read_records(answer.body)]


@pytest.fixture
def expression() -> str:
    return "n >= 3 AND n < 6 OR n = 9"


@pytest.mark.parametrize("brings_it", [True, False], ids=["with the pull", "by heartbeat"])
async def test_a_pull_gets_the_messages_for_which_its_expression_is_true(expression: str, brings_it: bool) -> None:
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        await send_numbered(peer, 12)
        if not brings_it:
            await peer.ok(sql_subscription(expression))
        answer = await peer.ok(pull_frame(subscription=expression if brings_it else None, version=1, **SQL))
        assert bodies(answer) == [3, 4, 5, 9]
        assert answer.ext is not None
        assert answer.ext["nextBeginOffset"] == "12"


async def test_a_pull_that_finds_nothing_to_match_goes_on_behind_what_it_saw() -> None:
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        await send_numbered(peer, 5)
        answer = await peer.ask(pull_frame(subscription="n > 100", **SQL))
        assert (answer.code, (answer.ext or {})["nextBeginOffset"]) == (20, "5")


async def test_tags_and_other_properties_are_seen_by_an_expression() -> None:
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        await send_numbered(peer, 2, TAGS="TagA", color="blue")
        await send_numbered(peer, 2, TAGS="TagB", color="blue")
        answer = await peer.ok(pull_frame(subscription="TAGS = 'TagB' AND color IN ('blue') AND n = 1", **SQL))
        assert bodies(answer) == [1]


async def test_an_expensive_expression_looks_at_fewer_messages_at_once() -> None:
    many = " OR ".join(f"n = -{number}" for number in range(1, 901))
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        await send_numbered(peer, SCAN_MIN + 8)
        answer = await peer.ask(pull_frame(subscription=many, **SQL))
        assert (answer.code, (answer.ext or {})["nextBeginOffset"]) == (20, str(SCAN_MIN))


async def test_a_held_pull_is_woken_only_by_a_message_that_it_wants() -> None:
    clock = ManualClock()
    async with open_house(clock=clock, sql_filter_enable=True) as house:
        await house.make_topic()
        waiting, sender = await house.connect(), await house.connect()
        await waiting.write(pull_frame(subscription="n = 2", hold_ms=15_000, **SQL))
        await until(lambda: len(house.broker.parts.pulls.held) == 1)
        await send_numbered(sender, 2)
        await waiting.silence()
        await send_numbered(sender, 3)
        assert bodies(await waiting.next()) == [2]


async def test_a_filter_by_heartbeat_has_to_be_known_and_not_older() -> None:
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        await send_numbered(peer, 1)
        await peer.ok(sql_subscription("n >", version=1))
        code, remark = await peer.refused(pull_frame(subscription=None, version=1))
        assert code == 27
        assert "    n >\n       ^" in remark
        await peer.ok(sql_subscription("n = 0", version=2))
        house.broker.tables.filters.register(GROUP, [], now_ms=0)
        registered = house.broker.tables.filters.find(TOPIC, GROUP)
        assert registered is not None
        registered.client_version = 1
        code, remark = await peer.refused(pull_frame(subscription=None, version=2))
        assert (code, "heartbeat" in remark) == (28, True)


@pytest.mark.parametrize(
    ("expression", "kind", "shown"),
    [("n >", "SQL92", "n >\n       ^"), ("", "SQL92", "has no SQL92 expression"), ("n > 5", "SCRIPT", "type SCRIPT")],
)
async def test_a_pull_with_an_expression_that_cannot_be_used_is_told_why(
    expression: str, kind: str, shown: str
) -> None:
    async with open_house(sql_filter_enable=True) as house:
        peer = await house.connect()
        await send_numbered(peer, 1)
        code, remark = await peer.refused(pull_frame(subscription=expression, expressionType=kind))
        assert code == 23
        assert shown in remark


@pytest.mark.parametrize(
    ("is_enabled", "expression", "kind", "code"),
    [
        (False, "TagA", "TAG", 0),
        (False, "n > 5", "SQL92", 1),
        (True, "n > 5", "SQL92", 0),
        (True, "n > 'x'", "SQL92", 23),
        (True, "n > 5", "SCRIPT", 23),
    ],
)
async def test_a_client_can_ask_whether_an_expression_can_be_used(
    is_enabled: bool, expression: str, kind: str, code: int
) -> None:
    async with open_house(sql_filter_enable=is_enabled) as house:
        peer = await house.connect()
        data = subscription(expression, expression_type=kind)
        body = encode_body(CheckClientRequest(client_id="c", group=GROUP, subscription_data=data))
        answer = await peer.ask(Frame(RequestCode.CHECK_CLIENT_CONFIG, 1, body=body))
        assert answer.code == code, answer.remark


async def test_a_retried_message_is_filtered_by_its_first_topics_expression_where_that_is_wanted() -> None:
    async def pulled(house: House) -> list[int]:
        peer = await house.connect()
        await peer.ok(sql_subscription("n = 1", version=1))
        topic = retry_topic(GROUP)
        for number in range(2):
            text = properties_text({"n": str(number), "RETRY_TOPIC": TOPIC})
            await peer.ok(send_frame(topic, body=b"%d" % number, properties=text))
        await peer.ok(send_frame(topic, body=b"7", properties=properties_text({"RETRY_TOPIC": "Other"})))
        return bodies(await peer.ok(pull_frame(topic)))

    async with open_house(sql_filter_enable=True) as house:
        assert await pulled(house) == [0, 1, 7]
    async with open_house(sql_filter_enable=True, filter_retry_messages=True) as house:
        assert await pulled(house) == [1, 7]


async def test_filters_are_saved_every_ten_seconds_and_die_with_the_last_member() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    path = ROOT / "config" / "consumerFilter.json"
    async with open_house(disk=disk, clock=clock, sql_filter_enable=True) as house:
        peer = await house.connect()
        await peer.ok(sql_subscription("n = 1"))
        assert not disk.exists(path)
        await clock.advance(10.5)
        await until(lambda: disk.exists(path))
        saved = json.loads(disk.read(path))["filterDataByTopic"][TOPIC]["groupFilterData"][GROUP]
        assert (saved["expression"], saved["dead"]) == ("n = 1", False)
        await peer.close()
        registered = house.broker.tables.filters.find(TOPIC, GROUP)
        assert registered is not None
        await until(lambda: registered.is_dead)
    saved = json.loads(disk.read(path))["filterDataByTopic"][TOPIC]["groupFilterData"][GROUP]
    assert saved["dead"]
    async with open_house(disk=disk, clock=clock, sql_filter_enable=True) as house:
        assert house.broker.tables.filters.find(TOPIC, GROUP) is not None
        await clock.skip(86_400 + 20)
        await until(lambda: house.broker.tables.filters.find(TOPIC, GROUP) is None)


async def test_a_member_that_says_goodbye_takes_the_filter_along_only_if_it_is_the_last() -> None:
    async with open_house(sql_filter_enable=True) as house:
        first, second = await house.connect(), await house.connect()
        for peer in (first, second):
            await peer.ok(sql_subscription("n = 1"))
        registered = house.broker.tables.filters.find(TOPIC, GROUP)
        assert registered is not None
        leaving = Frame(RequestCode.UNREGISTER_CLIENT, 1, ext={"clientID": "client-1", "consumerGroup": GROUP})
        await first.ok(leaving)
        assert not registered.is_dead
        await second.ok(leaving)
        assert registered.is_dead


# ---------------------------------------------------------------------------------------------------------- bit maps

WITH_BIT_MAPS: dict[str, Any] = {
    "sql_filter_enable": True,
    "calc_filter_bit_map": True,
    "store": {"queue_ext_enable": True, "queue_ext_file_bytes": 4096},
}


async def test_bit_maps_spare_the_reading_of_messages_that_nobody_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    read_count = 0
    asked = SqlFilter.select

    def select(self: SqlFilter, view: bytes | memoryview, base: int, cells: bytes) -> bytes:
        verdicts = asked(self, view, base, cells)
        nonlocal read_count
        read_count += len(verdicts)
        return verdicts

    monkeypatch.setattr(SqlFilter, "select", select)
    async with open_house(clock=clock, check=False, **WITH_BIT_MAPS) as house:
        await house.make_topic()
        peer = await house.connect()
        await send_numbered(peer, 3)  # before there is a filter: these have to be read
        await peer.ok(sql_subscription("n = 2 OR n = 77"))
        await clock.advance(1)
        for number in range(200):
            text = properties_text({"n": str(number)})
            await peer.ok(send_frame(body=b"%d" % number, properties=text, opaque=number))
        found = []
        offset = 0
        while offset < 203:
            answer = await peer.ask(pull_frame(offset=offset, subscription=None, version=1))
            found += bodies(answer) if answer.code == 0 else []
            offset = int((answer.ext or {})["nextBeginOffset"] or 0)
        assert found == [2, 2, 77]
        assert read_count == 3 + 2  # of one group alone, no bit is there by chance


@pytest.mark.parametrize("is_crash", [False, True], ids=["stop", "crash"])
async def test_what_is_filtered_is_the_same_after_a_restart(is_crash: bool) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)

    async def pulled(peer: Peer) -> list[int]:
        found: list[int] = []
        offset = 0
        while True:
            answer = await peer.ask(pull_frame(offset=offset, subscription=None, version=1))
            if answer.code == 19:
                return found
            found += bodies(answer) if answer.code == 0 else []
            offset = int((answer.ext or {})["nextBeginOffset"] or 0)

    expression = "n > 4 AND n < 8"
    async with open_house(disk=disk, clock=clock, check=False, **WITH_BIT_MAPS) as house:
        await house.make_topic()
        peer = await house.connect()
        await peer.ok(sql_subscription(expression))
        await clock.advance(1)
        await send_numbered(peer, 10)
        assert await pulled(peer) == [5, 6, 7]
    if is_crash:
        disk.replace(ROOT / "abort", b"")
    async with open_house(disk=disk, clock=clock, check=False, **WITH_BIT_MAPS) as house:
        peer = await house.connect()
        await peer.ok(sql_subscription(expression))
        await clock.advance(1)
        await send_numbered(peer, 10)
        assert await pulled(peer) == [5, 6, 7, 5, 6, 7]
        # By tags, too: the hash is in the unit. Messages whose unit is gone pass, and are looked at by the consumer.
        await peer.ok(send_frame(body=b"99", properties=properties_text({"TAGS": "TagX"})))
        passed = bodies(await peer.ok(pull_frame(subscription="TagX")))
        assert passed == ([*range(10), 99] if is_crash else [99])
