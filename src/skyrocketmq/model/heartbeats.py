"""What a client tells every broker each thirty seconds: who it is, what it produces, what it consumes."""

from __future__ import annotations

from enum import Enum

import msgspec

from skyrocketmq.model.tables import SubscriptionData

__all__ = ["ConsumeFromWhere", "ConsumeType", "ConsumerData", "HeartbeatData", "MessageModel", "ProducerData"]

# Members stand in Java's order: an enum may travel by its position.


class ConsumeType(Enum):
    """Who drives consumption: the application that pulls, or the client that pushes to a listener."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(Enum):
    """Whether each member of a group gets every message, or the members share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(Enum):
    """Where a group without stored offset begins. The second, third and fourth are obsolete and mean the first."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class ProducerData(msgspec.Struct, frozen=True, rename="camel"):
    """A producer group of the client."""

    group_name: str = ""


class ConsumerData(msgspec.Struct, frozen=True, rename="camel"):
    """A consumer group of the client, with everything it subscribes to: the broker forgets topics that are missing."""

    group_name: str = ""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


class HeartbeatData(msgspec.Struct, frozen=True):
    """One client, as its broker should know it."""

    client_id: str = msgspec.field(default="", name="clientID")  # Apache's spelling, here and in code 35 only
    producer_data_set: tuple[ProducerData, ...] = msgspec.field(default=(), name="producerDataSet")
    consumer_data_set: tuple[ConsumerData, ...] = msgspec.field(default=(), name="consumerDataSet")
