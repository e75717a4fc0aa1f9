"""The bit fields of the protocol.

Rule 1: bits that the hot path tests are plain integers; what people print or choose is an `IntEnum`.
Rule 2: bits without a meaning here are carried along untouched, because a newer peer may know them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

# sysFlag of a message ------------------------------------------------------------------------------------------------

BODY_COMPRESSED: Final = 0x0001
MULTI_TAGS: Final = 0x0002  # set by the broker for topics whose filter type is MULTI_TAG
TRANSACTION_MASK: Final = 0x000C
BORN_HOST_V6: Final = 0x0010  # both host bits are set by the broker, from the addresses it sees
STORE_HOST_V6: Final = 0x0020
NEED_UNWRAP: Final = 0x0040  # reserved by Apache RocketMQ, carried untouched
INNER_BATCH: Final = 0x0080  # reserved by Apache RocketMQ, carried untouched
COMPRESSION_MASK: Final = 0x0700
COMPRESSION_SHIFT: Final = 8


class TransactionType(IntEnum):
    """The transaction bits of a message's sysFlag, in place."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


class CompressionType(IntEnum):
    """How a body is compressed. The sysFlag carries the number in bits 8 to 10; old producers leave it 0 for zlib."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def transaction_type(sys_flag: int) -> TransactionType:
    """The part that a message plays in a transaction."""
    return TransactionType(sys_flag & TRANSACTION_MASK)


def with_transaction_type(sys_flag: int, kind: TransactionType) -> int:
    """The flag with its transaction bits replaced, as a commit does to a half message."""
    return sys_flag & ~TRANSACTION_MASK | kind


def is_dispatched_to_queues(sys_flag: int) -> bool:
    """Whether the message gets a place in a consume queue: prepared and rolled back ones never do."""
    return not sys_flag & 0x4  # PREPARED and ROLLBACK share this bit


# sysFlag of a pull request -------------------------------------------------------------------------------------------

PULL_COMMIT_OFFSET: Final = 0x01  # the header's commitOffset is to be stored
PULL_SUSPEND: Final = 0x02  # the broker may hold the request until a message arrives
PULL_SUBSCRIPTION: Final = 0x04  # the header carries the expression itself
PULL_CLASS_FILTER: Final = 0x08  # legacy: a filter class on a filter server
PULL_LITE: Final = 0x10  # sent by a lite pull consumer


# topicSysFlag of a topic ---------------------------------------------------------------------------------------------

TOPIC_UNIT: Final = 0x01  # the topic was made by a producer in unit mode
TOPIC_UNIT_SUBSCRIBED: Final = 0x02  # a consumer in unit mode subscribes to it
