"""Locks on queues, asked for over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from skyrocketmq.broker.handlers_locks import QUEUES_A_STEP
from skyrocketmq.config import LimitsConfig
from skyrocketmq.model import QUEUE_COUNT_MAX, MessageQueue
from skyrocketmq.model.names import retry_topic
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import LockedQueues, QueueLockRequest
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, Peer, open_house
from tests.broker.requests import GROUP, TOPIC, heartbeat_frame, subscription
from tests.broker.support import BROKER

LIMITS = LimitsConfig(queue_locks_per_group_max=6, queue_locks_max=10)


def queues(*queue_ids: int, topic: str = TOPIC) -> list[MessageQueue]:
    return [MessageQueue(topic, BROKER, queue_id) for queue_id in queue_ids]


def request(
    wanted: Sequence[MessageQueue],
    *,
    client_id: str | None = "c1",
    group: str | None = GROUP,
    code: int = RequestCode.LOCK_BATCH_MQ,
) -> Frame:
    body = QueueLockRequest(client_id=client_id, consumer_group=group, mq_set=tuple(wanted))
    return Frame(code, 1, body=encode_body(body))


async def lock(peer: Peer, wanted: Sequence[MessageQueue], client_id: str = "c1", group: str = GROUP) -> list[object]:
    answer = await peer.ok(request(wanted, client_id=client_id, group=group))
    return list(decode_body(LockedQueues, answer.body).lock_ok_mq_set)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house(limits=LIMITS) as opened:
        await opened.make_topic()
        yield opened


async def test_queues_are_locked_renewed_given_back_and_taken_over() -> None:
    clock = ManualClock()
    async with open_house(disk=FaultyDisk(directories=[ROOT], clock=clock), clock=clock) as house:
        await house.make_topic()
        peer = await house.connect()
        assert await lock(peer, queues(0), "c1") == queues(0)
        assert await lock(peer, queues(0), "c2") == []
        await peer.ok(request(queues(0), code=RequestCode.UNLOCK_BATCH_MQ))
        assert await lock(peer, queues(0), "c2") == queues(0)
        await clock.advance(71)
        assert house.broker.tables.locks.count == 0, "what nobody renews is forgotten"
        assert await lock(peer, queues(0), "c1") == queues(0)


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
@pytest.mark.parametrize(("client_id", "group", "named"), [(None, "g", "clientId"), ("c", None, "consumerGroup")])
async def test_a_lock_without_client_or_group_is_refused(
    house: House, code: int, client_id: str | None, group: str | None, named: str
) -> None:
    said, remark = await (await house.connect()).refused(request([], code=code, client_id=client_id, group=group))
    assert (said, named in remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_of_what_does_not_exist_nothing_is_locked_and_the_rest_is(house: House) -> None:
    peer = await house.connect()
    wanted = queues(-1, 0, QUEUE_COUNT_MAX - 1, QUEUE_COUNT_MAX) + queues(0, topic="deleted")
    assert await lock(peer, wanted) == queues(0, QUEUE_COUNT_MAX - 1)
    assert house.broker.tables.locks.count == 2


async def test_a_retry_topic_is_one_that_exists(house: House) -> None:
    peer = await house.connect()
    await peer.ok(heartbeat_frame(subscription("*")))
    wanted = queues(0, topic=retry_topic(GROUP))
    assert await lock(peer, wanted) == wanted


async def test_a_subscription_of_many_queues_is_locked_in_one_request() -> None:
    async with open_house() as house:
        await house.make_topic(readQueueNums=1024, writeQueueNums=1024)
        peer = await house.connect()
        wanted = queues(*range(1024))
        assert len(wanted) > QUEUES_A_STEP
        assert await lock(peer, wanted) == wanted
        await peer.ok(request(wanted, code=RequestCode.UNLOCK_BATCH_MQ))
        assert await lock(peer, wanted, "c2") == wanted


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
async def test_a_request_for_more_queues_than_a_group_may_have_is_refused_unread(house: House, code: int) -> None:
    peer = await house.connect()
    await peer.ok(request(queues(*range(6)), code=code))
    said, remark = await peer.refused(request(queues(*range(7), topic="deleted"), code=code))
    assert (said, "queueLocksPerGroupMax allows 6" in remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_group_has_so_many_locks_and_goes_on_renewing_them(house: House) -> None:
    peer = await house.connect()
    assert len(await lock(peer, queues(0, 1, 2, 3))) == 4
    _, remark = await peer.refused(request(queues(3, 4, 5, 6)))
    assert "would have 7 queues locked, queueLocksPerGroupMax allows 6" in remark
    assert house.broker.tables.locks.count_of(GROUP) == 4, "none of a request that is refused"
    assert len(await lock(peer, queues(2, 3, 4, 5))) == 4
    assert len(await lock(peer, queues(0, 1, 2, 3, 4, 5))) == 6
    await peer.refused(request(queues(6), client_id="c2"))


async def test_all_groups_together_have_so_many_locks(house: House) -> None:
    peer = await house.connect()
    assert len(await lock(peer, queues(*range(5)), group="g1")) == 5
    assert len(await lock(peer, queues(*range(4)), group="g2")) == 4
    _, remark = await peer.refused(request(queues(1, 2), group="g3"))
    assert "11 queues would be locked, queueLocksMax allows 10" in remark
    assert len(await lock(peer, queues(*range(5)), group="g2")) == 5
    await peer.ok(request(queues(*range(5)), group="g1", code=RequestCode.UNLOCK_BATCH_MQ))
    assert house.broker.tables.locks.count == 5
    assert len(await lock(peer, queues(1, 2), group="g3")) == 2
