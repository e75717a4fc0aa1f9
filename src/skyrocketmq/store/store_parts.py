"""The parts of a store, put together from its configuration."""

from __future__ import annotations

from typing import Final

from skyrocketmq.config import BrokerRole, FlushDiskType, StoreConfig
from skyrocketmq.hot import CellLimits
from skyrocketmq.ports import Clock, Disk, LocalMachine, Machine
from skyrocketmq.store.batch import BatchWriter
from skyrocketmq.store.cleaning import Cleaner
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.cut_mark import CUT_NAME
from skyrocketmq.store.ended_queues import EndedQueues
from skyrocketmq.store.flushed_note import FLUSHED_NAME, FlushedNote
from skyrocketmq.store.flushing import LogFlusher
from skyrocketmq.store.index import Index
from skyrocketmq.store.index_file import IndexLayout
from skyrocketmq.store.key_feed import KeyFeed
from skyrocketmq.store.queue_extension import QueueExtensions
from skyrocketmq.store.recovery import Recovered
from skyrocketmq.store.reservations import Reservations
from skyrocketmq.store.statistics import StoreStatistics
from skyrocketmq.store.statuses import RunningState
from skyrocketmq.store.transient_pool import TransientPool
from skyrocketmq.store.upkeep import Upkeep
from skyrocketmq.store.vouchers import VOUCHERS_NAME, Vouchers

__all__ = ["UNKNOWN_HOST", "StoreParts"]

UNKNOWN_HOST: Final = bytes(8)


class StoreParts:
    """Everything that a store is made of, closed as yet; `MessageStore` opens it."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        store_host: bytes = UNKNOWN_HOST,
        machine: Machine | None = None,
    ) -> None:
        self.config = config
        self.state = RunningState()
        self.statistics = StoreStatistics()
        self.recovered = Recovered()  # what opening found
        waits_for_disk = (
            config.flush_disk_type is FlushDiskType.SYNC_FLUSH and config.broker_role is not BrokerRole.SLAVE
        )
        self.log = CommitLog(
            disk,
            config.commit_log_directories,
            file_bytes=config.commit_log_file_bytes,
            cut_mark=config.root_path / CUT_NAME,
            vouchers=Vouchers(disk, config.root_path / VOUCHERS_NAME),
            ships_flushed_only=waits_for_disk,
            flushed_note=FlushedNote(disk, config.root_path / FLUSHED_NAME),
            read_only=config.read_only_commit_log_directories,
        )
        self.ended = EndedQueues(disk, config.root_path)
        self.queues = ConsumeQueues(
            disk, config.root_path / "consumequeue", file_bytes=config.queue_file_bytes, ended=self.ended
        )
        self.extensions: QueueExtensions | None = self._extensions(disk, config) if config.queue_ext_enable else None
        self.index: Index | None = None
        if config.index_enable:
            layout = IndexLayout(slot_count=config.index_slot_count, entry_count=config.index_entry_count)
            self.index = Index(disk, clock, config.root_path / "index", layout)
        self.reservations = Reservations(disk, config.root_path, self.queues, clock=clock)
        self.flusher = LogFlusher(
            self.log,
            clock=clock,
            state=self.state,
            statistics=self.statistics,
            timeout_ms=config.sync_flush_timeout_ms,
        )
        self.writer = BatchWriter(
            config,
            log=self.log,
            queues=self.queues,
            key_feed=KeyFeed(self.index, self.state),
            state=self.state,
            statistics=self.statistics,
            clock=clock,
            store_host=store_host,
            pool=TransientPool(least_pages=config.commit_least_pages) if config.uses_transient_pool else None,
            extensions=self.extensions,
            reservations=self.reservations,
            flusher=self.flusher if waits_for_disk else None,
        )
        self._upkeep = Upkeep(
            config,
            disk=disk,
            clock=clock,
            log=self.log,
            queues=self.queues,
            index=self.index,
            writer=self.writer,
            flusher=self.flusher,
            reservations=self.reservations,
            ended=self.ended,
            state=self.state,
        )
        self.cleaner = Cleaner(
            config,
            disk=disk,
            clock=clock,
            log=self.log,
            queues=self.queues,
            index=self.index,
            upkeep=self._upkeep,
            state=self.state,
        )
        self._disk = disk
        self._clock = clock
        self._reads = ColdReads(disk, clock)
        self._memory_bytes = (machine or LocalMachine()).memory_bytes()
        self._limits = _limits(config, self._memory_bytes)

    @staticmethod
    def _extensions(disk: Disk, config: StoreConfig) -> QueueExtensions:
        return QueueExtensions(disk, config.root_path / "consumequeue_ext", file_bytes=config.queue_ext_file_bytes)

    def apply_config(self, config: StoreConfig) -> None:
        """Follow a change of the keys that may change while the store is open."""
        self.config = config
        self._limits = _limits(config, self._memory_bytes)
        self.writer.apply_config(config)
        self.flusher.timeout_ms = config.sync_flush_timeout_ms
        self._upkeep.apply_config(config)
        self.cleaner.apply_config(config)

    def set_store_host(self, host: bytes) -> None:
        """The broker's packed address for new records."""
        self.writer.store_host = host

    async def delete_topic_queues(self, topic: str) -> None:
        """Delete the queues of a topic; if it comes back they go on where they ended, so that no number is given twice.

        Its records stay until the log is cleaned.
        """
        await self._upkeep.delete_topic(topic)


def _limits(config: StoreConfig, memory_bytes: int) -> CellLimits:
    return CellLimits(
        bytes_max=config.pull_bytes_max_in_memory,
        count_max=config.pull_count_max_in_memory,
        disk_bytes_max=config.pull_bytes_max_on_disk,
        disk_count_max=config.pull_count_max_on_disk,
        memory_bytes=memory_bytes * config.memory_ratio_percent // 100,
        file_bytes=config.commit_log_file_bytes,
    )
