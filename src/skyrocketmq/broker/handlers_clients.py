"""Requests about who is connected: heartbeats, good-byes, lists of members.

`connection_closed` and `expire_silent` are called by the broker, the one for each connection that ends, the other every
`SCAN_INTERVAL_S`. A client may be in a thousand groups, and many may go at once: what takes long goes on in slices, and
until then whoever is gone still counts as a member.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator, Iterator

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.access_rules import ADMIN, SUB, Need, member_of, named_in, need_of_group, need_on_topic
from skyrocketmq.broker.answers import no_consumers, refusal
from skyrocketmq.broker.clients import ConsumerTable, Member, ProducerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters, is_tag_type
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.heartbeat_rules import check_heartbeat, check_heartbeat_bytes
from skyrocketmq.broker.notices import ChangeNotices
from skyrocketmq.broker.pull_rules import no_sql_filters
from skyrocketmq.broker.subscription_differences import SubscriptionDifferences
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.filters import SqlError, compile_sql
from skyrocketmq.model import SQL92_EXPRESSION, ConsumerData, HeartbeatData
from skyrocketmq.model.names import check_topic, retry_topic
from skyrocketmq.net import BodyRequest, Connection, Request, Steps, answers, in_slices
from skyrocketmq.ports import Clock
from skyrocketmq.slices import Backlog
from skyrocketmq.wire import bodies_admin
from skyrocketmq.wire.bodies_clients import CheckClientRequest, ConsumerIdList
from skyrocketmq.wire.codes import Language, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_admin import ProducerGroupHeader
from skyrocketmq.wire.headers_clients import ConsumerGroupHeader, UnregisterClientHeader
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["SCAN_INTERVAL_S", "SILENCE_S_MAX", "ClientHandlers"]

logger = logging.getLogger(__name__)

SILENCE_S_MAX = 120.0  # a client that sent no heartbeat for so long is gone; it sends one every 30 s
SCAN_INTERVAL_S = 10.0
NAMED_MAX = 8  # groups named in a line of the log


def _heartbeat_needs(data: HeartbeatData) -> Iterator[Need]:
    for consumer in data.consumer_data_set:
        yield need_of_group(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            yield need_on_topic(subscription.topic, SUB)


def _check_needs(request: CheckClientRequest) -> Iterator[Need]:
    yield need_of_group(request.group)
    if request.subscription_data is None:
        raise ProtocolError("the check of a subscription has none")
    yield need_on_topic(request.subscription_data.topic, SUB)


class ClientHandlers:
    """The answers, from the tables of clients, and what has to happen when one of them goes."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable[Connection],
        filters: ConsumerFilters,
        producers: ProducerTable[Connection],
        differences: SubscriptionDifferences[Connection],
        notices: ChangeNotices,
        clock: Clock,
        access: AccessControl | None = None,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters
        self._producers = producers
        self._differences = differences
        self._notices = notices
        self._clock = clock
        self._access = access
        self._leaving = Backlog(clock)
        producers.may_be_told = None if access is None else access.may_be_told

    # -- coming and going

    @answers(RequestCode.HEART_BEAT, needs=named_in(HeartbeatData, _heartbeat_needs))
    def heartbeat(self, request: BodyRequest[HeartbeatData]) -> Frame | Awaitable[Frame]:
        """A client says, every thirty seconds, who it is, what it produces and what it consumes."""
        frame, connection = request.frame, request.connection
        check_heartbeat_bytes(frame.body)
        check_heartbeat(
            request.body,
            self._config.current.limits,
            consuming=self._consumers.subscriptions_of(connection),
            producing=self._producers.groups_of(connection),
        )
        return in_slices(self._take_heartbeat(request.body, frame, connection), self._clock)

    def _take_heartbeat(self, data: HeartbeatData, frame: Frame, connection: Connection) -> Steps:
        member = Member(
            connection=connection,
            client_id=data.client_id,
            address=connection.peer,
            language=frame.language,
            version=frame.version,
            heard_ms=self._clock.now_ms(),
            heard_s=self._clock.monotonic(),
            account=None if self._access is None else self._access.account_of(frame, connection),
        )
        changed: list[str] = []
        joined: list[str] = []
        for consumer in data.consumer_data_set:
            if connection.is_closed:  # meanwhile: whatever it was a member of has been told so
                return frame.reply()
            yield from self._register_consumer(member, consumer, changed)
            yield
        for producer in data.producer_data_set:
            if connection.is_closed:
                return frame.reply()
            if self._producers.register(producer.group_name, member):
                joined.append(producer.group_name)
            yield
        # One line each, however many groups a client has: a stranger's heartbeat must not fill the log.
        if changed:
            logger.info("consumer group changed", extra=_describe(changed, member))
        if joined:
            logger.info("producer joined", extra=_describe(joined, member))
            if not self._producers.may_have_client_id(member):
                logger.warning(
                    "the client id of another account, which goes on getting the replies to it",
                    extra=_describe(joined, member) | {"account": member.account},
                )
        return frame.reply()

    def _register_consumer(
        self, member: Member[Connection], data: ConsumerData, changed: list[str]
    ) -> Generator[None, None, None]:
        name = data.group_name
        group = self._groups.find_or_create(name)
        if group is not None and _has_legal_retry_topic(name):
            self._topics.get_retry_topic(name, queue_count=group.retry_queue_nums, unit_mode=data.unit_mode)
        if self._consumers.register(member, data):
            changed.append(name)
            if group is None or group.notify_consumer_ids_changed_enable:
                self._notify(name)
        self._differences.heard(member.connection, member.client_id, member.address, data, now_s=member.heard_s)
        if self._config.current.sql_filter_enable:  # else nobody is filtered by what they say, see `pull_rules`
            for _ in self._filters.register_in_steps(name, data.subscription_data_set, now_ms=member.heard_ms):
                yield
                if member.connection.is_closed:  # nobody would take back what is registered now
                    return

    @answers(RequestCode.UNREGISTER_CLIENT, needs=member_of("consumerGroup"))
    def unregister(self, request: Request[UnregisterClientHeader]) -> None:
        """A client leaves its groups."""
        header, connection = request.header, request.connection
        if header.producer_group:
            self._producers.unregister(header.producer_group, connection)
        if header.consumer_group and self._consumers.unregister(header.consumer_group, connection):
            self._drop_filters(header.consumer_group)
            self._differences.gone(header.consumer_group, connection, now_s=self._clock.monotonic())
            group = self._groups.find(header.consumer_group)
            if group is None or group.notify_consumer_ids_changed_enable:
                self._notify(header.consumer_group)

    def connection_closed(self, connection: Connection) -> None:
        """A connection has ended, and with it its membership in every group."""
        self._leaving.add(self._leave(connection))

    def _leave(self, connection: Connection) -> Iterator[None]:
        for _ in self._producers.forget_in_steps(connection):
            yield
        lost = []
        for group in self._consumers.forget_in_steps(connection):
            lost.append(group)
            self._left(group, connection)
            yield
        if lost:
            logger.info("consumer lost", extra={"group": _named(lost), "peer": connection.peer})

    def _left(self, group: str, connection: Connection) -> None:
        self._drop_filters(group)
        self._differences.gone(group, connection, now_s=self._clock.monotonic())
        self._notify(group)

    def _drop_filters(self, group: str) -> None:
        """The filters of a group go with its last member."""
        if self._consumers.find(group) is None:
            self._filters.unregister(group, now_ms=self._clock.now_ms())

    def expire_silent(self) -> None:
        """Close the connections of clients that have sent no heartbeat for too long."""
        self._leaving.add(self._expire(self._clock.monotonic() - SILENCE_S_MAX))

    def _expire(self, deadline_s: float) -> Iterator[None]:
        silent: dict[Connection, None] = {}
        for table in (self._consumers, self._producers):
            for group in table.groups():
                silent.update((each, None) for each in table.silent_in(group, deadline_s) if not each.is_closed)
                yield
        for connection in silent:
            logger.warning("client expired", extra={"peer": connection.peer, "silent_s": SILENCE_S_MAX})
            self.connection_closed(connection)
            connection.close("no heartbeat for too long")
            yield

    def close(self) -> None:
        self._leaving.close()

    def _notify(self, group: str) -> None:
        if self._config.current.notify_consumer_ids_changed:
            self._notices.add(group)

    # -- questions

    @answers(RequestCode.CHECK_CLIENT_CONFIG, needs=named_in(CheckClientRequest, _check_needs))
    def check_subscription(self, request: BodyRequest[CheckClientRequest]) -> None:
        """Whether the broker can filter by this expression. Tags always."""
        subscription = request.body.subscription_data
        if subscription is None or is_tag_type(subscription.expression_type):
            return
        config, kind = self._config.current, subscription.expression_type
        if not config.sql_filter_enable:
            raise refusal(ResponseCode.SYSTEM_ERROR, no_sql_filters(config, kind))
        if kind != SQL92_EXPRESSION:
            raise refusal(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"broker {config.broker_name} does not know filters of type {kind}",
            )
        try:
            compile_sql(subscription.sub_string)
        except SqlError as error:
            raise refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error

    @answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP, needs=member_of("consumerGroup"))
    def list_client_ids(self, request: Request[ConsumerGroupHeader]) -> ConsumerIdList:
        """The client ids of a group, among which its members share the queues."""
        group = request.required(request.header.consumer_group, "consumerGroup")
        client_ids = self._consumers.client_ids_of(group)
        if not client_ids:
            raise refusal(ResponseCode.SYSTEM_ERROR, no_consumers(group, self._config.current.broker_name))
        return ConsumerIdList(consumer_id_list=tuple(client_ids))

    @answers(RequestCode.GET_CONSUMER_CONNECTION_LIST, needs=member_of("consumerGroup"))
    def list_consumers(self, request: Request[ConsumerGroupHeader]) -> bodies_admin.ConsumerConnections:
        """The members of a consumer group and what they subscribe to."""
        name = request.required(request.header.consumer_group, "consumerGroup")
        group = self._consumers.find(name)
        if group is None:
            raise refusal(ResponseCode.CONSUMER_NOT_ONLINE, no_consumers(name, self._config.current.broker_name))
        return bodies_admin.ConsumerConnections(
            connection_set=tuple(map(_connection, self._consumers.members_of(name))),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )

    @answers(RequestCode.GET_PRODUCER_CONNECTION_LIST, needs=ADMIN)
    def list_producers(self, request: Request[ProducerGroupHeader]) -> bodies_admin.ProducerConnections:
        """The members of a producer group."""
        group = request.required(request.header.producer_group, "producerGroup")
        members = self._producers.members_of(group)
        if not members:
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"no producer of group {group} is connected to {self._config.current.broker_name}: "
                "check the group's name, and whether its producers send to this broker",
            )
        return bodies_admin.ProducerConnections(connection_set=tuple(map(_connection, members)))

    @answers(RequestCode.GET_ALL_PRODUCER_INFO, needs=ADMIN)
    def list_all_producers(self, request: Request[NoFields]) -> bodies_admin.ProducerTable:
        """Every producer by group."""
        data = {group: list(map(_producer, self._producers.members_of(group))) for group in self._producers.groups()}
        return bodies_admin.ProducerTable(data=data)


