"""Sends in general: any header, any topic, any message, single or batch (10, 310, 320).

The plain send path recognises the ordinary case and never comes here; this is the whole rule. Rule 1: an answer that
has to wait for a flush or a slave is awaited, all others are given at once. Rule 2: the first message of a topic is
acknowledged when the topic is in its file too; after a crash nobody could read it otherwise. Rule 3: every answer, a
refusal too, tells the producer the region and whether to trace: the family's producers read both before the code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final

from skyrocketmq.broker.access_rules import publishes
from skyrocketmq.broker.dead_letters import DeadLetters
from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.hand_backs import HandBacks, read_hand_back
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage, delay_level_of
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.send_reading import SendReader
from skyrocketmq.broker.send_rules import (
    SendHeader,
    get_group,
    put_status_answer,
)
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.broker.transactions import Transactions
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import BrokerError, ProtocolError, broker_error
from skyrocketmq.model import SubscriptionGroupConfig, TopicFilterType
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import MULTI_TAGS, TRANSACTION_MASK
from skyrocketmq.model.names import is_retry_topic, retry_topic
from skyrocketmq.net import Connection, Steps, answers_frames, in_slices
from skyrocketmq.ports import Chance, Clock
from skyrocketmq.store import MessageStore, PutResult
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.wire.batches import BatchEntry, decode_batch
from skyrocketmq.wire.codes import RETRY_LIMIT_VERSION, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_send import SendMessageAnswer, SendMessageHeader, SendMessageHeaderV2

__all__ = ["SendHandler"]

BATCH_PART: Final = 2048  # messages stored in one go, which takes some 15 ms
BATCH_PART_KEYS: Final = 4096  # and keys that are indexed with them

_CLUSTER: Final = names.CLUSTER.encode()
_DELAY: Final = names.DELAY.encode()
_HANDED_BACK: Final = names.HANDED_BACK.encode()
_TRAN_MSG: Final = names.TRAN_MSG.encode()


class SendHandler:
    """Answers sends."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        topics_file: Saver[Any],
        groups: GroupTable,
        store: MessageStore,
        durability: Durability,
        writer: MessageWriter,
        dead_letters: DeadLetters,
        transactions: Transactions,
        hand_backs: HandBacks,
        store_host: bytes,
        clock: Clock,
        chance: Chance | None = None,
    ) -> None:
        self._config = config
        self._topics = topics
        self._topics_file = topics_file
        self._groups = groups
        self._store = store
        self._durability = durability
        self._store_host = store_host
        self._writer = writer
        self._dead_letters = dead_letters
        self._transactions = transactions
        self._hand_backs = hand_backs
        self._clock = clock
        self._reader = SendReader(config=config, topics=topics, clock=clock, chance=chance)

    @answers_frames(
        RequestCode.SEND_MESSAGE,
        header=SendMessageHeader,
        body="message body",
        answer=SendMessageAnswer,
        needs=publishes("topic"),
    )
    @answers_frames(
        RequestCode.SEND_MESSAGE_V2,
        header=SendMessageHeaderV2,
        body="message body",
        answer=SendMessageAnswer,
        needs=publishes("b"),
    )
    @answers_frames(
        RequestCode.SEND_BATCH_MESSAGE,
        header=SendMessageHeaderV2,
        body="batch",
        answer=SendMessageAnswer,
        needs=publishes("b"),
    )
    def send(self, frame: Frame, connection: Connection) -> Frame | Awaitable[Frame]:
        """Store a message, or a batch of messages of one queue.

        Failures answer with the code and remark that tell its sender what to do.
        """
        try:
            return self._send(frame, connection)
        except BrokerError as error:
            return frame.reply(error.code, remark=error.remark, ext=self._reader.answer_fields())

    def _send(self, frame: Frame, connection: Connection) -> Frame | Awaitable[Frame]:
        header = self._reader.header(frame)
        message, topic = self._reader.message(header, frame, connection)
        message.is_sent = True
        if topic.topic_filter_type is TopicFilterType.MULTI_TAG:
            message.sys_flag |= MULTI_TAGS
        queue_id = message.queue_id
        message.properties[_CLUSTER] = self._config.current.cluster_name.encode()
        if header.batch:
            return in_slices(self._send_batch(frame, queue_id, message), self._clock)
        giving_up = self._group_giving_up(message, header, frame.version) if is_retry_topic(message.topic) else None
        if message.properties.get(_TRAN_MSG, b"").lower() == b"true":
            return self._answer(frame, queue_id, message, self._put_half(message))
        if giving_up is not None:
            return self._send_dead_letter(frame, queue_id, message, giving_up)
        if _HANDED_BACK in message.properties and is_retry_topic(message.topic):
            return self._answer(frame, queue_id, message, self._put_copy(message))
        return self._answer(frame, queue_id, message, self._writer.put(message))

    def _put_copy(self, message: OutgoingMessage) -> PutResult:
        """A consumer's own copy of what it asked to take back in vain: stored, unless that was done after all."""
        config, now_s = self._config.current, self._clock.monotonic()
        text = message.properties.pop(_HANDED_BACK)
        hand_back = read_hand_back(
            text, group=message.topic.removeprefix(retry_topic("")), broker_name=config.broker_name
        )
        if hand_back is None:
            return self._writer.put(message)
        known = self._hand_backs.find(hand_back, now_s=now_s)
        if known is not None:
            return known
        stored = self._writer.put(message)
        if stored.status.is_stored:
            self._hand_backs.remember(hand_back, stored, delay_s=0.0, now_s=now_s)
        return stored

    def _put_half(self, message: OutgoingMessage) -> PutResult:
        """The first half of a transaction: no consumer sees it before its producer commits it."""
        config = self._config.current
        if config.reject_transactions:
            raise broker_error(
                ResponseCode.NO_PERMISSION,
                f"broker {config.broker_name} takes no transaction messages: rejectTransactionMessage is true",
            )
        if delay_level_of(message.properties) > 0:
            return _illegal("a transaction message cannot be delayed: remove its delay level")
        return self._transactions.put_half(message)

    def _group_giving_up(
        self, message: OutgoingMessage, header: SendHeader, version: int
    ) -> SubscriptionGroupConfig | None:
        """A client hands a message back by sending it to the retry topic: its group, if that was the last attempt."""
        group = get_group(message.topic, self._config.current, self._groups)
        retries_max = group.retry_max_times
        if header.max_reconsume_times is not None and version >= RETRY_LIMIT_VERSION:
            retries_max = header.max_reconsume_times
        return group if message.reconsume_times >= retries_max else None

    async def _send_dead_letter(
        self, frame: Frame, queue_id: int, message: OutgoingMessage, group: SubscriptionGroupConfig
    ) -> Frame:
        message.topic = self._topics.get_dlq_topic(group.group_name).topic_name
        message.queue_id = 0
        message.properties.pop(_DELAY, None)  # nobody waits for a dead letter
        stored = await self._dead_letters.put(message)
        answer = self._answer(frame, queue_id, message, stored)
        return answer if isinstance(answer, Frame) else await answer

    # ------------------------------------------------------------------------------------------------------- batches

    def _send_batch(self, frame: Frame, queue_id: int, message: OutgoingMessage) -> Steps:
        """Store the messages of a batch, all or none, one after the other in the same queue.

        Of one with more than `BATCH_PART` messages, or many keys, that holds for each part: others are served in
        between, and where a part cannot be stored, the ones before it are, although the answer is a failure.
        """
        entries = self._read_batch(message)
        if isinstance(entries, PutResult):
            return self._answer(frame, queue_id, message, entries)
        parts = _parts(entries)
        if len(parts) > 1:
            yield
        first, log_offsets = self._writer.put_batch(message, parts[0])
        for part in parts[1:]:
            if not first.status.is_stored:
                break
            yield
            following, more = self._writer.put_batch(message, part)
            log_offsets += more
            if not following.status.is_stored:
                first = following
        return self._answer(frame, queue_id, message, first, log_offsets)

    def _read_batch(self, message: OutgoingMessage) -> Sequence[BatchEntry] | PutResult:
        """What a batch holds, or why it is refused."""
        config = self._config.current
        limit = config.store.message_bytes_max
        if message.sys_flag & TRANSACTION_MASK or delay_level_of(message.properties) > 0:
            return _illegal("a batch can be neither delayed nor part of a transaction: send its messages one by one")
        if is_retry_topic(message.topic):
            return _illegal("a batch cannot go to a retry topic: send its messages one by one")
        if len(message.body) > limit:
            return _illegal(f"the batch takes {len(message.body)} bytes, maxMessageSize allows {limit}: split it")
        try:
            entries = decode_batch(message.body, count_max=config.limits.batch_messages_max)
        except ProtocolError as error:
            return _illegal(str(error))
        return entries or _illegal("the batch holds no message")

    # ------------------------------------------------------------------------------------------------------- answers

    def _answer(
        self, frame: Frame, queue_id: int, message: OutgoingMessage, result: PutResult, log_offsets: Sequence[int] = ()
    ) -> Frame | Awaitable[Frame]:
        """The answer to a send; `log_offsets` are those of all messages, where it was a batch."""
        answer = put_status_answer(frame, result.status, result.remark)
        ext = answer.ext = self._reader.answer_fields()
        if not result.status.is_stored:
            return answer
        places = tuple(log_offsets) or (result.log_offset,)
        one_id = self._store_host.hex().upper() + "%016X"  # as `encode_offset_id` says
        ext["msgId"] = ",".join([one_id] * len(places)) % places
        ext["queueId"] = str(queue_id)
        ext["queueOffset"] = str(result.queue_offset)
        waits = message.waits and not self._durability.is_at_once
        if not waits and self._topics_file.is_saved:
            return answer
        return self._answer_when_safe(frame, answer, int(self._store.log.max_offset) if waits else 0)

    async def _answer_when_safe(self, frame: Frame, answer: Frame, end_offset: int) -> Frame:
        try:
            await self._topics_file.save()
            status = await self._durability.wait_safe(end_offset)
        except OSError:  # said and tried again by whoever saves the topics
            status = PutStatus.FLUSH_DISK_TIMEOUT
        safe = put_status_answer(frame, status, "")
        safe.ext = answer.ext
        return safe


def _illegal(remark: str) -> PutResult:
    return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)


def _parts(entries: Sequence[BatchEntry]) -> list[Sequence[BatchEntry]]:
    """The messages of a batch as they are stored, so many at a time that nobody else has to wait long."""
    parts: list[Sequence[BatchEntry]] = []
    begin = key_count = 0
    for at, (_, _, properties) in enumerate(entries):
        keys_max = properties.count(b" ") + 2  # blanks part keys; the unique id is one too
        if at > begin and (at - begin >= BATCH_PART or key_count + keys_max > BATCH_PART_KEYS):
            parts.append(entries[begin:at])
            begin, key_count = at, 0
        key_count += keys_max
    return [*parts, entries[begin:]]
