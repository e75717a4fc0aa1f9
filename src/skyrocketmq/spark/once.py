"""Effectively once: a batch that is repeated does not write again what is there.

Each message carries an id of its row, which names the sink and the epoch (the batch of a stream). At the end of epoch n
the ends of the topic's queues are recorded: everything that any attempt at epoch n + 1 writes comes after them. When a
query starts again, its tasks read from there up to where the queues end by then, and skip the rows whose ids they find.
In an epoch that is not repeated there is nothing to read, unless others write to the topic too.

    queue   ... epoch n-1 | epoch n, first attempt | others |
                          ^ recorded at the end of n-1      ^ seen when the query starts again

Records are the offsets of two groups at the brokers, for even and for odd epochs: when a query dies after the end of
epoch n was recorded and before Spark has noted it, epoch n is repeated, and its own record must still be there.

Rule 1: a record that is too old only makes more to read; ids name their epoch, so no other one is mistaken for it.
Rule 2: recorded is the offset plus one, since brokers answer 0 for a group that they do not know.
Rule 3: what cannot be read back now is waited for, and then an error: rows are not written again on suspicion. A queue
that was there before and is away, or of which only a slave is there, may hold rows of this epoch: how many queues there
were is recorded, too.
Rule 4: requests of an attempt that died may still be on their way to a broker. So a task that is begun again, or has
lost a connection, looks only after a pause.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from skyrocketmq.errors import NetError, NoRoute
from skyrocketmq.model import MessageQueue
from skyrocketmq.ports import pause
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.options import SinkOptions
from skyrocketmq.spark.patience import RETRY_PAUSE_S, persistently
from skyrocketmq.spark.places import Offsets
from skyrocketmq.spark.pulling import PullOptions, QueueRange, read_range

__all__ = ["ROW_ID", "Epochs", "RowIds", "TaskPlace", "task_place"]

T = TypeVar("T")

ROW_ID: Final = "SPARK_ROW_ID"
# Where Spark tells its tasks which batch of which stream they belong to.
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
_GROUP: Final = "skyrocketmq-sink"


@dataclass(frozen=True)
class TaskPlace:
    """Where a task stands: its epoch (none in a batch write), its partition, and which attempt it is."""

    epoch: int | None
    partition: int
    attempt: int
    query: str = ""  # Spark's id of the query, which stands in its checkpoint


def task_place() -> TaskPlace:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    epoch = context.getLocalProperty(_BATCH_ID)
    return TaskPlace(
        None if epoch is None else int(epoch),
        context.partitionId(),
        context.attemptNumber(),
        context.getLocalProperty(_QUERY_ID) or "",
    )


@dataclass(frozen=True)
class Epochs:
    """What the driver knows when a batch of a stream, or a batch write, starts. Travels to the tasks."""

    sink: str
    topic: str
    is_stream: bool
    ends: Offsets  # of the queues, at the start
    pull: PullOptions

    @classmethod
    def begin(cls, cluster: Cluster, options: SinkOptions, *, is_stream: bool) -> Epochs:
        """Look where the queues end. The very first time that is recorded, too."""
        queues = cluster.queues(options.topic)
        ends = {queue: _end(cluster, queue) for queue in queues}
        pull = PullOptions(group=options.group, fail_on_data_loss=False, retry_count_max=options.retry_count_max)
        epochs = cls(_digest(options.sink_id), options.topic, is_stream, ends, pull)
        epochs._count(cluster, queues)
        groups = {epochs._group(0), epochs._group(1)}
        # A queue without a record beside others that have one is new since then: it counts from its beginning.
        if not any(cluster.committed(group, queue) for group in groups for queue in queues):
            for group in groups:
                for queue, end in ends.items():
                    cluster.commit(group, queue, end + 1)
        return epochs

    def _count(self, cluster: Cluster, queues: Sequence[MessageQueue]) -> None:
        """Record how many queues there are. Raises `NoRoute` if there were more."""
        group = f"{_GROUP}-{self.sink}-queues"
        counts = [cluster.committed(group, queue) or 0 for queue in queues]
        if max(counts, default=0) > len(queues):
            raise NoRoute(
                f"topic {self.topic} has {len(queues)} queues now and had {max(counts)}: rows in the others cannot be "
                f"read back, so nothing is written. Start again when their broker is back; if they are gone for good, "
                f"go on with another sinkId"
            )
        for queue, count in zip(queues, counts, strict=True):
            if count != len(queues):
                cluster.commit(group, queue, len(queues))

    def end(self, cluster: Cluster, epoch: int) -> None:
        """Record where the next epoch begins."""
        for queue in cluster.queues(self.topic):
            cluster.commit(self._group(epoch + 1), queue, _end(cluster, queue) + 1)

    def label(self, place: TaskPlace) -> str:
        """What the ids of an epoch's rows begin with.

        A query whose checkpoint was deleted counts its epochs from 0 again: it is another query by its id, and its rows
        are others.
        """
        writer = _digest(f"{self.sink} {place.query}") if place.query else self.sink
        return f"{writer}-{'batch' if place.epoch is None else place.epoch}"

    def ids_there(self, cluster: Cluster, place: TaskPlace, prefix: str) -> set[str]:
        """The ids of this epoch's rows that an earlier attempt has written. Raises `NetError`."""
        ends = self.ends
        if place.attempt:  # it was begun in this run already, and has to see what it wrote itself
            pause(RETRY_PAUSE_S)
            ends = self._ends(cluster, {*self.ends, *self._patiently(partial(cluster.queues, self.topic))})
        found: set[str] = set()
        for batch in self._read_back(cluster, place, ends, "properties"):
            ids = (dict(pairs).get(ROW_ID, "") for pairs in batch.column(0).to_pylist())
            found.update(row_id for row_id in ids if row_id.startswith(prefix))
        return found

    def stored(
        self, cluster: Cluster, place: TaskPlace, queues: Iterable[MessageQueue], msg_ids: AbstractSet[str]
    ) -> set[str]:
        """Which of these messages the queues have. Raises `NetError`."""
        found: set[str] = set()
        for batch in self._read_back(cluster, place, self._ends(cluster, queues), "msg_id"):
            found |= msg_ids & set(batch.column(0).to_pylist())
        return found

    def _ends(self, cluster: Cluster, queues: Iterable[MessageQueue]) -> Offsets:
        return {queue: self._patiently(partial(_end, cluster, queue)) for queue in queues}

    def _read_back(self, cluster: Cluster, place: TaskPlace, ends: Offsets, column: str) -> Iterator[pa.RecordBatch]:
        """A column of what was written since the epoch before, up to these ends."""
        for queue, end in sorted(ends.items()):
            recorded = self._patiently(partial(cluster.committed, self._group(place.epoch), queue)) or 0
            start = max(recorded - 1, self._patiently(partial(cluster.min_offset, queue)), 0)
            wanted = QueueRange(queue.topic, queue.broker_name, queue.queue_id, start, end)
            connect = partial(cluster.connect, queue.broker_name, queue.topic)
            yield from read_range(connect, wanted, self.pull, (column,))

    def _patiently(self, ask: Callable[[], T]) -> T:
        what = f"what was written to {self.topic} cannot be read back"
        return persistently(ask, retry_count_max=self.pull.retry_count_max, what=what)

    def _group(self, epoch: int | None) -> str:
        """The group of an epoch's record. All batch writes of a name have one: they are not counted."""
        return f"{_GROUP}-{self.sink}-{epoch % 2 if self.is_stream and epoch is not None else 'batch'}"


