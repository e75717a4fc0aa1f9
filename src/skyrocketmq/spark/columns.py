"""Records to columns: the bytes of many messages become one Arrow batch, without a Python step for each of them.

A hot module. Callers know where the records begin (one walk over their sizes); all fields are then picked out of the
bytes together, by numpy, and variable parts (body, topic, properties) by one gathering copy of Arrow's. Only compressed
bodies, and texts that are not UTF-8, are touched one by one.

Rule 1: a record's own lengths have to add up; whoever finds that they do not names the place (`CorruptRecord`).
Rule 2: only the columns that are asked for are made: properties cost more than everything else together.
Rule 3: what a column holds is what `MessageView` says of the same record; a test compares the two.
Rule 4: whoever reads files looks at the records first (`choose`): at whether they are what was stored, and which of
them are wanted. Columns are made of those.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skyrocketmq.errors import CorruptRecord, ProtocolError
from skyrocketmq.hot.layout import RECORD_HEAD_FORMATS, RECORD_HOSTS_MASK, RECORD_HOSTS_SHIFT, RECORD_SYS_FLAG_AT
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.hosts import host_text
from skyrocketmq.wire.compression import INFLATED_BYTES_MAX, compression_type, decompress
from skyrocketmq.wire.java import CRC_MASK, whole_crcs
from skyrocketmq.wire.properties import NAME_END, PAIR_END
from skyrocketmq.wire.records import MESSAGE_MAGIC, RECORD_BYTES_MIN, RecordHead

__all__ = ["COLUMN_NAMES", "SCHEMA", "Choose", "Records", "TooLarge", "batches_of", "columns_of"]

logger = logging.getLogger(__name__)

_TIME: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("tags", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("msg_id", pa.string()),
        ("offset_msg_id", pa.string()),
        ("born_timestamp", _TIME),
        ("store_timestamp", _TIME),
        ("born_host", pa.string()),
        ("store_host", pa.string()),
        ("reconsume_times", pa.int32()),
        ("sys_flag", pa.int32()),
    ]
)
COLUMN_NAMES: Final = tuple(SCHEMA.names)

INFLATED_BYTES: Final = 32 << 20  # of the compressed bodies of one batch, unless one alone has more

_Bytes = NDArray[np.uint8]
_Places = NDArray[np.int64]

_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_TYPES: Final = {"i": ">i4", "I": ">u4", "q": ">i8"}  # of `struct`


def _head_type(text: str) -> np.dtype[np.void]:
    """A record's head as numpy reads it, from its format."""
    kinds = [f"V{count}" if count else _TYPES[kind] for count, kind in re.findall(r"(\d*)([a-zA-Z])", text)]
    return np.dtype(list(zip(RecordHead._fields, kinds, strict=True)))


_HEADS: Final = tuple(map(_head_type, RECORD_HEAD_FORMATS))


class TooLarge(Exception):
    """The bodies of several records inflate to more than a batch may hold: so many of them are enough."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def batches_of(
    data: bytes | memoryview,
    starts: Sequence[int] | _Places,
    *,
    broker: str | None,
    columns: Sequence[str],
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The messages as `columns_of` gives them, in more than one batch where compressed bodies become large.

    One that cannot be read (a producer may have said that a body is compressed which is not) is an error or left out.
    """
    at, count = 0, len(starts)
    while at < len(starts):
        some = starts[at : at + count]
        try:
            batch = columns_of(data, some, broker=broker, columns=columns)
        except TooLarge as error:
            count = error.count
            continue
        except CorruptRecord as error:
            if fail_on_data_loss:
                raise CorruptRecord(f"{error}. To go on without it set failOnDataLoss=false") from error
            if len(some) > 1:  # fewer, until what is damaged stands alone
                count = len(some) // 2
                continue
            logger.warning("message left out", extra={"reason": str(error)})
            at, count = at + 1, len(starts)
            continue
        yield batch
        at += count


