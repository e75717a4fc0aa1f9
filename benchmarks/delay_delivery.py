"""Delayed messages alone: how fast they are delivered when very many fall due at once, and what one costs.

    python -m benchmarks.delay_delivery [--messages 100000] [--body 128 1024] [--directory DIR]

The messages wait in one level, for 3 topics with 4 queues each; all are due when the delivery starts, as they are after
a time in which the broker was down. A delivery is everything: finding what is due, reading it, storing its copy with
checksum, queue cell and index entry, and letting the loop turn. Each cost is the median of slices of the run, with the
best slice beside it: on a machine that others use, the best is what the code costs and the median what it got.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import uvloop

from skyrocketmq.broker.delay import DelayDelivery
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import MessageStore

HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
TOPICS, QUEUES = 3, 4
SLICES = 40


@dataclass
class Outcome:
    """What one run gave."""

    count: int
    seconds: float = 0.0
    longest_turn_s: float = 0.0
    costs: list[float] = field(default_factory=list)  # CPU time a message, in microseconds, of each slice

    def __str__(self) -> str:
        return (
            f"{self.count / self.seconds:8,.0f} a second, {median(self.costs):5.1f} us of CPU each "
            f"(best {min(self.costs):4.1f}), longest turn of the loop {self.longest_turn_s * 1000:.0f} ms"
        )


async def measure(root: Path, *, count: int, body_bytes: int) -> Outcome:
    disk, clock = LocalDisk(), SystemClock()
    config = StoreConfig(
        root_path=root,
        commit_log_file_bytes=64 << 20,
        index_slot_count=500_000,
        index_entry_count=2_000_000,
        delay_levels="0s",
    )
    try:
        async with MessageStore.open(config, disk=disk, clock=clock, store_host=HOST) as store:
            await fill(store, count=count, body=bytes(body_bytes))
            await store.checkpoint()  # what filling has left to write is not measured
            return await deliver(store, disk, clock, count)
    finally:
        disk.close()


async def fill(store: MessageStore, *, count: int, body: bytes) -> None:
    writer = MessageWriter(store)
    for number in range(count):
        properties = {b"TAGS": b"TagA", b"UNIQ_KEY": b"0A000001C35018B4AAC2%012d" % number, b"DELAY": b"1"}
        writer.put(
            OutgoingMessage(
                topic=f"Topic{number % TOPICS}",
                queue_id=number % QUEUES,
                body=body,
                properties=properties,
                born_ms=1_700_000_000_000,
                born_host=HOST,
            )
        )
        if number % 100 == 0:
            await asyncio.sleep(0)


async def deliver(store: MessageStore, disk: LocalDisk, clock: SystemClock, count: int) -> Outcome:
    queues = [store.queue(f"Topic{topic}", queue_id) for topic in range(TOPICS) for queue_id in range(QUEUES)]
    outcome = Outcome(count)
    per_slice = max(count // SLICES, 1)
    done = done_before = 0
    started = turned = time.perf_counter()
    cpu_before = time.process_time()
    async with DelayDelivery.open(store, store_host=HOST, disk=disk, clock=clock):
        while done < count:
            await asyncio.sleep(0)
            now = time.perf_counter()
            outcome.longest_turn_s = max(outcome.longest_turn_s, now - turned)
            turned = now
            done = sum(queue.max_offset for queue in queues)
            if done - done_before >= per_slice:
                cpu = time.process_time()
                outcome.costs.append((cpu - cpu_before) / (done - done_before) * 1e6)
                done_before, cpu_before = done, cpu
        outcome.seconds = time.perf_counter() - started
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delay_delivery", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--body", type=int, nargs="+", default=[128, 1024], help="bytes")
    parser.add_argument("--directory", type=Path, help="where the stores are made, and removed again")
    arguments = parser.parse_args()
    for body_bytes in arguments.body:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
            outcome = uvloop.run(measure(Path(directory), count=arguments.messages, body_bytes=body_bytes))
        print(f"{arguments.messages} messages of {body_bytes:5} B: {outcome}", flush=True)


if __name__ == "__main__":
    main()
