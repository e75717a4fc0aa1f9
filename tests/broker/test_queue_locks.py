from __future__ import annotations

from skyrocketmq.broker.queue_locks import QueueLocks
from skyrocketmq.model import MessageQueue

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


def test_unlocking_what_nobody_locked_is_harmless() -> None:
    locks = QueueLocks(ttl_s=60)
    locks.unlock(QUEUES, group="g", client_id="c1")
    assert locks.owner(QUEUES[0], group="g", now_s=0) is None


def test_expired_locks_are_dropped_and_live_ones_kept() -> None:
    locks = QueueLocks(ttl_s=60)
    lock(locks, "c1", now_s=0, group="dead")
    lock(locks, "c1", now_s=50, group="live")
    assert locks.owner(QUEUES[0], group="dead", now_s=61) is None
    assert locks.drop_expired(now_s=61) == 3
    assert locks.drop_expired(now_s=61) == 0
    assert locks.owner(QUEUES[0], group="live", now_s=61) == "c1"
