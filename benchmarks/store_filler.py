"""Fills a store as a busy broker would have, and closes it, or ends as if it had been killed.

    python -m benchmarks.store_filler DIR --body-bytes 128 --messages 20000000 [--kill]

Messages go to the queues of a few topics in turn, each with a unique id and a tag; file sizes are Apache's defaults.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import MessageStore, NewMessage

__all__ = ["QUEUES", "TOPICS", "fill", "record_bytes"]

TOPICS = tuple(f"BacklogTopic-{number}" for number in range(4))
QUEUES = 8
BATCH = 256
HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
AFTER_KEY = b"\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"
ROOT = Path(__file__).parents[1]


def record_bytes(body_bytes: int) -> int:
    """How long the record of such a message is."""
    return 91 + body_bytes + len(TOPICS[0]) + len(b"UNIQ_KEY\x01") + 32 + len(AFTER_KEY)


def fill(directory: Path, *, body_bytes: int, messages: int, is_killed: bool) -> None:
    """Fill a store in a process of its own, so that a kill is one."""
    command = [sys.executable, "-m", "benchmarks.store_filler", str(directory)]
    command += ["--body-bytes", str(body_bytes), "--messages", str(messages)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, *(["--kill"] if is_killed else [])], env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.returncode == (-signal.SIGKILL if is_killed else 0), done


async def _run(root: Path, *, body_bytes: int, messages: int, is_killed: bool) -> None:
    disk = LocalDisk()
    async with MessageStore.open(
        StoreConfig(root_path=root, disk_warning_ratio=0.99), disk=disk, clock=SystemClock(), store_host=HOST
    ) as store:
        places = [(topic, queue_id) for queue_id in range(QUEUES) for topic in TOPICS]
        body = bytes(range(256)) * (body_bytes // 256) + bytes(body_bytes % 256)
        keys = _unique_ids()
        done = 0
        while done < messages:
            batch = store.begin()
            for number in range(done, min(done + BATCH, messages)):
                topic, queue_id = places[number % len(places)]
                batch.add(
                    NewMessage(
                        topic=topic,
                        queue_id=queue_id,
                        body=body,
                        properties=b"UNIQ_KEY\x01%b%b" % (next(keys), AFTER_KEY),
                        born_timestamp=batch.now_ms,
                        born_host=HOST,
                    )
                )
            assert batch.commit().refusal is None
            done += BATCH
            await asyncio.sleep(0)  # the store's own work gets its turn
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
    disk.close()


def _unique_ids() -> Iterator[bytes]:
    number = 0
    while True:
        yield b"7F00000100002A9F1234%08X%04X" % (number // 100, number & 0xFFFF)
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_filler", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--body-bytes", type=int, default=128)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kill", action="store_true", help="end with SIGKILL instead of closing the store")
    arguments = parser.parse_args()
    asyncio.run(
        _run(
            arguments.directory,
            body_bytes=arguments.body_bytes,
            messages=arguments.messages,
            is_killed=arguments.kill,
        )
    )


if __name__ == "__main__":
    main()
