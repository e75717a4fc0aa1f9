from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.broker.queue_locks import CLIENT_TRUST_S, NOTED_EVERY_S, QueueLocks
from skyrocketmq.model import MessageQueue
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import LockedQueues, QueueLockRequest
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, open_house

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3)]


def lock(locks: QueueLocks, client_id: str, *, now_s: float, group: str = "g") -> list[MessageQueue]:
    return locks.lock(QUEUES, group=group, client_id=client_id, now_s=now_s)


def test_a_free_queue_is_granted_and_a_held_one_is_not() -> None:
    locks = QueueLocks(ttl_s=60)
    assert locks.lock(QUEUES[:2], group="g", client_id="c1", now_s=0) == QUEUES[:2]
    assert lock(locks, "c2", now_s=1) == QUEUES[2:]


def test_groups_do_not_disturb_each_other() -> None:
    locks = QueueLocks(ttl_s=60)
    lock(locks, "c1", now_s=0, group="g1")
    assert lock(locks, "c2", now_s=0, group="g2") == QUEUES


def test_a_lock_that_is_renewed_never_expires() -> None:
    locks = QueueLocks(ttl_s=60)
    for now_s in range(0, 600, 50):
        assert lock(locks, "c1", now_s=now_s) == QUEUES
    assert lock(locks, "c2", now_s=600) == []


def test_a_lock_can_be_taken_over_only_after_more_than_its_time() -> None:
    locks = QueueLocks(ttl_s=60)
    lock(locks, "c1", now_s=0)
    assert lock(locks, "c2", now_s=60) == []
    assert lock(locks, "c2", now_s=60.001) == QUEUES
    assert lock(locks, "c1", now_s=61) == []


def test_only_the_owner_can_unlock() -> None:
    locks = QueueLocks(ttl_s=60)
    lock(locks, "c1", now_s=0)
    locks.unlock(QUEUES, group="g", client_id="c2")
    assert [locks.owner(queue, group="g", now_s=1) for queue in QUEUES] == ["c1"] * 3
    locks.unlock(QUEUES[:1], group="g", client_id="c1")
    assert lock(locks, "c2", now_s=1) == QUEUES[:1]


def test_a_group_that_gave_everything_back_is_forgotten() -> None:
    locks = QueueLocks(ttl_s=60)
    lock(locks, "c1", now_s=0)
    locks.unlock(QUEUES[:2], group="g", client_id="c1")
    assert locks.owners() == {"g": {QUEUES[2]: "c1"}}
    locks.unlock(QUEUES[2:], group="g", client_id="c1")
    assert locks.owners() == {}


def test_locks_are_counted_however_they_come_and_go() -> None:
    locks = QueueLocks(ttl_s=60)
    assert locks.count_new([*QUEUES, QUEUES[0]], group="g") == 3
    lock(locks, "c1", now_s=0)
    lock(locks, "c2", now_s=0)
    lock(locks, "c2", now_s=61)
    lock(locks, "c1", now_s=50, group="other")
    assert (locks.count, locks.count_of("g"), locks.count_new(QUEUES, group="g")) == (6, 3, 0)
    locks.unlock(QUEUES[:1], group="g", client_id="c2")
    assert (locks.count, locks.count_of("g"), locks.count_new(QUEUES, group="g")) == (5, 2, 1)
    locks.drop_expired(now_s=111)
    assert (locks.count, locks.count_of("g"), locks.count_of("other")) == (2, 2, 0)
    after = QueueLocks(ttl_s=60)
    after.restore(locks.owners(), now_s=0)
    assert (after.count, after.owners()) == (2, locks.owners())


def test_who_holds_a_lock_and_who_can_have_it_agree_at_every_moment() -> None:
    """Else a queue would have two readers for a moment, or none."""
    for now_s in (59.9, 60, 60.1):
        locks = QueueLocks(ttl_s=60)
        lock(locks, "c1", now_s=0)
        is_held = locks.owner(QUEUES[0], group="g", now_s=now_s) == "c1"
        assert is_held == (now_s <= 60)
        assert lock(locks, "c2", now_s=now_s) == ([] if is_held else QUEUES)


def test_unlocking_what_nobody_locked_is_harmless() -> None:
    locks = QueueLocks(ttl_s=60)
    locks.unlock(QUEUES, group="g", client_id="c1")
    assert locks.owner(QUEUES[0], group="g", now_s=0) is None


def test_expired_locks_are_dropped_and_live_ones_kept() -> None:
    locks = QueueLocks(ttl_s=60)
    lock(locks, "c1", now_s=0, group="dead")
    lock(locks, "c1", now_s=50, group="live")
    assert locks.drop_expired(now_s=60) == 0, "who holds one until then is not deprived of it"
    assert locks.owner(QUEUES[0], group="dead", now_s=61) is None
    assert locks.drop_expired(now_s=61) == 3
    assert locks.drop_expired(now_s=61) == 0
    assert locks.owner(QUEUES[0], group="live", now_s=61) == "c1"


