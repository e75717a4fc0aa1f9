"""The calls that clients make to brokers, each as a function with typed arguments and a plain result.

Addresses are found by broker name: the master for what changes something; offsets may be asked of a slave where the
master is gone. Refusals are `BrokerError`s, trouble on the way is a `NetError`, a broker that no route names is
`NoRoute`.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.client.route_rules import vip_address
from skyrocketmq.client.routes import Routes
from skyrocketmq.errors import NoRoute, ProtocolError, QueryNotFound, broker_error
from skyrocketmq.model import MessageQueue, MessageView, QueueOffset, SubscriptionData
from skyrocketmq.net import Client
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import CheckClientRequest, ConsumerIdList, LockedQueues, QueueLockRequest
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import ConsumerGroupHeader
from skyrocketmq.wire.headers_codec import Header, decode_header, encode_header
from skyrocketmq.wire.headers_pull import (
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from skyrocketmq.wire.headers_send import SendBackHeader

__all__ = ["BrokerCalls"]

OFFSET_TIMEOUT_S: Final = 5.0
QUEUE_TIMEOUT_S: Final = 6.0  # smallest and largest offset, search by time
LOCK_TIMEOUT_S: Final = 1.0


class BrokerCalls:
    """Requests to brokers, over the connections of one client instance."""

    def __init__(self, client: Client, routes: Routes, *, api_timeout_s: float, vip_channel: bool) -> None:
        self._client = client
        self._routes = routes
        self._api_timeout_s = api_timeout_s
        self._vip_channel = vip_channel

    # ------------------------------------------------------------------------------------------------------- addresses

    def address(self, address: str) -> str:
        """The port that this client uses for ordinary requests to the broker at an address."""
        return vip_address(address) if self._vip_channel else address

    async def master(self, queue: MessageQueue) -> str:
        """The master of a queue's broker; asks for the topic's route if it is not known."""
        found = self._routes.master(queue.broker_name)
        if found is None:
            await self._routes.refresh(queue.topic)
            found = self._routes.master(queue.broker_name)
        if found is None:
            raise NoRoute(f"the broker {queue.broker_name} of {queue} has no master now")
        return self.address(found)

    async def _master_or_any(self, queue: MessageQueue) -> str:
        if self._routes.master(queue.broker_name) is None:
            await self._routes.refresh(queue.topic)
        for address in self._routes.addresses(queue.broker_name).values():
            return self.address(self._routes.master(queue.broker_name) or address)
        raise NoRoute(f"the broker {queue.broker_name} of {queue} is not known to the name servers now")

    async def ask(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b"", *, timeout_s: float
    ) -> Frame:
        """A request; the answer if it is a success, else the error of its code."""
        frame = Frame(code, ext=None if header is None else encode_header(header), body=body)
        answer = await self._client.request(address, frame, timeout_s)
        if answer.code:
            raise broker_error(answer.code, answer.remark, address=address)
        return answer

    # --------------------------------------------------------------------------------------------------------- offsets

    async def query_offset(self, group: str, queue: MessageQueue) -> QueueOffset | None:
        """14: how far the group is in the queue; None if the broker has nothing stored."""
        header = QueryConsumerOffsetHeader(group, queue.topic, queue.queue_id, queue.broker_name)
        address = await self._master_or_any(queue)
        try:
            answer = await self.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_s=OFFSET_TIMEOUT_S)
        except QueryNotFound:
            return None
        return _offset(answer)

    async def update_offset(
        self, group: str, queue: MessageQueue, offset: int, *, wait_for_answer: bool = False
    ) -> None:
        """15: how far the group is in the queue now. Without an answer unless one is wanted."""
        header = UpdateConsumerOffsetHeader(group, queue.topic, queue.queue_id, offset, queue.broker_name)
        address = await self._master_or_any(queue)
        if wait_for_answer:
            await self.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_s=OFFSET_TIMEOUT_S)
        else:
            frame = Frame(RequestCode.UPDATE_CONSUMER_OFFSET, ext=encode_header(header))
            await self._client.oneway(address, frame, OFFSET_TIMEOUT_S)

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """30: the offset that the next message of the queue will have."""
        return await self._ask_queue(RequestCode.GET_MAX_OFFSET, queue)

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """31: the offset of the first message of the queue that is still stored."""
        return await self._ask_queue(RequestCode.GET_MIN_OFFSET, queue)

    async def _ask_queue(self, code: RequestCode, queue: MessageQueue) -> QueueOffset:
        header = QueueHeader(queue.topic, queue.queue_id, queue.broker_name)
        return _offset(await self.ask(await self.master(queue), code, header, timeout_s=QUEUE_TIMEOUT_S))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """29: the message of the queue that was stored nearest to a time."""
        header = SearchOffsetHeader(queue.topic, queue.queue_id, timestamp_ms, queue.broker_name)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return _offset(await self.ask(await self.master(queue), code, header, timeout_s=QUEUE_TIMEOUT_S))

    # ---------------------------------------------------------------------------------------------------------- groups

    async def client_ids(self, group: str, *, address: str) -> tuple[str, ...]:
        """38: the members of a group, as a broker of the topic knows them."""
        header = ConsumerGroupHeader(group)
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        answer = await self.ask(self.address(address), code, header, timeout_s=self._api_timeout_s)
        return decode_body(ConsumerIdList, answer.body).consumer_id_list

    async def check_subscription(self, client_id: str, group: str, data: SubscriptionData, *, address: str) -> None:
        """46: whether the broker can filter by this subscription; raises its refusal."""
        body = encode_body(CheckClientRequest(client_id=client_id, group=group, subscription_data=data))
        code = RequestCode.CHECK_CLIENT_CONFIG
        await self.ask(self.address(address), code, body=body, timeout_s=self._api_timeout_s)

    async def lock(
        self, client_id: str, group: str, queues: tuple[MessageQueue, ...], *, address: str
    ) -> frozenset[MessageQueue]:
        """41: take queues of one broker for this client alone; those that it has now."""
        body = encode_body(QueueLockRequest(client_id=client_id, consumer_group=group, mq_set=queues))
        code = RequestCode.LOCK_BATCH_MQ
        answer = await self.ask(self.address(address), code, body=body, timeout_s=LOCK_TIMEOUT_S)
        return frozenset(decode_body(LockedQueues, answer.body).lock_ok_mq_set)

    async def unlock(self, client_id: str, group: str, queues: tuple[MessageQueue, ...], *, address: str) -> None:
        """42: give queues of one broker back."""
        body = encode_body(QueueLockRequest(client_id=client_id, consumer_group=group, mq_set=queues))
        code = RequestCode.UNLOCK_BATCH_MQ
        await self.ask(self.address(address), code, body=body, timeout_s=LOCK_TIMEOUT_S)

    # -------------------------------------------------------------------------------------------------------- messages

    async def send_back(
        self,
        group: str,
        message: MessageView,
        *,
        delay_level: int,
        reconsume_times_max: int,
        timeout_s: float,
        unit_mode: bool = False,
    ) -> None:
        """36: hand a message back to its broker, which offers it to the group again later.

        It goes to the address that stored it, which is in the message: that copy is what the broker looks up.
        """
        header = SendBackHeader(
            offset=message.log_offset,
            group=group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            unit_mode=unit_mode,
            max_reconsume_times=reconsume_times_max,
            broker_name=message.broker_name or None,
        )
        found = self._routes.master(message.broker_name) if message.broker_name else None
        address = self.address(found or message.store_host)
        await self.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_s=timeout_s)


def _offset(answer: Frame) -> QueueOffset:
    offset = decode_header(OffsetAnswer, answer.ext).offset
    if offset is None:
        raise ProtocolError("an answer about an offset has none")
    return QueueOffset(offset)
