"""The store alone: what a message costs to append and to read, in microseconds of CPU time.

    python -m benchmarks.store_append [--messages 200000] [--batch 64 256] [--directory DIR]

An append is everything the store does for a message: record, checksum, queue cell, index entry, its share of the write.
Messages go to 8 queues in turn, with a unique id each that the store has not seen, as in a broker that takes them from
one connection. Reads are pulls of 32 messages: of a queue whose messages lie together in the log, and of one whose
messages are scattered. Each figure is the median of slices of the run, with the best slice beside it: on a machine that
others use, the best is what the code costs and the median what it got.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import MessageStore, NewMessage, Pending

HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
QUEUES = 8
SLICES = 40
PULL_COUNT = 32


class Cost:
    """CPU time of slices of work, in microseconds a message."""

    def __init__(self) -> None:
        self.slices: list[float] = []
        self.longest_s = 0.0

    def measure(self, work: Callable[[], int]) -> None:
        """Run work that returns how many messages it handled."""
        started = time.process_time()
        count = work()
        self.slices.append((time.process_time() - started) / count * 1e6)

    def __str__(self) -> str:
        return f"{median(self.slices):6.2f} us (best {min(self.slices):5.2f})"


async def appends(
    store: MessageStore, topic: str, *, body_bytes: int, batch: int, count: int, ids: Iterator[bytes]
) -> Cost:
    bodies = [bytes([number % 251]) * body_bytes for number in range(batch)]
    cost = Cost()
    per_slice = max(count // SLICES // batch, 1) * batch

    def one_slice(keys: list[bytes]) -> int:
        for first in range(0, per_slice, batch):
            started = time.perf_counter()
            opened = store.begin()
            for number in range(batch):
                properties = b"UNIQ_KEY\x01%b\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster" % keys[first + number]
                opened.add(_message(topic, number % QUEUES, bodies[number], properties))
            assert opened.commit().refusal is None
            cost.longest_s = max(cost.longest_s, time.perf_counter() - started)
        return per_slice

    for _ in range(SLICES):
        keys = [next(ids) for _ in range(per_slice)]
        cost.measure(lambda keys=keys: one_slice(keys))  # type: ignore[misc]
        await asyncio.sleep(0.01)  # the background gets its turn, as in a broker
    return cost


async def reads(store: MessageStore, topic: str, queue_id: int, *, count: int) -> Cost:
    cost = Cost()
    end = store.max_offset(topic, queue_id)
    offset = 0
    for _ in range(SLICES):
        started = time.process_time()
        done = 0
        while done < count // SLICES:
            result = store.get_messages(topic, queue_id, offset, PULL_COUNT)
            if isinstance(result, Pending):  # the kernel says now and then that a page is not at hand
                result = await result.finish()
            assert result is not None
            assert result.count
            done += result.count
            offset = result.next_offset if result.next_offset < end else 0
        cost.slices.append((time.process_time() - started) / done * 1e6)
        await asyncio.sleep(0)
    return cost


def unique_ids() -> Iterator[bytes]:
    """As a busy producer makes them: a hundred a millisecond."""
    number = 0
    while True:
        yield b"7F00000100002A9F1234%08X%04X" % (number // 100, number & 0xFFFF)
        number += 1


def _message(topic: str, queue_id: int, body: bytes, properties: bytes) -> NewMessage:
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=properties,
        born_timestamp=1_700_000_000_000,
        born_host=HOST,
    )


async def run(root: Path, *, messages: int, batches: list[int]) -> None:
    disk = LocalDisk()
    ids = unique_ids()
    try:
        async with MessageStore.open(
            StoreConfig(root_path=root), disk=disk, clock=SystemClock(), store_host=HOST
        ) as store:
            await appends(store, "WarmUp", body_bytes=10, batch=64, count=70_000, ids=ids)
            for body_bytes in (128, 1024):
                for batch in batches:
                    topic = f"T-{body_bytes}-{batch}"
                    cost = await appends(store, topic, body_bytes=body_bytes, batch=batch, count=messages, ids=ids)
                    longest_ms = cost.longest_s * 1e3
                    print(f"append {body_bytes:5} B, batches of {batch:3}: {cost}; longest batch {longest_ms:.1f} ms")
            for topic, queues in (("Together", 1), ("Scattered", QUEUES)):
                opened = store.begin()
                for number in range(5_000 * queues):
                    opened.add(_message(topic, number % queues, b"x" * 1024, b""))
                assert opened.commit().refusal is None
                cost = await reads(store, topic, 0, count=messages)
                pull_us = median(cost.slices) * PULL_COUNT
                print(f"{topic.lower()} pulls of {PULL_COUNT} x 1 KB: {cost} a message, {pull_us:.1f} us a pull")
    finally:
        disk.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_append", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000, help="of each kind (200000)")
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 256], help="messages a batch (64 256)")
    parser.add_argument("--directory", type=Path, help="where the store is made and deleted again (the system's)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        asyncio.run(run(Path(directory) / "store", messages=arguments.messages, batches=arguments.batch))


if __name__ == "__main__":
    main()
