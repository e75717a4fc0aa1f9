"""`format("rocketmq-store")`: a store directory as DataFrames, of ours or of Apache's, with no broker.

    spark.read.format("rocketmq-store").load("/data/broker-a").where("topic = 'Orders'").show()

Rule 1: the plan is made on the driver, once: which files there are, and up to where they are whole. Tasks read what it
says and nothing that came later. Driver and tasks see the same directory.
Rule 2: what travels (this object's fields, partitions) holds plain values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.filters import Narrowing, narrowing_of
from skyrocketmq.spark.store_directory import open_store
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.spark.store_planning import IndexPart, LogPart, QueuePart, TopicPart
from skyrocketmq.spark.store_plans import Part, plan
from skyrocketmq.spark.store_reading import MessageReader
from skyrocketmq.spark.store_tables import SCHEMAS, damage_batch, damage_of, read_cells, read_entries

__all__ = ["RocketMQStoreDataSource", "StorePartition"]


class StorePartition(InputPartition):
    """The parts of one task."""

    def __init__(self, parts: Iterable[Part]) -> None:
        super().__init__(tuple(parts))


class RocketMQStoreDataSource(DataSource):
    """What `format("rocketmq-store")` stands for."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMAS[StoreOptions.parse(self.options).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = StoreOptions.parse(self.options)
        return RocketMQStoreReader(options, _columns(schema, options.table))


def _columns(schema: StructType, table: str) -> tuple[str, ...]:
    """The columns of a schema that a user gave. Raises `IllegalArgument` for one that the table does not have."""
    known = {field.name: field.dataType for field in from_arrow_schema(SCHEMAS[table]).fields}
    for field in schema.fields:
        if field.name not in known:
            raise IllegalArgument(f"the table {table} has no column {field.name}: there are {', '.join(known)}")
        if known[field.name] != field.dataType:
            raise IllegalArgument(
                f"column {field.name} is {known[field.name].simpleString()}, not {field.dataType.simpleString()}: "
                f"read it as it is, and cast it then"
            )
    return tuple(schema.fieldNames())


class RocketMQStoreReader(DataSourceReader):
    """One read of one table."""

    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Read less because of them. All are left to Spark as well: `filters` says why."""
        self._narrowing = narrowing_of(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        with open_store(self._options) as store:
            return [StorePartition(parts) for parts in plan(store, self._options, self._narrowing)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        messages = MessageReader(self._options, self._columns, self._narrowing)
        table, columns = self._options.table, self._columns
        for part in partition.value or ():  # Spark makes a partition of its own where a plan has none
            if isinstance(part, IndexPart):
                yield from read_entries(part, columns, self._narrowing)
            elif isinstance(part, TopicPart):
                yield from messages.of_topic(part)
            elif isinstance(part, QueuePart):
                yield from read_cells(part, columns)
            elif isinstance(part, LogPart):
                if table == "messages":
                    yield from messages.of_log(part)
                elif rows := list(damage_of(part)):
                    yield damage_batch(rows, columns)
            else:
                yield damage_batch([part], columns)