def _end(cluster: Cluster, queue: MessageQueue) -> int:
    if cluster.is_replica(queue.broker_name):
        raise NetError(
            f"the master of {queue.broker_name} is away, and its slave need not have all that was written: rows cannot "
            f"be read back, so nothing is written. Start again when it is back"
        )
    return cluster.max_offset(queue)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class RowIds:
    """Ids of one task's rows: of the columns that the user named, or of all of a row.

    Rows with equal content are told apart by their partition and by counting, so that none is taken for another: a
    batch that is repeated with other partitions writes such rows again rather than losing one.
    """

    def __init__(self, label: str, place: TaskPlace, options: SinkOptions) -> None:
        self.prefix = f"{label}-"
        self._partition = b"" if options.id_columns else b"%d " % place.partition
        self._seen: Counter[bytes] = Counter()

    def of(self, columns: Sequence[Sequence[Any]]) -> list[str]:
        return [self._id(row) for row in zip(*columns, strict=True)]

    def _id(self, row: tuple[Any, ...]) -> str:
        digest = hashlib.blake2b(self._partition + repr(row).encode("utf-8", "replace"), digest_size=12).digest()
        number = self._seen[digest]
        self._seen[digest] += 1
        return f"{self.prefix}{digest.hex()}" + (f"-{number}" if number else "")
