"""The topics of one broker: which exist, how they come to be, and what of them the name servers are told.

Rule 1: this is memory alone. Whoever changes the table is told nothing about files or name servers; the broker's
`listeners` write topics.json, drop what was cached about a topic, and announce it.
Rule 2: a topic is a frozen value. A change replaces it, so a value once looked up stays what it was.
Rule 3: every change gives the table a new data version; name servers take topics only from a version they do not know.
Rule 4: whether a topic is ordered is decided by the name servers' configuration alone (`apply_order_topics`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.model.flags import TOPIC_UNIT, TOPIC_UNIT_SUBSCRIBED
from skyrocketmq.model.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    OFFSET_MOVED_TOPIC,
    PERM_INHERIT,
    PERM_READ_WRITE,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPICS,
    dlq_topic,
    is_retry_topic,
    is_system_topic,
    local_system_topics,
    reply_topic,
    retry_topic,
)
from skyrocketmq.ports import Clock

__all__ = ["TopicListener", "TopicTable", "TopicsChanged", "topics_at_start"]

CLUSTER_TOPIC_QUEUES = 16
BENCHMARK_QUEUES = 1024
SCHEDULE_QUEUES = 18  # what is announced; the levels in use may be fewer or more


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """What happened to the table. `is_announced`: the name servers have to hear of it before the next regular time."""

    names: frozenset[str]
    is_announced: bool


TopicListener = Callable[[TopicsChanged], object]


class TopicTable:
    """The topics of one broker, by name. `find` is a dict look-up: the hot path may call it for each message."""

    def __init__(self, config: ConfigHolder[BrokerConfig], clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._topics = {topic.topic_name: topic for topic in topics_at_start(config.current)}
        self._local_system_topics = local_system_topics(
            cluster=config.current.cluster_name, broker=config.current.broker_name
        )
        self.data_version = DataVersion(timestamp=clock.now_ms(), counter=0)
        self.listeners: list[TopicListener] = []

    # -- questions

    def find(self, topic: str) -> TopicConfig | None:
        return self._topics.get(topic)

    def __len__(self) -> int:
        return len(self._topics)

    def names(self) -> list[str]:
        return list(self._topics)

    def table(self) -> dict[str, TopicConfig]:
        """A copy of the table, safe to write from another thread."""
        return dict(self._topics)

    def is_system_topic(self, topic: str) -> bool:
        """Whether administrators may neither create nor delete it."""
        return is_system_topic(topic, also=self._local_system_topics)

    def system_topics(self) -> list[str]:
        return sorted(SYSTEM_TOPICS | self._local_system_topics)

    # -- topics that come to be by use

    def create_on_send(self, topic: str, *, template: str, queue_count: int, unit_mode: bool) -> TopicConfig | None:
        """The topic of a message that was sent to a name nobody created; `None` if it may not be.

        The sender names a template, and how many queues it would like; the template must hand its permissions on. A
        retry topic is made even without one, since its messages would otherwise have nowhere to go.
        """
        known = self._topics.get(topic)
        if known is not None:
            return known
        is_retry = is_retry_topic(topic)
        sys_flag = (TOPIC_UNIT_SUBSCRIBED if is_retry else TOPIC_UNIT) if unit_mode else 0
        model = self._find_template(template)
        if model is not None:
            queue_count = max(0, min(queue_count, model.write_queue_nums))
            created = msgspec.structs.replace(
                model,
                topic_name=topic,
                read_queue_nums=queue_count,
                write_queue_nums=queue_count,
                perm=model.perm & ~PERM_INHERIT,
                topic_sys_flag=sys_flag,
                order=False,
            )
        elif is_retry:
            created = _topic(topic, 1, sys_flag=sys_flag)
        else:
            return None
        self._store([created])
        return created

    def _find_template(self, template: str) -> TopicConfig | None:
        # A template that a file of earlier days still holds gives nothing on once automatic creation is switched off.
        if template == AUTO_CREATE_TOPIC and not self._config.current.auto_create_topic:
            return None
        model = self._topics.get(template)
        return model if model is not None and model.perm & PERM_INHERIT else None

    def get_retry_topic(self, group: str, *, queue_count: int, unit_mode: bool = False) -> TopicConfig:
        """The group's retry topic, made if need be."""
        sys_flag = TOPIC_UNIT_SUBSCRIBED if unit_mode else 0
        return self._get(retry_topic(group), queue_count, sys_flag=sys_flag)

    def get_dlq_topic(self, group: str) -> TopicConfig:
        """The group's dead-letter topic, made if need be."""
        return self._get(dlq_topic(group), 1)

    def get_system_topic(self, topic: str) -> TopicConfig:
        """A system topic that is made on its first use, such as the one of half messages."""
        return self._get(topic, 1)

    def _get(self, topic: str, queue_count: int, *, sys_flag: int = 0) -> TopicConfig:
        known = self._topics.get(topic)
        if known is None:
            known = _topic(topic, queue_count, sys_flag=sys_flag)
            self._store([known])
        return known

    # -- changes that are asked for

    def put(self, topic: TopicConfig) -> TopicConfig:
        """Create or replace a topic. Its order flag stays what the name servers made it."""
        known = self._topics.get(topic.topic_name)
        topic = msgspec.structs.replace(topic, order=known is not None and known.order)
        self._store([topic])
        return topic

    def delete(self, topic: str) -> bool:
        """Drop a topic; false if there is none. Name servers are not told: they are asked to forget it separately."""
        if self._topics.pop(topic, None) is None:
            return False
        self._changed(frozenset({topic}), is_announced=False)
        return True

    def apply_order_topics(self, ordered: Collection[str]) -> frozenset[str]:
        """Set the order flag of the topics that the name servers list, clear all others; returns those that changed."""
        changed = [
            msgspec.structs.replace(topic, order=not topic.order)
            for topic in self._topics.values()
            if topic.order != (topic.topic_name in ordered)
        ]
        if changed:
            self._store(changed, is_announced=False)
        return frozenset(topic.topic_name for topic in changed)

    def apply_config(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Follow a configuration that was changed while the broker runs."""
        if after.auto_create_topic and AUTO_CREATE_TOPIC not in self._topics:
            self._store([_template(after)])
        if before.permission != after.permission:
            # Every topic is announced with another permission now, though none of them has changed.
            self._changed(frozenset(self._topics), is_announced=True)

    # -- the whole table: the file, the slave's copy, the registration

    def restore(self, table: Mapping[str, TopicConfig], data_version: DataVersion) -> None:
        """Begin with what the file holds; topics of the start that it does not know stay."""
        self._topics.update(table)
        self.data_version = data_version

    def replace_all(self, table: Mapping[str, TopicConfig], data_version: DataVersion) -> None:
        """Become a copy of another broker's table, version and all."""
        names = frozenset(self._topics) | frozenset(table)
        self._topics = dict(table)
        self.data_version = data_version
        self._tell(TopicsChanged(names, is_announced=False))

    def registered(self, names: Iterable[str] | None = None) -> dict[str, TopicConfig]:
        """What the name servers are told: all topics, or those of `names` that exist.

        A broker that may not be read from, or not be written to, announces its own permission for every topic.
        """
        topics = self._topics
        chosen = dict(topics) if names is None else {name: topics[name] for name in names if name in topics}
        permission = self._config.current.permission
        if permission & PERM_READ_WRITE == PERM_READ_WRITE:
            return chosen
        return {
            name: msgspec.structs.replace(topic, perm=permission, topic_sys_flag=0, order=False)
            for name, topic in chosen.items()
        }

    # -- bookkeeping

    def _store(self, topics: Collection[TopicConfig], *, is_announced: bool = True) -> None:
        self._topics.update((topic.topic_name, topic) for topic in topics)
        self._changed(frozenset(topic.topic_name for topic in topics), is_announced=is_announced)

    def _changed(self, names: frozenset[str], *, is_announced: bool) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        self._tell(TopicsChanged(names, is_announced))

    def _tell(self, change: TopicsChanged) -> None:
        for listener in self.listeners:
            listener(change)


def topics_at_start(config: BrokerConfig) -> list[TopicConfig]:
    """The topics that a broker has before anyone asked for one."""
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _topic(config.cluster_name, CLUSTER_TOPIC_QUEUES, perm=_inherited_perm(config.cluster_topic_enable)),
        _topic(config.broker_name, 1, perm=_inherited_perm(config.broker_topic_enable)),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        _topic(reply_topic(config.cluster_name), 1),
    ]
    if config.auto_create_topic:
        topics.append(_template(config))
    if config.trace_topic_enable:
        topics.append(_topic(config.trace_topic, 1))
    return topics


def _inherited_perm(is_enabled: bool) -> int:
    return PERM_READ_WRITE | PERM_INHERIT if is_enabled else PERM_INHERIT


def _template(config: BrokerConfig) -> TopicConfig:
    return _topic(AUTO_CREATE_TOPIC, config.default_topic_queue_count, perm=PERM_READ_WRITE | PERM_INHERIT)


def _topic(name: str, queue_count: int, *, perm: int = PERM_READ_WRITE, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        perm=perm,
        topic_sys_flag=sys_flag,
    )
