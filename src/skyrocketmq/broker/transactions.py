"""Transactions of one broker: what is pending, rounds of questions, and how far a start has to look back.

    async with Transactions.open(holder, store, tables, store_host=store_host, disk=disk, clock=clock) as transactions:
        transactions.put_half(message)

| step | what is stored |
|---|---|
| a half message is sent | the half message; no consumer sees it |
| its producer commits | the message for its consumers, and a mark that it is over |
| its producer rolls back | the mark alone |
| nobody says anything for a while | the half message again; a member of the producer group is asked |
| nobody can say, 15 times | a copy in TRANS_CHECK_MAX_TIME_TOPIC; nobody is asked any more |

Rule 1: a transaction ends once. Who ends it again the same way is told success, and nothing is stored; who ends it the
other way is refused. That holds over restarts: what is not pending any more is looked up among the marks, by its id.
Rule 2: one that was given up can still be ended, once: its producer may only have been slow.
Rule 3: a slave does nothing of this: it has its master's records and offsets, and becomes a master with a start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from skyrocketmq.broker.message_writer import OutgoingMessage
from skyrocketmq.broker.tables import BrokerTables
from skyrocketmq.broker.transaction_checks import CheckRounds
from skyrocketmq.broker.transaction_log import TransactionLog
from skyrocketmq.broker.transaction_records import (
    CHECK_TIMES,
    ENDS,
    TRANSACTION_QUEUE_ID,
    HalfMessage,
    outgoing_copy,
    read_half,
    read_mark,
)
from skyrocketmq.broker.transaction_start import find_pending
from skyrocketmq.broker.transaction_table import Progress
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.errors import MQError
from skyrocketmq.loop_watch import start_task
from skyrocketmq.model import TransactionType
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import (
    TRANSACTION_GIVEN_UP_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.store import Buffer, MessageStore, PutResult
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.wire.properties import find_property
from skyrocketmq.wire.records import scan_record

__all__ = ["Transactions"]

logger = logging.getLogger(__name__)

TICK_S: Final = 1.0  # how often offsets move on, and how late a round begins at most
QUERY_COUNT: Final = 64  # records with one id: copies of a half message that was asked about again and again
_UNIQUE_ID: Final = names.UNIQ_KEY.encode()
_END_OF: Final = {text: end for end, text in ENDS.items()}


class Transactions:
    """The transactions of one broker. Made by `open`, which also ends it."""

    def __init__(
        self,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        tables: BrokerTables,
        *,
        store_host: bytes,
        disk: Disk,
        clock: Clock,
    ) -> None:
        """Use `open`; this only puts the parts together."""
        self.log = TransactionLog(store, store_host=store_host)
        self.reads = ColdReads(disk, clock)
        self._config = config
        self._store = store
        self._topics = tables.topics
        self._offsets = tables.offsets
        self._clock = clock
        self._progress = Progress(0, 0)
        self._ending: set[bytes] = set()  # given-up transactions whose end is being looked up
        self._rounds = CheckRounds(
            self.log,
            config,
            store,
            tables.topics,
            tables.producers.members_for,
            store_host=store_host,
            reads=self.reads,
            clock=clock,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        tables: BrokerTables,
        *,
        store_host: bytes,
        disk: Disk,
        clock: Clock,
    ) -> AsyncIterator[Transactions]:
        """Find out what is pending, and ask about it until the block is left."""
        transactions = cls(config, store, tables, store_host=store_host, disk=disk, clock=clock)
        if store.config.broker_role is BrokerRole.SLAVE:
            yield transactions
            return
        await transactions._start()
        running = start_task(transactions._run(), name="transactions", watch=store.watch)
        try:
            yield transactions
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await transactions._stop()

    async def _start(self) -> None:
        half_offset, op_offset = self._saved_offsets()
        await find_pending(self.log, self._store, self.reads, half_offset=half_offset, op_offset=op_offset)
        self._progress = Progress(half_offset, op_offset)
        if self.log.pending:
            logger.info("transactions are pending", extra={"count": len(self.log.pending)})

    def _saved_offsets(self) -> tuple[int, int]:
        """Where to read in the half queue and in the op queue.

        Offsets that lie beyond a queue speak of another log, a longer one: that of the master whose slave this was,
        say. What they take for over may be pending in this one, so everything is read.
        """
        half_queue, op_queue = self.log.half_queue, self.log.op_queue
        half_offset, op_offset = (
            self._offsets.find(group=TRANSACTION_GROUP, topic=topic, queue_id=TRANSACTION_QUEUE_ID) or 0
            for topic in (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC)
        )
        if half_offset > half_queue.max_offset or op_offset > op_queue.max_offset:
            logger.warning(
                "saved offsets of transactions are beyond the log: all half messages are looked at",
                extra={"half_offset": half_offset, "op_offset": op_offset},
            )
            half_offset = op_offset = 0
        return max(half_offset, int(half_queue.min_offset)), max(op_offset, int(op_queue.min_offset))

    async def _stop(self) -> None:
        try:
            await self._store.flush()
        except (MQError, OSError) as error:
            logger.error("offsets of transactions not moved on", extra={"error": str(error)})
        self._move_on()

    # ------------------------------------------------------------------------------------------------------- periodic

    async def _run(self) -> None:
        last_s = self._clock.monotonic()
        while True:
            interval_s = self._config.current.transaction_check_interval_ms / 1000
            await self._clock.sleep(min(TICK_S, interval_s))
            self._move_on()
            if self._clock.monotonic() - last_s < interval_s:
                continue
            try:
                await self._rounds.run()
            except Exception as error:
                logger.error("round of transaction checks failed", exc_info=error)
            last_s = self._clock.monotonic()

    def _move_on(self) -> None:
        """Move the offsets on over what is over, and durable."""
        self._store.commit_open()
        log = self.log
        self._progress.note(
            oldest=log.pending.oldest(),
            half_end=int(log.half_queue.max_offset),
            op_end=int(log.op_queue.max_offset),
            log_end=int(self._store.log.max_offset),
        )
        if self._progress.settle(int(self._store.flushed_offset)):
            for topic, offset in (
                (TRANSACTION_HALF_TOPIC, self._progress.half_offset),
                (TRANSACTION_OP_TOPIC, self._progress.op_offset),
            ):
                self._offsets.commit(group=TRANSACTION_GROUP, topic=topic, queue_id=TRANSACTION_QUEUE_ID, offset=offset)

    # ------------------------------------------------------------------------------------------------- what is asked

    def put_half(self, message: OutgoingMessage) -> PutResult:
        """Store a message that is sent as a half message."""
        for topic in (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC):
            self._topics.get_system_topic(topic)
        return self.log.put_half(message, cluster=self._config.current.cluster_name.encode())

    async def end_late(self, half: HalfMessage, end: TransactionType) -> PutResult | TransactionType | None:
        """End a transaction that is not pending: how it ended before, or, if it was given up, what the store says.

        None if nobody knows: it ended longer ago than the index reaches, or on a broker of another make.
        """
        ended = await self._find_end(half)
        if ended is not None:
            return ended
        if not await self._was_given_up(half) or half.transaction in self._ending:
            return None
        self._ending.add(half.transaction)
        try:
            ended = await self._find_end(half)  # again: another one may have been faster
            if ended is not None:
                return ended
            return self.log.put_end(half, None, end)
        finally:
            self._ending.discard(half.transaction)

    async def ask_again(self, half: HalfMessage) -> PutResult | None:
        """Take a half message, one that was given up as a rule, for a fresh one; None if its transaction is over."""
        if half.transaction not in self.log.pending and await self._find_end(half) is not None:
            return None
        message = outgoing_copy(half)
        message.properties[CHECK_TIMES] = b"0"
        return self._rounds.store_again(half, message)

    async def _find_end(self, half: HalfMessage) -> TransactionType | None:
        """How a transaction ended, by its mark.

        A mark with its id may be another's, who chose the same: it counts if it names a copy of this half message.
        """
        for record in await self._find_by_id(TRANSACTION_OP_TOPIC, half.unique_id):
            offset, text = read_mark(record)
            end = _END_OF.get(text)
            if end is None:
                continue  # one that does not say how it ended
            marked = await self.reads.run(self.log.find_half(offset))
            if marked is not None and marked.transaction == half.transaction:
                return end
        return None

    async def _was_given_up(self, half: HalfMessage) -> bool:
        for letter in await self._find_by_id(TRANSACTION_GIVEN_UP_TOPIC, half.unique_id):
            try:
                if read_half(letter).transaction == half.transaction:
                    return True
            except MQError:
                continue  # whatever it is, it does not speak of this one
        return False

    async def _find_by_id(self, topic: str, unique_id: bytes) -> list[Buffer]:
        """A topic's messages with this unique id, the newest first."""
        if not unique_id:
            return []
        key = unique_id.decode("utf-8", "replace")
        # Of any time: a clock that was set back since would hide the newest.
        found = await self._store.query(topic, key, QUERY_COUNT, 0, INT64_MAX)
        records = []
        for record in reversed(found.records):
            try:
                scanned = scan_record(record, 0, len(record))
            except MQError as error:
                logger.error("record about a transaction cannot be read", extra={"topic": topic, "reason": str(error)})
                continue
            if scanned is None or scanned.topic != topic.encode():
                continue
            if find_property(scanned.properties, _UNIQUE_ID) == unique_id:
                records.append(record)
        return records