def test_owners_are_kept_over_a_restart_for_as_long_as_they_trust_their_locks() -> None:
    before = QueueLocks(ttl_s=60)
    lock(before, "c1", now_s=1000)
    after = QueueLocks(ttl_s=60)
    after.restore(before.owners(), now_s=5)
    assert lock(after, "c2", now_s=5 + CLIENT_TRUST_S) == []
    assert lock(after, "c1", now_s=5 + CLIENT_TRUST_S) == QUEUES, "who comes back has it as before"
    assert lock(after, "c2", now_s=5 + CLIENT_TRUST_S + 60) == []
    after.restore(before.owners(), now_s=5)
    assert lock(after, "c2", now_s=5 + CLIENT_TRUST_S + 0.1) == QUEUES, "who does not is gone"


def test_a_short_life_is_not_made_longer_by_a_restart() -> None:
    before = QueueLocks(ttl_s=2)
    lock(before, "c1", now_s=0)
    after = QueueLocks(ttl_s=2)
    after.restore(before.owners(), now_s=0)
    assert lock(after, "c2", now_s=2) == []
    assert lock(after, "c2", now_s=2.1) == QUEUES


def test_locks_of_a_broker_that_was_away_for_long_are_nobodys() -> None:
    before = QueueLocks(ttl_s=60)
    lock(before, "c1", now_s=1000)
    for age_s, granted in ((CLIENT_TRUST_S + NOTED_EVERY_S, []), (CLIENT_TRUST_S + NOTED_EVERY_S + 1, QUEUES)):
        after = QueueLocks(ttl_s=60)
        after.restore(before.owners(), now_s=5, age_s=age_s)
        assert lock(after, "c2", now_s=5) == granted


def test_that_locks_are_renewed_is_a_change_now_and_then() -> None:
    locks = QueueLocks(ttl_s=60)
    for now_s in range(61):
        lock(locks, "c1", now_s=now_s)
        lock(locks, "c2", now_s=now_s)  # who gets nothing keeps nothing alive
    assert locks.change_count == 1 + 60 / NOTED_EVERY_S


def test_only_a_change_of_owners_is_one() -> None:
    locks = QueueLocks(ttl_s=60)
    changes: list[int] = []
    locks.listeners.append(lambda: changes.append(locks.change_count))
    lock(locks, "c1", now_s=0)
    lock(locks, "c1", now_s=NOTED_EVERY_S - 1)
    lock(locks, "c2", now_s=30)
    assert changes == [1]
    locks.unlock(QUEUES, group="g", client_id="c2")
    assert changes == [1]
    locks.unlock(QUEUES[:1], group="g", client_id="c1")
    locks.drop_expired(now_s=100)
    assert changes == [1, 2, 3]
    assert locks.owners() == {}


@asynccontextmanager
async def held_by(house: House, client_id: str) -> AsyncIterator[list[MessageQueue]]:
    """The queues that a client gets of a running broker."""
    await house.make_topic("orders")
    peer = await house.connect()
    body = encode_body(QueueLockRequest(client_id=client_id, consumer_group="g", mq_set=tuple(QUEUES)))
    answer = await peer.ok(Frame(RequestCode.LOCK_BATCH_MQ, 1, body=body))
    yield sorted(decode_body(LockedQueues, answer.body).lock_ok_mq_set)
    await peer.close()


async def test_whoever_comes_back_first_after_a_restart_does_not_get_the_queues_of_others() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house, held_by(house, "c1") as queues:
        assert queues == QUEUES
    async with open_house(disk=disk, clock=clock) as house:
        async with held_by(house, "c2") as queues:
            assert queues == []
        async with held_by(house, "c1") as queues:
            assert queues == QUEUES


async def test_after_a_long_time_away_the_first_consumer_gets_the_queues() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        for _ in range(10):  # held for longer than it is trusted, and renewed
            async with held_by(house, "c1"):
                await clock.advance(20)
    async with open_house(disk=disk, clock=clock) as house, held_by(house, "c2") as queues:
        assert queues == []
    await clock.advance(3 * 24 * 3600)
    async with open_house(disk=disk, clock=clock) as house, held_by(house, "c2") as queues:
        assert queues == QUEUES


async def test_a_file_of_locks_that_cannot_be_read_keeps_no_broker_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    path = ROOT / "config" / "queueLocks.json"
    async with open_house(disk=disk, clock=clock) as house, held_by(house, "c1"):
        pass
    for name in (path, path.with_name(path.name + ".bak")):
        disk.replace(name, b"{")
    async with open_house(disk=disk, clock=clock) as house, held_by(house, "c2") as queues:
        assert queues == QUEUES
    assert "locks not read" in caplog.text