def _has_legal_retry_topic(group: str) -> bool:
    """A group's name may be so long that no topic can be named after it: such a group lives without retries."""
    try:
        check_topic(retry_topic(group))
    except IllegalArgument:
        return False
    return True


def _describe(groups: list[str], member: Member[Connection]) -> dict[str, object]:
    return {"group": _named(groups), "client": member.client_id, "peer": member.address}


def _named(groups: list[str]) -> str:
    more = f" and {len(groups) - NAMED_MAX} more" if len(groups) > NAMED_MAX else ""
    return ",".join(groups[:NAMED_MAX]) + more


def _language_name(language: int | None) -> str:
    try:
        return Language(language).name if language is not None else Language.OTHER.name
    except ValueError:
        return Language.OTHER.name


def _connection(member: Member[Connection]) -> bodies_admin.ClientConnection:
    return bodies_admin.ClientConnection(
        client_addr=member.address,
        client_id=member.client_id,
        language=_language_name(member.language),
        version=member.version,
    )


def _producer(member: Member[Connection]) -> bodies_admin.ProducerInfo:
    return bodies_admin.ProducerInfo(
        client_id=member.client_id,
        language=_language_name(member.language),
        last_update_timestamp=member.heard_ms,
        remote_ip="/" + member.address,
        version=member.version,
    )
