"""What a broker knows about a topic."""

from __future__ import annotations

from enum import Enum

import msgspec

from skyrocketmq.model.numbers import Int32

__all__ = ["TopicConfig", "TopicFilterType"]


class TopicFilterType(Enum):
    """Whether a message of the topic has one tag or several. In Java's order: enums may travel by position."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A topic on one broker. Reading and writing have separate queue counts, so that a topic can be shrunk: first the
    writers stop using the last queues, later the readers."""

    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6  # bits: 4 read, 2 write, 1 inherit
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: Int32 = 0
    order: bool = False
