"""Headers of sending: a message, a batch, a reply, and a message that a consumer hands back.

The send header exists twice with the same meaning: V1 with names (10, 324) and V2 with single letters (310, 320, 325),
which every client of the last ten years uses. Both have the same attributes here: a handler need not tell them apart.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.wire.headers_codec import Header

__all__ = [
    "PushReplyMessageHeader",
    "SendBackHeader",
    "SendMessageAnswer",
    "SendMessageHeader",
    "SendMessageHeaderV2",
]


class SendMessageHeader(Header):
    """10, 324: where a message goes and what it is; its body is the frame's."""

    producer_group: str | None = None
    topic: str | None = None
    default_topic: str | None = None  # the template for a topic that is created by this send
    default_topic_queue_nums: Int32 | None = None
    queue_id: Int32 | None = None  # below 0: the broker picks one
    sys_flag: Int32 | None = None
    born_timestamp: Int64 | None = None
    flag: Int32 | None = None  # the application's own
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None  # only in a send to a retry topic
    batch: bool = False  # decides how the body is read, whatever the code
    broker_name: str | None = msgspec.field(default=None, name="bname")


_LETTERS = dict(
    zip(
        [name for name in SendMessageHeader.__struct_fields__ if name != "broker_name"],
        "abcdefghijklm",
        strict=True,
    )
)


class SendMessageHeaderV2(Header, rename={**_LETTERS, "broker_name": "n"}):
    """310, 320, 325: the same, with a letter for each field."""

    is_fast: ClassVar[bool] = True

    producer_group: str | None = None
    topic: str | None = None
    default_topic: str | None = None
    default_topic_queue_nums: Int32 | None = None
    queue_id: Int32 | None = None
    sys_flag: Int32 | None = None
    born_timestamp: Int64 | None = None
    flag: Int32 | None = None
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: str | None = None


class SendMessageAnswer(Header):
    """10, 310, 320, 324, 325: where the message is. A Java client needs the first three in every successful answer."""

    is_fast: ClassVar[bool] = True

    msg_id: str | None = None  # offset ids; of a batch all of them, with commas between
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None  # of a batch the first
    transaction_id: str | None = None
    region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: str | None = msgspec.field(default=None, name="TRACE_ON")


class SendBackHeader(Header):
    """36: a message that a consumer could not handle, named by its place in the commit log."""

    offset: Int64 | None = None
    group: str | None = None
    delay_level: Int32 | None = None  # -1: dead letters at once; 0: the broker decides; else that level
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class PushReplyMessageHeader(Header):
    """326: a reply on its way to the client that asked; the body is the reply's."""

    producer_group: str | None = None
    topic: str | None = None
    default_topic: str | None = None
    default_topic_queue_nums: Int32 | None = None
    queue_id: Int32 | None = None
    sys_flag: Int32 | None = None
    born_timestamp: Int64 | None = None
    flag: Int32 | None = None
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str | None = None
    store_host: str | None = None
    store_timestamp: Int64 | None = None
