"""The store: every message of a broker on disk, in Apache RocketMQ's file formats.

Read in this order: `message_store` (what the owner sees) with `store_parts`, `store_writes`, `store_reads` and
`new_message`, `batch` (the way in) with `delay_codes`, then the three kinds of files it writes: `commit_log`,
`consume_queue` (all of them: `consume_queues`), and `index` with `key_feed`, `index_file` and `key_hash`. `reading` and
`searching` are the ways out; `cold_reads` lets them run without waiting as long as all is in memory, and `intact` looks
at what an earlier process wrote. `flushing` makes the log durable (who waits for that: `offset_waiters`), `upkeep` is
the work in the background (with `transient_pool` and `warm_up`, where they are wanted), `checkpoint` and `snapshot` its
result. `reservations` and `ended_queues`, both of `number_entries`, see to it that no queue offset is given twice, and
`vouchers` tell what was meant to be written. `cleaning` deletes what is old. `recovery` opens what a stop or a crash
left, with `log_scan`, `dispatch` and `topic_starts`. `inspection`, `repair` and `dumping` are for tools, with
`log_files`, `store_sizes`, `next_start` and `progress`. `file_rows` and `open_files` are the floor. `config_file` keeps
the broker's JSON files.

Rules of the place: one thread writes, the event loop's; what waits for the disk runs behind `ports.Disk`; the log is
the truth, and all else can be made from it. The formats are drawn in docs/formats/.

Not here: what a topic may be, who may send, retries, delays, replication's sockets. Those are the broker's.
"""

from __future__ import annotations

from skyrocketmq.store.batch import Arrival, Batch, Outcome
from skyrocketmq.store.cold_reads import Pending
from skyrocketmq.store.config_file import ConfigFile
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.message_store import MessageStore, NewMessage, PutResult
from skyrocketmq.store.reading import Buffer, GetResult
from skyrocketmq.store.searching import QueryResult
from skyrocketmq.store.statistics import StoreStatistics
from skyrocketmq.store.statuses import GetStatus, PutStatus, Refusal, RunningFlag

__all__ = [
    "Arrival",
    "Batch",
    "Buffer",
    "ConfigFile",
    "ConsumeQueue",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "NewMessage",
    "Outcome",
    "Pending",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "Refusal",
    "RunningFlag",
    "StoreStatistics",
]
