"""Rounds in which producers are asked what became of their half messages.

A question goes to any one connected member of the producer group that may send to the topic, in turn; it has no
answer. Whoever can tell the outcome ends the transaction, as the first producer would have. Before it asks, the broker
stores the half message again, counted one higher: the places that the question names are those of the new copy.

Rule 1: the table of pending transactions says what is to be asked; nothing is searched for in the queues.
Rule 2: reading an old half message may wait for the disk. It may have ended meanwhile: that is looked at again.
Rule 3: a round holds the loop for a few messages at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from skyrocketmq.broker.clients import Member
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage, properties_text
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.broker.transaction_log import TransactionLog
from skyrocketmq.broker.transaction_records import (
    CHECK_TIMES,
    FIRST_OFFSET,
    GIVEN_UP,
    GROUP,
    HalfMessage,
    number_of,
    outgoing_copy,
    shown,
)
from skyrocketmq.broker.transaction_rules import Check, decide, immunity_ms
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import NetError
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import BORN_HOST_V6, STORE_HOST_V6
from skyrocketmq.model.hosts import HOST_BYTES_V4
from skyrocketmq.model.names import TRANSACTION_GIVEN_UP_TOPIC, TRANSACTION_HALF_TOPIC
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock
from skyrocketmq.store import MessageStore, PutResult
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import CheckTransactionStateHeader
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.ids import encode_offset_id
from skyrocketmq.wire.records import encode_record

__all__ = ["CheckRounds"]

logger = logging.getLogger(__name__)

COUNT_AT_ONCE: Final = 32
HOUR_MS: Final = 3_600_000
_IMMUNITY: Final = names.CHECK_IMMUNITY_TIME.encode()

Members = Callable[[str, str], Sequence[Member[Connection]]]  # of a group, those who may be told of a topic


class CheckRounds:
    """Asks the producers of one broker."""

    def __init__(
        self,
        transactions: TransactionLog,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        topics: TopicTable,
        producers_of: Members,
        *,
        store_host: bytes,
        reads: ColdReads,
        clock: Clock,
    ) -> None:
        self._transactions = transactions
        self._config = config
        self._store = store
        self._topics = topics
        self._producers_of = producers_of
        self._store_host = store_host
        self._writer = MessageWriter(store)
        self._reads = reads
        self._clock = clock
        self._turn = 0

    async def run(self) -> None:
        """One round: a look at every transaction that was pending when it began."""
        transactions = self._transactions
        for number, (transaction, offset) in enumerate(transactions.pending, 1):
            if transactions.pending.find(transaction) != offset:
                continue
            half = await self._reads.run(transactions.find_half(offset))
            if transactions.pending.find(transaction) == offset:
                if half is None:
                    self._forget(transaction, offset)
                else:
                    self._look_at(half)
            if number % COUNT_AT_ONCE == 0:
                await self._clock.sleep(0)

    def _forget(self, transaction: bytes, offset: int) -> None:
        self._transactions.pending.take(transaction)
        logger.error(
            "half message is gone from the log or cannot be read, its transaction is given up",
            extra={"transaction": shown(transaction), "offset": offset},
        )

    def _look_at(self, half: HalfMessage) -> None:
        config = self._config.current
        message = outgoing_copy(half)
        properties = message.properties
        members = self._producers_of(properties.get(GROUP, b"").decode("utf-8", "replace"), half.topic)
        check_count = max(0, number_of(properties.get(CHECK_TIMES)))
        step = decide(
            age_ms=self._clock.now_ms() - half.message.born_timestamp,
            immunity_ms=immunity_ms(properties.get(_IMMUNITY), timeout_ms=config.transaction_timeout_ms),
            check_count=check_count,
            check_count_max=config.transaction_check_max,
            age_ms_max=config.store.file_reserved_hours * HOUR_MS,
            has_producer=bool(members),
            behind=int(self._transactions.half_queue.max_offset) - half.queue_offset,
        )
        if step is Check.GIVE_UP:
            self._give_up(half, message)
        elif step is Check.RENEW:
            self.store_again(half, message)
        elif step is Check.ASK:
            properties[CHECK_TIMES] = b"%d" % (check_count + 1)
            stored = self.store_again(half, message)
            if stored is not None:
                self._ask(half, message, stored, members)

    def _give_up(self, half: HalfMessage, message: OutgoingMessage) -> None:
        message.topic = self._topics.get_system_topic(TRANSACTION_GIVEN_UP_TOPIC).topic_name
        message.queue_id = 0
        message.properties[FIRST_OFFSET] = b"%d" % half.first_offset
        result = self._writer.put(message)
        if result.status.is_stored:
            self._transactions.pending.take(half.transaction)
            # Else each start would find it again, as long as one before it is pending, and write another letter.
            self._transactions.put_mark(GIVEN_UP, half.unique_id, half.queue_offset)
            logger.warning(
                "transaction given up: its producers did not tell how it ended",
                extra={"transaction": shown(half.transaction), "topic": half.topic},
            )

    def store_again(self, half: HalfMessage, message: OutgoingMessage) -> PutResult | None:
        """Put a copy at the end of the half queue, which stands for the transaction then; None if that failed."""
        message.topic, message.queue_id = TRANSACTION_HALF_TOPIC, 0
        message.properties[FIRST_OFFSET] = b"%d" % half.first_offset
        result = self._writer.put(message)
        if not result.status.is_stored:
            logger.warning("half message not stored again", extra={"reason": f"{result.status.name} {result.remark}"})
            return None
        self._transactions.replace(half, int(result.queue_offset))
        return result

    def _ask(
        self, half: HalfMessage, message: OutgoingMessage, stored: PutResult, members: Sequence[Member[Connection]]
    ) -> None:
        frame = self._question(half, message, stored)
        self._turn += 1
        for number in range(len(members)):
            member = members[(self._turn + number) % len(members)]
            try:
                member.connection.send_oneway(frame)
            except NetError as error:
                logger.debug("producer not asked", extra={"client": member.client_id, "reason": str(error)})
            else:
                return
        logger.info("no producer could be asked", extra={"group": half.group.decode("utf-8", "replace")})

    def _question(self, half: HalfMessage, message: OutgoingMessage, stored: PutResult) -> Frame:
        store_host = message.store_host or self._store_host
        unique_id = half.unique_id.decode("utf-8", "replace") or None
        header = CheckTransactionStateHeader(
            tran_state_table_offset=int(stored.queue_offset),
            commit_log_offset=int(stored.log_offset),
            msg_id=unique_id,
            transaction_id=unique_id,
            offset_msg_id=encode_offset_id(store_host, int(stored.log_offset)),
        )
        sys_flag = half.message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
        sys_flag |= (len(half.message.born_host) != HOST_BYTES_V4) * BORN_HOST_V6
        sys_flag |= (len(store_host) != HOST_BYTES_V4) * STORE_HOST_V6
        record = encode_record(
            topic=half.topic.encode(),
            body=half.message.body,
            properties=properties_text(message.properties),
            queue_id=half.queue_id,
            queue_offset=int(stored.queue_offset),
            log_offset=int(stored.log_offset),
            born_timestamp=half.message.born_timestamp,
            born_host=half.message.born_host,
            store_timestamp=stored.store_timestamp,
            store_host=store_host,
            flag=half.message.flag,
            sys_flag=sys_flag,
            reconsume_times=half.message.reconsume_times,
        )
        return Frame(RequestCode.CHECK_TRANSACTION_STATE, ext=encode_header(header), body=record)
