"""Writing to `format("rocketmq")`: each row is a message.

| column | type | |
|---|---|---|
| body | binary or string | required |
| topic | string | unless the option `topic` names it |
| tags, sharding_key | string | messages with the same sharding key go to one queue, in order |
| target_queue | string | the queue itself, as `broker-a:3`; its messages keep their order |
| keys | array<string> or string | |
| properties | map<string, string> | left out are names that the system itself sets, and values that are blank |
| delay_level | integer | |
| flag | integer | the user's own, which nobody else reads |

The other columns of the source may be there and are not written: they say where a message was. Any other column is an
error. Rows are written at least once: a task that is repeated writes its rows again, unless `once` prevents it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, MapType, StringType, StructType

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message
from skyrocketmq.model.properties import RESERVED
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.columns import COLUMN_NAMES
from skyrocketmq.spark.once import ROW_ID, Epochs, RowIds, task_place
from skyrocketmq.spark.options import SinkOptions
from skyrocketmq.spark.packing import COLUMNS
from skyrocketmq.spark.sending import Sending, WriteFailed

__all__ = ["RocketMQStreamWriter", "RocketMQWriter", "Written", "own_properties"]

_TEXT: Final = StringType()
_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "body": (BinaryType(), _TEXT),
    "topic": (_TEXT,),
    "tags": (_TEXT,),
    "sharding_key": (_TEXT,),
    "target_queue": (_TEXT,),
    "keys": (ArrayType(_TEXT), _TEXT),
    "properties": (MapType(_TEXT, _TEXT),),
    "delay_level": (IntegerType(),),
    "flag": (IntegerType(),),
}
_BESIDES: Final = ("tags", "keys", "properties", "delay_level", "flag", "sharding_key", "target_queue")
PIECE_ROWS: Final = 1024
PIECE_BYTES: Final = 16 << 20  # unless one row alone has more
_NOT_WRITTEN: Final = frozenset(COLUMN_NAMES) - set(_TYPES)


@dataclass
class Written(WriterCommitMessage):
    """What a task has done."""

    message_count: int
    skipped_count: int = 0


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raises `IllegalArgument` for a schema that does not fit."""
    names = schema.fieldNames()
    if "body" not in names:
        raise IllegalArgument(f"a column body is missing: there are {', '.join(names)}")
    if not options.topic and "topic" not in names:
        raise IllegalArgument("where do messages go? Set the option topic, or have a column topic")
    missing = sorted(set(options.id_columns) - set(names))
    if missing:
        raise IllegalArgument(f"idColumns names columns that are not there: {', '.join(missing)}")
    if options.is_once and "delay_level" in names:
        raise IllegalArgument(
            "delayed messages cannot be read back before their time: no mode=effectively-once for them"
        )
    for column in schema.fields:
        if column.name in _NOT_WRITTEN:
            continue
        wanted = _TYPES.get(column.name)
        if wanted is None and column.name in options.id_columns:
            continue
        if wanted is None:
            raise IllegalArgument(f"a message has no {column.name}: the sink takes {', '.join(_TYPES)}")
        if not any(_is_same(column.dataType, one) for one in wanted):
            expected = " or ".join(one.simpleString() for one in wanted)
            raise IllegalArgument(f"column {column.name} is {column.dataType.simpleString()}: cast it to {expected}")


def _is_same(one: DataType, other: DataType) -> bool:
    """Whether values may be null inside of lists and maps does not matter here."""
    return one.simpleString() == other.simpleString()


