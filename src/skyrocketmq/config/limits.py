"""How much one client of a broker may ask for: beyond, it is refused and the others are served on.

All of these are far above what Apache's clients reach by themselves. `docs/security.md` has the whole list of
limits, also of those that are no setting.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.config.fields import Section, conf

__all__ = ["LimitsConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsConfig(Section, title="limits"):
    """What one request, or one connection, may take."""

    heartbeat_groups_max: int = conf(
        "heartbeatGroupsMax",
        default=1_000,
        doc="ours: groups of one client, producers and consumers each; its heartbeat is refused above",
        changeable=True,
        at_least=1,
    )
    heartbeat_subscriptions_max: int = conf(
        "heartbeatSubscriptionsMax",
        default=10_000,
        doc="ours: topics that one heartbeat subscribes to, over all its groups; it is refused above",
        changeable=True,
        at_least=1,
    )
    heartbeat_tags_max: int = conf(
        "heartbeatTagsMax",
        default=65_536,
        doc="ours: tags that one heartbeat subscribes to, over all its groups; it is refused above",
        changeable=True,
        at_least=1,
    )
    pull_tags_max: int = conf(
        "pullTagsMax",
        default=1_024,
        doc="ours: tags of a pull, or of a subscription; it is refused above",
        changeable=True,
        at_least=1,
    )
    queue_locks_per_group_max: int = conf(
        "queueLocksPerGroupMax",
        default=16_384,
        doc="ours: queues that the consumers of one group may have locked; a request for more is refused",
        changeable=True,
        at_least=1,
    )
    queue_locks_max: int = conf(
        "queueLocksMax",
        default=262_144,
        doc="ours: queues that the consumers of all groups may have locked; a request for more is refused",
        changeable=True,
        at_least=1,
    )
    batch_messages_max: int = conf(
        "batchMessagesMax",
        default=65_536,
        doc="ours: messages of one batch; it is refused above",
        changeable=True,
        at_least=1,
    )
    held_pulls_max: int = conf(
        "heldPullsPerConnectionMax",
        default=10_000,
        doc="ours: pulls of one connection that wait for messages; above, one that finds nothing is answered at once",
        changeable=True,
        at_least=1,
    )
    held_pull_ms_max: int = conf(
        "heldPullMillisMax",
        default=300_000,
        doc="ours: for how long a pull waits at most, whatever it asks for",
        changeable=True,
        long=True,
        at_least=0,
    )
