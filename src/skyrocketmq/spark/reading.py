"""What a reading task does: its ranges, one after the other, as batches of the wanted columns.

The same for batch reads and for streams. A task holds one connection, the answers of the pulls under way and one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.columns import SCHEMA
from skyrocketmq.spark.keyed import KeyLookup, read_lookup
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.pulling import QueueRange, read_range

__all__ = ["RangesPartition", "read_keys", "read_ranges", "source_schema", "wanted_columns"]


class RangesPartition(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: Sequence[QueueRange]) -> None:
        super().__init__(tuple(ranges))


def source_schema(*, with_properties: bool) -> StructType:
    """All columns, as Spark's types."""
    schema = from_arrow_schema(SCHEMA)
    return StructType([field for field in schema.fields if with_properties or field.name != "properties"])


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that a user gave. Raises `IllegalArgument` for one that messages do not have."""
    known = {field.name: field.dataType for field in source_schema(with_properties=True).fields}
    for field in schema.fields:
        if field.name not in known:
            raise IllegalArgument(f"messages have no column {field.name}: there are {', '.join(known)}")
        if known[field.name] != field.dataType:
            raise IllegalArgument(
                f"column {field.name} is {known[field.name].simpleString()}, not {field.dataType.simpleString()}: "
                f"read it as it is, and cast it then"
            )
    return tuple(schema.fieldNames())


def read_ranges(
    options: SourceOptions, ranges: Sequence[QueueRange], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The messages of the ranges, in order."""
    read = tuple(columns) if not options.tags or "tags" in columns else (*columns, "tags")
    with Cluster(options.name_servers, options.link, group=options.pull.group) as cluster:
        for wanted in ranges:
            connect = partial(cluster.connect, wanted.broker, wanted.topic)
            for batch in read_range(connect, wanted, options.pull, read):
                chosen = _with_tags(batch, options.tags).select(list(columns)) if options.tags else batch
                if chosen.num_rows:
                    yield chosen


def read_keys(options: SourceOptions, lookup: KeyLookup, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The messages of a lookup."""
    with Cluster(options.name_servers, options.link, group=options.pull.group) as cluster:
        yield from read_lookup(cluster, lookup, options, columns)


def _with_tags(batch: pa.RecordBatch, tags: Sequence[str]) -> pa.RecordBatch:
    """Brokers compare hashes of tags: what is equal by chance only is taken out here."""
    return batch.filter(pc.is_in(batch.column("tags"), value_set=pa.array(tags, pa.string())))