class _Writer:
    """What both kinds of writers share. Made on the driver, and anew for each batch of a stream."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool, is_stream: bool) -> None:
        if overwrite:
            raise IllegalArgument("messages cannot be overwritten: use mode append")
        check_columns(schema, options)
        self._options = options
        self._columns = [name for name in schema.fieldNames() if name in _TYPES]
        self._id_columns = list(options.id_columns) or list(self._columns)
        # Rows of which nothing has to be known but what they hold: they become messages many at a time.
        self._is_plain = bool(options.topic) and COLUMNS.issuperset(self._columns)
        self._is_plain &= not options.is_once and options.rate_per_task is None
        self._epochs: Epochs | None = None
        with self._cluster() as cluster:
            if options.topic:
                cluster.writable_queues(options.topic)  # a topic that is not there is found before any task runs
            if options.is_once:
                self._epochs = Epochs.begin(cluster, options, is_stream=is_stream)

    def _cluster(self) -> Cluster:
        return Cluster(self._options.name_servers, self._options.link)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        epochs = self._epochs
        with self._cluster() as cluster:
            if epochs is None:
                return self._write(iterator, Sending(cluster, self._options), None, frozenset())
            place = task_place()
            if self._options.epoch is not None:
                place = replace(place, epoch=self._options.epoch, query="")  # whoever counts says what is the same
            ids = RowIds(epochs.label(place), place, self._options)
            there = epochs.ids_there(cluster, place, ids.prefix)
            sending = Sending(cluster, self._options, stored=partial(epochs.stored, cluster, place))
            return self._write(iterator, sending, ids, there)

    def _write(
        self, batches: Iterator[pa.RecordBatch], sending: Sending, ids: RowIds | None, there: AbstractSet[str]
    ) -> Written:
        skipped_count = 0
        with closing(sending):
            for rows in _pieces(batches):
                rest = sending.add_rows(self._options.topic, rows) if self._is_plain else rows
                for row_id, message, sharding_key, target_queue in self._messages(rest, ids):
                    if row_id is not None and row_id in there:
                        skipped_count += 1
                        continue
                    sending.add(message, sharding_key, target_queue)
            sending.finish()
        return Written(sending.written_count, skipped_count)

    def _messages(
        self, batch: pa.RecordBatch, ids: RowIds | None
    ) -> Iterable[tuple[str | None, Message, str | None, str | None]]:
        columns = {name: batch.column(name).to_pylist() for name in self._columns}
        nothing = [None] * batch.num_rows
        row_ids = ids.of([batch.column(name).to_pylist() for name in self._id_columns]) if ids is not None else nothing
        topics = nothing if self._options.topic else columns["topic"]
        rows = zip(
            row_ids,
            topics,
            columns["body"],
            *(columns.get(name, nothing) for name in _BESIDES),
            strict=True,
        )
        for row_id, topic, body, tags, keys, properties, delay_level, flag, sharding_key, target_queue in rows:
            pairs = own_properties(properties)
            if row_id is not None:
                pairs[ROW_ID] = row_id
            try:
                message = Message(
                    self._options.topic or topic or "",
                    body.encode() if isinstance(body, str) else body if body is not None else b"",
                    tags=None if tags is None or tags.isspace() else tags,
                    keys=() if keys is None else keys,
                    properties=pairs,
                    delay_level=delay_level or 0,
                    flag=flag or 0,
                )
            except IllegalArgument as error:
                raise WriteFailed(f"a row cannot be a message (topic {topic!r}, keys {keys!r}): {error}") from error
            yield row_id, message, sharding_key, target_queue


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches as Spark makes them may be large; what is made of a piece of one stays small."""
    for batch in batches:
        for begin in range(0, batch.num_rows, PIECE_ROWS):
            yield from _halves(batch.slice(begin, PIECE_ROWS))


def _halves(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in parts that are small enough."""
    if rows.num_rows <= 1 or rows.nbytes <= PIECE_BYTES:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _halves(rows.slice(0, middle))
    yield from _halves(rows.slice(middle))


def own_properties(pairs: Iterable[tuple[str, Any]] | None) -> dict[str, str]:
    """The properties that are the user's: rows that were read have those of the system too.

    Other clients write values that are blank: a copy goes without them, since no message of ours may have them.
    """
    return {
        name: value
        for name, value in pairs or ()
        if name not in RESERVED and name != ROW_ID and value and not value.isspace()
    }


class RocketMQWriter(_Writer, DataSourceArrowWriter):
    """One batch write. With `sinkEpoch` it is one of a series, which is recorded as the epochs of a stream are."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite, is_stream=options.epoch is not None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._epochs is not None and self._options.epoch is not None:
            with self._cluster() as cluster:
                self._epochs.end(cluster, self._options.epoch)


class RocketMQStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writes of a streaming query."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite, is_stream=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        if self._epochs is not None:
            with self._cluster() as cluster:
                self._epochs.end(cluster, batchId)