def columns_of(
    data: bytes | memoryview,
    starts: Sequence[int] | _Places,
    *,
    broker: str | None,
    columns: Sequence[str] = COLUMN_NAMES,
    origin: str = "",
    choose: Choose | None = None,
) -> pa.RecordBatch:
    """The messages of the records that begin at `starts`, as the columns that are asked for, in their order.

    `data` holds them whole. `choose`, if given, looks at them before and says which are wanted. Raises `CorruptRecord`
    for one whose parts do not add up or whose body cannot be inflated; `origin` is what it is then said to be of, in
    place of the broker. Raises `TooLarge` for several whose bodies together inflate to more than `INFLATED_BYTES`.
    """
    buffer = np.frombuffer(data, np.uint8)
    places = np.asarray(starts, np.int64)
    if len(places) and int(places.max()) + RECORD_BYTES_MIN > len(buffer):
        raise CorruptRecord(f"the record at byte {int(places.max())} is cut off")
    hosts = buffer[places + RECORD_SYS_FLAG_AT + 3] >> RECORD_HOSTS_SHIFT & RECORD_HOSTS_MASK
    found: list[tuple[_Places, pa.RecordBatch]] = []
    origin = origin or f"broker {broker}"
    for kind in np.unique(hosts).tolist() or [0]:  # hosts of both IP versions: each layout by itself
        rows = np.flatnonzero(hosts == kind)
        records = Records(data, buffer, places[rows], kind, broker, origin)
        if choose is not None and not (is_wanted := choose(records, rows)).all():
            rows = rows[is_wanted]
            records = Records(data, buffer, places[rows], kind, broker, origin)
        try:
            found.append((rows, records.batch(columns)))
        except TooLarge as error:
            raise TooLarge(int(rows[error.count])) from None
    if len(found) == 1:
        return found[0][1]
    # Back in their order.
    order = np.concatenate([rows for rows, _ in found])
    together = pa.Table.from_batches([batch for _, batch in found]).combine_chunks()
    return together.take(pa.array(np.argsort(order))).combine_chunks().to_batches()[0] if len(order) else found[0][1]


