"""Bugs, planted on purpose: does the simulation find them?

    python -m tests.simulation.planted                      # all of them, each up to 500 seeds or 10 minutes
    python -m tests.simulation.planted two-lock-owners --seeds 50

Each is a small change of the product's own code, made in a process of its own; the rest is as it is. A seed counts as
found only if the same seed breaks nothing without the bug. Seeds whose plan has nothing that the bug could show in,
such as a power cut, are counted and not run. `make planted` prints a line for each.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any, NamedTuple

from skyrocketmq.broker.dead_letters import DeadLetters
from skyrocketmq.broker.delay_offsets import DelayOffsets
from skyrocketmq.broker.delay_reading import Look
from skyrocketmq.broker.queue_locks import QueueLocks
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.send_back import SendBackHandler
from skyrocketmq.broker.transaction_log import TransactionLog
from skyrocketmq.broker.transaction_records import committed_message
from skyrocketmq.client.broker_locks import BrokerLocks
from skyrocketmq.client.consume_orderly import OrderlyConsumption
from skyrocketmq.client.local_offsets import LocalOffsets
from skyrocketmq.client.message_cache import MessageCache
from skyrocketmq.ha import slave as ha_slave
from skyrocketmq.ha.replicas import Replicas
from skyrocketmq.model import TransactionType
from skyrocketmq.store import PutResult, PutStatus, log_scan, message_store
from skyrocketmq.store.batch import BatchWriter
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.flushing import LogFlusher
from skyrocketmq.store.message_store import MessageStore
from skyrocketmq.store.replica import LogCopy
from skyrocketmq.testing.disk import FaultyDisk
from skyrocketmq.testing.simulation.forks import Died, run_one
from skyrocketmq.testing.simulation.plan import Plan
from skyrocketmq.testing.simulation.runner import Simulator, search, seeds_for
from skyrocketmq.wire.replication import encode_report

SEEDS_MAX = 500
SECONDS_MAX = 600.0
LOSS = ("acknowledged is stored", "stored is consumed", "one offset, one message", "queues are in order")
ORDER = ("one owner at a time", "keys are in order", "orderly skips nothing")


class Bug(NamedTuple):
    plant: Callable[[], None]
    shows: tuple[str, ...]  # the checks that may notice it; whatever else is broken is not its doing
    conditions: tuple[Callable[[Plan], bool], ...]  # it shows only in plans that meet all of them


def bug(
    *conditions: Callable[[Plan], bool], shows: tuple[str, ...]
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(plant: Callable[[], None]) -> Callable[[], None]:
        BUGS[plant.__name__.replace("_", "-")] = Bug(plant, shows, conditions)
        return plant

    return add


def master(*faults: str, flush: str = "", role: str = "") -> Callable[[Plan], bool]:
    """One of these faults befalls a master of this kind."""

    def is_met(plan: Plan) -> bool:
        of_kind = {
            broker.node
            for broker in plan.brokers
            if broker.role != "SLAVE" and flush in ("", broker.flush) and role in ("", broker.role)
        }
        return any(fault.kind in faults and fault.node in of_kind for fault in plan.faults)

    return is_met


def slave(plan: Plan) -> bool:
    return any(broker.role == "SLAVE" for broker in plan.brokers)


def sends(kind: str) -> Callable[[Plan], bool]:
    return lambda plan: any(operation.kind == kind for sender in plan.senders for operation in sender.operations)


def fails(plan: Plan) -> bool:
    return any(operation.failure_count for sender in plan.senders for operation in sender.operations)


def group(kind: str, members: int = 1, *faults: str) -> Callable[[Plan], bool]:
    """A group of the kind with so many members, one of whom meets one of the faults, if any is named."""

    def is_met(plan: Plan) -> bool:
        nodes = {consumer.node for consumer in plan.consumers if consumer.kind == kind}
        is_hit = any(fault.kind in faults and fault.node in nodes for fault in plan.faults)
        return len(nodes) >= members and (is_hit or not faults)

    return is_met


def any_fault(plan: Plan) -> bool:
    return bool(plan.faults)


BUGS: dict[str, Bug] = {}


def change(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put what `make` makes of the original into its place."""
    setattr(owner, name, make(getattr(owner, name)))


# ------------------------------------------------------------------------------------------------------------ the disk


@bug(master("power cut", flush="SYNC_FLUSH"), shows=LOSS)
def acknowledge_before_sync() -> None:
    """SYNC_FLUSH answers at once."""
    change(LogFlusher, "when_flushed", lambda _: lambda self, end, callback: callback(PutStatus.PUT_OK))


