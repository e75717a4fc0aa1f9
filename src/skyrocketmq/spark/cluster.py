"""What a plan needs to know of a cluster: which topics there are, their queues, and how far each of them reaches.

Blocking, for the driver and for tasks. Connections are kept until `close`, and made anew once when one has ended in the
meantime: a streaming query asks every few seconds, for weeks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from skyrocketmq.errors import MQError, NetError, NoRoute
from skyrocketmq.model import QUEUE_COUNT_MAX, MessageQueue
from skyrocketmq.model.flags import PULL_SUBSCRIPTION
from skyrocketmq.model.names import PERM_READ, PERM_WRITE, local_system_topics
from skyrocketmq.model.properties import UNIQ_KEY
from skyrocketmq.model.routes import TopicRoute
from skyrocketmq.spark.columns import columns_of
from skyrocketmq.spark.link import BlockingLink, LinkSettings
from skyrocketmq.spark.record_places import places_in_answer
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_routes import decode_cluster_info
from skyrocketmq.wire.bodies_tables import TopicList
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Header, decode_header, encode_header
from skyrocketmq.wire.headers_namesrv import GetRouteInfoHeader
from skyrocketmq.wire.headers_pull import (
    OffsetAnswer,
    PullMessageHeader,
    QueryConsumerOffsetHeader,
    QueryMessageAnswer,
    QueryMessageHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

__all__ = ["Cluster", "Indexed"]

DEFAULT_GROUP: Final = "skyrocketmq-spark"
SAMPLE_COUNT: Final = 32

_ROUTE_ANSWERS: Final = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
_PULL_ANSWERS: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a broker's index has of a key: records, in the order of the log, and whether it says that it has any."""

    records: bytes
    is_written: bool


