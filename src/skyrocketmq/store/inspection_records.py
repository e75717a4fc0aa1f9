"""Where a record of the log belongs: its cell in a queue, and its keys in the index. For everything that checks stores.

What messages with the same topic and properties share is worked out once, as for appending.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.names import check_topic
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.learnt import Learnt
from skyrocketmq.store.record_shape import RecordShape, split_unique_key
from skyrocketmq.wire.records import ScannedRecord

__all__ = ["Belongs", "RecordPlaces"]

_NO_CELL_FLAG: Final = 0x4  # half messages, and rolled back ones
_TRANSACTION_BITS: Final = 0xC


class Belongs(NamedTuple):
    """The places of one record."""

    topic: str
    cell: tuple[int, int, int] | None  # log offset, size, tags code; None for what is in no queue
    key_hashes: list[int]


class RecordPlaces:
    """Says of each record where it belongs. `illegal` are the topics that have no place, and why."""

    def __init__(self, config: StoreConfig) -> None:
        self.illegal: dict[str, str] = {}
        self._levels_ms = config.delay_levels_ms
        self._has_index = config.index_enable
        self._shapes: Learnt[tuple[bytes, bytes, int, bytes], RecordShape | None] = Learnt()
        self._topics: dict[bytes, TopicKeys | None] = {}

    def of(self, record: ScannedRecord) -> Belongs | None:
        """None for a record of an illegal topic."""
        total, name, queue_id, _, log_offset, sys_flag, store_ms, _, properties = record
        shape, key = self._shape(name, properties)
        if shape is None:
            return None
        cell: tuple[int, int, int] | None = None
        if not sys_flag & _NO_CELL_FLAG and queue_id >= 0:
            tags_code = shape.tags_code if shape.delay_ms is None else store_ms + shape.delay_ms
            cell = (log_offset, total, tags_code)
        hashes: list[int] = []
        if self._has_index and sys_flag & _TRANSACTION_BITS != _TRANSACTION_BITS:
            hash_of = shape.topic.hash_of
            hashes = [hash_of(one) for one in ((key, *shape.keys) if key else shape.keys)]
        return Belongs(shape.topic.topic, cell, hashes)

    def _shape(self, name: bytes, properties: bytes) -> tuple[RecordShape | None, bytes]:
        before, key, after = split_unique_key(properties)
        place = (name, before, len(key), after)
        if place in self._shapes:
            return self._shapes[place], key
        topic = self._topic(name)
        shape = None if topic is None else RecordShape(topic, before, key, after, delay_levels_ms=self._levels_ms)
        self._shapes.learn(place, shape, text_bytes=len(before) + len(after))
        return shape, key

    def _topic(self, name: bytes) -> TopicKeys | None:
        if name not in self._topics:
            text = name.decode("utf-8", "replace")
            try:
                check_topic(text)
                self._topics[name] = TopicKeys(text)
            except IllegalArgument as error:
                self._topics[name] = None
                self.illegal[text] = str(error)
        return self._topics[name]