@bug(master("power cut", flush="SYNC_FLUSH"), shows=LOSS)
def during_a_sync_counts_as_synced() -> None:
    """A sync that ends releases those too who came while it ran."""

    def release_all(self: Any) -> None:
        self._release_up_to(self._log.max_offset)
        self._gather_count = 0
        self._released_at = self._clock.monotonic()

    change(LogFlusher, "_release", lambda _: release_all)


@bug(master("power cut"), shows=LOSS)
def skip_the_sync_of_names() -> None:
    """New and renamed files are not made durable by their directory."""
    change(FaultyDisk, "sync_directory", lambda _: lambda self, path: None)


@bug(master("failed sync", flush="SYNC_FLUSH"), shows=LOSS)
def failed_sync_is_not_final() -> None:
    """A sync that failed is taken for a good one, and the next one is believed."""

    def make(original: Any) -> Any:
        async def flush(self: Any) -> None:
            end = int(self._log.max_offset)
            try:
                await self._log.flush(end)
            except OSError:
                self._release_up_to(end)
            else:
                self._release()

        return flush

    change(LogFlusher, "flush", make)


@bug(master("power cut"), shows=("nothing is invented",))
def torn_record_believed() -> None:
    """Recovery does not look at checksums, nor for zeros where properties should be."""

    def make(original: Any) -> Any:
        def scan(data: Any, at: int, length: int, *, check_crc: bool = True) -> Any:
            return original(data, at, length, check_crc=False)

        return scan

    change(log_scan, "scan_record", make)
    change(log_scan.LogScan, "_is_torn", lambda _: lambda self, record, witness: False)


@bug(master("power cut"), shows=LOSS)
def numbers_are_not_kept_over_a_power_cut() -> None:
    """A queue goes on after what is left of it, whatever readers have seen."""
    change(MessageStore, "_skip_reserved", lambda _: lambda self, owner, *, has_failed: 0)


@bug(fails, master("power cut"), shows=("stored is consumed",))
def consumer_offsets_ahead_of_the_log() -> None:
    """The file says that a message is consumed whose retry a power cut can still take."""

    def make(original: Any) -> Any:
        def init(self: Any, name: str, **others: Any) -> None:
            original(self, name, **{**others, "before_write": None} if name == "consumerOffset.json" else others)

        return init

    change(Saver, "__init__", make)


@bug(shows=LOSS)
def numbers_given_twice() -> None:
    """Now and then the number of a message that is stored is given to the next one too."""

    def make(original: Any) -> Any:
        def commit(self: Any, batch: Any) -> Any:
            outcome = original(self, batch)
            self.commit_count = getattr(self, "commit_count", 0) + 1
            if self.commit_count % 40 == 0:
                for queue in self._queues:
                    if not queue.topic.startswith(("%", "RMQ", "SCHEDULE")) and queue.tail:
                        queue.next_offset -= 1
                        del queue.tail[-20:]
                        break
            return outcome

        return commit

    change(BatchWriter, "commit", make)


# -------------------------------------------------------------------------------------------------------- replication


@bug(master("promotion", role="SYNC_MASTER"), shows=LOSS)
def any_slave_counts_as_a_copy() -> None:
    """SYNC_MASTER answers as soon as a slave is connected."""

    def make(original: Any) -> Any:
        def when_replicated(self: Any, end: int, callback: Any) -> None:
            callback(PutStatus.PUT_OK if self.slaves else PutStatus.SLAVE_NOT_AVAILABLE)

        return when_replicated

    change(Replicas, "when_replicated", make)


@bug(master("promotion", role="SYNC_MASTER"), shows=LOSS)
def slave_reports_before_it_writes() -> None:
    """A slave says that it has what it only received, and writes it some seconds later."""

    def make(original: Any) -> Any:
        def data_received(self: Any, data: bytes) -> None:
            if not self.is_open:
                original(self, data)
                return
            waiting = self.__dict__.setdefault("waiting", [])
            waiting.append(bytes(data))
            self._reported = self._copy.end + sum(len(each) - 12 for each in waiting)
            self._transport.write(encode_report(max(self._reported, self._copy.end)))
            if len(waiting) == 1:

                def write() -> None:
                    taken = b"".join(waiting)
                    waiting.clear()
                    if not self._ended.is_set():
                        original(self, taken)

                self._clock.call_later(5.0, write)

        return data_received

    change(ha_slave._MasterConnection, "data_received", make)


@bug(master("promotion"), shows=LOSS)
def promoted_slave_skips_no_numbers() -> None:
    """A slave that is made the master goes on with the numbers after its own last one."""
    change(message_store, "ahead_of_copy", lambda _: lambda end: 0)


