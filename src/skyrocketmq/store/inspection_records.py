"""Where a record of the log belongs: its cell in a queue, and its keys in the index. For everything that checks stores.

By the plain form of `hot.log_records`, which is the specification: what is checked may have been built by the compiled.
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocketmq.config import StoreConfig
from skyrocketmq.hot import key_hash
from skyrocketmq.hot.log_records import index_keys, property_pairs, tags_code
from skyrocketmq.store.topic_starts import TopicStarts
from skyrocketmq.wire.records import ScannedRecord

__all__ = ["Belongs", "RecordPlaces"]


class Belongs(NamedTuple):
    """The places of one record."""

    topic: str
    cell: tuple[int, int, int] | None  # log offset, size, tags code; None for what is in no queue
    key_hashes: list[int]


class RecordPlaces:
    """Says of each record where it belongs. `illegal` are the topics that have no place, and why."""

    def __init__(self, config: StoreConfig) -> None:
        self._levels_ms = config.delay_levels_ms
        self._has_index = config.index_enable
        self._topics = TopicStarts()
        self.illegal = self._topics.illegal

    def of(self, record: ScannedRecord) -> Belongs | None:
        """None for a record of an illegal topic."""
        start = self._topics[record.topic]
        if start is None:
            return None
        pairs = property_pairs(record.properties)
        code = tags_code(record, pairs, self._levels_ms)
        keys = index_keys(record, pairs) if self._has_index else []
        return Belongs(
            record.topic.decode("utf-8", "replace"),
            None if code is None else (record.log_offset, record.total_bytes, code),
            [key_hash(key, start) for key in keys],
        )
