"""What became of a send.

A status other than SEND_OK is not an error: the message is stored, and one of the safeguards that the broker was
configured with (flush, replica) was not confirmed in time. The caller decides what that means to him.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from skyrocketmq.errors import ProtocolError, broker_error
from skyrocketmq.hot.sends import SendAnswer
from skyrocketmq.model import MessageQueue, QueueOffset
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_send import SendMessageAnswer

__all__ = ["SendResult", "SendStatus", "read_send_result"]

DEFAULT_REGION: Final = "DefaultRegion"


class SendStatus(Enum):
    """How far the broker got with a message that it has stored."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # not known to be on disk yet
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # not known to be on the slave yet
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # no slave that keeps up


STATUS_BY_CODE: Final[dict[int, SendStatus]] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
}


SEND_OK: Final = SendStatus.SEND_OK  # looked up once: that costs a tenth of a microsecond, and every send asks


class SendResult(msgspec.Struct, frozen=True):
    """Where a message is, and how safe. Of a batch the ids are joined by commas and the offset is the first's."""

    status: SendStatus
    msg_id: str  # the unique id, given by the producer
    offset_msg_id: str  # where it is stored, given by the broker
    queue: MessageQueue
    queue_offset: QueueOffset
    transaction_id: str | None = None
    region_id: str = DEFAULT_REGION
    trace_on: bool = True

    @property
    def is_ok(self) -> bool:
        return self.status is SEND_OK


def read_send_result(
    answer: Frame | SendAnswer, target: MessageQueue, *, topic: str, msg_id: str, address: str | None = None
) -> SendResult:
    """The result in a broker's answer to a message that was sent to `target`; the broker may have chosen another queue.
    `topic` is what the user calls it.

    Raises the `BrokerError` of any code that does not mean "stored", and `ProtocolError` if the place is missing.
    """
    if not isinstance(answer, Frame):
        _, offset_msg_id, queue_id, queue_offset, transaction_id, region, trace_on = answer
        if target.queue_id != queue_id or target.topic != topic:
            target = MessageQueue(topic, target.broker_name, queue_id)
        return SendResult(
            SEND_OK,
            msg_id,
            offset_msg_id,
            target,
            QueueOffset(queue_offset),
            transaction_id,
            region or DEFAULT_REGION,
            trace_on,
        )
    status = STATUS_BY_CODE.get(answer.code)
    if status is None:
        raise broker_error(answer.code, answer.remark, address=address)
    header = decode_header(SendMessageAnswer, answer.ext)
    if header.queue_id is None or header.queue_offset is None or header.msg_id is None:
        raise ProtocolError(f"the answer to a send to {topic} on {target.broker_name} does not say where it is stored")
    if target.queue_id != header.queue_id or target.topic != topic:
        target = MessageQueue(topic, target.broker_name, header.queue_id)
    return SendResult(
        status,
        msg_id,
        header.msg_id,
        target,
        QueueOffset(header.queue_offset),
        header.transaction_id,
        header.region or DEFAULT_REGION,
        header.trace_on != "false",
    )