@bug(slave, master("power cut", flush="SYNC_FLUSH"), shows=("a slave is a prefix",))
def slave_gets_what_is_not_flushed() -> None:
    """A master ships bytes that a power cut can still take from it."""
    change(CommitLog, "shippable_offset", lambda _: property(lambda self: self.max_offset))


@bug(slave, shows=("a slave is a prefix",))
def slave_changes_a_byte() -> None:
    """A copy differs from its original."""

    def make(original: Any) -> Any:
        def append(self: Any, offset: int, pieces: Sequence[Any]) -> None:
            data = bytearray(b"".join(pieces))
            self.append_count = getattr(self, "append_count", 0) + 1
            if self.append_count % 50 == 0 and data:
                data[-1] ^= 1
            original(self, offset, [bytes(data)])

        return append

    change(LogCopy, "append", make)


# -------------------------------------------------------------------------------------- delays, retries, transactions


@bug(sends("delayed"), master("power cut"), shows=LOSS)
def delay_offsets_ahead_of_the_log() -> None:
    """What the file says to be delivered may be lost by a power cut."""

    def make(original: Any) -> Any:
        async def save(self: Any) -> None:
            self._safe, self._safe_version = dict(self._offsets), self._version
            await self._saver.save()

        return save

    change(DelayOffsets, "save", make)


@bug(sends("delayed"), shows=("never early",))
def delays_end_early() -> None:
    """A level is looked at with a clock that is a second fast."""
    import skyrocketmq.broker.delay as module

    def make(original: Any) -> Any:
        def look(*places: Any, now_ms: int, **others: Any) -> Any:
            found: Look = yield from original(*places, now_ms=now_ms + 700, **others)
            return found

        return look

    change(module, "look_at_level", make)


@bug(fails, shows=("stored is consumed",))
def retry_copy_lost() -> None:
    """Every third message that is handed back is forgotten."""

    def make(original: Any) -> Any:
        async def put(self: Any, message: Any, hand_back: Any) -> PutResult:
            self.put_count = getattr(self, "put_count", 0) + 1
            if self.put_count % 3 == 0:
                return PutResult(PutStatus.PUT_OK)
            result: PutResult = await original(self, message, hand_back)
            return result

        return put

    change(SendBackHandler, "_put", make)


@bug(fails, shows=("one dead letter",))
def dead_letter_twice() -> None:
    """Who is given up is given up again."""

    def make(original: Any) -> Any:
        async def put(self: Any, message: Any) -> PutResult:
            self._writer.put(message)
            result: PutResult = self._writer.put(message)
            return result

        return put

    change(DeadLetters, "put", make)


@bug(sends("transactional"), master("kill", "power cut", "stop", "failed sync"), shows=("transactions hold",))
def op_message_lost() -> None:
    """A commit leaves no mark: after a restart its half message is pending again."""

    def make(original: Any) -> Any:
        def add_end(self: Any, half: Any, newest: int | None, end: TransactionType) -> Any:
            if end is not TransactionType.COMMIT:
                return original(self, half, newest, end)
            self.pending.take(half.transaction, None)
            return self._store.begin().add(committed_message(half), is_accepted=True)

        return add_end

    change(TransactionLog, "add_end", make)


@bug(sends("transactional"), shows=("transactions hold",))
def transaction_ends_twice() -> None:
    """An end leaves its transaction pending: whoever ends it again, asked by the broker, delivers again."""

    def make(original: Any) -> Any:
        def add_end(self: Any, half: Any, newest: int | None, end: TransactionType) -> Any:
            result = original(self, half, newest, end)
            if newest is not None:
                self.pending.add(half.transaction, newest)
            return result

        return add_end

    change(TransactionLog, "add_end", make)


@bug(sends("transactional"), shows=("transactions hold",))
def rollback_commits() -> None:
    """Every fourth rollback is taken for a commit."""

    def make(original: Any) -> Any:
        def add_end(self: Any, half: Any, newest: int | None, end: TransactionType) -> Any:
            self.end_count = getattr(self, "end_count", 0) + (end is TransactionType.ROLLBACK)
            if end is TransactionType.ROLLBACK and self.end_count % 4 == 0:
                end = TransactionType.COMMIT
            return original(self, half, newest, end)

        return add_end

    change(TransactionLog, "add_end", make)


# ----------------------------------------------------------------------------------------------------------- consuming


@bug(group("orderly", 2), shows=ORDER)
def two_lock_owners() -> None:
    """A broker gives a lock to everybody who asks."""

    def make(original: Any) -> Any:
        def lock(self: Any, queues: Any, *, group: str, client_id: str, now_s: float) -> Any:
            wanted = list(queues)
            original(self, wanted, group=group, client_id=client_id, now_s=now_s)
            return wanted

        return lock

    change(QueueLocks, "lock", make)


