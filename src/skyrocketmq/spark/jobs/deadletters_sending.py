"""Sending dead letters once more: what a task of `deadletters` does.

A copy has body, tags, keys and the user's own properties, and begins as a first attempt. Two properties tell where it
comes from: ORIGIN_MESSAGE_ID is kept as it was (the offset id of the very first copy), and DEAD_LETTER_ID names the
dead letter itself, so that it is known later which have been sent.

Rule 1: a copy for the retry topic of its group carries its topic in RETRY_TOPIC, as one that was handed back does.
Rule 2: each message travels by itself: brokers look at the number of attempts of a retry topic's messages one by one.
Rule 3: a task first looks which copies have come since the job began, for it may be one that is repeated; and so it
does when a connection is lost before the answer to a send has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.model import properties as names
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.options import SinkOptions
from skyrocketmq.spark.patience import persistently
from skyrocketmq.spark.pulling import PullOptions, QueueRange, read_range
from skyrocketmq.spark.sending import Sending, WriteFailed
from skyrocketmq.spark.sink import own_properties

__all__ = ["COLUMNS", "LETTER_ID", "Again", "again_of", "send_again"]

LETTER_ID: Final = "DEAD_LETTER_ID"
COLUMNS: Final = ("letter_id", "target", "origin_topic", "origin_msg_id", "tags", "keys", "properties", "body")


@dataclass(frozen=True)
class Again:
    """How tasks send. `ends` is where the queues of the targets ended before any of them began."""

    options: SinkOptions
    is_for_retry: bool
    ends: Mapping[MessageQueue, int]


def again_of(row: Mapping[str, Any], *, is_for_retry: bool) -> Message:
    """The message that a dead letter becomes. Raises `IllegalArgument` for one that no client could send."""
    own = own_properties((row["properties"] or {}).items())
    own.pop(names.TRANSACTION_ID, None)
    system = {names.ORIGIN_MESSAGE_ID: row["origin_msg_id"]} if row["origin_msg_id"] else {}
    if is_for_retry and row["origin_topic"]:
        system[names.RETRY_TOPIC] = row["origin_topic"]
    return Message(
        row["target"],
        bytes(row["body"] or b""),
        tags=None if row["tags"] is None or row["tags"].isspace() else row["tags"],
        keys=row["keys"] or (),
        properties={**own, LETTER_ID: row["letter_id"]},
        system_properties=system,
    )


def send_again(rows: Iterable[Row], again: Again) -> Iterator[int]:
    """Send the rows, which have `COLUMNS`; yields how many were sent."""
    options = again.options
    with Cluster(options.name_servers, options.link) as cluster:
        copies = _Copies(cluster, again)
        there = copies.letters()
        with closing(Sending(cluster, options, stored=copies.stored)) as sending:
            for row in rows:
                if row["letter_id"] in there:
                    continue
                try:
                    message = again_of(row.asDict(), is_for_retry=again.is_for_retry)
                except IllegalArgument as error:
                    raise WriteFailed(f"the dead letter {row['letter_id']} cannot be sent: {error}") from error
                sending.add(message, None)
            sending.finish()
            yield sending.written_count


class _Copies:
    """What has got into the targets since this job began."""

    def __init__(self, cluster: Cluster, again: Again) -> None:
        self._cluster = cluster
        self._begins = again.ends
        self._pull = PullOptions(fail_on_data_loss=False, retry_count_max=again.options.retry_count_max)

    def letters(self) -> set[str]:
        """The ids of the dead letters that have their copy there."""
        batches = self._read(self._begins, "properties")
        return {dict(pairs).get(LETTER_ID, "") for batch in batches for pairs in batch.column(0).to_pylist()}

    def stored(self, queues: Iterable[MessageQueue], msg_ids: AbstractSet[str]) -> set[str]:
        """Which of these messages the queues have. Raises `NetError`."""
        batches = self._read(queues, "msg_id")
        return {msg_id for batch in batches for msg_id in batch.column(0).to_pylist() if msg_id in msg_ids}

    def _read(self, queues: Iterable[MessageQueue], column: str) -> Iterator[pa.RecordBatch]:
        for queue in queues:
            start, end = (
                persistently(
                    partial(ask, queue),
                    retry_count_max=self._pull.retry_count_max,
                    what=f"what was sent to {queue} cannot be read back",
                )
                for ask in (self._cluster.min_offset, self._cluster.max_offset)
            )
            start = max(start, self._begins.get(queue, 0))
            wanted = QueueRange(queue.topic, queue.broker_name, queue.queue_id, start, end)
            connect = partial(self._cluster.connect, queue.broker_name, queue.topic)
            yield from read_range(connect, wanted, self._pull, (column,))