class Records:
    """Records of one layout. Each column is made when it is asked for, and what several need is made once."""

    def __init__(
        self, data: bytes | memoryview, buffer: _Bytes, places: _Places, kind: int, broker: str | None, origin: str
    ) -> None:
        self.places = places  # where they begin in the data
        self._data = data
        self._buffer = buffer
        self._broker = broker
        self._origin = origin
        head = _HEADS[kind]
        if len(places) and int(places.max()) + head.itemsize + 3 > len(buffer):
            raise CorruptRecord(f"the record at byte {int(places.max())} is cut off")
        # A head begins at every byte, as far as numpy is concerned; those of records are taken out in one go.
        everywhere = np.ndarray((max(len(buffer) - head.itemsize + 1, 0),), head, buffer=data, strides=(1,))
        self.heads = everywhere[places]
        self._head_bytes = head.itemsize
        self._measure()

    def _measure(self) -> None:
        """Find body, topic and properties of each record, and check that they fill it."""
        heads, places = self.heads, self.places
        totals = heads["total_bytes"].astype(np.int64)
        ends = places + totals
        self._body_at = places + self._head_bytes
        body_bytes = heads["body_bytes"].astype(np.int64)
        self._body_end = self._body_at + body_bytes
        is_bad = (heads["magic"] != MESSAGE_MAGIC) | (body_bytes < 0) | (ends > len(self._buffer))
        is_bad |= self._body_end + 3 > ends
        self.refuse(is_bad)
        self._topic_at = self._body_end + 1
        self._topic_end = self._topic_at + self._buffer[self._body_end]
        self.refuse(self._topic_end + 2 > ends)
        self._properties_at = self._topic_end + 2
        high, low = self._buffer[self._topic_end].astype(np.int64), self._buffer[self._topic_end + 1]
        self._properties_end = self._properties_at + high * 256 + low
        self.refuse(self._properties_end != ends)

    def refuse(self, is_bad: NDArray[np.bool_], why: str = "its parts do not add up to its size") -> None:
        """Raise for the first of these, if any is."""
        if is_bad.any():
            head = self.heads[int(np.argmax(is_bad))]
            raise CorruptRecord(
                f"the record of queue offset {head['queue_offset']} at log offset {head['log_offset']} of "
                f"{self._origin} is damaged: {why} ({head['total_bytes']} bytes)"
            )

    def refuse_other_bodies(self) -> None:
        """Raise for a record whose body is not the one that was stored, by its checksum: a step for each record."""
        sums = np.fromiter(_checksums(self._stored_bodies), np.int64, len(self.places)) & CRC_MASK
        self.refuse(self.heads["crc"] != sums, "its body has another checksum than it says")

    def are_of(self, topic: bytes) -> NDArray[np.bool_]:
        """Which of them have this topic."""
        is_same: NDArray[np.bool_] = self._topic_end - self._topic_at == len(topic)
        same = np.flatnonzero(is_same)
        letters = self._buffer[self._topic_at[same, np.newaxis] + np.arange(len(topic))]
        is_same[same] = (letters == np.frombuffer(topic, np.uint8)).all(axis=1)
        return is_same

    def batch(self, columns: Sequence[str]) -> pa.RecordBatch:
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        if not len(self.places):
            return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return pa.RecordBatch.from_arrays([_MAKERS[name](self) for name in columns], schema=schema)

    # ------------------------------------------------------------------------------------------- fixed parts

    def numbers(self, field: str, kind: Any) -> pa.Array:
        return pa.array(self.heads[field].astype(kind))

    def times(self, field: str) -> pa.Array:
        return pa.array(self.heads[field].astype(np.int64) * 1000).cast(_TIME)

    def hosts(self, field: str) -> pa.Array:
        """Few different hosts: each is written once."""
        different, rows = np.unique(self.heads[field], return_inverse=True)
        texts = pa.array([host_text(host.tobytes()) for host in different], pa.string())
        return texts.take(pa.array(rows.reshape(-1)))

    @property
    def brokers(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._broker, pa.string()), len(self.places))

    @cached_property
    def offset_ids(self) -> pa.Array:
        heads = self.heads
        host_bytes = heads.dtype["store_host"].itemsize
        raw = np.empty((len(heads), host_bytes + 8), np.uint8)
        raw[:, :host_bytes] = np.ascontiguousarray(heads["store_host"]).view(np.uint8).reshape(len(heads), host_bytes)
        raw[:, host_bytes:] = np.ascontiguousarray(heads["log_offset"]).view(np.uint8).reshape(len(heads), 8)
        text = np.empty((len(heads), 2 * raw.shape[1]), np.uint8)
        text[:, 0::2] = _HEX[raw >> 4]
        text[:, 1::2] = _HEX[raw & 15]
        offsets = np.arange(len(heads) + 1, dtype=np.int32) * text.shape[1]
        return pa.Array.from_buffers(
            pa.string(), len(heads), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(text.tobytes())]
        )

    # ---------------------------------------------------------------------------------------- variable parts

    def _gather(self, begins: _Places, ends: _Places) -> pa.Array:
        """The bytes between these places as one column.

        The whole buffer is seen as pieces, wanted ones and those between them in turn; Arrow copies the wanted ones.
        """
        if (alike := self._gather_alike(begins, ends)) is not None:
            return alike
        # Offsets are 32 bits wide, so the buffer is cut at its first and last wanted byte.
        base = int(begins[0]) if len(begins) else 0
        bounds = np.empty(2 * len(begins) + 1, np.int64)
        bounds[0:-1:2], bounds[1::2] = begins, ends
        bounds[-1] = bounds[-2]
        if (np.diff(bounds) < 0).any():  # records that are not in the order of their places
            order = np.argsort(begins, kind="stable")
            return self._gather(begins[order], ends[order]).take(pa.array(np.argsort(order)))
        offsets = (bounds - base).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)[base:]]
        pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return pieces.take(pa.array(np.arange(0, 2 * len(begins), 2)))

    def _gather_alike(self, begins: _Places, ends: _Places) -> pa.Array | None:
        """The same for pieces of one length at equal distances, a third of the time; None if they are not that."""
        sizes, steps = ends - begins, np.diff(begins)
        if len(begins) < 2 or steps[0] <= 0 or (sizes != sizes[0]).any() or (steps != steps[0]).any():
            return None
        count, size = len(begins), int(sizes[0])
        table = np.ndarray(
            (count, size), np.uint8, buffer=self._data, offset=int(begins[0]), strides=(int(steps[0]), 1)
        )
        offsets = np.arange(count + 1, dtype=np.int32) * size
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(table))]
        return pa.Array.from_buffers(pa.binary(), count, buffers)

    @cached_property
    def _stored_bodies(self) -> pa.Array:
        """As they are stored, compressed ones too."""
        return self._gather(self._body_at, self._body_end)

    @property
    def bodies(self) -> pa.Array:
        is_compressed = (self.heads["sys_flag"] & BODY_COMPRESSED) != 0
        if is_compressed.any():
            return self._inflated(np.flatnonzero(is_compressed).tolist())
        return self._stored_bodies

    def _inflated(self, rows: list[int]) -> pa.Array:
        """The bodies, of which these are compressed. Raises `TooLarge`."""
        bodies: list[bytes] = self._stored_bodies.to_pylist()
        size = 0
        for row in rows:
            bodies[row] = self._inflate(bodies[row], row)
            size += len(bodies[row])
            if size > INFLATED_BYTES and row:
                raise TooLarge(row)
        return pa.array(bodies, pa.binary())

    def _inflate(self, body: bytes, row: int) -> bytes:
        head = self.heads[row]
        try:
            return decompress(body, compression_type(int(head["sys_flag"])), bytes_max=INFLATED_BYTES_MAX)
        except ProtocolError as error:
            raise CorruptRecord(
                f"the body of queue offset {head['queue_offset']} at log offset {head['log_offset']} of "
                f"{self._origin} cannot be inflated: {error}"
            ) from error

    @property
    def topics(self) -> pa.Array:
        return _as_text(self._gather(self._topic_at, self._topic_end))

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
        """(the row, the name, the value) of every property, in the order of writing."""
        texts = _as_text(self._gather(self._properties_at, self._properties_end))
        split = pc.split_pattern(texts, PAIR_END)
        rows = pc.list_parent_indices(split).to_numpy()
        parts = pc.split_pattern(split.flatten(), NAME_END, max_splits=1)
        is_pair = pc.equal(pc.list_value_length(parts), 2).to_numpy(zero_copy_only=False)
        flat = pc.list_flatten(parts.filter(pa.array(is_pair)))
        firsts = np.arange(0, len(flat), 2)
        found, values = flat.take(pa.array(firsts)), flat.take(pa.array(firsts + 1))
        rows = rows[is_pair]
        is_there = pc.and_(pc.greater(pc.binary_length(found), 0), pc.greater(pc.binary_length(values), 0))
        if not pc.all(is_there).as_py():
            found, values = found.filter(is_there), values.filter(is_there)
            rows = rows[is_there.to_numpy(zero_copy_only=False)]
        return rows, found, values

    def value_of(self, name: str) -> pa.Array:
        """One property of each message; null where it has none."""
        rows, found, values = self._pairs
        hits = np.flatnonzero(pc.equal(found, name).to_numpy(zero_copy_only=False))
        chosen = np.full(len(self.places), -1, np.int64)
        chosen[rows[hits]] = hits  # of a repeated name the last one counts
        return values.take(pa.array(chosen, mask=chosen < 0))

    @property
    def tags(self) -> pa.Array:
        return self.value_of(names.TAGS)

    @property
    def message_ids(self) -> pa.Array:
        return pc.coalesce(self.value_of(names.UNIQ_KEY), self.offset_ids)

    @property
    def keys(self) -> pa.Array:
        texts = pc.fill_null(self.value_of(names.KEYS), "")
        split = pc.split_pattern(texts, names.KEY_SEPARATOR)
        flat = split.flatten()
        is_key = pc.greater(pc.binary_length(flat), 0)
        if pc.all(is_key).as_py():
            return split
        rows = pc.list_parent_indices(split).to_numpy()[is_key.to_numpy(zero_copy_only=False)]
        return pa.ListArray.from_arrays(_offsets_of(rows, len(self.places)), flat.filter(is_key))

    @property
    def properties(self) -> pa.Array:
        rows, found, values = self._last_of_each()
        return pa.MapArray.from_arrays(_offsets_of(rows, len(self.places)), found, values)

    def _last_of_each(self) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
        """The pairs without those whose name comes again in the same message: a map has each name once."""
        rows, found, values = self._pairs
        codes = found.dictionary_encode().indices.to_numpy().astype(np.int64)
        places = rows * (int(codes.max()) + 1 if len(codes) else 1) + codes
        _, last = np.unique(places[::-1], return_index=True)
        if len(last) == len(places):
            return rows, found, values
        keep = np.sort(len(places) - 1 - last)
        return rows[keep], found.take(pa.array(keep)), values.take(pa.array(keep))


