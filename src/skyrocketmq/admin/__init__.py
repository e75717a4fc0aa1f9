"""Administration of a cluster: what `skyrocketmq admin` and the dashboard stand on, for programs too.

`Admin` (in `admin`) has a member for each kind of thing that is administered, each in a module of its name: `cluster`,
`brokers`, `name_servers`, `topics`, `groups` (with `members`), `offsets`, `messages` (with `tracks`), `dead_letters`,
`accounts`, `traffic`. They ask through `gateway`; `nodes` says which brokers are meant, `fan_out` what
happens when several are asked and one of them fails. Values stand with those who return them, or in `*_values`.

Nothing here prints, and no bare dict of texts travels where a typed value can.
"""

from __future__ import annotations

from skyrocketmq.admin.accounts import AccessRules, AccessVersion, Account
from skyrocketmq.admin.admin import Admin
from skyrocketmq.admin.brokers import ProducerClient, Rate, Replica, Statistic
from skyrocketmq.admin.cluster import BrokerState
from skyrocketmq.admin.group_values import (
    ClientInfo,
    GroupChange,
    GroupConnections,
    GroupFinding,
    GroupProgress,
    GroupSummary,
    QueueProgress,
    TimeSpan,
)
from skyrocketmq.admin.message_values import ConsumerTrack, ConsumeTrace, MessageTrace, Probe, TrackState
from skyrocketmq.admin.nodes import BrokerNode
from skyrocketmq.admin.offsets import OffsetChange, Place
from skyrocketmq.admin.runtime import BrokerRuntime, Load
from skyrocketmq.admin.topic_values import QueueStats, TopicChange, TopicStats, TopicTraffic, TopicUse

__all__ = [
    "AccessRules",
    "AccessVersion",
    "Account",
    "Admin",
    "BrokerNode",
    "BrokerRuntime",
    "BrokerState",
    "ClientInfo",
    "ConsumeTrace",
    "ConsumerTrack",
    "GroupChange",
    "GroupConnections",
    "GroupFinding",
    "GroupProgress",
    "GroupSummary",
    "Load",
    "MessageTrace",
    "OffsetChange",
    "Place",
    "Probe",
    "ProducerClient",
    "QueueProgress",
    "QueueStats",
    "Rate",
    "Replica",
    "Statistic",
    "TimeSpan",
    "TopicChange",
    "TopicStats",
    "TopicTraffic",
    "TopicUse",
    "TrackState",
]
