"""The broker's figures: runtime information (28), one table of texts with what it does, has and has done; and the
statistics of one topic, group or queue (315)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from skyrocketmq import hot
from skyrocketmq.broker.access_rules import ADMIN, SIGNATURE
from skyrocketmq.broker.answers import refusal
from skyrocketmq.broker.runtime_figures import RuntimeFigures, byte_text
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.net import Request, answers
from skyrocketmq.ports import Disk, DiskUsage
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.bodies_admin import BrokerStats
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.headers_admin import BrokerStatsHeader
from skyrocketmq.wire.headers_codec import NoFields
from skyrocketmq.wire.versions import VERSION_4_9_7, version_name

__all__ = ["RuntimeHandlers"]

NO_LIMIT = 2**31 - 1


class RuntimeHandlers:
    """The answer, from the store, its counters and the disk."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        figures: RuntimeFigures,
        statistics: BrokerStatistics,
        more_figures: Sequence[Callable[[], Mapping[str, str]]],
        disk: Disk,
    ) -> None:
        self._config = config
        self._store = store
        self._figures = figures
        self._statistics = statistics
        self._more_figures = more_figures
        self._disk = disk

    @answers(RequestCode.GET_BROKER_RUNTIME_INFO, needs=SIGNATURE)
    async def runtime_info(self, request: Request[NoFields]) -> KvTable:
        """Every figure of the running broker, as text."""
        table = {
            "brokerVersionDesc": version_name(VERSION_4_9_7),
            "brokerVersion": str(VERSION_4_9_7),
            "codeForm": hot.description(),
            **self._figures.table(),
            **self._log_figures(),
            **self._queue_figures(),
            **{name: text for figures in self._more_figures for name, text in figures().items()},
            **await self._disk.run(self._disk_figures),
            "earliestMessageTimeStamp": str(await self._store.earliest_time()),
        }
        return KvTable(table=table)

    @answers(RequestCode.VIEW_BROKER_STATS_DATA, needs=ADMIN)
    def view_statistics(self, request: Request[BrokerStatsHeader]) -> BrokerStats:
        """One statistic of one topic, group or queue, over the last minute, hour and day."""
        name = request.required(request.header.stats_name, "statsName")
        key = request.required(request.header.stats_key, "statsKey")
        found = self._statistics.find(name, key)
        if found is None:
            remark = f"nothing was counted as {name} of {key}: check both, or there was nothing to count yet"
            raise refusal(ResponseCode.SYSTEM_ERROR, remark)
        return found

    def _log_figures(self) -> dict[str, str]:
        log, pool_bytes = self._store.log, self._store.writer.pool_bytes
        in_pool = {} if pool_bytes is None else {"remainHowManyDataToCommit": byte_text(pool_bytes)}
        return in_pool | {
            "commitLogMinOffset": str(log.min_offset),
            "commitLogMaxOffset": str(log.max_offset),
            "remainHowManyDataToFlush": byte_text(max(0, log.max_offset - log.flushed_offset)),
            # Queues and index are written together with the log: nothing is ever behind, and nothing waits in a buffer.
            "dispatchBehindBytes": "0",
            "dispatchMaxBuffer": "0",
        }

    def _queue_figures(self) -> dict[str, str]:
        """Requests are answered as they come: the queues of Apache's thread pools do not exist, so they are empty."""
        config = self._config.current
        capacities = {
            "send": config.ignored.send_queue_capacity,
            "pull": config.ignored.pull_queue_capacity,
            "query": config.ignored.query_queue_capacity,
        }
        table = {}
        for name, capacity in capacities.items():
            table[f"{name}ThreadPoolQueueSize"] = "0"
            table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return table | {
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": str(config.ignored.end_transaction_queue_capacity),
            "pageCacheLockTimeMills": "0",
            "remainTransientStoreBufferNumbs": str(NO_LIMIT),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_at_ms),
        }

    def _disk_figures(self) -> dict[str, str]:
        """How full the partitions are, the emptiest first in line for new files. Blocks."""
        store = self._config.current.store
        usages = {path: self._usage(path) for path in store.commit_log_directories}
        ratios = {path: usage.used_ratio for path, usage in usages.items()}
        total_bytes = sum(usage.total_bytes for usage in usages.values())
        free_bytes = sum(usage.free_bytes for usage in usages.values())
        return {
            **{f"commitLogDiskRatio_{path}": str(ratio) for path, ratio in ratios.items()},
            "commitLogDiskRatio": str(min(ratios.values())),
            "consumeQueueDiskRatio": str(self._usage(store.root_path).used_ratio),
            "commitLogDirCapacity": f"Total : {byte_text(total_bytes)}, Free : {byte_text(free_bytes)}.",
        }

    def _usage(self, path: Path) -> DiskUsage:
        return self._disk.usage(path if self._disk.exists(path) else self._config.current.store.root_path)
