"""The store's keys: files, flushing, cleaning, reading, index, replication, delay levels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from skyrocketmq.config.fields import GIB, KIB, MIB, Section, conf, part
from skyrocketmq.config.ignored import IgnoredStoreKeys
from skyrocketmq.config.machine import user_home
from skyrocketmq.errors import ConfigError

__all__ = ["EMBEDDED_DEFAULTS", "BrokerRole", "FlushDiskType", "StoreConfig"]

QUEUE_ENTRY_BYTES = 20
_LEVEL = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

# Defaults of `skyrocketmq up` and of tests: a fresh broker takes megabytes, not gigabytes. Apache's proportion of four
# index entries a hash slot is kept.
EMBEDDED_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "mappedFileSizeCommitLog": str(64 * MIB),
        "mappedFileSizeConsumeQueue": str(30_000 * QUEUE_ENTRY_BYTES),
        "maxHashSlotNum": "50000",
        "maxIndexNum": "200000",
    }
)


class BrokerRole(StrEnum):
    """What a broker is to those of its name."""

    ASYNC_MASTER = "ASYNC_MASTER"  # acknowledges before its slaves have the message
    SYNC_MASTER = "SYNC_MASTER"  # acknowledges once a slave has it
    SLAVE = "SLAVE"


class FlushDiskType(StrEnum):
    """When a message counts as stored."""

    ASYNC_FLUSH = "ASYNC_FLUSH"  # in the page cache; on disk a little later
    SYNC_FLUSH = "SYNC_FLUSH"  # on disk


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig(Section, title="store"):
    """A store's configuration when it is opened."""

    # role
    broker_role: BrokerRole = conf(
        "brokerRole", default=BrokerRole.ASYNC_MASTER, doc="ASYNC_MASTER, SYNC_MASTER or SLAVE"
    )
    flush_disk_type: FlushDiskType = conf(
        "flushDiskType",
        default=FlushDiskType.ASYNC_FLUSH,
        doc="ASYNC_FLUSH acknowledges from memory, SYNC_FLUSH from disk",
    )
    skip_lost_offsets: bool = conf(
        "skipLostQueueOffsets",
        default=True,
        doc="ours: after a power cut queues skip numbers that lost messages may have had; false for Apache's slaves",
    )

    # files
    root_path: Path = conf(
        "storePathRootDir", factory=lambda: user_home() / "store", default_text="~/store", doc="directory of the store"
    )
    commit_log_path: str | None = conf(
        "storePathCommitLog",
        default=None,
        default_text="commitlog below storePathRootDir",
        doc="directory of the commit log, or several joined by commas",
        reserved=True,
    )
    read_only_commit_log_paths: str | None = conf(
        "readOnlyCommitLogStorePaths",
        default=None,
        doc="those of the directories that get no new files",
        changeable=True,
    )
    path_separator: str = conf(
        "rocketmq.broker.multiPathSplitter", default=",", doc="what joins several directories in one value"
    )
    commit_log_file_bytes: int = conf(
        "mappedFileSizeCommitLog", default=1 * GIB, doc="size of a commit log file", at_least=4 * KIB
    )
    queue_file_bytes: int = conf(
        "mappedFileSizeConsumeQueue",
        default=300_000 * QUEUE_ENTRY_BYTES,
        doc="size of a consume queue file, rounded up to whole entries of 20 bytes",
        multiple_of=QUEUE_ENTRY_BYTES,
        at_least=1,
    )
    queue_ext_enable: bool = conf(
        "enableConsumeQueueExt", default=False, doc="keep the extension files of the consume queues"
    )
    queue_ext_file_bytes: int = conf(
        "mappedFileSizeConsumeQueueExt", default=48 * MIB, doc="size of such a file", at_least=4 * KIB
    )
    filter_bit_map_bits: int = conf(
        "bitMapLengthConsumeQueueExt",
        default=64,
        doc="length of the filter bit map in it; replaced at start by that of the Bloom filter",
        at_least=8,
    )
    message_bytes_max: int = conf(
        "maxMessageSize", default=4 * MIB, doc="a larger message is refused", changeable=True, at_least=1
    )
    check_crc_on_recover: bool = conf("checkCRCOnRecover", default=True, doc="check bodies when recovering")

    # flushing
    flush_interval_ms: int = conf(
        "flushIntervalCommitLog",
        default=500,
        doc="how often the commit log is flushed with ASYNC_FLUSH",
        changeable=True,
        at_least=1,
    )
    flush_timed: bool = conf(
        "flushCommitLogTimed",
        default=True,
        doc="flush at that interval only; false flushes earlier when messages come",
        changeable=True,
    )
    flush_least_pages: int = conf(
        "flushCommitLogLeastPages",
        default=4,
        doc="fewer unflushed pages wait for the thorough flush",
        changeable=True,
        at_least=0,
    )
    flush_thorough_interval_ms: int = conf(
        "flushCommitLogThoroughInterval",
        default=10000,
        doc="how often everything is flushed",
        changeable=True,
        at_least=1,
    )
    sync_flush_timeout_ms: int = conf(
        "syncFlushTimeout",
        default=5000,
        doc="how long a send waits for the disk with SYNC_FLUSH",
        changeable=True,
        long=True,
        at_least=1,
    )
    queue_flush_interval_ms: int = conf(
        "flushIntervalConsumeQueue",
        default=1000,
        doc="how often consume queues are flushed",
        changeable=True,
        at_least=1,
    )
    queue_flush_least_pages: int = conf(
        "flushConsumeQueueLeastPages",
        default=2,
        doc="fewer unflushed pages of a queue wait for the thorough flush",
        changeable=True,
        at_least=0,
    )
    queue_flush_thorough_interval_ms: int = conf(
        "flushConsumeQueueThoroughInterval",
        default=60000,
        doc="how often all queues are flushed, and the checkpoint",
        changeable=True,
        at_least=1,
    )
    page_cache_busy_ms: int = conf(
        "osPageCacheBusyTimeOutMills",
        default=1000,
        doc="an append that takes longer makes the broker busy",
        changeable=True,
        long=True,
        at_least=1,
    )

    # the transient pool and warm files
    transient_pool_enable: bool = conf(
        "transientStorePoolEnable",
        default=False,
        doc="append to memory, write to the file a little later; with ASYNC_FLUSH on masters only",
    )
    transient_pool_count: int = conf(
        "transientStorePoolSize",
        default=5,
        doc="buffers of that pool, each the size of a commit log file",
        at_least=1,
        unused="the pool takes the memory of what waits in it: commitCommitLogLeastPages, one file's worth at most",
    )
    transient_pool_fail_fast: bool = conf(
        "fastFailIfNoBufferInStorePool",
        default=False,
        doc="refuse sends when that pool has no buffer left",
        unused="no send ever waits for a buffer; a pool that cannot be written refuses sends at once",
    )
    commit_interval_ms: int = conf(
        "commitIntervalCommitLog",
        default=200,
        doc="how often the pool is written to the file",
        changeable=True,
        at_least=1,
    )
    commit_least_pages: int = conf(
        "commitCommitLogLeastPages",
        default=4,
        doc="fewer unwritten pages wait for the thorough writing",
        changeable=True,
        at_least=0,
    )
    commit_thorough_interval_ms: int = conf(
        "commitCommitLogThoroughInterval",
        default=200,
        doc="how often all of the pool is written",
        changeable=True,
        at_least=1,
    )
    warm_files: bool = conf(
        "warmMapedFileEnable",
        default=False,
        doc="read the pages of a file into memory, and lock them, before it is used",
    )
    warm_step_pages: int = conf(
        "flushLeastPagesWhenWarmMapedFile",
        default=4096,
        doc="so many of them are read at once; nothing is written, so there is nothing to flush",
        at_least=1,
    )

    # cleaning
    file_reserved_hours: int = conf(
        "fileReservedTime",
        default=72,
        doc="how long a commit log file is kept after its last message",
        changeable=True,
        at_least=0,
    )
    delete_when: str = conf(
        "deleteWhen", default="04", doc="hours of the day at which old files are deleted, joined by ;", changeable=True
    )
    disk_used_percent_max: int = conf(
        "diskMaxUsedSpaceRatio",
        default=75,
        doc="above this old files are deleted at any hour; 10 to 95",
        clamp=(10, 95),
        changeable=True,
    )
    disk_warning_ratio: float = conf(
        "rocketmq.broker.diskSpaceWarningLevelRatio", default=0.90, doc="above this share of the disk sends are refused"
    )
    disk_clean_ratio: float = conf(
        "rocketmq.broker.diskSpaceCleanForciblyRatio",
        default=0.85,
        doc="above this share of the disk the oldest files are deleted before their time",
    )
    clean_forcibly: bool = conf(
        "cleanFileForciblyEnable", default=True, doc="whether files may be deleted before their time", changeable=True
    )
    clean_interval_ms: int = conf(
        "cleanResourceInterval", default=10000, doc="how often old files are looked for", at_least=1
    )
    commit_log_delete_pause_ms: int = conf(
        "deleteCommitLogFilesInterval",
        default=100,
        doc="pause after deleting a commit log file",
        changeable=True,
        at_least=0,
    )
    queue_delete_pause_ms: int = conf(
        "deleteConsumeQueueFilesInterval",
        default=100,
        doc="pause after deleting files of a queue",
        changeable=True,
        at_least=0,
    )
    destroy_forcibly_after_ms: int = conf(
        "destroyMapedFileIntervalForcibly",
        default=120000,
        doc="a deleted file that is still being read is taken away after so long",
        changeable=True,
        at_least=0,
    )
    redelete_interval_ms: int = conf(
        "redeleteHangedFileInterval",
        default=120000,
        doc="how often deleting such a file is tried again",
        changeable=True,
        at_least=1,
    )

    # reading
    pull_bytes_max_in_memory: int = conf(
        "maxTransferBytesOnMessageInMemory",
        default=256 * KIB,
        doc="most bytes of one pull near the end of the log",
        changeable=True,
        at_least=1,
    )
    pull_count_max_in_memory: int = conf(
        "maxTransferCountOnMessageInMemory",
        default=256,
        doc="most messages of one pull near the end of the log",
        changeable=True,
        at_least=1,
    )
    pull_bytes_max_on_disk: int = conf(
        "maxTransferBytesOnMessageInDisk",
        default=64 * KIB,
        doc="most bytes of one pull far behind the end",
        changeable=True,
        at_least=1,
    )
    pull_count_max_on_disk: int = conf(
        "maxTransferCountOnMessageInDisk",
        default=8,
        doc="most messages of one pull far behind the end",
        changeable=True,
        at_least=1,
    )
    memory_ratio_percent: int = conf(
        "accessMessageInMemoryMaxRatio",
        default=40,
        doc="what lies farther behind the end than this is taken to be on disk",
        changeable=True,
        at_least=0,
        at_most=100,
    )
    record_disk_fall: bool = conf(
        "diskFallRecorded", default=True, doc="keep statistics of how far behind pulls read", changeable=True
    )

    # index and queries
    index_enable: bool = conf("messageIndexEnable", default=True, doc="build the index by key")
    index_slot_count: int = conf("maxHashSlotNum", default=5_000_000, doc="hash slots of an index file", at_least=1)
    index_entry_count: int = conf("maxIndexNum", default=20_000_000, doc="entries of an index file", at_least=2)
    index_safe: bool = conf(
        "messageIndexSafe", default=False, doc="after a crash, go back to the last flushed index too", changeable=True
    )
    index_query_count_max: int = conf(
        "maxMsgsNumBatch", default=64, doc="most messages of a query by key", changeable=True, at_least=1
    )
    unique_query_count_max: int = conf(
        "defaultQueryMaxNum", default=32, doc="most messages of a query by unique id", changeable=True, at_least=1
    )

    # replication
    ha_listen_port: int = conf(
        "haListenPort",
        default=10912,
        default_text="listenPort + 1",
        doc="port that slaves connect to; always listenPort + 1",
        at_least=0,
        at_most=65536,
        reserved=True,
    )
    ha_heartbeat_interval_ms: int = conf(
        "haSendHeartbeatInterval", default=5000, doc="a silent connection carries a heartbeat", at_least=1
    )
    ha_idle_timeout_ms: int = conf(
        "haHousekeepingInterval", default=20000, doc="a connection without news is closed", at_least=1
    )
    ha_batch_bytes: int = conf(
        "haTransferBatchSize", default=32 * KIB, doc="most bytes sent to a slave at once", at_least=1
    )
    ha_master_address: str | None = conf(
        "haMasterAddress",
        default=None,
        doc="a slave's master as host:port; else the name servers tell",
        reserved=True,
    )
    ha_lag_bytes_max: int = conf(
        "haSlaveFallbehindMax",
        default=256 * MIB,
        doc="a slave farther behind does not count for SYNC_MASTER",
        changeable=True,
        at_least=0,
    )
    ha_newest_file_only: bool = conf(
        "haNewestFileOnly",
        default=False,
        doc="an empty slave gets only the newest log file, as from Apache's masters; else the whole log",
    )
    slave_timeout_ms: int = conf(
        "slaveTimeout",
        default=3000,
        doc="how long a send waits for a slave with SYNC_MASTER",
        changeable=True,
        at_least=1,
    )
    offset_check_in_slave: bool = conf(
        "offsetCheckInSlave", default=False, doc="a slave corrects pull offsets that are out of range", changeable=True
    )

    # delay levels
    delay_levels: str = conf(
        "messageDelayLevel",
        default="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        doc="delay of each level, from level 1",
    )
    delay_offset_flush_interval_ms: int = conf(
        "flushDelayOffsetInterval", default=10000, doc="how often the levels' offsets are written", at_least=1
    )
    delay_stats: bool = conf(
        "enableScheduleMessageStats", default=True, doc="count deliveries of delayed messages", changeable=True
    )

    # many light queues in one
    multi_dispatch: bool = conf("enableMultiDispatch", default=False, doc="one message in several light queues")
    light_queues: bool = conf("enableLmq", default=False, doc="allow light message queues")
    light_queue_count_max: int = conf(
        "maxLmqConsumeQueueNum", default=20000, doc="most light message queues", at_least=1
    )

    ignored: IgnoredStoreKeys = part(IgnoredStoreKeys)

    @property
    def commit_log_directories(self) -> tuple[Path, ...]:
        """The directories that hold commit log files, in the order in which new files are spread over them."""
        if self.commit_log_path is None:
            return (self.root_path / "commitlog",)
        return self._paths(self.commit_log_path)

    @property
    def read_only_commit_log_directories(self) -> frozenset[Path]:
        """Those that are read but get no new files."""
        return frozenset(self._paths(self.read_only_commit_log_paths or ""))

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of the local day in which old files are deleted."""
        return frozenset(int(hour) for hour in self.delete_when.split(";") if hour.strip().isdecimal())

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delay of level 1, 2, ... in milliseconds."""
        return _delays_ms(self.delay_levels)

    @property
    def uses_transient_pool(self) -> bool:
        """The pool acts only where a message may be acknowledged from memory, and never on a slave."""
        return (
            self.transient_pool_enable
            and self.flush_disk_type is FlushDiskType.ASYNC_FLUSH
            and self.broker_role is not BrokerRole.SLAVE
        )

    def _paths(self, text: str) -> tuple[Path, ...]:
        pieces = (piece.strip() for piece in text.split(self.path_separator))
        return tuple(sorted({Path(piece) for piece in pieces if piece}))


@lru_cache(maxsize=16)  # asked for at every delayed message
def _delays_ms(levels: str) -> tuple[int, ...]:
    return tuple(_delay_ms(level) for level in levels.split())


def _delay_ms(level: str) -> int:
    match = _LEVEL.fullmatch(level)
    if match is None:
        raise ConfigError(f'messageDelayLevel: "{level}" is no delay; write a number and s, m, h or d, such as 30s')
    return int(match.group(1)) * _UNIT_MS[match.group(2)]
