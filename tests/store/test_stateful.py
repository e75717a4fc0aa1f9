"""A store that lives many lives: stops, kills, power cuts, failing calls and cleaning between random work.

The model is a list a queue. What was acknowledged as durable is never missing; what was only stored may be lost in a
power cut, from the end; nothing is invented, and offsets have no gaps. `make chaos` has many more lives, STORE_LIVES.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from skyrocketmq.config import FlushDiskType
from skyrocketmq.errors import StoreError
from skyrocketmq.store import GetStatus, MessageStore, PutStatus
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import PowerLost
from tests.store.reader import read_record, read_records
from tests.store.support import check, memory_disk, new_message, open_store, store_config

T = TypeVar("T")
LIVES = int(os.environ.get("STORE_LIVES", "60"))
CONFIG = store_config(
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    queue_file_bytes=20 * 5,
    index_entry_count=30,
    commit_log_delete_pause_ms=0,
    queue_delete_pause_ms=0,
    delete_when=";".join(str(hour) for hour in range(24)),
)
TOPICS = ["T0", "T1"]
EVER = (0, 1 << 62)
OLD_HOURS = 100


@dataclass
class ModelQueue:
    bodies: list[bytes | None] = field(default_factory=list)  # None: a number that nobody gets
    durable: int = 0  # so many from the beginning are promised
    first: int = 0  # those before may have been cleaned away


class StoreLives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.disk = memory_disk(clock=self.clock)
        self.queues = {(topic, queue_id): ModelQueue() for topic in TOPICS for queue_id in range(2)}
        self.keys: dict[bytes, str] = {}
        self.number = 0
        self.open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    # -- lives

    def open(self) -> None:
        self.context: AbstractAsyncContextManager[MessageStore] = open_store(self.disk, CONFIG, clock=self.clock)
        self.store = self.run(self.context.__aenter__())

    def close(self) -> None:
        async def leave() -> None:
            try:
                await self.context.__aexit__(None, None, None)
            except PowerLost:
                pass

        self.run(leave())

    def reopen(self) -> None:
        self.open()
        for (topic, queue_id), queue in self.queues.items():
            begin, end = self.store.min_offset(topic, queue_id), self.store.max_offset(topic, queue_id)
            assert end >= len(queue.bodies), "a number that was read is given to nobody else"
            found = self.run(self.read(topic, queue_id))
            known = queue.bodies + [None] * (end - len(queue.bodies))
            for offset, body in found.items():
                assert body == known[offset], "nothing is invented"
            for offset in range(begin, queue.durable):
                assert offset in found or known[offset] is None, "nothing promised is missing"
            queue.bodies = [body if at < begin else found.get(at) for at, body in enumerate(known)]

    async def read(self, topic: str, queue_id: int) -> dict[int, bytes]:
        """All messages of a queue by their numbers."""
        found: dict[int, bytes] = {}
        offset = int(self.store.min_offset(topic, queue_id))
        while offset < self.store.max_offset(topic, queue_id):
            result = await self.store.read_messages(topic, queue_id, offset, 8)
            assert result is not None
            assert result.status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE), (topic, queue_id, offset, result)
            found |= {record.queue_offset: record.body for record in read_records(result.joined())}
            assert result.next_offset > offset
            offset = result.next_offset
        return found

    @rule()
    def stops_in_order(self) -> None:
        self.disk.heal()
        failed = bool(self.store.state.flags & 32)
        self.close()
        if not failed and self.store.refusal is not None:
            check(self.disk, CONFIG)
            for queue in self.queues.values():
                queue.durable = len(queue.bodies)
        self.reopen()

    @rule()
    def is_killed(self) -> None:
        """The page cache survives."""
        self.disk.cut_power()
        self.close()
        self.disk = self.disk.after_power_loss(keep=True)
        self.reopen()

    @rule(seed=st.integers(0, 10_000))
    def loses_power(self, seed: int) -> None:
        self.disk.cut_power()
        self.close()
        self.disk = self.disk.after_power_loss(seed)
        self.reopen()

    # -- work

    @rule(topic=st.sampled_from(TOPICS), queue_id=st.integers(0, 1), size=st.integers(0, 900), waits=st.booleans())
    def stores_a_message(self, topic: str, queue_id: int, size: int, waits: bool) -> None:
        queue = self.queues[topic, queue_id]
        body = b"%06d" % self.number + b"x" * size
        self.keys[body] = f"k{self.number % 7}"
        self.number += 1
        result = self.store.put(new_message(topic, queue_id, body, keys=self.keys[body]))
        if result.status is not PutStatus.PUT_OK:
            return
        assert result.queue_offset == len(queue.bodies)
        queue.bodies.append(body)
        if waits:
            statuses: list[PutStatus] = []
            self.store.when_flushed(self.store.log.max_offset, statuses.append)
            self.run(self.clock.advance(0.02))
            if statuses == [PutStatus.PUT_OK]:
                for each in self.queues.values():
                    each.durable = len(each.bodies)  # the log is one: what came before is durable too

    @rule(seconds=st.floats(0.1, 20))
    def time_passes(self, seconds: float) -> None:
        self.run(self.clock.advance(seconds))

    @rule()
    def writes_a_checkpoint(self) -> None:
        try:
            self.run(self.store.checkpoint())
        except (StoreError, OSError):
            return
        for queue in self.queues.values():
            queue.durable = len(queue.bodies)

    @rule(files=st.integers(1, 3))
    def cleans(self, files: int) -> None:
        paths = [file.path for file in self.store.log.files]  # not the one that is being reserved
        for path in paths[:files]:
            self.disk.set_modified_ms(path, self.clock.now_ms() - OLD_HOURS * 3_600_000)
        try:
            self.run(self.store.cleaner.clean())
        except (StoreError, OSError):
            pass
        assert not paths or self.disk.exists(paths[-1]), "the file that is written stays"

    @rule(
        operation=st.sampled_from(["allocate", "pwrite", "truncate", "rename", "create", "unlink"]),
        number=st.sampled_from([errno.ENOSPC, errno.EIO]),
        after=st.integers(0, 5),
    )
    def meets_an_error(self, operation: str, number: int, after: int) -> None:
        self.disk.fail(operation, error=number, after=after)

    @precondition(lambda self: not self.store.state.flags & 32)
    @rule(after=st.integers(0, 3))
    def meets_a_failed_sync(self, after: int) -> None:
        self.disk.fail("fdatasync", error=errno.EIO, after=after)

    @rule()
    def heals(self) -> None:
        self.disk.heal()
        self.run(self.clock.advance(2))

    @rule(topic=st.sampled_from(TOPICS), key=st.integers(0, 6))
    def is_asked_for_a_key(self, topic: str, key: int) -> None:
        found = self.run(self.store.query(topic, f"k{key}", 64, *EVER))
        bodies = {read_record(bytes(record)).body for record in found.records}
        known = {
            body for (name, _), queue in self.queues.items() if name == topic for body in queue.bodies if body
        }  # another key may have the same hash
        assert bodies <= known
        if self.store.refusal is None:  # else keys may wait for the index to be writable
            here = {body for body in known if self.keys[body] == f"k{key}" and self.is_kept(topic, body)}
            assert here <= bodies or len(bodies) >= 64

    def is_kept(self, topic: str, body: bytes) -> bool:
        for (name, queue_id), queue in self.queues.items():
            if name == topic and body in queue.bodies:
                return queue.bodies.index(body) >= self.store.min_offset(name, queue_id)
        return False

    @invariant()
    def every_queue_is_its_list(self) -> None:
        for (topic, queue_id), queue in self.queues.items():
            assert self.store.max_offset(topic, queue_id) == len(queue.bodies)
            begin = self.store.min_offset(topic, queue_id)
            expected = {at: body for at, body in enumerate(queue.bodies) if at >= begin and body is not None}
            assert self.run(self.read(topic, queue_id)) == expected

    def teardown(self) -> None:
        self.disk.heal()
        self.close()
        self.runner.close()


@pytest.mark.timeout(60 + 2 * LIVES)
def test_a_store_keeps_its_promises_over_many_lives() -> None:
    run_state_machine_as_test(
        StoreLives,
        settings=settings(
            max_examples=LIVES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize("after", range(4))
def test_a_file_that_two_reserve_at_once_is_not_trusted_after_a_failed_sync_of_either(after: int) -> None:
    """The first message does not wait for the file that a helper thread is making: it makes the same file itself."""
    for seed in range(4):
        lives = StoreLives()
        try:
            lives.meets_a_failed_sync(after=after)
            lives.stores_a_message(topic="T0", queue_id=0, size=0, waits=True)
            lives.heals()
            lives.loses_power(seed=seed)
        finally:
            lives.teardown()


def test_a_file_that_could_not_be_reserved_is_none_of_the_logs_files() -> None:
    lives = StoreLives()
    try:
        lives.meets_a_failed_sync(after=0)
        lives.is_asked_for_a_key(topic="T0", key=0)
        lives.cleans(files=1)
    finally:
        lives.teardown()
