"""Who is a producer for the broker's own messages: another account's questions and replies are for nobody else."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from skyrocketmq.broker.clients import CLIENT_ID_KEPT_S, LOST_COUNT_MAX, Member, ProducerTable
from skyrocketmq.model.heartbeats import HeartbeatData, ProducerData
from skyrocketmq.testing import ManualClock
from skyrocketmq.testing.clock import START_MS
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import ACL_FILE, ACL_PATH, signed
from tests.broker.house import House, Peer
from tests.broker.test_access import LOCAL_IS_WHITE, guarded_house, make_topic
from tests.broker.test_replies import ASKER, reply_frame, take_push
from tests.broker.transacting import PRODUCERS, asked, half_frame, pending, record_in

ROUND_S = 60
OWN_ADDRESS = ACL_FILE.replace(
    "  - accessKey: the-nobody\n", "  - accessKey: the-nobody\n    whiteRemoteAddress: 127.0.0.1\n"
)


def beat(client_id: str, group: str = PRODUCERS) -> Frame:
    said = HeartbeatData(client_id=client_id, producer_data_set=(ProducerData(group_name=group),))
    return Frame(RequestCode.HEART_BEAT, 8001, body=encode_body(said), language=0)


async def connect(house: House, client_id: str, account: str, group: str = PRODUCERS) -> Peer:
    peer = await house.connect()
    await peer.ok(signed(beat(client_id, group), account))
    return peer


def clock_of(house: House) -> ManualClock:
    assert isinstance(house.clock, ManualClock)
    return house.clock


async def pass_round(house: House, *members: tuple[Peer, Frame]) -> None:
    """Until pending transactions were asked about, while these send their heartbeats."""
    for seconds in (ROUND_S - 10, 12):
        await clock_of(house).advance(seconds)
        for peer, frame in members:
            await peer.ok(frame)


# ---------------------------------------------------------------------------------------- questions about half messages


async def test_only_producers_that_may_send_to_the_topic_are_asked() -> None:
    async with guarded_house() as (house, admin):
        await make_topic(admin)
        spies = [await connect(house, f"spy-{number}", "the-nobody") for number in range(3)]
        reader = await connect(house, "reader", "the-reader")
        writer = await connect(house, "writer", "the-writer")
        for number in range(4):  # the members take turns
            await writer.ok(signed(half_frame(number, body=b"secret", born_ms=START_MS), "the-writer"))
        beats = [(spy, signed(beat(f"spy-{number}"), "the-nobody")) for number, spy in enumerate(spies)]
        await pass_round(house, *beats, (writer, signed(beat("writer"), "the-writer")))
        assert [record_in(question).body for question in await asked(writer)] == [b"secret"] * 4
        for stranger in (*spies, reader):
            assert await asked(stranger) == []


async def test_where_only_strangers_are_connected_nobody_is_asked_and_nothing_is_lost() -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        spy = await connect(house, "spy", "the-nobody")
        await peer.ok(signed(half_frame(1, born_ms=START_MS), "the-writer"))
        await pass_round(house, (spy, signed(beat("spy"), "the-nobody")))
        assert await asked(spy) == []
        assert pending(house)
        writer = await connect(house, "writer", "the-writer")
        await pass_round(house, (writer, signed(beat("writer"), "the-writer")))
        assert len(await asked(writer)) == 1


@pytest.mark.parametrize(
    ("text", "are_spared", "asked_count"),
    [(LOCAL_IS_WHITE + ACL_FILE.split("\n\n", 1)[1], False, 1), (OWN_ADDRESS, False, 0), (OWN_ADDRESS, True, 1)],
    ids=["global", "its own", "its own, which spares permissions"],
)
async def test_producers_from_white_addresses_are_asked_if_they_may_publish(
    text: str, are_spared: bool, asked_count: int
) -> None:
    async with guarded_house(text, acl_white_address_spares_permissions=are_spared) as (house, peer):
        await make_topic(peer)
        frame = beat("white")
        if text is OWN_ADDRESS:
            frame.ext = {"AccessKey": "the-nobody"}  # no signature
        await peer.ok(frame)
        await peer.ok(signed(half_frame(1, born_ms=START_MS), "the-writer"))
        await pass_round(house, (peer, frame))
        assert len(await asked(peer)) == asked_count


async def test_an_account_that_loses_its_right_is_asked_no_more() -> None:
    async with guarded_house() as (house, _):
        writer = await connect(house, "writer", "the-writer")
        await make_topic(writer)
        await writer.ok(signed(half_frame(1, born_ms=START_MS), "the-writer"))
        await clock_of(house).advance(1)
        house.disk.replace(ACL_PATH, ACL_FILE.replace("=PUB", "=DENY").encode())
        await pass_round(house, (writer, signed(beat("writer"), "the-writer")))
        assert await asked(writer) == []


# -------------------------------------------------------------------------------------------------------------- replies


async def test_a_reply_goes_to_the_account_that_asked_whoever_takes_its_client_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with guarded_house() as (house, replier):
        asker = await connect(house, ASKER, "the-writer", "askers")
        spy = await connect(house, ASKER, "the-nobody", "others")
        assert "the client id of another account" in caplog.text
        await spy.ok(signed(beat(ASKER, "askers"), "the-nobody"))
        answering = asyncio.create_task(replier.ask(signed(reply_frame(body=b"secret"), "the-reader")))
        assert (await take_push(asker)).body == b"secret"
        assert (await answering).code == 0
        assert spy.requests == []


async def test_a_client_that_connects_again_has_its_replies_on_the_new_connection() -> None:
    async with guarded_house() as (house, replier):
        before = await connect(house, ASKER, "the-writer")
        asker = await connect(house, ASKER, "the-writer")
        answering = asyncio.create_task(replier.ask(signed(reply_frame(), "the-reader")))
        await take_push(asker)
        assert (await answering).code == 0
        assert before.requests == []


def member(connection: str, account: str | None, *, heard_s: float = 0) -> Member[str]:
    return Member(
        connection=connection,
        client_id="c",
        address="",
        language=0,
        version=0,
        heard_ms=0,
        heard_s=heard_s,
        account=account,
    )


def guarded_table() -> ProducerTable[str]:
    table: ProducerTable[str] = ProducerTable()
    table.may_be_told = lambda member, topic: member.account == topic
    return table


def test_a_lost_client_keeps_its_id_until_it_would_be_taken_for_dead() -> None:
    table = guarded_table()
    table.register("g", member("first", "a"))
    list(table.forget_in_steps("first"))
    table.register("g", member("thief", "b", heard_s=CLIENT_ID_KEPT_S))
    assert table.find_connection("c") is None
    table.register("g", member("again", "a", heard_s=CLIENT_ID_KEPT_S))
    assert table.find_connection("c") == "again"
    list(table.forget_in_steps("again"))
    table.register("g", member("other", "b", heard_s=2 * CLIENT_ID_KEPT_S + 1))
    assert table.find_connection("c") == "other"


def test_a_client_that_says_good_bye_leaves_its_id() -> None:
    table = guarded_table()
    table.register("g", member("first", "a"))
    table.unregister("g", "first")
    table.register("g", member("other", "b"))
    assert table.find_connection("c") == "other"


def test_whoever_is_not_asked_for_an_account_may_take_over_and_nobody_from_him() -> None:
    table = guarded_table()
    table.register("g", member("first", "a"))
    table.register("g", member("white", None))
    assert table.find_connection("c") == "white"
    table.register("g", member("first", "a"))
    assert table.find_connection("c") == "white"
    list(table.forget_in_steps("white"))
    table.register("g", member("first", "a"))
    assert table.find_connection("c") is None


def test_only_so_many_lost_ids_are_kept_and_without_accounts_none() -> None:
    for table, count in ((guarded_table(), LOST_COUNT_MAX), (ProducerTable[str](), 0)):
        for number in range(LOST_COUNT_MAX + 5):
            table.register("g", replace(member("connection", "a"), client_id=str(number)))
            list(table.forget_in_steps("connection"))
        assert len(table._lost) == count


def test_members_are_told_by_their_accounts() -> None:
    table = guarded_table()
    table.register("g", member("one", "a"))
    table.register("g", member("two", "b"))
    assert [each.connection for each in table.members_for("g", "b")] == ["two"]
    assert [each.connection for each in table.members_of("g")] == ["one", "two"]
