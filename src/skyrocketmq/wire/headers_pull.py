"""Headers of reading: pulls, queries by key, a message by its place, and the offsets that go with them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.wire.headers_codec import Header

__all__ = [
    "EarliestStoreTimeAnswer",
    "OffsetAnswer",
    "PullMessageAnswer",
    "PullMessageHeader",
    "QueryConsumerOffsetHeader",
    "QueryMessageAnswer",
    "QueryMessageHeader",
    "QueueHeader",
    "SearchOffsetHeader",
    "UpdateConsumerOffsetHeader",
    "ViewMessageHeader",
]


class PullMessageHeader(Header):
    """11: from where in which queue, how many, and whether the broker may hold the request until something comes."""

    is_fast: ClassVar[bool] = True

    consumer_group: str | None = None
    topic: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    max_msg_nums: Int32 | None = None
    sys_flag: Int32 | None = None  # bits: 1 commit, 2 may be held, 4 has a subscription, 8 class filter, 16 lite
    commit_offset: Int64 | None = None
    suspend_timeout_ms: Int64 | None = msgspec.field(default=None, name="suspendTimeoutMillis")
    subscription: str | None = None
    sub_version: Int64 | None = None
    expression_type: str | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class PullMessageAnswer(Header):
    """11: where to go on. A Java client needs all four in answers with the codes 0, 19, 20 and 21."""

    is_fast: ClassVar[bool] = True

    suggest_which_broker_id: Int64 | None = None
    next_begin_offset: Int64 | None = None
    min_offset: Int64 | None = None
    max_offset: Int64 | None = None


class QueryMessageHeader(Header):
    """12: messages with a key, between two times."""

    topic: str | None = None
    key: str | None = None
    max_num: Int32 | None = None
    begin_timestamp: Int64 | None = None
    end_timestamp: Int64 | None = None
    is_unique_key: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageAnswer(Header):
    """12: how far the index is."""

    index_last_update_timestamp: Int64 | None = None
    index_last_update_log_offset: Int64 | None = msgspec.field(default=None, name="indexLastUpdatePhyoffset")


class ViewMessageHeader(Header):
    """33: the message at a place in the commit log. `any_record`, which is ours: also one that is in no queue."""

    offset: Int64 | None = None
    any_record: bool | None = None


class QueryConsumerOffsetHeader(Header):
    """14: how far a group is in a queue."""

    consumer_group: str | None = None
    topic: str | None = None
    queue_id: Int32 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class UpdateConsumerOffsetHeader(Header):
    """15: how far a group is in a queue, now."""

    consumer_group: str | None = None
    topic: str | None = None
    queue_id: Int32 | None = None
    commit_offset: Int64 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class SearchOffsetHeader(Header):
    """29: the first message of a queue that was stored at a time."""

    topic: str | None = None
    queue_id: Int32 | None = None
    timestamp: Int64 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class QueueHeader(Header):
    """30, 31, 32: a queue, whose largest or smallest offset or first store time is asked for."""

    topic: str | None = None
    queue_id: Int32 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class OffsetAnswer(Header):
    """14, 29, 30, 31: an offset in a queue."""

    offset: Int64 | None = None


class EarliestStoreTimeAnswer(Header):
    """32: when the first message of a queue was stored, -1 if there is none."""

    timestamp: Int64 | None = None
