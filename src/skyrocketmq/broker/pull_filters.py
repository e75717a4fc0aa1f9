"""Filters that look into messages: asked of the records that a pull comes across.

`select` is the store's question, about a block of records; `wants` is that of held pulls, about the properties of a
message that has just arrived.

Rule: how many messages one pull looks at depends on how much work one of them is, so that no group's expression can
keep the broker from its other work; the group goes on where it stopped.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, Protocol

from skyrocketmq.broker.consumer_filters import ConsumerFilters, RegisteredFilter
from skyrocketmq.filters import SqlFilter
from skyrocketmq.hot.layout import RECORD_SYS_FLAG_AT
from skyrocketmq.model.properties import RETRY_TOPIC
from skyrocketmq.store.consume_queue import CELL
from skyrocketmq.store.queue_extension import ExtensionUnit
from skyrocketmq.store.reading import Buffer, RecordFilter
from skyrocketmq.wire.properties import find_property
from skyrocketmq.wire.records import HEADS

__all__ = ["PullFilter", "RetryFilter", "SqlPullFilter", "record_topic"]

CONDITIONS_A_PULL: Final = 4_000  # comparisons: about a millisecond
SCAN_MIN: Final = 32  # messages that a pull looks at, whatever the expression

_SYS_FLAG_LOW_BYTE: Final = RECORD_SYS_FLAG_AT + 3
_HEAD_BYTES: Final = tuple(head.size for head in HEADS)
_number_at: Final = Struct(">i").unpack_from
_RETRY_TOPIC: Final = RETRY_TOPIC.encode()


class PullFilter(RecordFilter, Protocol):
    """What a pull asks of messages beside their tags."""

    def wants(self, properties: bytes) -> bool: ...


class SqlPullFilter:
    """An SQL92 expression; `registered` if it is that of a group, whose bits are in the messages' bit maps."""

    __slots__ = ("_registered", "scan_max", "select", "wants")

    def __init__(self, sql: SqlFilter, registered: RegisteredFilter | None = None) -> None:
        self._registered = registered
        self.scan_max = max(SCAN_MIN, CONDITIONS_A_PULL // sql.condition_count)
        self.select = sql.select
        self.wants = sql.matches_text

    def may_match(self, unit: ExtensionUnit) -> bool:
        """Whether the bit map of a message leaves it possible: it counts if it was made with this filter around."""
        registered = self._registered
        if registered is None or not registered.counts_for(unit.store_ms):
            return True
        if len(unit.bit_map) != registered.bit_map_bytes:
            return True
        return int.from_bytes(unit.bit_map, "little") & registered.mask == registered.mask


class RetryFilter:
    """The messages of a group's retry topic, filtered by what the group asks of the topics that they came from."""

    __slots__ = ("_filters", "_group", "scan_max")

    def __init__(self, group: str, filters: ConsumerFilters) -> None:
        self._group = group
        self._filters = filters
        self.scan_max = SCAN_MIN

    def may_match(self, unit: ExtensionUnit) -> bool:
        return True

    def select(self, view: Buffer, base: int, cells: bytes) -> bytes:
        verdicts = bytearray()
        for position, size, _ in CELL.iter_unpack(cells):
            at = position - base
            if not 0 <= at <= len(view) - size:
                break
            try:
                verdicts.append(self.wants(_record_properties(view[at : at + size])))
            except (IndexError, struct.error):
                verdicts.append(True)  # its lengths are wrong: whoever checks what is taken finds it damaged
        return bytes(verdicts)

    def wants(self, properties: bytes) -> bool:
        topic = find_property(properties, _RETRY_TOPIC)
        found = None if topic is None else self._filters.find(topic.decode("utf-8", "replace"), self._group)
        return found is None or found.sql.matches_text(properties)


def record_topic(record: Buffer) -> str:
    """The topic of a record of the store, which has been checked before."""
    body_at = _HEAD_BYTES[(record[_SYS_FLAG_LOW_BYTE] >> 4) & 3]
    topic_at = body_at + int(_number_at(record, body_at - 4)[0])
    return bytes(record[topic_at + 1 : topic_at + 1 + record[topic_at]]).decode("utf-8", "replace")


def _record_properties(record: Buffer) -> bytes:
    """The properties at the end of a record."""
    body_at = _HEAD_BYTES[(record[_SYS_FLAG_LOW_BYTE] >> 4) & 3]
    topic_at = body_at + int(_number_at(record, body_at - 4)[0])  # its length is one byte, that of the properties two
    return bytes(record[topic_at + 1 + record[topic_at] + 2 :])
