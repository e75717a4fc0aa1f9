"""All tables of a broker: those with a file (topics, groups, offsets, filters, locks) and those in memory only.

    async with BrokerTables.open(config, clock=clock, disk=disk) as tables: ...

Opening loads the files; leaving the block writes what has changed since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skyrocketmq.broker.clients import ConsumerTable, ProducerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.queue_locks import QueueLocks
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.subscription_differences import SubscriptionDifferences
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import FlushFailed, StoreError
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.loop_watch import LoopWatch, start_task
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.store import ConfigFile
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import (
    ConsumerFilterTable,
    ConsumerOffsetTable,
    QueueLockTable,
    SubscriptionGroupTable,
    TopicConfigTable,
)
from skyrocketmq.wire.json_dialect import pretty_parts
from skyrocketmq.wire.lock_parts import lock_table_parts

__all__ = ["BrokerTables"]

logger = logging.getLogger(__name__)


class BrokerTables:
    """The tables, and the savers of those that have a file."""

    def __init__(self, config: ConfigHolder[BrokerConfig], *, clock: Clock, disk: Disk) -> None:
        """Use `open`; this only makes empty tables."""
        self.topics = TopicTable(config, clock)
        self.groups = GroupTable(config, clock)
        self.offsets = ConsumerOffsets()
        self.filters = ConsumerFilters(
            BloomFilter(
                error_percent=config.current.bloom_error_percent,
                subscriber_count=config.current.filter_consumers_expected,
            )
        )
        self.consumers: ConsumerTable[Connection] = ConsumerTable()
        self.producers: ProducerTable[Connection] = ProducerTable()
        self.differences: SubscriptionDifferences[Connection] = SubscriptionDifferences()
        self.locks = QueueLocks(ttl_s=config.current.queue_lock_ttl_ms / 1000)
        self._config = config
        self._clock = clock
        self._disk = disk
        directory = Path(config.current.store.root_path) / "config"
        self._topics_file = ConfigFile(disk, directory / "topics.json")
        self._groups_file = ConfigFile(disk, directory / "subscriptionGroup.json")
        self._offsets_file = ConfigFile(disk, directory / "consumerOffset.json")
        self._filters_file = ConfigFile(disk, directory / "consumerFilter.json")
        self._locks_file = ConfigFile(disk, directory / "queueLocks.json")

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ConfigHolder[BrokerConfig],
        *,
        clock: Clock,
        disk: Disk,
        flush: Callable[[], Awaitable[None]] | None = None,
        watch: LoopWatch | None = None,
    ) -> AsyncIterator[BrokerTables]:
        """Tables with what their files hold; `flush` makes the log durable, of which offsets must not be ahead.

        Raises `StoreError` for a file that cannot be read, nor its `.bak`.
        """
        tables = cls(config, clock=clock, disk=disk)
        await disk.run(tables._load)
        tables._make_savers(flush, watch)
        savers: tuple[Saver[Any], ...] = (tables.topics_saver, tables.groups_saver, tables.locks_saver)
        writing = [start_task(saver.run(), name="save tables", watch=watch) for saver in savers]
        try:
            yield tables
        finally:
            for task in writing:
                task.cancel()
            await asyncio.gather(*writing, return_exceptions=True)
            await tables._save_all()

    def _load(self) -> None:
        topics = self._topics_file.load(lambda data: decode_body(TopicConfigTable, data))
        if topics is not None:
            self.topics.restore(topics.topic_config_table, topics.data_version)
        groups = self._groups_file.load(lambda data: decode_body(SubscriptionGroupTable, data))
        if groups is not None:
            self.groups.restore(groups.subscription_group_table, groups.data_version)
        offsets = self._offsets_file.load(lambda data: decode_body(ConsumerOffsetTable, data))
        if offsets is not None:
            self.offsets.restore(offsets.offset_table)
        filters = self._filters_file.load(lambda data: decode_body(ConsumerFilterTable, data))
        if filters is not None:
            self.filters.restore(filters, now_ms=self._clock.now_ms())
        try:
            locks = self._locks_file.load(lambda data: decode_body(QueueLockTable, data))
        except StoreError as error:
            # No reason not to start: in a minute consumers have their locks anew.
            logger.warning("locks not read", extra={"reason": str(error)})
        else:
            if locks is not None:
                age_s = (self._clock.now_ms() - locks.noted_ms) / 1000 if locks.noted_ms else 0.0
                self.locks.restore(locks.owner_table, now_s=self._clock.monotonic(), age_s=age_s)

    def _make_savers(self, flush: Callable[[], Awaitable[None]] | None, watch: LoopWatch | None) -> None:
        disk, clock = self._disk, self._clock
        self.topics_saver = Saver(
            "topics.json",
            version=lambda: self.topics.data_version,
            snapshot=lambda: TopicConfigTable(
                data_version=self.topics.data_version, topic_config_table=self.topics.table()
            ),
            encode=pretty_parts,
            write=self._topics_file.save_bytes,
            disk=disk,
            clock=clock,
            watch=watch,
        )
        self.groups_saver = Saver(
            "subscriptionGroup.json",
            version=lambda: self.groups.data_version,
            snapshot=lambda: SubscriptionGroupTable(
                data_version=self.groups.data_version, subscription_group_table=self.groups.table()
            ),
            encode=pretty_parts,
            write=self._groups_file.save_bytes,
            disk=disk,
            clock=clock,
            watch=watch,
        )
        self.offsets_saver = Saver(
            "consumerOffset.json",
            version=lambda: self.offsets.change_count,
            snapshot=lambda: ConsumerOffsetTable(offset_table=self.offsets.live_table()),
            encode=pretty_parts,
            write=self._offsets_file.save_bytes,
            disk=disk,
            clock=clock,
            # Else a power cut could take messages that the file says were read, and give their numbers to others.
            before_write=flush,
            watch=watch,
        )
        self.filters_saver = Saver(
            "consumerFilter.json",
            version=lambda: self.filters.change_count,
            snapshot=self.filters.table,
            encode=pretty_parts,
            write=self._filters_file.save_bytes,
            disk=disk,
            clock=clock,
            watch=watch,
        )
        self.locks_saver = Saver(
            "queueLocks.json",
            version=lambda: self.locks.change_count,
            snapshot=lambda: QueueLockTable(noted_ms=self._clock.now_ms(), owner_table=self.locks.owners()),
            encode=lock_table_parts,
            write=self._locks_file.save_bytes,
            disk=disk,
            clock=clock,
            watch=watch,
        )
        self.locks.listeners.append(self.locks_saver.changed)
        self.topics.listeners.append(self.topics_saver.changed)
        self.groups.listeners.append(self.groups_saver.changed)

    async def _save_all(self) -> None:
        """Write what has changed, each table on its own: one that cannot be written keeps no other from it."""
        failures = []
        for saver in (self.topics_saver, self.groups_saver, self.offsets_saver, self.filters_saver, self.locks_saver):
            try:
                await saver.save()
            except FlushFailed as error:
                # Said where it happened, and of no use to say how to stop. Groups read a little again.
                logger.warning("offsets not saved, the log is not durable", extra={"reason": str(error)})
            except OSError as error:
                failures.append(error)
        if failures:
            raise ExceptionGroup("tables could not be saved", failures)

    async def save_offsets(self) -> None:
        """Make the log durable and write the offsets, if any has changed. Raises `FlushFailed` or `OSError`."""
        await self.offsets_saver.save()

    async def save_filters(self) -> None:
        """Drop the filters of groups that are gone for good, and write the others, if any has changed."""
        self.filters.drop_expired(now_ms=self._clock.now_ms(), ttl_ms=self._config.current.filter_data_ttl_ms)
        await self.filters_saver.save()
