"""Pull requests: ask a broker for messages of a queue, and understand its answer.

Rule 1: each answer says which broker id is to be asked next, the master or a slave; that is followed for its queue.
Rule 2: a slave never gets an offset to store.
Rule 3: the broker filters by the hash of a tag; messages that only share a hash are dropped here.
Rule 4: a record that cannot be read is logged and stepped over. It would not become readable by asking again.
Rule 5: what an answer inflates to is bounded: the messages that would be too much are asked for again, with the next
        pull.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.route_rules import pull_address
from skyrocketmq.errors import ClientError, NoRoute, ProtocolError, broker_error
from skyrocketmq.model import (
    MASTER_ID,
    TAG_EXPRESSION,
    MessageQueue,
    MessageView,
    QueueOffset,
    SubscriptionData,
)
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION
from skyrocketmq.wire.codes import SQL_FILTER_VERSION, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header, encode_header
from skyrocketmq.wire.headers_pull import PullMessageAnswer, PullMessageHeader
from skyrocketmq.wire.properties import encode_properties
from skyrocketmq.wire.pulled_records import PulledRecords
from skyrocketmq.wire.records import queue_offset_of

__all__ = ["PullRequest", "PullResult", "PullStatus", "Pulls"]

logger = logging.getLogger(__name__)


class PullStatus(Enum):
    """What a pull brought."""

    FOUND = "found"
    NO_NEW_MESSAGE = "no new message"
    NO_MATCHED_MESSAGE = "no matched message"
    OFFSET_ILLEGAL = "offset illegal"  # the queue begins later, or ends earlier: go on at the next offset


STATUS_BY_CODE: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """The messages of a pull, and where to go on. Offsets are the queue's, as the broker knew them."""

    status: PullStatus
    messages: list[MessageView]
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    queue: MessageQueue
    offset: int
    subscription: SubscriptionData
    count_max: int
    sys_flag: int
    hold_s: float  # how long the broker may wait for a message
    timeout_s: float
    commit_offset: int = 0
    sub_version: int = 0


class Pulls:
    """Pulls of one group. Remembers which broker id each queue is pulled from."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}

    async def pull(self, request: PullRequest) -> PullResult:
        """Raises the `BrokerError` of any refusal, a `NetError`, or `NoRoute`."""
        address, is_slave = await self._address(request.queue)
        self._check_filter(request.subscription, address)
        frame = Frame(RequestCode.PULL_MESSAGE, ext=encode_header(self._header(request, is_slave=is_slave)))
        answer = await self._instance.net.request(address, frame, request.timeout_s)
        status = STATUS_BY_CODE.get(answer.code)
        if status is None:
            raise broker_error(answer.code, answer.remark, address=address)
        return self._read(answer, status, request)

    def forget(self, queue: MessageQueue) -> None:
        self._suggested.pop(queue, None)

    async def _address(self, queue: MessageQueue) -> tuple[str, bool]:
        routes = self._instance.routes
        suggested_id = self._suggested.get(queue, MASTER_ID)
        found = pull_address(routes.addresses(queue.broker_name), suggested_id)
        if found is None:
            await routes.refresh(queue.topic)
            found = pull_address(routes.addresses(queue.broker_name), suggested_id)
        if found is None:
            raise NoRoute(f"the broker {queue.broker_name} of {queue} is not known to the name servers now")
        return found

    def _check_filter(self, subscription: SubscriptionData, address: str) -> None:
        kind = subscription.expression_type or TAG_EXPRESSION
        version = self._instance.heartbeats.versions.get(address)  # known from its first answer to a heartbeat on
        if kind != TAG_EXPRESSION and version is not None and version < SQL_FILTER_VERSION:
            raise ClientError(f"the broker {address} (version {version}) is too old to filter by {kind}: use tags")

    def _header(self, request: PullRequest, *, is_slave: bool) -> PullMessageHeader:
        flag = request.sys_flag & ~PULL_COMMIT_OFFSET if is_slave else request.sys_flag
        subscription = request.subscription
        return PullMessageHeader(
            consumer_group=self._group,
            topic=request.queue.topic,
            queue_id=request.queue.queue_id,
            queue_offset=request.offset,
            max_msg_nums=request.count_max,
            sys_flag=flag,
            commit_offset=request.commit_offset,
            suspend_timeout_ms=round(request.hold_s * 1000),
            subscription=subscription.sub_string if flag & PULL_SUBSCRIPTION else None,
            sub_version=request.sub_version,
            expression_type=subscription.expression_type or TAG_EXPRESSION,
            broker_name=request.queue.broker_name,
        )

    def _read(self, answer: Frame, status: PullStatus, request: PullRequest) -> PullResult:
        header = decode_header(PullMessageAnswer, answer.ext)
        if header.next_begin_offset is None:
            raise ProtocolError(f"the answer to a pull of {request.queue} does not say where to go on")
        self._suggested[request.queue] = header.suggest_which_broker_id or MASTER_ID
        messages: list[MessageView] = []
        next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            messages, unread_from = read_messages(
                answer.body,
                request.queue,
                request.subscription,
                bounds={
                    names.MIN_OFFSET: str(header.min_offset or 0),
                    names.MAX_OFFSET: str(header.max_offset or 0),
                },
            )
            if unread_from is not None:
                next_offset = unread_from
        return PullResult(
            status=status,
            messages=messages,
            next_offset=QueueOffset(next_offset),
            min_offset=QueueOffset(header.min_offset or 0),
            max_offset=QueueOffset(header.max_offset or 0),
        )


def read_messages(
    body: bytes, queue: MessageQueue, subscription: SubscriptionData, *, bounds: dict[str, str]
) -> tuple[list[MessageView], int | None]:
    """The messages of an answer that the subscriber asked for, each with the queue's bounds among its properties; and
    the offset from which on it was not read, because the rest would take too much memory now."""

    def note_unreadable(at: int, error: ProtocolError) -> None:
        offset = queue_offset_of(body, at)
        logger.error("message not readable", extra={"queue": str(queue), "offset": offset, "reason": str(error)})

    try:
        messages, unread_from = PulledRecords(
            queue, added=encode_properties(bounds), on_unreadable=note_unreadable
        ).read(body)
    except ProtocolError as error:
        logger.error("pulled messages not readable", extra={"queue": str(queue), "reason": str(error)})
        return [], None
    tags = subscription.tags_set
    if tags:
        messages = [message for message in messages if message.tags in tags]
    return messages, unread_from
