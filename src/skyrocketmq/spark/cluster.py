"""What a plan needs to know of a cluster: which topics there are, their queues, and how far each of them reaches.

Blocking, for the driver and for tasks. Connections are kept until `close`, and made anew once when one has ended in the
meantime: a streaming query asks every few seconds, for weeks.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from skyrocketmq.errors import MQError, NetError, NoRoute
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.names import PERM_READ
from skyrocketmq.model.routes import TopicRoute
from skyrocketmq.spark.link import BlockingLink, LinkSettings
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import TopicList
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Header, decode_header, encode_header
from skyrocketmq.wire.headers_namesrv import GetRouteInfoHeader
from skyrocketmq.wire.headers_pull import OffsetAnswer, QueueHeader, SearchOffsetHeader, UpdateConsumerOffsetHeader

__all__ = ["Cluster"]

_ROUTE_ANSWERS: Final = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)


class Cluster:
    """A cluster as seen through its name servers. Use it as `with`, or call `close`."""

    def __init__(self, name_servers: Sequence[str], settings: LinkSettings) -> None:
        self._name_servers = tuple(name_servers)
        self._settings = settings
        self._links: dict[str, BlockingLink] = {}
        self._brokers: dict[str, str] = {}  # address of each broker that a route has told of

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    # ---------------------------------------------------------------------------------------------- name servers

    def topics(self) -> list[str]:
        """All topics that a name server knows."""
        body = self._ask_name_servers(Frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body
        return sorted(decode_body(TopicList, body).topic_list)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be read. Raises `NoRoute` for a topic that nobody knows."""
        header = GetRouteInfoHeader(topic=topic, accept_standard_json_only=True)
        frame = Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=encode_header(header))
        answer = self._ask_name_servers(frame, expected=_ROUTE_ANSWERS)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            asked = ", ".join(self._name_servers)
            raise NoRoute(f"no route for topic {topic}: asked name servers {asked}, none knows it. Create it first")
        route = decode_body(TopicRoute, answer.body)
        for broker in route.broker_datas:
            # A slave has the same queues: without a master it is read instead.
            address = broker.master_address or next(iter(broker.broker_addrs.values()), None)
            if address is not None:
                self._brokers[broker.broker_name] = address
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queue_datas
            if data.perm & PERM_READ and data.broker_name in self._brokers
            for queue_id in range(data.read_queue_nums)
        )

    def address_of(self, broker: str, topic: str) -> str:
        """The address of a broker that has queues of the topic."""
        if broker not in self._brokers:
            self.queues(topic)
        if broker not in self._brokers:
            raise NoRoute(f"broker {broker} has no queues of topic {topic} now: it is down, or its name has changed")
        return self._brokers[broker]

    def _ask_name_servers(self, frame: Frame, *, expected: tuple[int, ...] = (ResponseCode.SUCCESS,)) -> Frame:
        failures: list[str] = []
        unknown: Frame | None = None
        for address in self._name_servers:
            try:
                answer = self._request(address, frame, expected=expected)
            except MQError as error:
                failures.append(f"{address}: {error}")
                continue
            if answer.code == ResponseCode.SUCCESS:
                return answer
            unknown = answer
        if unknown is not None:
            return unknown
        raise NetError(f"no name server could be asked. {'; '.join(failures)}")

    # --------------------------------------------------------------------------------------------------- brokers

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message."""
        return self._offset(queue, RequestCode.GET_MIN_OFFSET, QueueHeader(topic=queue.topic, queue_id=queue.queue_id))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return self._offset(queue, RequestCode.GET_MAX_OFFSET, QueueHeader(topic=queue.topic, queue_id=queue.queue_id))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at a time or later."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Note at the broker how far a group is."""
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        frame = Frame(RequestCode.UPDATE_CONSUMER_OFFSET, ext=encode_header(header))
        self._request(self.address_of(queue.broker_name, queue.topic), frame)

    def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        address = self.address_of(queue.broker_name, queue.topic)
        answer = self._request(address, Frame(code, ext=encode_header(header)))
        return decode_header(OffsetAnswer, answer.ext).offset or 0

    def _request(self, address: str, frame: Frame, *, expected: tuple[int, ...] = (ResponseCode.SUCCESS,)) -> Frame:
        link = self._links.get(address)
        if link is not None:
            try:
                return link.request(frame, expected=expected)
            except NetError:  # it may have ended while nobody was looking
                self._links.pop(address).close()
        link = self._links[address] = BlockingLink(address, self._settings)
        return link.request(frame, expected=expected)
