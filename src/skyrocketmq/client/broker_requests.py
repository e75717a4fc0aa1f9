"""What brokers ask of a client, by request code.

| code | asks | goes to |
|---|---|---|
| 40 | the members of a group have changed | the consumer of the group |
| 220 | go on at other offsets | the consumer of the group |
| 221 | how far are you | the consumer of the group |
| 307 | how are you doing | the consumer of the group |
| 309 | handle this message now | the consumer of the group |
| 326 | here is a reply | the request that waits for it (`waiting_replies`) |

39 (what became of a half message) is registered by the producers that know transactions, with
`BrokerRequests.register`. Any other code is answered with "not supported", as Apache's clients do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec.structs import replace

from skyrocketmq.client.members import ConsumerMember
from skyrocketmq.client.stacks import stacks_text
from skyrocketmq.errors import ProtocolError, broker_error
from skyrocketmq.model import MessageQueue
from skyrocketmq.net import Connection, Dispatcher, Handler
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import ConsumerStatus, ResetOffsetList, ResetOffsets
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import (
    ConsumeMessageDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
)
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.records import decode_record

__all__ = ["BrokerRequests"]

logger = logging.getLogger(__name__)


class BrokerRequests:
    """The handlers, for the connections of one client instance."""

    def __init__(self, find_consumer: Callable[[str], ConsumerMember | None]) -> None:
        self._find_consumer = find_consumer
        self.dispatcher = Dispatcher()
        self.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self.members_changed)
        self.register(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self.reset_offsets)
        self.register(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self.consumed_offsets)
        self.register(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info)
        self.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly)

    def register(self, code: RequestCode, handler: Handler) -> None:
        """Let `handler` answer requests of this code."""
        self.dispatcher.register(code, handler)

    def members_changed(self, frame: Frame, connection: Connection) -> None:
        header = decode_header(ConsumerGroupHeader, frame.ext)
        consumer = self._find_consumer(header.consumer_group or "")
        logger.info("group changed", extra={"group": header.consumer_group, "broker": connection.peer})
        if consumer is not None:
            consumer.members_changed()

    async def reset_offsets(self, frame: Frame, connection: Connection) -> None:
        header = decode_header(ResetOffsetHeader, frame.ext)
        consumer = self._find_consumer(header.group or "")
        if consumer is None:
            return
        offsets = _reset_offsets(frame.body)
        logger.info("offsets reset by broker", extra={"group": header.group, "topic": header.topic})
        await consumer.reset_offsets(header.topic or "", offsets)

    def consumed_offsets(self, frame: Frame, connection: Connection) -> Frame:
        header = decode_header(ConsumerStatusHeader, frame.ext)
        consumer = self._find_consumer(header.group or "")
        offsets = consumer.consumed_offsets(header.topic or "") if consumer is not None else {}
        return frame.reply(body=encode_body(ConsumerStatus(message_queue_table=offsets)))

    def running_info(self, frame: Frame, connection: Connection) -> Frame:
        header = decode_header(ConsumerRunningInfoHeader, frame.ext)
        consumer = self._get_consumer(header.consumer_group)
        info = consumer.running_info()
        if header.jstack_enable:
            info = replace(info, jstack=stacks_text())
        return frame.reply(body=encode_body(info))

    async def consume_directly(self, frame: Frame, connection: Connection) -> Frame:
        header = decode_header(ConsumeMessageDirectlyHeader, frame.ext)
        consumer = self._get_consumer(header.consumer_group)
        message = decode_record(frame.body, broker_name=header.broker_name or "")
        return frame.reply(body=encode_body(await consumer.consume_directly(message)))

    def _get_consumer(self, group: str | None) -> ConsumerMember:
        consumer = self._find_consumer(group or "")
        if consumer is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, f"the consumer group {group} is not in this client")
        return consumer


def _reset_offsets(body: bytes) -> dict[MessageQueue, int]:
    """The new offsets. An administrator who takes the group for one of C++ clients has them sent as a list."""
    try:
        return dict(decode_body(ResetOffsets, body).offset_table)
    except ProtocolError:
        items = decode_body(ResetOffsetList, body).offset_table
        return {MessageQueue(item.topic, item.broker_name, item.queue_id): item.offset for item in items}
