"""What a name server answers: one method a request code.

Nothing here waits except for the file of the key-value settings and the configuration's. A code that is not declared
gets no answer at all, as from Apache's name servers: clients that probe for newer features count on the silence.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Sequence
from hashlib import sha256

from skyrocketmq.config import ConfigHolder, NamesrvConfig, read_requested_properties, write_properties
from skyrocketmq.errors import ConfigError, ProtocolError, broker_error
from skyrocketmq.model import ClusterInfo, DataVersion, TopicRoute
from skyrocketmq.nameserver.access import Identities, Needs, taken
from skyrocketmq.nameserver.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from skyrocketmq.nameserver.product_routes import ProductRoutes
from skyrocketmq.nameserver.route_bodies import RouteBodies
from skyrocketmq.nameserver.routes import UNIT, UNIT_SUBSCRIPTION, BrokerIdentity, Registration, RouteTables
from skyrocketmq.net import Connection, Request, Steps, answers, in_slices
from skyrocketmq.ports import Clock
from skyrocketmq.slices import Slices, joined_in_slices
from skyrocketmq.wire import headers_namesrv as headers
from skyrocketmq.wire.bodies import body_parts, decode_request, encode_body
from skyrocketmq.wire.bodies_routes import encode_cluster_info
from skyrocketmq.wire.bodies_tables import KvTable, TopicList
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import NoFields, encode_header
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.registration import decode_in_steps
from skyrocketmq.wire.versions import STANDARD_JSON_VERSION

__all__ = ["NameServerHandlers"]

logger = logging.getLogger(__name__)

NAME_CHARACTERS_MAX = 255  # of clusters and brokers, and addresses: everybody is told of them
FILTER_SERVERS_MAX = 100  # of a broker
FINGERPRINT_BYTES_MAX = 4096
ORDER_BODY_BYTES_MAX = 8 * 1024 * 1024  # half of what a frame can hold
_VERSION_MARK = b'"dataVersion":'
_TOPICS_MARK = b'"topicConfigTable":'
PROTECTED_KEYS = ("kvConfigPath", "configStorePath")  # a peer that could move these could write anywhere


class NameServerHandlers:
    """The answers, from the tables."""

    def __init__(
        self,
        tables: RouteTables,
        kv_config: KvConfig,
        config: ConfigHolder[NamesrvConfig],
        *,
        clock: Clock,
        identities: Identities,
        product_routes: ProductRoutes | None = None,
    ) -> None:
        self._tables = tables
        self._identities = identities
        self._kv_config = kv_config
        self._config = config
        self._clock = clock
        self._product_routes = product_routes
        self._route_bodies = RouteBodies(tables)
        self._order_body: tuple[object, bytes] = (None, b"")  # the settings it was made from, and the body

    # -- brokers

    @answers(
        RequestCode.REGISTER_BROKER,
        body="registration",
        answer=(headers.RegisterBrokerAnswer, KvTable),
        needs=Needs.CHANGING,
    )
    def register_broker(self, request: Request[headers.RegisterBrokerHeader]) -> Frame | Awaitable[Frame]:
        """A broker registers, with its topics."""
        header, frame, connection = request.header, request.frame, request.connection
        broker = _identity(header, frame.code)
        rival = self._identities.find_rival(broker, connection)
        if rival is not None:
            return self._register_instead(frame, header, broker, connection, rival)
        return in_slices(self._register(frame, header, broker, connection), self._clock)

    async def _register_instead(
        self,
        frame: Frame,
        header: headers.RegisterBrokerHeader,
        broker: BrokerIdentity,
        connection: Connection,
        rival: Connection,
    ) -> Frame:
        await self._identities.give_way(broker, rival)
        answer = in_slices(self._register(frame, header, broker, connection), self._clock)
        return answer if isinstance(answer, Frame) else await answer

    def _register(
        self, frame: Frame, header: headers.RegisterBrokerHeader, broker: BrokerIdentity, connection: Connection
    ) -> Steps:
        ha_address = _limited(header.ha_server_addr or "", "haServerAddr", frame.code)
        now_s = self._clock.monotonic()
        if header.body_crc32 and header.body_crc32 != body_crc(frame.body):
            raise _failure(f"the registration of {broker.address} was damaged on its way: its checksum does not match")
        self._check_room(broker, connection)
        fingerprint = _fingerprint(header, frame)
        is_known, master = self._tables.repeat(broker, ha_address, fingerprint, connection=connection.id, now_s=now_s)
        if not is_known:
            try:
                body = yield from decode_in_steps(frame.body, version=frame.version, compressed=header.compressed)
            except ProtocolError as error:
                raise _failure(f"the registration of {broker.address} cannot be read: {error}") from error
            _check_filter_servers(body.filter_server_list or (), broker)
            registration = Registration(
                broker=broker,
                ha_address=ha_address,
                data_version=body.topics.data_version,
                topics=body.topics.topic_config_table,
                filter_servers=body.filter_server_list,
                fingerprint=fingerprint,
            )
            if connection.is_closed:  # while it was read
                return frame.reply()
            self._check_room(broker, connection)  # once more: others may have been taken meanwhile
            is_new = self._tables.find_data_version(broker.address) is None
            master = yield from self._tables.register_in_steps(registration, connection=connection.id, now_s=now_s)
            if is_new:
                logger.info("broker registered", extra=_describe(broker) | {"topics": len(registration.topics)})
        if not connection.is_closed:
            self._identities.heard(connection)
        answer = headers.RegisterBrokerAnswer(
            ha_server_addr=master.ha_address if master else None, master_addr=master.address if master else None
        )
        return frame.reply(ext=encode_header(answer), body=self._order_config())

    def _check_room(self, broker: BrokerIdentity, connection: Connection) -> None:
        count_max = self._config.current.brokers_per_connection_max
        if not self._tables.has_room(broker, connection=connection.id, count_max=count_max):
            raise _failure(
                f"broker {broker.name} at {broker.address} is not registered: this connection speaks for {count_max} "
                "brokers already; more need brokersPerConnectionMax at the name server, or connections of their own"
            )

    def _order_config(self) -> bytes:
        """What every registration is answered with; encoded once a change. Empty if no answer could carry it."""
        table = self._kv_config.namespace(ORDER_TOPIC_CONFIG)
        if self._order_body[0] is not table:
            text = encode_body(KvTable(table=dict(table))) if table is not None else b""
            if len(text) > ORDER_BODY_BYTES_MAX:
                logger.error("order config is too large to be sent to brokers", extra={"bytes": len(text)})
                text = b""
            self._order_body = (table, text)
        return self._order_body[1]

    @answers(RequestCode.UNREGISTER_BROKER, needs=Needs.CHANGING)
    def unregister_broker(self, request: Request[headers.UnregisterBrokerHeader]) -> Frame | Awaitable[Frame]:
        """A broker goes."""
        broker = _identity(request.header, request.frame.code)
        rival = self._identities.find_rival(broker, request.connection)
        if rival is not None:
            raise taken(broker, rival)
        return in_slices(self._unregister(request.frame, broker), self._clock)

    def _unregister(self, frame: Frame, broker: BrokerIdentity) -> Steps:
        self._tables.unregister(broker)
        logger.info("broker unregistered", extra=_describe(broker))
        while self._tables.sweep():
            yield
        return frame.reply()

    @answers(RequestCode.QUERY_DATA_VERSION, body=DataVersion, needs=Needs.CHANGING)
    def query_data_version(
        self, request: Request[headers.QueryDataVersionHeader]
    ) -> tuple[headers.QueryDataVersionAnswer, DataVersion | bytes]:
        """A broker asks whether its table of topics is known."""
        broker = _identity(request.header, request.frame.code)
        try:
            asked = decode_request(DataVersion, request.frame.body)
        except ProtocolError as error:
            raise _failure(f"the data version of {broker.address} cannot be read: {error}") from error
        stored = self._tables.find_data_version(broker.address)
        is_changed = stored is None or stored != asked
        if not is_changed and self._identities.find_rival(broker, request.connection) is None:
            self._tables.touch(broker.address, now_s=self._clock.monotonic())
        return headers.QueryDataVersionAnswer(changed=is_changed), b"" if stored is None else stored

    @answers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, answer=headers.WipeWritePermAnswer, needs=Needs.CHANGING)
    def wipe_write_permission(self, request: Request[headers.BrokerNameHeader]) -> Frame | Awaitable[Frame]:
        """No more writing to a broker."""
        return in_slices(self._wipe(request), self._clock)

    def _wipe(self, request: Request[headers.BrokerNameHeader]) -> Steps:
        name = _required(request.header.broker_name, "brokerName", request.frame.code)
        count = yield from self._tables.wipe_write_permission_in_steps(name)
        logger.info("write permission wiped", extra={"broker": name, "topics": count, "by": request.connection.peer})
        return request.frame.reply(ext=encode_header(headers.WipeWritePermAnswer(wipe_topic_count=count)))

    @answers(RequestCode.ADD_WRITE_PERM_OF_BROKER, answer=headers.AddWritePermAnswer, needs=Needs.CHANGING)
    def add_write_permission(self, request: Request[headers.BrokerNameHeader]) -> Frame | Awaitable[Frame]:
        """Writing to a broker again."""
        return in_slices(self._add(request), self._clock)

    def _add(self, request: Request[headers.BrokerNameHeader]) -> Steps:
        name = _required(request.header.broker_name, "brokerName", request.frame.code)
        count = yield from self._tables.add_write_permission_in_steps(name)
        logger.info("write permission added", extra={"broker": name, "topics": count, "by": request.connection.peer})
        return request.frame.reply(ext=encode_header(headers.AddWritePermAnswer(add_topic_count=count)))

    # -- routes and lists

    @answers(RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=TopicRoute, needs=Needs.NOTHING)
    def get_route(self, request: Request[headers.GetRouteInfoHeader]) -> Frame | Awaitable[Frame] | bytes:
        """Where a topic is."""
        header, frame = request.header, request.frame
        topic = _required(header.topic, "topic", frame.code)
        is_standard = frame.version >= STANDARD_JSON_VERSION or header.accept_standard_json_only is True
        config = self._config.current
        order_conf = None
        if config.order_message_enable or config.cluster_test:
            order_conf = self._kv_config.get(ORDER_TOPIC_CONFIG, topic)
        body = self._route_bodies.find(topic, order_conf=order_conf, is_standard=is_standard)
        if body is not None:
            return body
        if config.cluster_test and self._product_routes is not None:
            return self._product_routes.answer(frame, topic, is_standard=is_standard)
        return frame.reply(ResponseCode.TOPIC_NOT_EXIST, remark=no_route_remark(topic))

    @answers(RequestCode.GET_BROKER_CLUSTER_INFO, answer=ClusterInfo, needs=Needs.NOTHING)
    def get_cluster_info(self, request: Request[NoFields]) -> bytes:
        """Which brokers and clusters there are."""
        return encode_cluster_info(self._tables.cluster_info())

    @answers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, answer=TopicList, needs=Needs.NOTHING)
    async def get_all_topics(self, request: Request[NoFields]) -> bytes:
        """All topics."""
        return await self._topic_list(self._tables.topics())

    @answers(RequestCode.GET_TOPICS_BY_CLUSTER, answer=TopicList, needs=Needs.NOTHING)
    async def get_topics_of_cluster(self, request: Request[headers.GetTopicsByClusterHeader]) -> bytes:
        """The topics of a cluster."""
        cluster = _required(request.header.cluster, "cluster", request.frame.code)
        return await self._topic_list(self._tables.topics_of_cluster(cluster))

    @answers(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, answer=TopicList, needs=Needs.NOTHING)
    async def get_system_topics(self, request: Request[NoFields]) -> bytes:
        """The names of clusters and brokers, which are topics too."""
        names = self._tables.cluster_and_broker_names()
        return await self._topic_list(names, broker_address=self._tables.any_address())

    @answers(RequestCode.GET_UNIT_TOPIC_LIST, answer=TopicList, needs=Needs.NOTHING)
    async def get_unit_topics(self, request: Request[NoFields]) -> bytes:
        """Topics of a unit."""
        return await self._topic_list(self._tables.topics_by_flag(required=UNIT))

    @answers(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, answer=TopicList, needs=Needs.NOTHING)
    async def get_unit_subscription_topics(self, request: Request[NoFields]) -> bytes:
        """Topics that a unit subscribes to."""
        return await self._topic_list(self._tables.topics_by_flag(required=UNIT_SUBSCRIPTION))

    @answers(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, answer=TopicList, needs=Needs.NOTHING)
    async def get_unit_subscription_only_topics(self, request: Request[NoFields]) -> bytes:
        """Topics that a unit subscribes to and that belong to none."""
        return await self._topic_list(self._tables.topics_by_flag(required=UNIT_SUBSCRIPTION, forbidden=UNIT))

    async def _topic_list(self, topics: Iterable[str | None], *, broker_address: str | None = None) -> bytes:
        """A list of names, walked and written in slices: there may be hundreds of thousands. None is passed over."""
        slices = Slices(self._clock)
        names: list[str] = []
        for topic in topics:
            if topic is not None:
                names.append(topic)
            await slices.step()
        parts = body_parts(TopicList(broker_addr=broker_address, topic_list=tuple(names)))
        return await joined_in_slices(parts, self._clock)

    @answers(RequestCode.DELETE_TOPIC_IN_NAMESRV, needs=Needs.CHANGING)
    def delete_topic(self, request: Request[headers.DeleteTopicInNamesrvHeader]) -> None:
        """Forget a topic."""
        cluster, by = request.header.cluster_name, request.connection.peer
        topic = _required(request.header.topic, "topic", request.frame.code)
        self._tables.delete_topic(topic, cluster=cluster or None)
        logger.info("topic deleted", extra={"topic": topic, "cluster": cluster, "by": by})

    # -- key-value settings

    @answers(RequestCode.PUT_KV_CONFIG, needs=Needs.CHANGING)
    async def put_kv_config(self, request: Request[headers.PutKvConfigHeader]) -> None:
        """Keep a value."""
        namespace, key = _namespace_and_key(request)
        try:
            await self._kv_config.put(namespace, key, request.header.value or "")
        except (ConfigError, OSError) as error:
            raise _failure(f"the key-value config could not be saved, and nothing was changed: {error}") from error
        by = request.connection.peer
        logger.info("key-value config changed", extra={"namespace": namespace, "key": key, "by": by})

    @answers(RequestCode.GET_KV_CONFIG, needs=Needs.NOTHING)
    def get_kv_config(self, request: Request[headers.KvKeyHeader]) -> headers.GetKvConfigAnswer | Frame:
        """Read a value."""
        namespace, key = _namespace_and_key(request)
        value = self._kv_config.get(namespace, key)
        if value is None:
            remark = f"no value for key {key} in namespace {namespace}: put one with updateKvConfig"
            return request.frame.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return headers.GetKvConfigAnswer(value=value)

    @answers(RequestCode.DELETE_KV_CONFIG, needs=Needs.CHANGING)
    async def delete_kv_config(self, request: Request[headers.KvKeyHeader]) -> None:
        """Forget a value."""
        namespace, key = _namespace_and_key(request)
        try:
            await self._kv_config.delete(namespace, key)
        except OSError as error:
            raise _failure(f"the key-value config could not be saved, and nothing was changed: {error}") from error
        by = request.connection.peer
        logger.info("key-value config deleted", extra={"namespace": namespace, "key": key, "by": by})

    @answers(RequestCode.GET_KVLIST_BY_NAMESPACE, needs=Needs.NOTHING)
    def get_kv_namespace(self, request: Request[headers.KvNamespaceHeader]) -> KvTable | Frame:
        """Read all values of a namespace."""
        namespace = _required(request.header.namespace, "namespace", request.frame.code)
        values = self._kv_config.namespace(namespace)
        if values is None:
            remark = f"no key was ever put into the namespace {namespace}"
            return request.frame.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return KvTable(table=dict(values))

    # -- configuration

    @answers(RequestCode.UPDATE_NAMESRV_CONFIG, body="lines", needs=Needs.CHANGING)
    async def update_config(self, request: Request[NoFields]) -> Frame:
        """Change the configuration."""
        try:
            changes = read_requested_properties(request.frame.body)
        except (ConfigError, ValueError) as error:
            raise _failure(f"the body is not key=value lines: {error}") from error
        protected = [key for key in PROTECTED_KEYS if key in changes]
        if protected:
            remark = f"{' and '.join(protected)} may not be changed by a request: set it in the file and start again"
            raise broker_error(ResponseCode.NO_PERMISSION, remark)
        try:
            changed = await self._config.update(changes)
        except (ConfigError, OSError) as error:
            raise _failure(f"nothing was changed: {error}") from error
        logger.info("configuration changed", extra={"keys": ",".join(sorted(changed)), "by": request.connection.peer})
        return request.frame.reply(remark=self._config.pending_text())

    @answers(RequestCode.GET_NAMESRV_CONFIG, answer="lines", needs=Needs.CHANGING)
    def get_config(self, request: Request[NoFields]) -> bytes:
        """Read the configuration."""
        return write_properties(self._config.as_properties())


def no_route_remark(topic: str) -> str:
    return (
        f"no route for topic {topic}: no living broker has registered it with this name server; "
        "create it with updateTopic, or let a broker with autoCreateTopicEnable=true create it on the first send"
    )


BrokerHeader = headers.RegisterBrokerHeader | headers.UnregisterBrokerHeader | headers.QueryDataVersionHeader


def _identity(header: BrokerHeader, code: int) -> BrokerIdentity:
    return BrokerIdentity(
        cluster=_name(header.cluster_name, "clusterName", code),
        name=_name(header.broker_name, "brokerName", code),
        broker_id=0 if header.broker_id is None else header.broker_id,
        address=_name(header.broker_addr, "brokerAddr", code),
    )


def _fingerprint(header: headers.RegisterBrokerHeader, frame: Frame) -> bytes:
    """What of a body decides whether it says anything new: all that stands before its topics.

    That is the data version and the filter servers, as Java writes them. Topics count only when the version is another,
    so of an equal beginning they need not be looked at. A body of another form has no fingerprint and is always read; a
    compressed one is mostly short, and is its own.
    """
    body = frame.body
    if header.compressed:
        return b"%d %b" % (frame.version, body if len(body) <= FINGERPRINT_BYTES_MAX else sha256(body).digest())
    beginning = body[: body.find(_TOPICS_MARK, 0, FINGERPRINT_BYTES_MAX) + 1]
    return b"%d " % frame.version + beginning if _VERSION_MARK in beginning else b""


def _namespace_and_key(request: Request[headers.PutKvConfigHeader] | Request[headers.KvKeyHeader]) -> tuple[str, str]:
    header, code = request.header, request.frame.code
    return _required(header.namespace, "namespace", code), _required(header.key, "key", code)


def _required(value: str | None, field: str, code: int) -> str:
    if value is None:
        raise _failure(f"request {code} needs the field {field}, and it is missing")
    return value


def _name(value: str | None, field: str, code: int) -> str:
    return _limited(_required(value, field, code), field, code)


def _limited(value: str, field: str, code: int) -> str:
    if len(value) > NAME_CHARACTERS_MAX:
        raise _failure(
            f"the field {field} of request {code} has {len(value)} characters, and {NAME_CHARACTERS_MAX} is the limit"
        )
    return value


def _check_filter_servers(servers: Sequence[str], broker: BrokerIdentity) -> None:
    """They are in every route of the broker's topics."""
    if len(servers) > FILTER_SERVERS_MAX or any(len(server) > NAME_CHARACTERS_MAX for server in servers):
        raise _failure(
            f"broker {broker.name} at {broker.address} is not registered: it names {len(servers)} filter servers, and "
            f"{FILTER_SERVERS_MAX} of {NAME_CHARACTERS_MAX} characters each is the limit"
        )


def _failure(remark: str) -> Exception:
    return broker_error(ResponseCode.SYSTEM_ERROR, remark)


def _describe(broker: BrokerIdentity) -> dict[str, object]:
    return {"broker": broker.name, "id": broker.broker_id, "address": broker.address, "cluster": broker.cluster}
