"""What a broker knows about a consumer group."""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int32, Int64

__all__ = ["SubscriptionGroupConfig"]


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
