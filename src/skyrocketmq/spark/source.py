"""`format("rocketmq")`: topics as DataFrames, and DataFrames as messages. Batch reads are here, the others in
`stream` and `sink`.

    spark.read.format("rocketmq").option("namesrv", "localhost:9876").option("subscribe", "Orders").load()

Rule 1: options are parsed on the driver, once; sockets are opened in `partitions` and `read` only.
Rule 2: what travels (this object's fields, partitions) holds plain values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.filters import CLOCK_SLACK_MS, Narrowing, narrowing_of
from skyrocketmq.spark.finding import bounds_of, chosen_queues, offsets_of
from skyrocketmq.spark.keyed import KeyLookup, plan_lookups
from skyrocketmq.spark.options import SinkOptions, SourceOptions
from skyrocketmq.spark.places import Bounds, Offsets
from skyrocketmq.spark.planning import clip, ranges_between, split
from skyrocketmq.spark.reading import RangesPartition, read_keys, read_ranges, source_schema, wanted_columns
from skyrocketmq.spark.sink import RocketMQStreamWriter, RocketMQWriter
from skyrocketmq.spark.stream import RocketMQStreamReader

__all__ = ["RocketMQDataSource"]


class RocketMQDataSource(DataSource):
    """What `format("rocketmq")` stands for."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return source_schema(with_properties=self.options.get("includeProperties", "true").lower() != "false")

    def reader(self, schema: StructType) -> DataSourceReader:
        return RocketMQReader(SourceOptions.parse(self.options, is_stream=False), wanted_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return RocketMQStreamReader(SourceOptions.parse(self.options, is_stream=True), wanted_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return RocketMQWriter(SinkOptions.parse(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return RocketMQStreamWriter(SinkOptions.parse(self.options), schema, overwrite=overwrite)


class RocketMQReader(DataSourceReader):
    """One batch read."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Read less because of them. All are left to Spark as well: `filters` says why."""
        self._narrowing = narrowing_of(filters)
        self._options = _with_tags(self._options, self._narrowing)
        return filters

    def partitions(self) -> list[InputPartition]:
        options, narrowing = self._options, self._narrowing
        with Cluster(options.name_servers, options.link, group=options.pull.group) as cluster:
            bounds = bounds_of(cluster, chosen_queues(cluster, options))
            starts = offsets_of(cluster, options.starting, bounds, option="startingOffsets")
            ends = offsets_of(cluster, options.ending, bounds, option="endingOffsets")
            bounds = _with_master(cluster, bounds, ends)
            starts, ends = clip(starts, ends, bounds, fail_on_data_loss=options.pull.fail_on_data_loss)
            admitted = [queue for queue in bounds if narrowing.admits(queue) and starts[queue] < ends[queue]]
            starts, ends = _narrowed(cluster, narrowing, admitted, starts, ends)
        ranges = ranges_between(starts, ends)
        if options.keys:
            begin_ms, end_ms = _times(options, narrowing, ends)
            lookups = plan_lookups(ranges, options.keys, options.partitions_min, begin_ms=begin_ms, end_ms=end_ms)
            return [InputPartition(lookup) for lookup in lookups]
        return [RangesPartition(part) for part in split(ranges, options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition.value, KeyLookup):
            return read_keys(self._options, partition.value, self._columns)
        ranges = partition.value or ()  # Spark makes a partition of its own where a plan has none
        return read_ranges(self._options, ranges, self._columns)


def _with_master(
    cluster: Cluster, bounds: Mapping[MessageQueue, Bounds], ends: Mapping[MessageQueue, int]
) -> dict[MessageQueue, Bounds]:
    """The bounds, with what a slave that stands in for its master lacks: a task waits for it, and it is no loss."""
    return {
        queue: Bounds(has.lowest, max(has.highest, ends[queue])) if cluster.is_replica(queue.broker_name) else has
        for queue, has in bounds.items()
    }


def _times(
    options: SourceOptions, narrowing: Narrowing, queues: Iterable[MessageQueue]
) -> tuple[int | None, int | None]:
    """Between which times of storing all wanted messages are, as far as that was said: lookups need not go further."""
    starts = [options.starting.time_of(queue) for queue in queues]
    ends = [options.ending.time_of(queue) for queue in queues]
    low = [min((time or 0 for time in starts), default=0), narrowing.store_ms.low or 0]
    high = [max(time for time in ends if time is not None)] if ends and None not in ends else []
    if narrowing.store_ms.high is not None:
        high.append(narrowing.store_ms.high)
    return max(low), min(high, default=None)


def _with_tags(options: SourceOptions, narrowing: Narrowing) -> SourceOptions:
    """Options that ask brokers for the tags that a filter wants."""
    if narrowing.tags is None or options.pull.is_sql:
        return options
    tags = narrowing.tags & set(options.tags) if options.tags else narrowing.tags
    if not tags:
        return options  # nothing can match: Spark will find that out
    names = tuple(sorted(tags))
    return replace(options, tags=names, pull=replace(options.pull, expression=" || ".join(names)))


def _narrowed(
    cluster: Cluster,
    narrowing: Narrowing,
    queues: Iterable[MessageQueue],
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
) -> tuple[Offsets, Offsets]:
    """Starts and ends of the queues that can have a match, as near as filters on offset and time allow."""
    near_starts: Offsets = {}
    near_ends: Offsets = {}
    for queue in queues:
        low = [starts[queue]]
        high = [ends[queue]]
        if narrowing.offsets.low is not None:
            low.append(narrowing.offsets.low)
        if narrowing.offsets.high is not None:
            high.append(narrowing.offsets.high + 1)
        if narrowing.store_ms.low is not None:
            low.append(cluster.offset_at(queue, max(narrowing.store_ms.low - CLOCK_SLACK_MS, 0)))
        if narrowing.store_ms.high is not None:
            high.append(cluster.offset_at(queue, max(narrowing.store_ms.high + 1 + CLOCK_SLACK_MS, 0)))
        near_starts[queue], near_ends[queue] = max(low), min(high)
    return near_starts, near_ends
