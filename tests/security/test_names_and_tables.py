"""Names that no client of the family could have, and tables that strangers could fill: refused, bounded, let go."""

from __future__ import annotations

import pytest

from skyrocketmq.config import LimitsConfig
from skyrocketmq.model.heartbeats import ConsumerData, HeartbeatData, ProducerData
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_clients import QueueLockRequest
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import SECRETS, signed
from tests.broker.house import open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, pull_frame, send_frame, subscription
from tests.broker.support import until
from tests.broker.test_access import guarded_house, make_topic

LONG = "x" * 100_000


def commit_frame(topic: str = TOPIC, group: str = GROUP, queue_id: int = 0) -> Frame:
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": "5"}
    return Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 1, ext=dict(ext))


@pytest.mark.parametrize(
    "frame",
    [
        commit_frame(topic=LONG),
        commit_frame(topic="with blank"),
        commit_frame(topic="x" * 128),
        commit_frame(topic="%RETRY%" + LONG),
        commit_frame(group=LONG),
        commit_frame(group="x" * 256),
        commit_frame(group="a@b"),
        commit_frame(group=""),
        commit_frame(queue_id=65_536),
        commit_frame(queue_id=-1),
    ],
    ids=str,
)
async def test_offsets_are_kept_only_under_names_that_can_be(frame: Frame) -> None:
    async with open_house() as house:
        peer = await house.connect()
        before = house.broker.tables.offsets.change_count
        await peer.refused(frame)
        assert house.broker.tables.offsets.change_count == before
        await peer.ok(commit_frame())
        await peer.ok(commit_frame(topic="%RETRY%" + "g" * 255, group="g" * 255))


@pytest.mark.parametrize(
    "frame",
    [
        heartbeat_frame(client_id="x" * 256),
        heartbeat_frame(client_id=LONG),
        heartbeat_frame(group=LONG),
        heartbeat_frame(subscription("*", topic=LONG)),
        heartbeat_frame(subscription("a||" * 40_000 + "b")),
        heartbeat_frame(subscription("||".join(map(str, range(2_000))))),
        heartbeat_frame(subscription("a = 1 OR " * 10_000 + "b = 2", expression_type="SQL92")),
        heartbeat_frame(*(subscription("*", topic=f"T{number}") for number in range(10_001))),
        Frame(34, 1, body=b'{"clientID":"c","producerDataSet":[{"groupName":"%b"}]}' % LONG.encode()),
    ],
    ids=["client", "long client", "group", "topic", "long tags", "tags", "expression", "topics", "producer"],
)
async def test_a_heartbeat_beyond_any_limit_leaves_nothing(frame: Frame) -> None:
    async with open_house() as house:
        peer = await house.connect()
        groups, topics = len(house.broker.tables.groups.names()), len(house.broker.tables.topics.table())
        await peer.refused(frame)
        assert house.broker.tables.consumers.groups() == []
        assert (len(house.broker.tables.groups.names()), len(house.broker.tables.topics.table())) == (groups, topics)
        await peer.ok(heartbeat_frame(subscription("*"), client_id="x" * 255, group="g" * 255))


@pytest.mark.parametrize("is_at_once", [False, True])
async def test_many_heartbeats_of_a_client_may_say_no_more_than_one(is_at_once: bool) -> None:
    async with open_house(limits=LimitsConfig(heartbeat_groups_max=40, heartbeat_subscriptions_max=60)) as house:
        beats = [
            Frame(34, first, body=encode_body(_heartbeat_of(first, consumers=15 * kind, producers=15 - 15 * kind)))
            for kind in (0, 1)
            for first in range(0, 75, 15)
        ]
        peer = await house.connect()
        if is_at_once:
            await peer.write(*beats)
        codes = [(await (peer.next() if is_at_once else peer.ask(beat))).code for beat in beats]
        assert sum(code == 0 for code in codes) == 4, "two of producers, two of consumers"
        assert len(house.broker.tables.consumers.groups()) == 30
        assert len(house.broker.tables.producers.groups()) == 30
        topics = tuple(subscription("*", topic=f"T{number}") for number in range(32))
        code, remark = await peer.refused(heartbeat_frame(*topics, group="g0"))
        assert (code, "61 subscriptions" in remark) == (1, True)
        await peer.ok(heartbeat_frame(*topics[:-1], group="g0"))
        peer = await house.connect()  # another client has its own
        await peer.ok(beats[-1])


