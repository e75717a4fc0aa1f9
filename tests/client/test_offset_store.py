"""Offsets at the broker: what is in memory, what is sent, what is forgotten."""

from __future__ import annotations

import logging

import pytest

from skyrocketmq.client.offset_store import RemoteOffsets
from skyrocketmq.errors import RequestTimeout
from skyrocketmq.model import MessageQueue, QueueOffset

from .queues import queues_of

Q0, Q1, Q2 = queues_of("broker-a", each=3)


class Brokers:
    """A gateway to brokers that keep offsets, some of which do not answer."""

    def __init__(self) -> None:
        self.stored: dict[MessageQueue, QueueOffset] = {}
        self.sent: list[tuple[MessageQueue, int]] = []
        self.silent: set[MessageQueue] = set()
        self.answered: list[bool] = []

    async def fetch_offset(self, queue: MessageQueue) -> QueueOffset | None:
        self._answer(queue)
        return self.stored.get(queue)

    async def send_offset(self, queue: MessageQueue, offset: QueueOffset, *, wait_for_answer: bool) -> None:
        self.answered.append(wait_for_answer)
        self._answer(queue)
        self.sent.append((queue, offset))
        self.stored[queue] = offset

    def _answer(self, queue: MessageQueue) -> None:
        if queue in self.silent:
            raise RequestTimeout("no answer")


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def offsets(brokers: Brokers) -> RemoteOffsets:
    return RemoteOffsets(brokers)


class TestMemory:
    def test_takes_any_offset_unless_told_to_go_up_only(self, offsets: RemoteOffsets) -> None:
        offsets.update(Q0, 5)
        offsets.update(Q0, 3)
        assert offsets.find(Q0) == 3
        offsets.update(Q0, 2, only_up=True)
        assert offsets.find(Q0) == 3
        offsets.update(Q0, 4, only_up=True)
        assert offsets.find(Q0) == 4

    def test_takes_a_first_offset_of_zero(self, offsets: RemoteOffsets) -> None:
        offsets.update(Q0, 0, only_up=True)
        assert offsets.find(Q0) == 0

    def test_knows_topics_apart(self, offsets: RemoteOffsets) -> None:
        offsets.update(Q0, 5)
        offsets.update(MessageQueue("Other", "broker-a", 0), 6)
        assert offsets.of_topic("T") == {Q0: 5}

    def test_forgets(self, offsets: RemoteOffsets) -> None:
        offsets.update(Q0, 5)
        offsets.forget(Q0)
        offsets.forget(Q1)
        assert offsets.find(Q0) is None


class TestReading:
    async def test_asks_memory_before_the_broker(self, offsets: RemoteOffsets, brokers: Brokers) -> None:
        brokers.stored[Q0] = QueueOffset(9)
        offsets.update(Q0, 0)
        assert await offsets.read(Q0) == 0

    async def test_remembers_what_the_broker_said(self, offsets: RemoteOffsets, brokers: Brokers) -> None:
        brokers.stored[Q0] = QueueOffset(9)
        assert await offsets.read(Q0) == 9
        assert offsets.find(Q0) == 9

    async def test_of_the_stored_offset_asks_the_broker_and_believes_it(
        self, offsets: RemoteOffsets, brokers: Brokers
    ) -> None:
        offsets.update(Q0, 50)
        brokers.stored[Q0] = QueueOffset(9)
        assert await offsets.read_stored(Q0) == 9
        assert offsets.find(Q0) == 9

    async def test_tells_nothing_stored_from_no_answer(self, offsets: RemoteOffsets, brokers: Brokers) -> None:
        brokers.silent.add(Q1)
        assert await offsets.read(Q0) is None
        assert offsets.find(Q0) is None
        with pytest.raises(RequestTimeout):
            await offsets.read(Q1)


class TestPersisting:
    async def test_sends_every_held_queue_each_time(self, offsets: RemoteOffsets, brokers: Brokers) -> None:
        offsets.update(Q0, 5)
        offsets.update(Q1, 6)
        await offsets.persist_all([Q0, Q1, Q2])
        await offsets.persist_all([Q0, Q1, Q2])
        assert brokers.sent == [(Q0, 5), (Q1, 6)] * 2

    async def test_sends_only_what_it_is_told_to_and_forgets_nothing(
        self, offsets: RemoteOffsets, brokers: Brokers
    ) -> None:
        offsets.update(Q0, 5)
        offsets.update(Q1, 6)
        await offsets.persist_all([Q1])
        await offsets.persist_all([])
        assert brokers.sent == [(Q1, 6)]
        assert offsets.find(Q0) == 5

    async def test_of_one_queue_sends_that_one(self, offsets: RemoteOffsets, brokers: Brokers) -> None:
        offsets.update(Q0, 5)
        offsets.update(Q1, 6)
        await offsets.persist(Q1)
        await offsets.persist(Q2)
        assert brokers.sent == [(Q1, 6)]

    async def test_goes_on_after_a_broker_that_does_not_answer(
        self, offsets: RemoteOffsets, brokers: Brokers, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers.silent.add(Q0)
        offsets.update(Q0, 5)
        offsets.update(Q1, 6)
        with caplog.at_level(logging.WARNING):
            await offsets.persist_all([Q0, Q1])
        assert brokers.sent == [(Q1, 6)]
        assert offsets.find(Q0) == 5
        assert [record.message for record in caplog.records] == ["offset not persisted"]

    async def test_a_broker_that_does_not_answer_is_waited_for_once(
        self, offsets: RemoteOffsets, brokers: Brokers
    ) -> None:
        elsewhere = MessageQueue("T", "broker-b", 0)
        brokers.silent.add(Q0)
        for queue in (Q0, Q1, elsewhere):
            offsets.update(queue, 5)
        await offsets.persist_all([Q0, Q1, elsewhere], wait_for_answer=True)
        assert brokers.answered == [True, True]
        assert brokers.sent == [(elsewhere, 5)]

    async def test_to_store_raises_what_a_broker_said_and_names_the_queues(
        self, offsets: RemoteOffsets, brokers: Brokers
    ) -> None:
        brokers.silent.add(Q0)
        offsets.update(Q0, 5)
        with pytest.raises(RequestTimeout) as raised:
            await offsets.store([Q0, Q1])
        assert str(Q0) in raised.value.__notes__[0]
        assert str(Q1) not in raised.value.__notes__[0]
        brokers.silent.clear()
        await offsets.store([Q0, Q1])
        assert brokers.sent == [(Q0, 5)]
