"""What administrators ask of consumers through the broker.

To go to other offsets (222), how far they are (223), how they are doing (307), to handle one message now (309).

The broker finds the consumer by group and client id, and asks it on the connection that the consumer opened. It changes
nothing itself: after a reset the consumers commit the new offsets, as they do any others.

Rule: a consumer learns nothing of who asked: access key and signature of the request stay here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from skyrocketmq.broker.access_rules import ADMIN, member_of, reads
from skyrocketmq.broker.answers import no_consumers, no_such_topic, refusal
from skyrocketmq.broker.clients import ConsumerTable, Member
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.broker.turns import Turns
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import BrokerError, NetError, ProtocolError, RequestTimeout
from skyrocketmq.model import MessageQueue
from skyrocketmq.net import Connection, Request, answers
from skyrocketmq.ports import Clock
from skyrocketmq.store import Buffer, MessageStore
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
    QueueOffsetItem,
    ResetOffsetList,
    ResetOffsets,
)
from skyrocketmq.wire.codes import (
    RELAYED_CALLS_VERSION,
    RESET_OFFSET_VERSION,
    Language,
    RequestCode,
    ResponseCode,
    request_name,
)
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import (
    ConsumeMessageDirectlyHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
)
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.ids import decode_offset_id
from skyrocketmq.wire.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from skyrocketmq.wire.versions import version_name

__all__ = ["RelayHandlers"]

logger = logging.getLogger(__name__)

RELAY_TIMEOUT_S: Final = 10.0
STATUS_TIMEOUT_S: Final = 5.0
TO_THE_END: Final = -1  # the timestamp that stands for the end of each queue
_OF_THE_ASKER: Final = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN})


class RelayHandlers:
    """The four requests."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        consumers: ConsumerTable[Connection],
        offsets: ConsumerOffsets,
        store: MessageStore,
        clock: Clock,
    ) -> None:
        self._config = config
        self._topics = topics
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._turns = Turns(clock)

    # -- offsets

    @answers(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, needs=reads("topic", "group"))
    async def reset_offsets(self, request: Request[ResetOffsetHeader]) -> ResetOffsets:
        """Tell every member of a group to go on where a topic was at a time, or at its end.

        Without force a queue is only put back: where the group has not come so far yet, it stays where it is.
        """
        header = request.header
        topic, group = request.required(header.topic, "topic"), request.required(header.group, "group")
        timestamp_ms = request.required(header.timestamp, "timestamp")
        table = await self._offsets_at(topic, group, timestamp_ms, is_forced=header.is_force)
        members = self._consumers.members_of(group)
        if not members:
            # Apache's tools then change the offsets at the broker, one by one.
            remark = no_consumers(group, self._config.current.broker_name)
            raise refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        for member in members:
            _check_version(member, RESET_OFFSET_VERSION, group)
        answer = ResetOffsets(offset_table=table)
        body = _for_cpp(table) if request.frame.language == Language.CPP else encode_body(answer)
        ext = encode_header(ResetOffsetHeader(topic=topic, group=group, timestamp=timestamp_ms))
        told = sum(
            _tell(member, Frame(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=dict(ext), body=body))
            for member in members
        )
        by = request.connection.peer
        logger.info(
            "offsets reset",
            extra={"group": group, "topic": topic, "timestamp_ms": timestamp_ms, "told": told, "by": by},
        )
        return answer

    async def _offsets_at(
        self, topic: str, group: str, timestamp_ms: int, *, is_forced: bool
    ) -> dict[MessageQueue, int]:
        broker_name = self._config.current.broker_name
        config = self._topics.find(topic)
        if config is None:
            raise refusal(ResponseCode.SYSTEM_ERROR, no_such_topic(topic, broker_name).remark)
        table: dict[MessageQueue, int] = {}
        for queue_id in range(config.write_queue_nums):
            committed = self._offsets.find(group=group, topic=topic, queue_id=queue_id)
            if committed is None or committed < 0:
                raise refusal(
                    ResponseCode.SYSTEM_ERROR,
                    f"group {group} has no offset for queue {queue_id} of topic {topic}: it never consumed it here, "
                    "so there is nothing to reset; check the names",
                )
            if timestamp_ms == TO_THE_END:
                target = int(self._store.max_offset(topic, queue_id))
            else:
                target = int(await self._store.offset_by_time(topic, queue_id, timestamp_ms))
            target = max(0, target)
            offset = target if is_forced or target < committed else committed
            table[MessageQueue(topic, broker_name, queue_id)] = offset
            await self._turns.let_others()
        return table

    @answers(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, needs=reads("topic", "group"))
    async def consumer_status(self, request: Request[ConsumerStatusHeader]) -> ConsumerStatus:
        """How far each member of a group is, or one of them, as they say themselves. The silent are left out."""
        header = request.header
        topic, group = request.required(header.topic, "topic"), request.required(header.group, "group")
        members = self._consumers.members_of(group)
        if not members:
            raise refusal(ResponseCode.SYSTEM_ERROR, no_consumers(group, self._config.current.broker_name))
        if header.client_addr:
            members = [member for member in members if member.client_id == header.client_addr]
        for member in members:
            _check_version(member, RESET_OFFSET_VERSION, group)
        said = await asyncio.gather(*(_ask_status(member, topic=topic, group=group) for member in members))
        table = {
            member.client_id: status.message_queue_table
            for member, status in zip(members, said, strict=True)
            if status is not None
        }
        return ConsumerStatus(consumer_table=table)

    # -- passed on as they are

    @answers(RequestCode.GET_CONSUMER_RUNNING_INFO, answer=ConsumerRunningInfo, needs=member_of("consumerGroup"))
    async def running_info(self, request: Request[ConsumerRunningInfoHeader]) -> Frame:
        """How one consumer is doing; its answer is the answer."""
        return await self._relay(request.frame, self._member(request), ext={}, body=request.frame.body)

    @answers(RequestCode.CONSUME_MESSAGE_DIRECTLY, answer=ConsumeMessageDirectlyResult, needs=ADMIN)
    async def consume_directly(self, request: Request[ConsumeMessageDirectlyHeader]) -> Frame:
        """Let one consumer handle one message now, and say how it went; no offset is changed by that."""
        member = self._member(request)
        message_id = request.required(request.header.msg_id, "msgId")
        record = await self._message(message_id)
        logger.info(
            "message given to a consumer directly",
            extra={"message_id": message_id, "client": member.client_id, "by": request.connection.peer},
        )
        ext = {"brokerName": self._config.current.broker_name}
        return await self._relay(request.frame, member, ext=ext, body=bytes(record))

    async def _message(self, message_id: str) -> Buffer:
        try:
            _, log_offset = decode_offset_id(message_id)
        except ProtocolError as error:
            raise refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        record = await self._store.message_at(log_offset)
        if record is None:
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"there is no message {message_id} on {self._config.current.broker_name}: it has expired, or the id "
                "belongs to another broker, or is a unique id, where the offset id is needed",
            )
        return record

    def _member(
        self, request: Request[ConsumerRunningInfoHeader] | Request[ConsumeMessageDirectlyHeader]
    ) -> Member[Connection]:
        group = request.required(request.header.consumer_group, "consumerGroup")
        client_id = request.required(request.header.client_id, "clientId")
        member = self._consumers.find_member(group, client_id)
        if member is None:
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"consumer {client_id} of group {group} is not connected to {self._config.current.broker_name}",
            )
        _check_version(member, RELAYED_CALLS_VERSION, group)
        return member

    async def _relay(self, frame: Frame, member: Member[Connection], *, ext: Mapping[str, str], body: bytes) -> Frame:
        fields = {name: text for name, text in (frame.ext or {}).items() if name not in _OF_THE_ASKER}
        fields.update(ext)
        what = f"consumer {member.client_id} on {member.address}"
        try:
            said = await member.connection.request(Frame(frame.code, ext=fields, body=body), RELAY_TIMEOUT_S)
        except RequestTimeout as error:
            remark = f"{what} did not answer {request_name(frame.code)} within {RELAY_TIMEOUT_S:g} s"
            raise refusal(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from error
        except NetError as error:
            raise refusal(ResponseCode.SYSTEM_ERROR, f"{what} could not be asked: {error}") from error
        return frame.reply(said.code, remark=said.remark, ext=said.ext, body=said.body)


def _check_version(member: Member[Connection], version: int, group: str) -> None:
    if member.version < version:
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"consumer {member.client_id} of group {group} is of release {version_name(member.version)} and does not "
            f"know this request: {version_name(version)} or newer is needed",
        )


def _tell(member: Member[Connection], frame: Frame) -> bool:
    try:
        member.connection.send_oneway(frame)
    except NetError as error:
        logger.warning("consumer not told", extra={"client": member.client_id, "reason": str(error)})
        return False
    return True


async def _ask_status(member: Member[Connection], *, topic: str, group: str) -> ConsumerStatus | None:
    ext = encode_header(ConsumerStatusHeader(topic=topic, group=group))
    frame = Frame(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext=ext)
    try:
        said = await member.connection.request(frame, STATUS_TIMEOUT_S)
        return decode_body(ConsumerStatus, said.body) if said.code == ResponseCode.SUCCESS else None
    except (NetError, ProtocolError, BrokerError) as error:
        logger.warning("consumer gave no status", extra={"client": member.client_id, "reason": str(error)})
        return None


def _for_cpp(table: dict[MessageQueue, int]) -> bytes:
    """The same as a list: C++ clients, asked for by a C++ administrator, read no objects as keys."""
    items = [
        QueueOffsetItem(broker_name=queue.broker_name, offset=offset, queue_id=queue.queue_id, topic=queue.topic)
        for queue, offset in table.items()
    ]
    return encode_body(ResetOffsetList(offset_table=tuple(items)))
