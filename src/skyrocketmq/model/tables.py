"""What servers keep tables of: topics and their queues, consumer groups and their subscriptions."""

from __future__ import annotations

from enum import Enum

import msgspec

from skyrocketmq.model.numbers import Int32, Int64

__all__ = [
    "SQL92_EXPRESSION",
    "TAG_EXPRESSION",
    "DataVersion",
    "MessageQueue",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "TopicConfig",
    "TopicFilterType",
]

TAG_EXPRESSION = "TAG"
SQL92_EXPRESSION = "SQL92"


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


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of a topic on one broker. Queues sort by topic, broker and number: every consumer of a group has to
    see them in the same order to arrive at the same share."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


class SubscriptionGroupConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A consumer group on one broker; the defaults are those of a group that was created automatically."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1  # the slave that is suggested to consumers who are far behind
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """A group's subscription to a topic, as clients send it and brokers keep it.

    `tags_set` and `code_set` (the Java hashes of the tags) are empty for all messages and for SQL92. `sub_version` is
    the time at which the client built it: a broker replaces what it has only by something newer.
    """

    topic: str = ""
    sub_string: str = "*"
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[Int32] = frozenset()
    sub_version: Int64 = 0
    expression_type: str | None = TAG_EXPRESSION  # None and "" count as TAG
    class_filter_mode: bool = False  # of a former feature of Apache RocketMQ; always false


class DataVersion(msgspec.Struct, frozen=True, order=True):
    """When a table was last changed and how often. Two versions are the same only if both numbers are.

    A broker raises it with every change, so that a name server or a slave sees by one comparison whether the rest of a
    registration needs a look.
    """

    timestamp: Int64 = 0
    counter: Int64 = 0

    def next(self, now_ms: int) -> DataVersion:
        """The version after a change made now."""
        return DataVersion(timestamp=now_ms, counter=self.counter + 1)
