"""Messages that could not be consumed, on their way to another attempt.

1. The broker that a message came from is asked to offer it to the group again (36): it has it, and knows the delays.
   Where the answer is lost it is asked once more: it may have done it, and then it knows the request again.
2. If that fails, a copy is sent to the group's retry topic, on whichever broker takes it.
3. If that fails too, the consumer keeps the message and tries it again itself after a while.
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocketmq.client.instance import INNER_PRODUCER_GROUP, ClientInstance
from skyrocketmq.client.outgoing import Compression, compressed, pack_message
from skyrocketmq.client.send_result import SendStatus
from skyrocketmq.client.sending import Sender, SendOptions
from skyrocketmq.errors import ConnectionLost, MQError, RequestTimeout
from skyrocketmq.model import Message, MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import retry_topic, with_namespace
from skyrocketmq.model.numbers import INT32_MAX

__all__ = ["RETRY_COUNT_MAX", "SendBack"]

logger = logging.getLogger(__name__)

RETRY_COUNT_MAX: Final = 16  # attempts of a message before it goes to the dead letters
COPY_DELAY_LEVEL: Final = 3  # of the first copy, one more for each attempt: 10 s, 30 s, 1 min
COPY_TIMEOUT_S: Final = 3.0
ANSWER_LOST: Final = (RequestTimeout, ConnectionLost)  # the broker may have done what it was asked for
LEFT_OUT: Final = frozenset(
    {names.TRAN_MSG, names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME, names.HANDED_BACK}
)


class SendBack:
    """Hands messages of one group back. `timeout_s` is that of the request to the broker."""

    def __init__(self, instance: ClientInstance, group: str, *, retry_count_max: int, timeout_s: float = 5.0) -> None:
        self._instance = instance
        self._group = group
        self._retry_count_max = retry_count_max
        self._timeout_s = timeout_s
        self._sender = Sender(instance, INNER_PRODUCER_GROUP, SendOptions())

    async def hand_back(self, message: MessageView, *, delay_level: int = 0) -> bool:
        """See to it that the group gets the message again; False if nobody could be told."""
        try:
            try:
                await self._ask(message, delay_level)
            except ANSWER_LOST:
                await self._ask(message, delay_level)
        except MQError as error:
            logger.info("message not sent back", extra={"message_id": message.msg_id, "reason": str(error)})
            count = message.reconsume_times + 1
            return await self.send_copy(message, reconsume_times=count, asked_level=delay_level)
        return True

    async def _ask(self, message: MessageView, delay_level: int) -> None:
        await self._instance.calls.send_back(
            self._group,
            message,
            delay_level=delay_level,
            reconsume_times_max=self._retry_count_max,
            timeout_s=self._timeout_s,
            unit_mode=self._instance.settings.unit_mode,
        )

    async def send_copy(self, message: MessageView, *, reconsume_times: int, asked_level: int | None = None) -> bool:
        """Send the message to the retry topic, as one that has been tried so often; False if no broker took it.

        One that has been tried as often as it may is moved to the dead letters by the broker. `asked_level`: the broker
        was asked to do the same, with this delay, and may have done it.
        """
        try:
            copy = self._copy(message, reconsume_times, asked_level)
            outgoing = pack_message(copy, ids=self._instance.ids, now_ms=self._instance.clock.now_ms())
            compressed(outgoing, Compression())
            sent = await self._sender.send(outgoing, timeout_s=COPY_TIMEOUT_S, topic=copy.topic)
        except MQError as error:
            logger.warning("message not sent for retry", extra={"message_id": message.msg_id, "reason": str(error)})
            return False
        if sent.status is SendStatus.FLUSH_DISK_TIMEOUT:
            # The disk may never have it. To keep the message costs a second attempt, to believe it may cost all.
            logger.warning("message sent for retry may be lost", extra={"message_id": message.msg_id})
            return False
        return True

    def _copy(self, message: MessageView, reconsume_times: int, asked_level: int | None) -> Message:
        properties = {name: value for name, value in message.properties.items() if name not in LEFT_OUT}
        topic = with_namespace(message.topic, namespace=self._instance.settings.namespace)
        properties.setdefault(names.RETRY_TOPIC, topic)
        # As the broker does it: the place of the first copy, by which it knows the message again.
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_msg_id)
        properties[names.RECONSUME_TIME] = str(reconsume_times)
        # Brokers take a copy for dead whose count has reached the limit. That of a message which was to be sent back
        # counts the attempt to come; that of an orderly member, which has used up its attempts, does not.
        counts_ahead = asked_level is not None
        properties[names.MAX_RECONSUME_TIMES] = str(min(self._retry_count_max + counts_ahead, INT32_MAX))
        properties[names.DELAY] = str(COPY_DELAY_LEVEL + message.reconsume_times)
        if asked_level is not None and asked_level >= 0:
            properties[names.HANDED_BACK] = f"{message.log_offset}/{asked_level} {message.queue.broker_name}"
        return Message(retry_topic(self._group), message.body, flag=message.flag, system_properties=properties)