def _checksums(bodies: pa.Array) -> Iterator[int]:
    """CRC-32 of each, with its highest bit."""
    _, places, data = bodies.buffers()
    bounds = np.frombuffer(places, np.int32, len(bodies) + 1)
    sizes = np.diff(bounds)
    if len(sizes) and sizes[0] and (sizes == sizes[0]).all():
        alike = memoryview(data)[bounds[0] : bounds[-1]]
        return whole_crcs(map(itemgetter(0), Struct(f"{sizes[0]}s").iter_unpack(alike)))
    return whole_crcs(bodies.to_numpy(zero_copy_only=False))


def _offsets_of(rows: NDArray[np.int64], count: int) -> pa.Array:
    """List offsets for elements that belong to these rows, in order."""
    return pa.array(np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32))


def _as_text(column: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 is replaced, as everywhere."""
    text = column.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in column.to_pylist()], pa.string())
    return text


Choose: TypeAlias = Callable[[Records, _Places], NDArray[np.bool_]]
"""Looks at records of one layout and says which are wanted; also told which of all the records they are, by number."""

_MAKERS: Final[dict[str, Callable[[Records], pa.Array]]] = {
    "topic": lambda records: records.topics,
    "tags": lambda records: records.tags,
    "keys": lambda records: records.keys,
    "body": lambda records: records.bodies,
    "properties": lambda records: records.properties,
    "broker": lambda records: records.brokers,
    "queue_id": lambda records: records.numbers("queue_id", np.int32),
    "queue_offset": lambda records: records.numbers("queue_offset", np.int64),
    "log_offset": lambda records: records.numbers("log_offset", np.int64),
    "msg_id": lambda records: records.message_ids,
    "offset_msg_id": lambda records: records.offset_ids,
    "born_timestamp": lambda records: records.times("born_ms"),
    "store_timestamp": lambda records: records.times("store_ms"),
    "born_host": lambda records: records.hosts("born_host"),
    "store_host": lambda records: records.hosts("store_host"),
    "reconsume_times": lambda records: records.numbers("reconsumed", np.int32),
    "sys_flag": lambda records: records.numbers("sys_flag", np.int32),
}
