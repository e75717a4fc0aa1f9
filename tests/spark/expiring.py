"""Messages that really expire: log files that the broker's own cleaner has deleted, because they are old."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.testing import BlockingCluster

LOG_FILE_BYTES = 16 << 10
SETTINGS = {
    "mappedFileSizeCommitLog": str(LOG_FILE_BYTES),
    "deleteCommitLogFilesInterval": "0",
    "maxMessageSize": "8192",
    "flushIntervalCommitLog": "10",
}
BODY_BYTES = 400  # some 30 messages in a file


def fill(cluster: BlockingCluster, topic: str, count: int, *, first: int = 0) -> None:
    """Messages in queue 0; the body of each begins with its offset."""
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for number in range(first, first + count):
            body = b"%d " % number + b"x" * BODY_BYTES
            producer.send(Message(topic, body), queue=MessageQueue(topic, "broker-a", 0))


def expire(cluster: BlockingCluster, directory: Path, topic: str) -> int:
    """Have all log files cleaned away but the two newest; the oldest offset then.

    It is the same in every run: all is flushed before, and the files that stay are too young for the cleaner.
    """
    store = cluster.awaitable.brokers["broker-a"].store
    loop = cluster.awaitable._loop
    assert loop is not None
    asyncio.run_coroutine_threadsafe(store.flush(), loop).result(20)
    *old, first_kept, _newest = store.log.file_starts
    for file in (file for log in directory.rglob("commitlog") for file in log.iterdir() if int(file.name) in old):
        os.utime(file, (1, 1))
    store.cleaner.ask()
    asyncio.run_coroutine_threadsafe(store.cleaner.clean(), loop).result(20)
    assert store.log.min_offset == first_kept, "not all was cleaned away"
    return store.min_offset(topic, 0)