@bug(fails, shows=ORDER)
def orderly_goes_on_after_a_failure() -> None:
    """What failed is put back behind what follows it."""

    def make(original: Any) -> Any:
        def put_back(self: Any, messages: Any = None) -> None:
            original(self, messages)
            if len(self._order) > 1:
                self._order.rotate(-1)

        return put_back

    change(MessageCache, "put_back", make)


@bug(group("orderly", 2), shows=ORDER)
def orderly_does_not_wait_for_its_lock() -> None:
    """A queue that a member gets is consumed at once, whoever still has its lock."""
    change(OrderlyConsumption, "_may_consume", lambda _: lambda self, held: True)
    change(BrokerLocks, "lock", lambda _: _granted)
    change(BrokerLocks, "confirm", lambda _: _granted)


async def _granted(self: Any, queue: Any) -> bool:
    return True


@bug(group("concurrent", 1, "kill", "power cut", "stop", "partition"), shows=("stored is consumed",))
def offsets_over_unfinished_messages() -> None:
    """A member commits past messages that its handlers still have."""

    def make(original: Any) -> Any:
        def remove(self: Any, messages: Any, *, now_ms: int) -> int | None:
            offset = original(self, messages, now_ms=now_ms)
            return None if offset is None else self._highest_offset + 1

        return remove

    change(MessageCache, "remove", make)


@bug(group("broadcast", 1, "kill", "power cut", "stop"), shows=("broadcast sees all",))
def broadcast_skips() -> None:
    """A broadcast member notes one more than it has handled."""

    def make(original: Any) -> Any:
        async def store(self: Any, held: Any) -> None:
            kept = dict(self._offsets)
            self._offsets.update({queue: offset + 1 for queue, offset in kept.items() if offset})
            try:
                await original(self, held)
            finally:
                self._offsets.update(kept)

        return store

    change(LocalOffsets, "store", make)


# ----------------------------------------------------------------------------------------------------------- searching


@dataclass(frozen=True, slots=True)
class Finding:
    """`seed_count` seeds were tried, the last one broke the promise `check`; an empty `check`: none did."""

    seed_count: int
    check: str
    text: str


def find(simulator: Simulator, name: str, *, seeds_max: int, seconds_max: float, jobs: int, first: int = 1) -> Finding:
    """Plant one bug in a fork of this process, and search."""
    plant, shows, conditions = BUGS[name]
    end = monotonic() + seconds_max
    tried = 0
    while tried < seeds_max and monotonic() < end:

        def work(start: int) -> tuple[int, str, str]:
            plant()
            plan_of = cache(simulator.plan)
            left = seeds_max - (start - first)
            seeds = seeds_for(first=start, seed_count=left, seconds=max(0.0, end - monotonic()))
            fitting = (seed for seed in seeds if all(is_met(plan_of(seed)) for is_met in conditions))
            last = start - 1
            for one in search(simulator, fitting, jobs=jobs, repeated_every=0):
                last = max(last, one.seed or 0)
                for failing in one.failing:
                    if failing.check in shows:
                        return failing.seed, failing.check, failing.text
            return last if monotonic() >= end else start + left - 1, "", ""

        result = run_one(work, first + tried, timeout_s=seconds_max + 120)
        if isinstance(result, Died):
            raise RuntimeError(f"{name}: {result.why}")
        seed, check, text = result
        tried = max(tried, seed - first + 1)
        if not check or not _fails_without(simulator, seed):
            return Finding(tried, check, text)
    return Finding(tried, "", "")


def _fails_without(simulator: Simulator, seed: int) -> bool:
    [clean] = search(simulator, [seed], repeated_every=0)
    return bool(clean.failing)


def main(arguments: Sequence[str] | None = None) -> int:
    from skyrocketmq.testing.simulation.__main__ import SIMULATOR

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("bugs", nargs="*", help=f"of {', '.join(BUGS)}")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--from", type=int, default=1, dest="first")
    options = parser.parse_args(arguments)
    missed = 0
    for name in options.bugs or BUGS:
        began = monotonic()
        found = find(
            SIMULATOR,
            name,
            seeds_max=options.seeds,
            seconds_max=options.seconds,
            jobs=options.jobs,
            first=options.first,
        )
        missed += not found.check
        words = f"{found.check}: {found.text.splitlines()[-1]}" if found.check else "NOT FOUND"
        print(f"{name:<40} {found.seed_count:4} seeds {monotonic() - began:6.1f} s  {words[:150]}", flush=True)
    print(f"{len(options.bugs or BUGS) - missed} found, {missed} not")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