class Cluster:
    """A cluster as seen through its name servers. Use it as `with`, or call `close`."""

    def __init__(self, name_servers: Sequence[str], settings: LinkSettings, *, group: str = DEFAULT_GROUP) -> None:
        """`group` is the one that messages are looked at as: brokers may check who it is."""
        self._name_servers = tuple(name_servers)
        self._settings = settings
        self._group = group
        self._links: dict[str, BlockingLink] = {}
        self._brokers: dict[str, str] = {}  # address of each broker that a route has told of
        self._replicas: set[str] = set()  # those of which only a slave is there

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

    def broker_names(self) -> frozenset[str]:
        """All brokers that are there now, as the name servers know it."""
        body = self._ask_name_servers(Frame(RequestCode.GET_BROKER_CLUSTER_INFO)).body
        return frozenset(decode_cluster_info(body).broker_addr_table)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be read. Raises `NoRoute` for a topic that nobody knows."""
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self._route(topic).queue_datas
            if data.perm & PERM_READ and data.broker_name in self._brokers
            for queue_id in range(min(data.read_queue_nums, QUEUE_COUNT_MAX))
        )

    def writable_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be written to: those of brokers that have a master now. Raises `NoRoute`."""
        route = self._route(topic)
        masters = {broker.broker_name for broker in route.broker_datas if broker.master_address is not None}
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queue_datas
            if data.perm & PERM_WRITE and data.broker_name in masters
            for queue_id in range(min(data.write_queue_nums, QUEUE_COUNT_MAX))
        )

    def addresses(self, topic: str) -> frozenset[str]:
        """The addresses of all brokers of a topic. Raises `NoRoute`."""
        return frozenset(
            address for broker in self._route(topic).broker_datas for address in broker.broker_addrs.values()
        )

    def is_of_servers(self, topic: str) -> bool:
        """Whether it is a topic that brokers have for themselves, named after them or their cluster."""
        brokers = self._route(topic).broker_datas
        return any(
            topic in local_system_topics(cluster=broker.cluster, broker=broker.broker_name) for broker in brokers
        )

    def _route(self, topic: str) -> TopicRoute:
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
                (self._replicas.discard if broker.master_address else self._replicas.add)(broker.broker_name)
        return route

    def is_replica(self, broker: str) -> bool:
        """Whether a slave stands in for the broker: where its queues end is not where they end at the master."""
        return broker in self._replicas

    def connect(self, broker: str, topic: str, *, to_write: bool = False) -> BlockingLink:
        """A new connection to a broker, wherever it is now. Raises `NetError`: it may be back in a moment."""
        try:
            self.queues(topic)
            address = self.address_of(broker, topic)
        except NoRoute as error:
            raise NetError(str(error)) from error
        if to_write and self.is_replica(broker):
            raise NetError(f"the master of {broker} is away: its slave takes no messages")
        return BlockingLink(address, self._settings, is_replica=self.is_replica(broker))

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
        """The offset of the first message that was stored at a time or later; the end if there is none.

        Brokers answer a search with the message nearest to the time, before or after it, so theirs is where this one
        begins: steps that double lead past the place, and halving finds it.
        """
        lowest, highest = self.min_offset(queue), self.max_offset(queue)
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        guess = self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        low = high = min(max(guess, lowest), highest)
        step = 1
        while low > lowest and self._is_stored_since(queue, low - 1, timestamp_ms):
            high, low = low - 1, max(low - step, lowest)
            step *= 2
        step = 1
        while high < highest and not self._is_stored_since(queue, high, timestamp_ms):
            low, high = high + 1, min(high + step, highest)
            step *= 2
        while low < high:
            middle = (low + high) // 2
            if self._is_stored_since(queue, middle, timestamp_ms):
                high = middle
            else:
                low = middle + 1
        return low

    def _is_stored_since(self, queue: MessageQueue, offset: int, timestamp_ms: int) -> bool:
        # Not this one alone: brokers leave out a message that is damaged, and the next one tells as well.
        body, starts = self._sample(queue, offset, count=SAMPLE_COUNT)
        if not starts:
            return False  # cleaned away in the meantime: it was older than all that is there
        stored = columns_of(body, starts[:1], broker=queue.broker_name, columns=("store_timestamp",))
        return bool(stored.column(0).cast(pa.int64())[0].as_py() >= timestamp_ms * 1000)

    def message_bytes(self, queue: MessageQueue, offset: int) -> float:
        """The mean size of the records from an offset on, of as many as one pull gives; 0 if there are none."""
        body, starts = self._sample(queue, offset, count=SAMPLE_COUNT)
        return len(body) / len(starts) if starts else 0.0

    def _sample(self, queue: MessageQueue, offset: int, *, count: int) -> tuple[bytes, list[int]]:
        header = PullMessageHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        frame = Frame(RequestCode.PULL_MESSAGE, ext=encode_header(header))
        address = self.address_of(queue.broker_name, queue.topic)
        answer = self._request(address, frame, expected=_PULL_ANSWERS)
        if answer.code != ResponseCode.SUCCESS:
            return b"", []
        return answer.body, places_in_answer(answer.body).tolist()

    def indexed(self, broker: str, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int) -> Indexed:
        """The newest messages whose key has the hash of this one, by the index's own times. Compare what comes."""
        header = QueryMessageHeader(topic, key, count_max, begin_ms, end_ms, False)
        frame = Frame(RequestCode.QUERY_MESSAGE, ext=encode_header(header))
        expected = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answer = self._request(self.address_of(broker, topic), frame, expected=expected)
        reached = decode_header(QueryMessageAnswer, answer.ext).index_last_update_timestamp or 0
        return Indexed(answer.body if answer.code == ResponseCode.SUCCESS else b"", reached > 0)

    def key_at(self, queue: MessageQueue, offset: int) -> str | None:
        """A key by which the index has the message at this offset, if it has one."""
        body, starts = self._sample(queue, offset, count=1)
        if not starts:
            return None
        found = columns_of(body, starts[:1], broker=queue.broker_name, columns=("properties", "keys")).to_pylist()[0]
        return dict(found["properties"]).get(UNIQ_KEY) or next(iter(found["keys"]), None)

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """How far a group is, as the broker knows it; `None` if it does not."""
        header = QueryConsumerOffsetHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        frame = Frame(RequestCode.QUERY_CONSUMER_OFFSET, ext=encode_header(header))
        address = self.address_of(queue.broker_name, queue.topic)
        answer = self._request(address, frame, expected=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))
        if answer.code != ResponseCode.SUCCESS:
            return None
        return decode_header(OffsetAnswer, answer.ext).offset

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
        try:
            link = self._links[address] = BlockingLink(address, self._settings)
            return link.request(frame, expected=expected)
        except NetError:
            # A broker may be elsewhere when it is back: its name is looked up again.
            self._brokers = {name: known for name, known in self._brokers.items() if known != address}
            raise
