"""Messages that have a key, through the brokers' index: what a task of a read with `keys` does.

A broker answers with at most 64 messages of a key (its `maxMsgsNumBatch`), the newest first. Those before them are
asked for with the time of the oldest one as the end, until nothing new comes:

    asked up to   now           | t1          | t2
    answered      t1 ... newest | t2 ... t1   | the same again: that was all

The index knows times by the second, and never later than they are. So if more messages than an answer holds have the
key within one second, asking does not lead past them: the queues are read for this second, and asking goes on before.

Rule 1: what is found is complete, or an error. Whether an answer is full cannot be told from a smaller limit of the
broker: from `FULL_COUNT` messages on it is taken for full, and what lies before is looked at.
Rule 2: the index has hashes. Whatever comes is compared: topic, key, queue, offset, tags.
Rule 3: a message with several of the keys is a row once: it belongs to the first of them, so tasks may share the keys.
Rule 4: memory is bounded: the places of one answer and of one second, beside the answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.ports import pause
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.columns import batches_of, columns_of
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.patience import persistently
from skyrocketmq.spark.pulling import QueueRange, read_range
from skyrocketmq.spark.record_places import places_in_answer

__all__ = ["KeyLookup", "NoIndex", "plan_lookups", "read_lookup"]

T = TypeVar("T")

ANSWER_COUNT_MAX: Final = 64  # what is asked for, and what brokers give unless they are configured otherwise
FULL_COUNT: Final = 16
INDEX_STEP_MS: Final = 1000
_LOOKED_AT: Final = ("topic", "tags", "keys", "queue_id", "queue_offset", "log_offset", "store_timestamp")


class NoIndex(MQError):
    """A broker cannot be asked for keys."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """What one task asks one broker for. The ranges are queues of one topic there, each at most once."""

    topic: str
    broker: str
    keys: tuple[str, ...]
    ranges: tuple[QueueRange, ...]
    begin_ms: int = 0
    end_ms: int = INT64_MAX


def plan_lookups(
    ranges: Sequence[QueueRange],
    keys: Sequence[str],
    partitions_min: int | None,
    *,
    begin_ms: int | None = None,
    end_ms: int | None = None,
) -> list[KeyLookup]:
    """A task for each topic of each broker; more, with a share of the keys each, if so many are wanted. Pure."""
    places = [
        (topic, broker, tuple(some))
        for (topic, broker), some in groupby(ranges, key=lambda one: (one.topic, one.broker))
    ]
    shares = min(max(-(-(partitions_min or 1) // max(len(places), 1)), 1), len(keys))
    return [
        KeyLookup(
            topic, broker, tuple(keys[share::shares]), some, begin_ms or 0, INT64_MAX if end_ms is None else end_ms
        )
        for topic, broker, some in places
        for share in range(shares)
    ]


def read_lookup(
    cluster: Cluster,
    lookup: KeyLookup,
    options: SourceOptions,
    columns: Sequence[str],
    *,
    sleep: Callable[[float], None] = pause,
) -> Iterator[pa.RecordBatch]:
    """The messages of a lookup, key by key, the newest first."""
    asking = _Asking(cluster, lookup, options, columns, sleep)
    for key in lookup.keys:
        yield from asking.messages_of(key)


class _Asking:
    """One task at one broker."""

    def __init__(
        self,
        cluster: Cluster,
        lookup: KeyLookup,
        options: SourceOptions,
        columns: Sequence[str],
        sleep: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._lookup = lookup
        self._options = options
        self._sleep = sleep
        self._columns = list(columns)
        self._read = tuple(dict.fromkeys((*columns, *_LOOKED_AT)))
        self._order = {key: number for number, key in enumerate(options.keys)}
        self._ranges = {one.queue_id: one for one in lookup.ranges}
        self._largest_answer = 0
        self._is_known = False  # that there is an index

    def messages_of(self, key: str) -> Iterator[pa.RecordBatch]:
        lookup = self._lookup
        end_ms = lookup.end_ms
        known: set[int] = set()  # log offsets of the answer before
        in_second: set[int] = set()  # and of the second that was read from the queues
        while end_ms >= lookup.begin_ms:
            records, places, found = self._ask(key, end_ms)
            offsets = set(found.column("log_offset").to_pylist())
            fresh = offsets - known - in_second
            # Bodies are made of what is wanted only, and not of too many at once.
            yield from batches_of(
                records,
                places[self._chosen_rows(found, key, fresh)],
                broker=lookup.broker,
                columns=self._columns,
                fail_on_data_loss=self._options.pull.fail_on_data_loss,
            )
            if found.num_rows < FULL_COUNT:
                return
            if fresh:
                known = offsets
                end_ms = min(end_ms, _oldest_ms(found))
            elif found.num_rows < self._largest_answer:
                return  # it could have been longer
            else:
                in_second = set()
                for batch in self._second(end_ms):
                    new = set(batch.column("log_offset").to_pylist()) - known
                    in_second |= new
                    if rows := self._chosen_rows(batch, key, new):
                        yield batch.select(self._columns).take(pa.array(rows))
                end_ms -= INDEX_STEP_MS

    def _ask(self, key: str, end_ms: int) -> tuple[bytes, NDArray[np.int64], pa.RecordBatch]:
        """What the index has of a key up to this time: records, where each begins, and what is looked at of them."""
        lookup = self._lookup
        answer = self._persistently(
            lambda: self._cluster.indexed(
                lookup.broker,
                lookup.topic,
                key,
                count_max=ANSWER_COUNT_MAX,
                begin_ms=max(lookup.begin_ms - INDEX_STEP_MS + 1, 0),
                end_ms=end_ms,
            )
        )
        if answer.records or answer.is_written:
            self._is_known = True
        elif not self._is_known:
            self._look_for_index(key)
        places = places_in_answer(answer.records)
        self._largest_answer = max(self._largest_answer, len(places))
        return answer.records, places, columns_of(answer.records, places, broker=lookup.broker, columns=_LOOKED_AT)

    def _look_for_index(self, key: str) -> None:
        """Apache's brokers say nothing about an index in which they find nothing: see whether a message is in it."""
        lookup, cluster = self._lookup, self._cluster
        for one in lookup.ranges:
            queue = MessageQueue(one.topic, one.broker, one.queue_id)
            known_key = self._persistently(partial(cluster.key_at, queue, one.start))
            if known_key is None:
                continue
            ask = partial(cluster.indexed, lookup.broker, lookup.topic, known_key, count_max=1)
            if not self._persistently(partial(ask, begin_ms=0, end_ms=INT64_MAX)).records:
                raise NoIndex(
                    f"broker {lookup.broker} has no index of {lookup.topic}, so {key!r} cannot be looked up: set "
                    f"messageIndexEnable=true there, or read without the option keys and filter with "
                    f"array_contains(keys, ...)"
                )
            break
        self._is_known = True

    def _second(self, end_ms: int) -> Iterator[pa.RecordBatch]:
        """What the queues have of the second that ends with this millisecond."""
        cluster = self._cluster
        for one in self._lookup.ranges:
            queue = MessageQueue(one.topic, one.broker, one.queue_id)
            begin = self._persistently(partial(cluster.offset_at, queue, end_ms - INDEX_STEP_MS + 1))
            end = self._persistently(partial(cluster.offset_at, queue, end_ms + 1))
            within = replace(one, start=max(begin, one.start), end=min(end, one.end))
            connect = partial(cluster.connect, one.broker, one.topic)
            pull = replace(self._options.pull, expression="*")
            yield from read_range(connect, within, pull, self._read, sleep=self._sleep)

    def _chosen_rows(self, batch: pa.RecordBatch, key: str, fresh: set[int]) -> list[int]:
        """The rows of a key among these; each place once, since a key may be in the index twice."""
        rows: list[int] = []
        left = set(fresh)
        for number, row in enumerate(batch.select(list(_LOOKED_AT)).to_pylist()):
            if row["log_offset"] in left and self._is_wanted(row, key):
                left.remove(row["log_offset"])
                rows.append(number)
        return rows

    def _is_wanted(self, row: Mapping[str, object], key: str) -> bool:
        own = [one for one in _texts(row["keys"]) if one in self._order]
        if not own or min(own, key=self._order.__getitem__) != key:
            return False
        if row["topic"] != self._lookup.topic:
            return False
        if self._options.tags and row["tags"] not in self._options.tags:
            return False
        queue_id, offset = row["queue_id"], row["queue_offset"]
        assert isinstance(queue_id, int) and isinstance(offset, int), "records have both"  # noqa: PT018
        within = self._ranges.get(queue_id)
        return within is not None and within.start <= offset < within.end

    def _persistently(self, ask: Callable[[], T]) -> T:
        lookup = self._lookup
        return persistently(
            ask,
            retry_count_max=self._options.pull.retry_count_max,
            what=f"keys of {lookup.topic} were looked up at broker {lookup.broker}",
            sleep=self._sleep,
        )


def _oldest_ms(found: pa.RecordBatch) -> int:
    return int(min(found.column("store_timestamp").cast(pa.int64()).to_pylist())) // 1000


def _texts(value: object) -> list[str]:
    return value if isinstance(value, list) else []
