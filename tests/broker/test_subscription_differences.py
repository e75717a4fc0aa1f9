"""Members of one group that subscribe to different things: found, reported once, and told to whoever asks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skyrocketmq.broker.handlers_clients import SCAN_INTERVAL_S
from skyrocketmq.broker.subscription_differences import (
    Filter,
    SubscriptionDifferences,
    differing_modes,
    differing_topics,
)
from skyrocketmq.model import ConsumerData, ConsumeType, HeartbeatData, MessageModel, SubscriptionData
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.own_requests import DifferenceReport, DifferingFilter, OwnRequestCode
from tests.broker.house import ROOT, House, Peer, open_house

GRACE_S = 30.0
GROUP = "readers"


def data(
    *subscriptions: tuple[str, str] | tuple[str, str, str],
    group: str = GROUP,
    model: MessageModel = MessageModel.CLUSTERING,
    kind: ConsumeType = ConsumeType.CONSUME_PASSIVELY,
    version: int = 1,
) -> ConsumerData:
    """What a member says: pairs of topic and expression, the type third where it is not TAG."""
    return ConsumerData(
        group_name=group,
        consume_type=kind,
        message_model=model,
        subscription_data_set=tuple(
            SubscriptionData(topic, text, sub_version=version, expression_type=rest[0] if rest else "TAG")
            for topic, text, *rest in subscriptions
        ),
    )


class Members:
    """A table of differences and a time that the test moves."""

    def __init__(self) -> None:
        self.table: SubscriptionDifferences[str] = SubscriptionDifferences()
        self.now_s = 100.0

    def say(self, client_id: str, said: ConsumerData, *, connection: str = "") -> None:
        self.table.heard(connection or client_id, client_id, "10.0.0.1:1", said, now_s=self.now_s)

    def leave(self, connection: str, *, group: str = GROUP) -> None:
        self.table.gone(group, connection, now_s=self.now_s)

    def due_after(self, seconds: float) -> list[str]:
        self.now_s += seconds
        return [difference.group for difference in self.table.take_due(now_s=self.now_s, grace_s=GRACE_S)]


SAME = [
    (data(("T", "A || B")), data(("T", "B||A", "TAG"), version=2)),
    (data(("T", "*")), data(("T", ""))),
    (data(("T", "a > 1", "SQL92")), data(("T", " a > 1", "SQL92"))),
    (data(("T", "A"), (f"%RETRY%{GROUP}", "*")), data(("T", "A"))),
    (data(("T", "A"), ("U", "*")), data(("U", "*"), ("T", "A"))),
]
DIFFERENT = [
    (data(("T", "A")), data(("T", "B"))),
    (data(("T", "A")), data(("T", "A || B"))),
    (data(("T", "A")), data(("T", "*"))),
    (data(("T", "A")), data(("T", "A", "SQL92"))),
    (data(("T", "a > 1", "SQL92")), data(("T", "a > 2", "SQL92"))),
    (data(("T", "A")), data(("U", "A"))),
    (data(("T", "A")), data(("T", "A"), ("U", "A"))),
    (data(("T", "A")), data(("T", "A"), model=MessageModel.BROADCASTING)),
    (data(("T", "A")), data(("T", "A"), kind=ConsumeType.CONSUME_ACTIVELY)),
    (data(("T", "A")), data()),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_members_that_want_the_same_do_not_differ(one: ConsumerData, other: ConsumerData) -> None:
    members = Members()
    members.say("c1", one)
    members.say("c2", other)
    assert (members.due_after(GRACE_S), members.table.all()) == ([], [])


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_members_that_want_other_things_differ(one: ConsumerData, other: ConsumerData) -> None:
    members = Members()
    members.say("c1", one)
    members.say("c2", other)
    (difference,) = members.table.all()
    assert [member.client_id for member in difference.members] == ["c1", "c2"]
    assert differing_topics(difference.members) or differing_modes(difference.members)
    assert members.due_after(GRACE_S) == [GROUP]


def test_a_difference_is_reported_once_however_many_members_share_it() -> None:
    members = Members()
    members.say("c1", data(("T", "A")))
    members.say("c2", data(("T", "B")))
    assert members.due_after(GRACE_S - 0.1) == []
    assert members.due_after(0.1) == [GROUP]
    for number in range(3, 6):
        members.say(f"c{number}", data(("T", "B")))
    members.say("c1", data(("T", "A"), version=9))
    assert members.due_after(1000) == []
    assert (members.table.reported_count, members.table.reported_group_count) == (1, 1)


def test_a_rolling_deployment_within_the_grace_period_raises_no_alarm() -> None:
    members = Members()
    clients = [f"c{number}" for number in range(5)]
    for client in clients:
        members.say(client, data(("T", "A")))
    for client in clients:  # stopped, and started again with the new program
        members.leave(client)
        members.say(f"{client}-new", data(("T", "A || B")))
        assert members.due_after(GRACE_S / 5 - 0.1) == []
    assert members.due_after(1000) == []
    assert members.table.reported_count == 0


def test_another_difference_is_reported_anew() -> None:
    members = Members()
    members.say("c1", data(("T", "A")))
    members.say("c2", data(("T", "B")))
    assert members.due_after(GRACE_S) == [GROUP]
    members.say("c3", data(("T", "C")))
    assert members.due_after(GRACE_S - 1) == []
    assert members.due_after(1) == [GROUP]
    assert members.table.reported_count == 2


def test_a_difference_ends_when_the_members_agree_again() -> None:
    members = Members()
    members.say("c1", data(("T", "A")))
    members.say("c2", data(("T", "B")))
    assert members.due_after(GRACE_S) == [GROUP]
    members.say("c2", data(("T", "A")))
    assert (members.table.all(), members.table.reported_group_count) == ([], 0)
    members.say("c2", data(("T", "B")))
    assert members.due_after(GRACE_S) == [GROUP], "it came back, and is another one"


def test_a_client_that_connects_again_is_one_member() -> None:
    members = Members()
    members.say("c1", data(("T", "A")), connection="old")
    members.say("c1", data(("T", "B")), connection="new")
    assert members.table.all() == []
    members.leave("old")
    members.say("c2", data(("T", "C")))
    assert [len(difference.members) for difference in members.table.all()] == [2]
    members.leave("new")
    members.leave("c2")
    assert (members.table._members, members.table._client_ids) == ({}, {}), (
        "a group that is empty leaves nothing behind"
    )


def test_a_connection_that_changes_its_client_id_stays_one_member() -> None:
    members = Members()
    for number in range(1000):
        members.say(f"c{number}", data(("T", str(number))), connection="one")
    assert members.table.all() == []
    members.say("other", data(("T", "A")))
    (difference,) = members.table.all()
    assert [member.client_id for member in difference.members] == ["c999", "other"]
    members.leave("one")
    members.leave("other")
    assert (members.table._members, members.table._client_ids) == ({}, {}), "nothing is left behind"


def test_groups_are_compared_each_for_itself_and_tools_not_at_all() -> None:
    members = Members()
    members.say("c1", data(("T", "A"), group="g1"))
    members.say("c2", data(("T", "B"), group="g2"))
    members.say("c1", data(("T", "A"), group="TOOLS_CONSUMER"))
    members.say("c2", data(("U", "A"), group="TOOLS_CONSUMER"))
    assert members.due_after(GRACE_S) == []


def test_what_differs_is_told_by_topic() -> None:
    members = Members()
    members.say("c1", data(("T", "A"), ("Same", "*"), ("U", "*")))
    members.say("c2", data(("T", "B"), ("Same", "*")))
    members.say("c3", data(("T", "B"), ("Same", "*")))
    (difference,) = members.table.all()
    assert differing_topics(difference.members) == {
        "T": {Filter("TAG", "A"): ["c1"], Filter("TAG", "B"): ["c2", "c3"]},
        "U": {Filter("TAG", "*"): ["c1"], None: ["c2", "c3"]},
    }
    assert differing_modes(difference.members) == {}


# ------------------------------------------------------------------------------------------------------- a whole broker


@asynccontextmanager
async def open_club(**changes: Any) -> AsyncIterator[tuple[House, ManualClock]]:
    clock = ManualClock()
    async with open_house(disk=FaultyDisk(directories=[ROOT], clock=clock), clock=clock, **changes) as house:
        yield house, clock


async def beat(house: House, client_id: str, said: ConsumerData, *, peer: Peer | None = None) -> Peer:
    peer = peer or await house.connect()
    body = encode_body(HeartbeatData(client_id=client_id, consumer_data_set=(said,)))
    await peer.ok(Frame(RequestCode.HEART_BEAT, 1, body=body))
    return peer


async def ask(house: House, **fields: object) -> DifferenceReport:
    answer = await house.administer(OwnRequestCode.GET_SUBSCRIPTION_DIFFERENCES, fields)
    return decode_body(DifferenceReport, answer.body)


async def figures(house: House) -> tuple[str, str]:
    answer = await house.administer(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = decode_body(KvTable, answer.body).table
    return table["inconsistentSubscriptionGroups"], table["inconsistentSubscriptionTotal"]


async def test_the_broker_warns_once_counts_and_tells(caplog: pytest.LogCaptureFixture) -> None:
    def warnings() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "subscribe to different things" in record.message]

    async with open_club() as (house, clock):
        first = await beat(house, "c1", data(("T", "A")))
        second = await beat(house, "c2", data(("T", "B")))
        (group,) = (await ask(house)).groups
        assert (group.group, group.is_reported, [member.client_id for member in group.members]) == (
            GROUP,
            False,
            ["c1", "c2"],
        )
        await clock.advance(GRACE_S + SCAN_INTERVAL_S)
        (warning,) = warnings()
        assert (warning.levelno, warning.group, warning.topics) == (logging.WARNING, GROUP, ["T"])  # type: ignore[attr-defined]
        await beat(house, "c1", data(("T", "A")), peer=first)
        await beat(house, "c2", data(("T", "B")), peer=second)
        await clock.advance(GRACE_S + SCAN_INTERVAL_S)
        assert len(warnings()) == 1
        report = await ask(house)
        assert (report.broker_name, report.reported_total) == (house.broker.config.current.broker_name, 1)
        assert report.groups[0].is_reported
        assert report.groups[0].differs_for_ms >= GRACE_S * 1000
        (topic,) = report.groups[0].topics
        assert (topic.topic, topic.filters) == (
            "T",
            (
                DifferingFilter(client_ids=("c1",), expression="A", expression_type="TAG"),
                DifferingFilter(client_ids=("c2",), expression="B", expression_type="TAG"),
            ),
        )
        assert await figures(house) == ("1", "1")
        assert (await ask(house, consumerGroup="others")).groups == ()
        await beat(house, "c2", data(("T", "A"), version=2), peer=second)
        assert (await ask(house)).groups == ()
        assert await figures(house) == ("0", "1")


async def test_a_member_that_leaves_or_is_lost_no_longer_counts() -> None:
    async with open_club() as (house, clock):
        await beat(house, "c1", data(("T", "A")))
        second = await beat(house, "c2", data(("T", "B")))
        ext: dict[str, str | None] = {"clientID": "c2", "consumerGroup": GROUP}
        await second.ok(Frame(RequestCode.UNREGISTER_CLIENT, 1, ext=ext))
        assert (await ask(house)).groups == ()
        third = await beat(house, "c3", data(("T", "B")))
        assert len((await ask(house)).groups) == 1
        await third.close()
        await clock.advance(0.1)
        while (await ask(house)).groups:
            await clock.advance(0.1)
        assert await figures(house) == ("0", "0")


async def test_the_grace_period_can_be_changed_while_the_broker_runs() -> None:
    async with open_club() as (house, clock):
        await house.set_config(inconsistentSubscriptionGraceMillis=0)
        await beat(house, "c1", data(("T", "A")))
        await beat(house, "c2", data(("T", "B")))
        await clock.advance(SCAN_INTERVAL_S)
        assert await figures(house) == ("1", "1")


def test_members_that_want_the_same_share_one_description() -> None:
    members = Members()
    for client_id in ("a", "b", "c"):
        members.say(client_id, data(("orders", "x || y")))
    members.say("d", data(("orders", "*")))
    members.say("b", data(("orders", "y || x")))
    wishes = [each.wishes for each in members.table.all()[0].members]
    assert [each is wishes[0] for each in wishes] == [True, True, True, False]
