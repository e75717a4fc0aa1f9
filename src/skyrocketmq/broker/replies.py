"""Replies on their way to whoever asked (324, 325): passed on over the asker's own connection (326), and stored.

Rule 1: the answer says whether the asker has the reply. One that cannot be passed on is refused with a remark that says
why, and its sender may try another broker: the asker need not be connected to all of them.
Rule 2: a reply is stored in any case, unless `storeReplyMessageEnable` is false; its ids are in the answer then. What
storing has to say does not change the answer.
Rule 3: the asker is found by the client id that its heartbeats carry, which is in the reply's properties. Another
account that carries the same gets nothing (`clients`, rule 5).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Final

from skyrocketmq.broker.access_rules import publishes
from skyrocketmq.broker.clients import ProducerTable
from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.send_reading import SendReader
from skyrocketmq.broker.send_rules import SendHeader
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import BrokerError, MQError
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import TRANSACTION_MASK
from skyrocketmq.model.hosts import host_text
from skyrocketmq.net import Connection, answers_frames
from skyrocketmq.ports import Chance, Clock
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Ext, encode_header
from skyrocketmq.wire.headers_send import (
    PushReplyMessageHeader,
    SendMessageAnswer,
    SendMessageHeader,
    SendMessageHeaderV2,
)
from skyrocketmq.wire.ids import encode_offset_id

__all__ = ["ReplyHandler"]

logger = logging.getLogger(__name__)

PUSH_TIMEOUT_S: Final = 10.0

_REPLY_TO: Final = names.REPLY_TO_CLIENT.encode()
_NOT_STORED_ID: Final = "0"  # the family's clients cannot do without an id


class ReplyHandler:
    """Answers replies."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        topics_file: Saver[Any],
        producers: ProducerTable[Connection],
        store: MessageStore,
        durability: Durability,
        writer: MessageWriter,
        store_host: bytes,
        clock: Clock,
        chance: Chance | None = None,
    ) -> None:
        self._config = config
        self._topics_file = topics_file
        self._producers = producers
        self._store = store
        self._durability = durability
        self._writer = writer
        self._store_host = store_host
        self._clock = clock
        self._reader = SendReader(config=config, topics=topics, clock=clock, chance=chance)

    @answers_frames(
        RequestCode.SEND_REPLY_MESSAGE,
        header=SendMessageHeader,
        body="message body",
        answer=SendMessageAnswer,
        needs=publishes("topic"),
    )
    @answers_frames(
        RequestCode.SEND_REPLY_MESSAGE_V2,
        header=SendMessageHeaderV2,
        body="message body",
        answer=SendMessageAnswer,
        needs=publishes("b"),
    )
    def reply(self, frame: Frame, connection: Connection) -> Frame | Awaitable[Frame]:
        """Store the reply to a request and pass it on.

        Every answer, a refusal too, has the fields that Apache's producers read first.
        """
        reader = self._reader
        try:
            header = reader.header(frame)
            message, _ = reader.message(header, frame, connection)
        except BrokerError as error:
            return frame.reply(error.code, remark=error.remark, ext=reader.answer_fields())
        message.sys_flag &= ~TRANSACTION_MASK  # no part of a transaction: its queue is to hold it
        return self._pass_on_and_store(frame, header, message)

    async def _pass_on_and_store(self, frame: Frame, header: SendHeader, message: OutgoingMessage) -> Frame:
        trouble = await self._pass_on(header, message)
        code = ResponseCode.SYSTEM_ERROR if trouble else ResponseCode.SUCCESS
        answer = frame.reply(code, remark=trouble, ext=self._reader.answer_fields())
        place: Ext = {"msgId": _NOT_STORED_ID, "queueId": str(message.queue_id), "queueOffset": "0"}
        if self._config.current.store_reply_messages:
            place |= await self._put(message)
        if trouble is None:
            answer.ext = {**(answer.ext or {}), **place}
        return answer

    # --------------------------------------------------------------------------------------------------- to the asker

    async def _pass_on(self, header: SendHeader, message: OutgoingMessage) -> str | None:
        """Push the reply to its asker; None once that has it, else what went wrong."""
        client_id = message.properties.get(_REPLY_TO, b"").decode("utf-8", "replace")
        if not client_id:
            return (
                f"the reply has no property {names.REPLY_TO_CLIENT}, so nobody knows who asked: make replies from the "
                "request"
            )
        asker = self._producers.find_connection(client_id)
        if asker is None:
            return (
                f"the client {client_id} that asked is not connected to broker {self._config.current.broker_name}: it "
                "has ended, or is connected to other brokers only"
            )
        try:
            answer = await asker.request(self._push_frame(header, message), PUSH_TIMEOUT_S)
        except MQError as error:
            trouble = str(error)
        else:
            if answer.code == ResponseCode.SUCCESS:
                return None
            trouble = f"it answered with code {answer.code}: {answer.remark or 'no remark'}"
        logger.info("reply not passed on", extra={"client": client_id, "reason": trouble})
        return f"the client {client_id} that asked did not take the reply: {trouble}"

    def _push_frame(self, header: SendHeader, message: OutgoingMessage) -> Frame:
        now_ms = self._clock.now_ms()
        pushed = PushReplyMessageHeader(
            producer_group=header.producer_group or "",
            topic=message.topic,
            default_topic=header.default_topic or "",
            default_topic_queue_nums=header.default_topic_queue_nums or 0,
            queue_id=message.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_ms,
            flag=message.flag,
            properties=f"{header.properties}\x02{names.PUSH_REPLY_TIME}\x01{now_ms}",
            reconsume_times=message.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=host_text(message.born_host),
            store_host=host_text(self._store_host),
            store_timestamp=now_ms,
        )
        return Frame(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=encode_header(pushed), body=message.body)

    # -------------------------------------------------------------------------------------------------- into the store

    async def _put(self, message: OutgoingMessage) -> Ext:
        """Store the reply; where it is, as soon as it is as safe there as the broker's settings ask. Empty if not."""
        stored = self._writer.put(message)
        if not stored.status.is_stored:
            logger.warning(
                "reply not stored", extra={"topic": message.topic, "reason": f"{stored.status.name}: {stored.remark}"}
            )
            return {}
        try:
            await self._topics_file.save()
            if message.waits:
                await self._durability.wait_safe(int(self._store.log.max_offset))
        except OSError as error:  # said and tried again by whoever saves the topics
            logger.warning("reply not safe", extra={"topic": message.topic, "reason": str(error)})
        return {
            "msgId": encode_offset_id(self._store_host, stored.log_offset),
            "queueOffset": str(stored.queue_offset),
        }
