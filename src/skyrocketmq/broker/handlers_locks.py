"""Locks on queues: consumers that read in order take them, renew them and give them back.

Rule 1: only queues of topics that exist are granted. Of the others nothing is kept, and the rest of the request is
granted all the same: a group may still subscribe to a topic that is deleted.
Rule 2: a request for more locks than a group may have is refused whole, before its body is read where that is possible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Iterator
from typing import Final

from skyrocketmq.broker.access_rules import Need, named_in, need_of_group
from skyrocketmq.broker.answers import refusal
from skyrocketmq.broker.heartbeat_rules import check_locks
from skyrocketmq.broker.queue_locks import QueueLocks
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import BrokerError
from skyrocketmq.model import QUEUE_COUNT_MAX, MessageQueue
from skyrocketmq.net import BodyRequest, Steps, answers, in_slices
from skyrocketmq.ports import Clock
from skyrocketmq.slices import Backlog
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_clients import LockedQueues, QueueLockRequest
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame

__all__ = ["LockHandlers"]

QUEUES_A_STEP: Final = 256


def _needs(request: QueueLockRequest) -> Iterator[Need]:
    yield need_of_group(request.consumer_group)


class LockHandlers:
    """The answers, from the table of locks. `drop_expired` is called every few seconds."""

    def __init__(
        self, *, config: ConfigHolder[BrokerConfig], topics: TopicTable, locks: QueueLocks, clock: Clock
    ) -> None:
        self._config = config
        self._topics = topics
        self._locks = locks
        self._clock = clock
        self._expiring = Backlog(clock)

    @answers(RequestCode.LOCK_BATCH_MQ, answer=LockedQueues, needs=named_in(QueueLockRequest, _needs))
    def lock_queues(self, request: BodyRequest[QueueLockRequest]) -> Frame | Awaitable[Frame]:
        """Lock queues for a consumer that reads in order, or renew its locks."""
        return in_slices(self._lock(request), self._clock)

    @answers(RequestCode.UNLOCK_BATCH_MQ, needs=named_in(QueueLockRequest, _needs))
    def unlock_queues(self, request: BodyRequest[QueueLockRequest]) -> Frame | Awaitable[Frame]:
        """Give locked queues back."""
        return in_slices(self._unlock(request), self._clock)

    def drop_expired(self) -> None:
        """Forget what nobody renews."""
        self._expiring.add(self._locks.drop_expired_in_steps(now_s=self._clock.monotonic()))

    def close(self) -> None:
        self._expiring.close()

    def _lock(self, request: BodyRequest[QueueLockRequest]) -> Steps:
        group, client_id = self._read(request)
        yield
        queues = yield from self._existing(request.body.mq_set)
        yield
        # From here on in one step, of a few milliseconds: else another client could take the room, or the queues.
        self._check_room(queues, group)
        granted = self._locks.lock(queues, group=group, client_id=client_id, now_s=self._clock.monotonic())
        yield
        return request.frame.reply(body=encode_body(LockedQueues(lock_ok_mq_set=tuple(granted))))

    def _unlock(self, request: BodyRequest[QueueLockRequest]) -> Steps:
        group, client_id = self._read(request)
        yield
        self._locks.unlock(request.body.mq_set, group=group, client_id=client_id)
        return request.frame.reply()

    def _read(self, request: BodyRequest[QueueLockRequest]) -> tuple[str, str]:
        """The group and its member, of a request that passes the checks."""
        count_max = self._config.current.limits.queue_locks_per_group_max
        count = request.frame.body.count(b"{") - 1  # each queue is an object, in the one that is the request
        if count > count_max:
            raise _too_many(f"the request is about {count} queues", "queueLocksPerGroupMax", count_max)
        group = request.required(request.body.consumer_group, "consumerGroup")
        client_id = request.required(request.body.client_id, "clientId")
        check_locks(request.body)
        return group, client_id

    def _existing(self, queues: Iterable[MessageQueue]) -> Generator[None, None, list[MessageQueue]]:
        """The queues that can be locked. Their names are those of the table: a text less for each that is kept."""
        found = []
        brokers: dict[str, str] = {}
        for number, queue in enumerate(queues, start=1):
            topic = self._topics.find(queue.topic)
            if topic is not None and 0 <= queue.queue_id < QUEUE_COUNT_MAX:
                broker = brokers.setdefault(queue.broker_name, queue.broker_name)
                found.append(MessageQueue(topic.topic_name, broker, queue.queue_id))
            if number % QUEUES_A_STEP == 0:
                yield
        return found

    def _check_room(self, queues: list[MessageQueue], group: str) -> None:
        limits, locks = self._config.current.limits, self._locks
        new_count = locks.count_new(queues, group=group)
        if not new_count:
            return
        of_group = locks.count_of(group) + new_count
        if of_group > limits.queue_locks_per_group_max:
            what = f"group {group} would have {of_group} queues locked"
            raise _too_many(what, "queueLocksPerGroupMax", limits.queue_locks_per_group_max)
        if locks.count + new_count > limits.queue_locks_max:
            what = f"{locks.count + new_count} queues would be locked"
            raise _too_many(what, "queueLocksMax", limits.queue_locks_max)


def _too_many(what: str, key: str, limit: int) -> BrokerError:
    return refusal(ResponseCode.SYSTEM_ERROR, f"{what}, {key} allows {limit}: use several groups, or raise it")
