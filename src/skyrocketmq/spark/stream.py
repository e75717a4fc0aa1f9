"""`format("rocketmq")` as a stream.

Spark asks for the latest offsets, writes them down, and has everything up to them read by tasks; a batch that is
repeated after a restart has the same offsets and so the same rows. This object lives on the driver for as long as the
query runs; tasks get a copy of it that reads and does nothing else.

Rule 1: a batch reads between two offsets that are written down. So a queue that is new, or was made anew, only gets its
first offset, that of its oldest message, written down in one batch; the next batch reads from there.
Rule 2: a queue that cannot be seen now (its broker is away) stays where it is; it is no reason to end the query. A run
over what is available now would end without its messages, as if all were read: it waits, and then fails.
Rule 3: the group's offsets at the broker are for people to look at. The checkpoint alone decides where to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from skyrocketmq.errors import BrokerError, NetError, NoRoute
from skyrocketmq.model import MessageQueue
from skyrocketmq.ports import SystemClock
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.finding import bounds_of, chosen_queues, is_chosen, offsets_of, visible_queues
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.patience import persistently
from skyrocketmq.spark.places import Bounds, Offsets, offsets_from_json, offsets_to_json
from skyrocketmq.spark.planning import is_due, limit_bytes, limit_count, ranges_between, split
from skyrocketmq.spark.pulling import DataLost
from skyrocketmq.spark.reading import RangesPartition, read_ranges

__all__ = ["RocketMQStreamReader"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One source of a streaming query."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._cluster: Cluster | None = None
        self._last_batch_s: float | None = None
        self._target: Offsets | None = None  # where a run over what is available now ends
        self._seen: Offsets = {}  # the ends that were seen last, for the report
        self._shown: Offsets = {}  # how far brokers believe the group to be

    def __getstate__(self) -> dict[str, Any]:
        """For tasks: without the driver's connections."""
        return self.__dict__ | {"_cluster": None}

    # ------------------------------------------------------------------------------------------------ offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as all below
        cluster, options = self._driver_cluster(), self._options
        bounds = bounds_of(cluster, chosen_queues(cluster, options))
        offsets = offsets_of(cluster, options.starting, bounds, option="startingOffsets")
        if options.pull.fail_on_data_loss:
            _check(offsets, bounds)
        return offsets_to_json(offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """One of the limits, so that Spark tells a limited batch from one without limits; all are applied."""
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min is not None:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        starts = _offsets(start)
        self._show(starts)  # Spark asks once all before is done, and tells of it only with the batch after that
        bounds = self._complete(lambda: self._bounds(starts), self._needed(starts))
        self._seen = {queue: has.highest for queue, has in bounds.items()}
        firsts = {queue: has.lowest for queue, has in bounds.items() if queue not in starts}
        begins = {queue: starts[queue] for queue in bounds if queue in starts}
        if self._options.pull.fail_on_data_loss:
            _check(begins, bounds)
        else:
            firsts |= {queue: bounds[queue].lowest for queue, at in begins.items() if at > bounds[queue].highest}
        begins = {queue: max(at, bounds[queue].lowest) for queue, at in begins.items() if queue not in firsts}
        ends = {queue: max(bounds[queue].highest, at) for queue, at in begins.items()}
        if self._target is not None:
            ends = {queue: max(min(end, self._target.get(queue, 0)), begins[queue]) for queue, end in ends.items()}
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begins, ends)
        return offsets_to_json(starts | firsts | ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the queues, for the query's progress: what is behind them is the lag."""
        return offsets_to_json(self._seen) if self._seen else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        cluster = self._driver_cluster()
        bounds = bounds_of(cluster, chosen_queues(cluster, self._options))
        self._target = {queue: has.highest for queue, has in bounds.items()}

    def _limited(self, begins: Offsets, ends: Offsets) -> Offsets:
        options = self._options
        now_s = SystemClock().monotonic()
        count = sum(ends[queue] - begins[queue] for queue in ends)
        # A query that starts does not wait, as with Spark's Kafka source: what is there may have waited long enough. A
        # run over what is available now ends once nothing is left: waiting for more would be waiting for ever.
        is_waiting = self._last_batch_s is not None and self._target is None
        if is_waiting and not is_due(
            count,
            count_min=options.offsets_per_trigger_min,
            waited_s=now_s - (self._last_batch_s or 0.0),
            wait_max_s=options.trigger_delay_max_s,
        ):
            return begins
        self._last_batch_s = now_s
        if options.offsets_per_trigger_max is not None:
            ends = limit_count(begins, ends, options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            waiting = [queue for queue, end in ends.items() if end > begins[queue]]
            sizes = self._complete(lambda: self._sizes(waiting, begins), waiting)
            ends = {queue: end if queue in sizes else begins[queue] for queue, end in ends.items()}
            ends = limit_bytes(begins, ends, options.bytes_per_trigger_max, sizes)
        return ends

    def _sizes(self, queues: Sequence[MessageQueue], begins: Offsets) -> dict[MessageQueue, float]:
        """About how large the next messages are, of the queues that can be asked."""
        cluster = self._driver_cluster()
        return self._ask(queues, lambda queue: cluster.message_bytes(queue, begins[queue]))

    # --------------------------------------------------------------------------------------------------- tasks

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        starts, ends = _offsets(start), _offsets(end)
        ends = {queue: offset for queue, offset in ends.items() if queue in starts}  # the others are new: rule 1
        ranges = ranges_between(starts, ends)
        return [RangesPartition(part) for part in split(ranges, self._options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, partition.value or (), self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        self._show(_offsets(end))

    def _show(self, offsets: Offsets) -> None:
        """Let the broker know how far the group is, for people and tools that look at its lag."""
        if not self._options.group:
            return
        cluster, group = self._driver_cluster(), self._options.group

        def show(queue: MessageQueue) -> None:
            try:
                cluster.commit(group, queue, offsets[queue])
                self._shown[queue] = offsets[queue]
            except (BrokerError, NoRoute) as error:
                logger.warning("progress not shown", extra={"queue": str(queue), "reason": str(error)})

        self._ask([queue for queue, offset in offsets.items() if self._shown.get(queue) != offset], show)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # ---------------------------------------------------------------------------------------------- the cluster

    def _driver_cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.name_servers, self._options.link, group=self._options.pull.group)
        return self._cluster

    def _bounds(self, starts: Mapping[MessageQueue, int]) -> dict[MessageQueue, Bounds]:
        """What the queues have that are there now; the others stay where they are."""
        cluster = self._driver_cluster()
        try:
            queues = visible_queues(cluster, self._options)
        except NetError:
            if not starts:
                raise
            logger.warning("no queue can be seen now", exc_info=True)
            return {}
        bounds = self._ask(queues, lambda queue: bounds_of(cluster, [queue])[queue])
        # A slave that stands in for its master may lack what its master has: that is no loss, the master is waited for.
        return {
            queue: has
            for queue, has in bounds.items()
            if has.lowest <= starts.get(queue, -1) <= has.highest or not cluster.is_replica(queue.broker_name)
        }

    def _needed(self, starts: Offsets) -> list[MessageQueue]:
        """The queues without which a run over what is available now is not complete."""
        options, target = self._options, self._target or {}
        needed = {queue for queue, end in target.items() if end > starts.get(queue, 0)}
        if options.pull.fail_on_data_loss:  # those that were away when it began may have something, too
            needed |= {queue for queue in starts if is_chosen(options, queue)}
        return sorted(needed)

    def _complete(
        self, ask: Callable[[], dict[MessageQueue, T]], needed: Sequence[MessageQueue]
    ) -> dict[MessageQueue, T]:
        """The answers of queues; of all that are needed, in a run over what is available now. Raises `NetError`."""
        if self._target is None:
            return ask()

        def ask_all() -> dict[MessageQueue, T]:
            answers = ask()
            missing = [str(queue) for queue in needed if queue not in answers]
            if missing:
                raise NetError(
                    f"{', '.join(missing)} cannot be seen now. Run it again when their brokers are back; if they are "
                    f"gone for good set failOnDataLoss=false"
                )
            return answers

        what = "not all that is available can be read"
        return persistently(ask_all, retry_count_max=self._options.pull.retry_count_max, what=what)

    def _ask(self, queues: Iterable[MessageQueue], question: Callable[[MessageQueue], T]) -> dict[MessageQueue, T]:
        """The answers of the queues whose brokers are there. One that gives none is not asked again this time: with
        many queues that would take as many time-outs."""
        answers: dict[MessageQueue, T] = {}
        away: set[str] = set()
        for queue in queues:
            if queue.broker_name in away:
                continue
            try:
                answers[queue] = question(queue)
            except (NetError, NoRoute) as error:
                away.add(queue.broker_name)
                logger.warning("broker cannot be asked now", extra={"queue": str(queue), "reason": str(error)})
        return answers


def _offsets(tree: dict[str, Any]) -> Offsets:
    return offsets_from_json(tree) if tree else {}


def _check(begins: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> None:
    """Raise `DataLost` unless the queues still have what follows these offsets."""
    for queue, offset in sorted(begins.items()):
        has = bounds[queue]
        if not has.lowest <= offset <= has.highest:
            raise DataLost(
                f"{queue} is at {offset}, and the queue has [{has.lowest}, {has.highest}) now: messages were cleaned "
                f"away before they were read, the topic was made anew, or the offset is wrong. To go on with what is "
                f"there set failOnDataLoss=false"
            )
