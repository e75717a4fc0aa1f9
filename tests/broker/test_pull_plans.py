"""Plans of pulls: kept while nothing changes, dropped with every change, and never more than the limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from skyrocketmq.broker import pull_plans
from skyrocketmq.broker.pull_plans import PullPlans
from skyrocketmq.broker.pull_rules import PullPlan
from skyrocketmq.model import SubscriptionGroupConfig
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import House, Peer, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, pull_frame, subscription

PLAN = PullPlan(SubscriptionGroupConfig(group_name="g"), "T", 0)


def test_the_oldest_plans_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_plans, "BYTES_MAX", 10 * pull_plans.PLAN_BYTES)
    plans = PullPlans()
    for number in range(25):
        plans.keep(number, PLAN, expression_chars=0)
    assert len(plans) == 10
    assert plans.find(24) is PLAN
    assert plans.find(14) is None
    plans.keep("wide", PLAN, expression_chars=9 * pull_plans.PLAN_BYTES // pull_plans.CHARACTER_BYTES)
    assert len(plans) == 1
    assert plans.find("wide") is PLAN


def test_a_plan_that_is_too_large_is_not_kept() -> None:
    plans = PullPlans()
    plans.keep(1, PLAN, expression_chars=100_000)
    tags = PullPlan(PLAN.group, "T", 0, tag_codes=frozenset(range(10_000)))
    plans.keep(2, tags, expression_chars=0)
    assert len(plans) == 0


def test_a_change_drops_everything_and_frees_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_plans, "BYTES_MAX", 3 * pull_plans.PLAN_BYTES)
    plans = PullPlans()
    for _ in range(5):
        version = plans.version
        for number in range(3):
            plans.keep(number, PLAN, expression_chars=0)
        assert len(plans) == 3
        plans.forget()
        assert (len(plans), plans.find(1)) == (0, None)
        assert plans.version != version


async def change_topic(house: House, peer: Peer) -> None:
    await house.make_topic(perm=2)


async def delete_topic(house: House, peer: Peer) -> None:
    await house.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})


async def forbid_group(house: House, peer: Peer) -> None:
    house.broker.tables.groups.put(SubscriptionGroupConfig(group_name=GROUP, consume_enable=False))


async def forbid_all(house: House, peer: Peer) -> None:
    await house.set_config(brokerPermission=2)


async def unsubscribe(house: House, peer: Peer) -> None:
    await peer.ok(heartbeat_frame(subscription("*", topic="Other")))


async def leave(house: House, peer: Peer) -> None:
    await peer.ok(Frame(RequestCode.UNREGISTER_CLIENT, 1, ext={"clientID": "client-1", "consumerGroup": GROUP}))


CHANGES = {
    change_topic: 16,
    delete_topic: 17,
    forbid_group: 16,
    forbid_all: 16,
    unsubscribe: 24,
    leave: 24,
}


@pytest.mark.parametrize(("change", "code"), CHANGES.items(), ids=[change.__name__ for change in CHANGES])
async def test_a_plan_does_not_outlive_what_it_was_made_of(
    change: Callable[[House, Peer], Awaitable[None]], code: int
) -> None:
    async with open_house() as house:
        await house.send_many(3)
        peer = await house.connect()
        await peer.ok(heartbeat_frame(subscription("*")))
        plans = house.broker.parts.pulls.plans
        for offset in (0, 1, 2):
            await peer.ok(pull_frame(offset=offset, subscription=None))
            assert len(plans) == 1, "the same plan serves all of them"
        await change(house, peer)
        assert (await peer.ask(pull_frame(subscription=None))).code == code
        assert len(plans) == 0, "nothing is kept of what was refused"


async def test_a_newer_subscription_counts_at_once() -> None:
    async with open_house() as house:
        await house.send_many(2, tags="TagA")
        await house.send_many(1, tags="TagB")
        peer = await house.connect()
        for version, tag, found in ((1, "TagA", 2), (2, "TagB", 1), (3, "*", 3)):
            await peer.ok(heartbeat_frame(subscription(tag, version=version)))
            answer = await peer.ok(pull_frame(subscription=None))
            assert answer.body.count(b"TAGS\x01") == found


async def test_heartbeats_that_say_the_same_drop_no_plan() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        await peer.ok(heartbeat_frame(subscription("*")))
        await peer.ok(pull_frame(subscription=None))
        version = house.broker.parts.pulls.plans.version
        for _ in range(3):
            await peer.ok(heartbeat_frame(subscription("*")))
        assert house.broker.parts.pulls.plans.version == version


async def test_a_refused_pull_makes_no_group_and_the_first_good_one_does() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        groups = house.broker.tables.groups
        assert (await peer.ask(pull_frame("NoSuchTopic", group="newcomers"))).code == 17
        assert groups.find("newcomers") is None
        await peer.ok(pull_frame(group="newcomers"))
        assert groups.find("newcomers") is not None


async def test_a_kept_plan_does_not_spare_a_pull_its_fields() -> None:
    async with open_house() as house:
        await house.send_many(1)
        peer = await house.connect()
        frame = pull_frame(hold_ms=1)
        await peer.ok(frame)
        for name in ("queueOffset", "maxMsgNums", "suspendTimeoutMillis"):
            lacking = pull_frame(hold_ms=1)
            lacking.ext = {key: value for key, value in (frame.ext or {}).items() if key != name}
            answer = await peer.ask(lacking)
            assert answer.code == 1
            assert name in (answer.remark or "")