def _heartbeat_of(first: int, *, consumers: int, producers: int) -> HeartbeatData:
    return HeartbeatData(
        client_id="c",
        consumer_data_set=tuple(
            ConsumerData(group_name=f"g{first + number}", subscription_data_set=(subscription("*"),))
            for number in range(consumers)
        ),
        producer_data_set=tuple(ProducerData(group_name=f"p{first + number}") for number in range(producers)),
    )


async def test_locks_are_kept_only_under_names_that_can_be() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for client_id, group in ((LONG, GROUP), ("c", LONG)):
            request = QueueLockRequest(client_id=client_id, consumer_group=group, mq_set=())
            await peer.refused(Frame(RequestCode.LOCK_BATCH_MQ, 1, body=encode_body(request)))


async def test_expressions_in_heartbeats_are_neither_read_nor_kept_while_they_are_off() -> None:
    async with open_house() as house:
        peer = await house.connect()
        await house.make_topic()
        await peer.ok(heartbeat_frame(subscription("a = 1", expression_type="SQL92")))
        assert house.broker.tables.filters.find(TOPIC, GROUP) is None
        code, remark = await peer.refused(pull_frame(subscription=None, version=1))
        assert (code, "enablePropertyFilter" in remark) == (1, True)
        await house.set_config(enablePropertyFilter="true")
        await peer.ok(heartbeat_frame(subscription("a = 1", expression_type="SQL92")))
        assert house.broker.tables.filters.find(TOPIC, GROUP) is not None


# ----------------------------------------------------------------------------------------------------------- held pulls


async def test_one_connection_may_hold_so_many_pulls_and_no_more() -> None:
    async with open_house() as house:
        await house.make_topic()
        await house.set_config(heldPullsPerConnectionMax=3)
        greedy, other = await house.connect(), await house.connect()
        await greedy.write(*(pull_frame(hold_ms=20_000, opaque=number) for number in range(5)))
        assert {(await greedy.next()).code for _ in range(2)} == {19}, "answered at once"
        await other.write(pull_frame(hold_ms=20_000))
        await until(lambda: len(house.broker.parts.pulls.held) == 4)


async def test_no_pull_is_held_for_longer_than_the_broker_says() -> None:
    clock = ManualClock()
    async with open_house(clock=clock) as house:
        await house.make_topic()
        peer = await house.connect()
        await house.set_config(heldPullMillisMax=60_000)
        await peer.write(pull_frame(hold_ms=2**31 - 1))
        await until(lambda: len(house.broker.parts.pulls.held) == 1)
        await clock.advance(59)
        await peer.silence()
        await clock.advance(2)
        assert (await peer.next()).code == 19


async def test_held_pulls_have_a_budget_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyrocketmq.broker.held_pulls.CONNECTION_BYTES_MAX", 300_000)
    tags = "||".join(f"tag{number}" for number in range(1_000))
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        await peer.write(*(pull_frame(hold_ms=20_000, opaque=number, subscription=tags) for number in range(5)))
        assert {(await peer.next()).code for _ in range(3)} == {19}
        held = house.broker.parts.pulls.held
        assert len(held) == 2
        await peer.close()
        await until(lambda: len(held) == 0)
        assert (held._byte_count, held._by_connection) == (0, {})


@pytest.mark.parametrize("change", ["deleted", "denied"])
async def test_a_held_pull_is_answered_by_the_accounts_as_they_are_then(change: str) -> None:
    async with guarded_house() as (house, peer):
        await make_topic(peer)
        reader = await house.connect()
        await reader.write(signed(pull_frame(hold_ms=20_000), "the-reader"))
        await until(lambda: len(house.broker.parts.pulls.held) == 1)
        ext = {"accessKey": "the-reader"}
        if change == "denied":
            ext |= {"secretKey": SECRETS["the-reader"], "admin": "false", "topicPerms": f"{TOPIC}=DENY"}
        await peer.ok(signed(Frame(51 if change == "deleted" else 50, 1, ext=dict(ext)), "the-admin"))
        await peer.ok(signed(send_frame(body=b"secret"), "the-writer"))
        answer = await reader.next()
        assert answer.code != 0
        assert b"secret" not in answer.body
