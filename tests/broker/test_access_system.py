"""The broker's own topics and groups: what waits there is of all topics, and how far the broker is, it says itself."""

from __future__ import annotations

import pytest

from skyrocketmq.testing.clock import START_MS
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.accounts import ACL_FILE, SECRETS, signed
from tests.broker.house import open_house
from tests.broker.requests import GROUP, TOPIC, properties_text, pull_frame, send_frame, unique_id
from tests.broker.test_access import check_refused, guarded_house, make_topic
from tests.broker.transacting import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    end,
    half_frame,
    pending,
    read_sent,
    saved_offsets,
    send_half,
)

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BROKERS_GROUP = "CID_RMQ_SYS_TRANS"
ALMOST_ALL = "almost-all"  # may use every topic but one
ACCOUNTS = f"""{ACL_FILE}
  - accessKey: {ALMOST_ALL}
    secretKey: almost-secret
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
    topicPerms:
      - {TOPIC}=DENY
"""


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECRETS, ALMOST_ALL, "almost-secret")


def commit_frame(group: str, topic: str = HALF_TOPIC, **more: str) -> Frame:
    ext: dict[str, str | None] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "0",
        "commitOffset": "1000",
        **more,
    }
    return Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 5, ext=ext)


# ------------------------------------------------------------------------------------------------------------ accounts


async def test_messages_of_a_denied_topic_are_not_read_where_they_wait() -> None:
    async with guarded_house(ACCOUNTS) as (_, peer):
        await make_topic(peer)
        half = read_sent(1, await peer.ok(signed(half_frame(1, body=b"hidden", born_ms=START_MS), "the-writer")))
        delayed = properties_text({"DELAY": "3", "UNIQ_KEY": unique_id(2)})
        await peer.ok(signed(send_frame(TOPIC, 1, body=b"hidden", properties=delayed), "the-writer"))
        places = ((HALF_TOPIC, 0), (OP_TOPIC, 0), (GIVEN_UP_TOPIC, 0), (SCHEDULE_TOPIC, 2))
        for topic, queue_id in places:
            await check_refused(peer, signed(pull_frame(topic, queue_id), ALMOST_ALL), f"topic {topic}")
        for topic, queue_id in (places[0], places[3]):
            answer = await peer.ask(signed(pull_frame(topic, queue_id), "the-admin"))
            assert b"hidden" in answer.body
        view = Frame(RequestCode.VIEW_MESSAGE_BY_ID, 1, ext={"offset": str(half.log_offset)})
        await check_refused(peer, signed(view, ALMOST_ALL), "no permission for this message")
        back = {"offset": str(half.log_offset), "group": GROUP, "delayLevel": "0", "originTopic": TOPIC}
        frame = Frame(RequestCode.CONSUMER_SEND_MSG_BACK, 1, ext={**back, "unitMode": "false"})
        await check_refused(peer, signed(frame, ALMOST_ALL), "no permission for this message")


async def test_the_brokers_own_groups_are_for_administrators() -> None:
    async with guarded_house(ACCOUNTS) as (_, peer):
        await make_topic(peer, "Public")
        for group in (BROKERS_GROUP, "CID_RMQ_SYS_OTHER"):
            await check_refused(peer, signed(commit_frame(group, "Public"), ALMOST_ALL), f"group {group}")
            await check_refused(peer, signed(pull_frame("Public", group=group), ALMOST_ALL), f"group {group}")
        await peer.ok(signed(commit_frame("CID_RMQ_SYS_OTHER", "Public"), "the-admin"))
        await peer.ok(signed(commit_frame("mine", "Public"), ALMOST_ALL))


async def test_a_stranger_who_ends_a_transaction_does_not_learn_whose_it_is() -> None:
    async with guarded_house() as (_, peer):
        await make_topic(peer)
        sent = read_sent(1, await peer.ok(signed(half_frame(1, born_ms=START_MS), "the-writer")))
        remark = await check_refused(peer, signed(end(sent, group="guess"), "the-nobody"), "no permission")
        assert "writers" not in remark
        code, remark = await peer.refused(signed(end(sent, group="guess"), "the-writer"))
        assert code == 1
        assert "belongs to producer group writers" in remark


# ----------------------------------------------------------------------------------------------------- without accounts


async def test_no_client_says_how_far_the_broker_is_with_its_transactions() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        await send_half(peer, 1)
        before = saved_offsets(house)
        for frame in (commit_frame(BROKERS_GROUP), commit_frame(BROKERS_GROUP, committedAgeMs="1")):
            code, remark = await peer.refused(frame)
            assert code == 1
            assert "are the broker's own" in remark
        await peer.ok(commit_frame(GROUP))
        groups = {"srcGroup": GROUP, "destGroup": BROKERS_GROUP}
        clone = Frame(RequestCode.CLONE_GROUP_OFFSET, 1, ext={**groups, "topic": HALF_TOPIC, "offline": "true"})
        _, remark = await peer.refused(clone)
        assert "are the broker's own" in remark
        assert (await peer.ask(pull_frame(HALF_TOPIC, 0, 0, group=BROKERS_GROUP, commit=1000))).code == 0
        assert saved_offsets(house) == before
        assert pending(house)


async def test_other_groups_of_the_system_commit_as_ever() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        for group in ("CID_RMQ_SYS_OTHER", "TOOLS_CONSUMER"):
            await peer.ok(commit_frame(group, TOPIC))
            assert house.broker.tables.offsets.find(group=group, topic=TOPIC, queue_id=0) == 1000
