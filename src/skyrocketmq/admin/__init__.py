"""Administration of a cluster: what `skyrocketmq admin` and the dashboard stand on, for programs too.

`Admin` (in `admin`) has a member for each kind of thing that is administered, each in a module of its name: `cluster`,
`brokers`, `topics`, `name_servers`. They ask through `gateway`; `nodes` says which brokers are meant, `fan_out` what
happens when several are asked and one of them fails. Values stand with those who return them, or in `*_values`.

Nothing here prints, and no bare dict of texts travels where a typed value can.
"""

from __future__ import annotations

from skyrocketmq.admin.admin import Admin
from skyrocketmq.admin.brokers import ProducerClient, Rate, Replica, Statistic
from skyrocketmq.admin.cluster import BrokerState
from skyrocketmq.admin.nodes import BrokerNode
from skyrocketmq.admin.runtime import BrokerRuntime, Load
from skyrocketmq.admin.topic_values import QueueStats, TopicChange, TopicStats, TopicTraffic, TopicUse

__all__ = [
    "Admin",
    "BrokerNode",
    "BrokerRuntime",
    "BrokerState",
    "Load",
    "ProducerClient",
    "QueueStats",
    "Rate",
    "Replica",
    "Statistic",
    "TopicChange",
    "TopicStats",
    "TopicTraffic",
    "TopicUse",
]
