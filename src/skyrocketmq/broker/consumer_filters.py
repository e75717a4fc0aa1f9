"""The expressions that groups filter topics by: the table behind consumerFilter.json.

Rule 1: heartbeats register filters; of two versions the newer one counts. An expression that does not compile is no
filter: pulls of its group are then refused, with the reason, instead of getting everything.
Rule 2: a filter dies with its group, or when the group no longer subscribes to the topic so. It is kept for a day, so
that a group that comes back finds the bit maps of the messages stored meanwhile; `born_ms` says from when on those
count.
Rule 3: the table is memory; its owner writes it at intervals, whenever `change_count` has moved. What is loaded is
taken to be dead since a while, until its group shows itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Final

from skyrocketmq.filters import SqlError, SqlFilter, compile_sql
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.model import SQL92_EXPRESSION, TAG_EXPRESSION, SubscriptionData
from skyrocketmq.wire.bodies_tables import (
    BloomFilterData,
    ConsumerFilter,
    ConsumerFiltersOfTopic,
    ConsumerFilterTable,
)

__all__ = ["ConsumerFilters", "RegisteredFilter", "is_tag_type"]

logger = logging.getLogger(__name__)

LOADED_DEAD_SINCE_MS: Final = 30_000  # when a broker starts, its consumers have been away for about so long


def is_tag_type(expression_type: str | None) -> bool:
    """Whether a subscription filters by tags; no type at all means so too."""
    return not expression_type or expression_type == TAG_EXPRESSION


class RegisteredFilter:
    """A group's filter on a topic. `mask` has the group's bits in the bit maps of messages."""

    __slots__ = ("bit_map_bytes", "bit_places", "born_ms", "client_version", "dead_ms", "group", "mask", "sql", "topic")

    def __init__(
        self, *, topic: str, group: str, sql: SqlFilter, client_version: int, born_ms: int, bloom: BloomFilter
    ) -> None:
        self.topic = topic
        self.group = group
        self.sql = sql
        self.client_version = client_version
        self.born_ms = born_ms
        self.dead_ms = 0
        self.bit_places = bloom.places(f"{group}#{topic}")
        self.mask = bloom.mask(self.bit_places)
        self.bit_map_bytes = bloom.byte_count

    @property
    def is_dead(self) -> bool:
        return self.dead_ms >= self.born_ms

    def counts_for(self, store_ms: int) -> bool:
        """Whether the bit map of a message stored then was made with this filter in the table."""
        return store_ms > self.born_ms


class ConsumerFilters:
    """The filters on all topics of one broker."""

    def __init__(self, bloom: BloomFilter) -> None:
        self.bloom = bloom
        self.change_count = 0
        self.listeners: list[Callable[[], object]] = []  # called after each change
        self._by_topic: dict[str, dict[str, RegisteredFilter]] = {}
        self._topics_of: dict[str, set[str]] = {}  # by group: the topics that it may have filters on

    def find(self, topic: str, group: str) -> RegisteredFilter | None:
        filters = self._by_topic.get(topic)
        return None if filters is None else filters.get(group)

    def on(self, topic: str) -> Collection[RegisteredFilter]:
        """All filters on a topic, also those of groups that may come back."""
        filters = self._by_topic.get(topic)
        return filters.values() if filters else ()

    def has_any(self, group: str) -> bool:
        return any(self._filters_of(group))

    def _filters_of(self, group: str) -> Iterator[RegisteredFilter]:
        for topic in self._topics_of.get(group, ()):
            filter_ = self.find(topic, group)
            if filter_ is not None:
                yield filter_

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], *, now_ms: int) -> None:
        """Take in what a heartbeat says of a group."""
        for _ in self.register_in_steps(group, subscriptions, now_ms=now_ms):
            pass

    def register_in_steps(
        self, group: str, subscriptions: Iterable[SubscriptionData], *, now_ms: int
    ) -> Generator[None, None, None]:
        """The same in steps: one for each expression, which may take a while."""
        topics = set()
        for subscription in subscriptions:
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                topics.add(subscription.topic)
                self._register(group, subscription, now_ms)
                yield
        for filter_ in self._filters_of(group):
            if filter_.topic not in topics:
                self._bury(filter_, now_ms)

    def _register(self, group: str, subscription: SubscriptionData, now_ms: int) -> None:
        topic, expression = subscription.topic, subscription.sub_string
        known = self.find(topic, group)
        if known is not None and subscription.sub_version <= known.client_version:
            if subscription.sub_version == known.client_version:
                self._revive(known)
            return
        if known is not None and known.sql.expression == expression:
            known.client_version = subscription.sub_version
            self._changed()
            self._revive(known)
            return
        sql = _compiled(expression, subscription.expression_type, topic=topic, group=group)
        if sql is None:
            if known is not None:
                del self._by_topic[topic][group]
                self._forget(topic, group)
                self._changed()
            return
        self._topics_of.setdefault(group, set()).add(topic)
        self._by_topic.setdefault(topic, {})[group] = RegisteredFilter(
            topic=topic,
            group=group,
            sql=sql,
            client_version=subscription.sub_version,
            born_ms=now_ms,
            bloom=self.bloom,
        )
        self._changed()
        logger.info("filter registered", extra={"topic": topic, "group": group, "expression": expression[:1000]})

    def unregister(self, group: str, *, now_ms: int) -> None:
        """The last member of a group is gone."""
        for filter_ in self._filters_of(group):
            self._bury(filter_, now_ms)

    def _bury(self, filter_: RegisteredFilter, now_ms: int) -> None:
        if not filter_.is_dead:
            filter_.dead_ms = max(now_ms, filter_.born_ms)
            self._changed()

    def _revive(self, filter_: RegisteredFilter) -> None:
        if filter_.is_dead:
            filter_.dead_ms = 0
            self._changed()

    def drop_expired(self, *, now_ms: int, ttl_ms: int) -> None:
        """Forget the filters of groups that have been away for too long."""
        for topic, filters in list(self._by_topic.items()):
            for group, each in list(filters.items()):
                if each.is_dead and now_ms - each.dead_ms >= ttl_ms:
                    del filters[group]
                    self._forget(topic, group)
                    self._changed()
                    logger.info("filter expired", extra={"topic": topic, "group": group})
            if not filters:
                del self._by_topic[topic]

    def _changed(self) -> None:
        self.change_count += 1
        for listener in self.listeners:
            listener()

    def _forget(self, topic: str, group: str) -> None:
        topics = self._topics_of.get(group, set())
        topics.discard(topic)
        if not topics:
            self._topics_of.pop(group, None)

    # -- the file

    def table(self) -> ConsumerFilterTable:
        """The whole table as values, safe to write from another thread."""
        return ConsumerFilterTable(
            filter_data_by_topic={
                topic: ConsumerFiltersOfTopic(
                    group_filter_data={group: self.describe(each) for group, each in filters.items()}, topic=topic
                )
                for topic, filters in self._by_topic.items()
            }
        )

    def describe(self, filter_: RegisteredFilter) -> ConsumerFilter:
        """One filter as its file has it."""
        return ConsumerFilter(
            bloom_filter_data=BloomFilterData(bit_num=self.bloom.bit_count, bit_pos=filter_.bit_places),
            born_time=filter_.born_ms,
            client_version=filter_.client_version,
            consumer_group=filter_.group,
            dead=filter_.is_dead,
            dead_time=filter_.dead_ms,
            expression=filter_.sql.expression,
            expression_type=SQL92_EXPRESSION,
            topic=filter_.topic,
        )

    def restore(self, table: ConsumerFilterTable, *, now_ms: int) -> None:
        """Begin with what the file holds; with nothing, if its bit maps are of another size."""
        loaded: dict[str, dict[str, RegisteredFilter]] = {}
        for topic, filters in table.filter_data_by_topic.items():
            for group, each in filters.group_filter_data.items():
                sql = _compiled(each.expression, each.expression_type, topic=topic, group=group)
                if sql is None:
                    continue
                made = RegisteredFilter(
                    topic=topic,
                    group=group,
                    sql=sql,
                    client_version=each.client_version,
                    born_ms=each.born_time,
                    bloom=self.bloom,
                )
                bits = each.bloom_filter_data
                if bits is None or bits.bit_num != self.bloom.bit_count or bits.bit_pos != made.bit_places:
                    logger.warning("filters of another Bloom filter are not loaded", extra={"topic": topic})
                    return
                made.dead_ms = each.dead_time or max(now_ms - LOADED_DEAD_SINCE_MS, made.born_ms)
                loaded.setdefault(topic, {})[group] = made
        self._by_topic = loaded
        self._topics_of = {}
        for topic, filters_ in loaded.items():
            for group in filters_:
                self._topics_of.setdefault(group, set()).add(topic)


def _compiled(expression: str, kind: str | None, *, topic: str, group: str) -> SqlFilter | None:
    """The filter of an expression; None, and a warning, if it cannot be used."""
    where = {"topic": topic, "group": group, "expression": expression[:1000]}
    if kind != SQL92_EXPRESSION:
        logger.warning("filter of an unknown kind", extra={**where, "kind": kind})
        return None
    try:
        compiled = compile_sql(expression)
    except SqlError as error:
        logger.warning("filter cannot be used", extra={**where, "reason": error.reason, "at": error.at})
        return None
    if compiled.ignored:
        logger.warning("part of a filter is ignored", extra={**where, "ignored": compiled.ignored[:1000]})
    return compiled
