"""What the clients of a process share: connections, routes, heartbeats, and who they are to the brokers.

Producers and consumers with equal settings on one event loop use one `ClientInstance` (`sharing` says which). The last
one to leave closes it, and nothing of it is left.

A group can be in an instance once only: a broker knows its members by client id. A second consumer of the same group in
one process therefore gets an instance, and with it an id, of its own; unless the user has named the instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from skyrocketmq.background import Background
from skyrocketmq.client.broker_calls import BrokerCalls
from skyrocketmq.client.broker_requests import BrokerRequests
from skyrocketmq.client.connection_changes import ConnectionChanges, ConnectionListener
from skyrocketmq.client.heartbeats import Heartbeats
from skyrocketmq.client.identity import client_id_of, unique_instance_name
from skyrocketmq.client.members import ConsumerMember, ProducerMember
from skyrocketmq.client.name_servers import REFRESH_FIRST_AFTER_S, REFRESH_INTERVAL_S, NameServers
from skyrocketmq.client.routes import UNSETTLED_INTERVAL_S, Routes
from skyrocketmq.client.settings import ClientSettings, Doors
from skyrocketmq.client.waiting_replies import WaitingReplies
from skyrocketmq.errors import IllegalArgument, MQError
from skyrocketmq.model import HeartbeatData, ProducerData
from skyrocketmq.model.hosts import pack_host
from skyrocketmq.net import Client, Connection, parse_address
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import LocalMachine, SystemChance, SystemClock, TcpLink
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.ids import UniqueIdGenerator
from skyrocketmq.wire.signing import sign_request

__all__ = ["INNER_PRODUCER_GROUP", "ClientInstance"]

logger = logging.getLogger(__name__)

INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"  # sends for the consumers; in every heartbeat, as Apache's
HEARTBEAT_FIRST_AFTER_S: Final = 1.0
PERSIST_FIRST_AFTER_S: Final = 10.0
STREAM_REQUEST: Final = ("ReqT", "0")  # what the requests of pull consumers carry besides


class ClientInstance:
    """The shared part of the clients. `sharing` makes and ends it."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        instance_name: str | None,
        is_stream: bool,
        doors: Doors,
    ) -> None:
        self.settings = settings
        self.clock = clock = doors.clock or SystemClock()
        self.link = link = doors.link or TcpLink()
        self.chance = doors.chance or SystemChance()
        self.machine = machine = doors.machine or LocalMachine()
        self._is_stream = is_stream
        ip = settings.client_ip or machine.address(tuple(parse_address(address).host for address in settings.namesrv))
        name = instance_name or unique_instance_name(
            process_id=machine.process_id, monotonic_ns=round(clock.monotonic() * 1_000_000_000)
        )
        self.client_id = client_id_of(settings, ip=ip, instance_name=name, is_stream=is_stream)
        self.ids = UniqueIdGenerator(
            ip=pack_host(ip, 0)[:-4],
            process_id=machine.process_id,
            constant=self.chance.getrandbits(32),
            timezone=_local_timezone(clock.now_ms()),
        )
        self.tasks = Tasks()
        self._connection_changes = ConnectionChanges()
        self.requests = BrokerRequests(self._find_consumer)
        self.replies = WaitingReplies(clock)
        self.requests.register(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self.replies.receive)
        hooked = settings.credentials is not None or settings.binary_headers or is_stream
        self.net = Client(
            self.requests.dispatcher,
            clock=clock,
            link=link,
            tls=settings.tls,
            before_request=self._before_request if hooked else None,
            on_open=self._connected,
            on_close=self._connection_changes.closed,
            chance=self.chance.random,
        )
        self.name_servers = NameServers(settings, self.net, clock=clock, link=link, chance=self.chance)
        self.routes = Routes(
            self.name_servers,
            clock=clock,
            interval_s=settings.poll_name_server_interval_s,
            timeout_s=settings.api_timeout_s,
            tasks=self.tasks,
        )
        self.heartbeats = Heartbeats(
            self._describe, self.net, self.routes, timeout_s=settings.api_timeout_s, tasks=self.tasks
        )
        self.calls = BrokerCalls(
            self.net, self.routes, api_timeout_s=settings.api_timeout_s, vip_channel=settings.vip_channel
        )
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self._opened = AsyncExitStack()
        self._opening: asyncio.Task[None] | None = None
        self.is_closed = False

    # --------------------------------------------------------------------------------------------------------- members

    def has_group(self, member: ProducerMember | ConsumerMember, *, is_consumer: bool) -> bool:
        return member.wire_group in (self.consumers if is_consumer else self.producers)

    def add_producer(self, producer: ProducerMember) -> None:
        self._refuse_twice(producer.wire_group in self.producers, f"producer group {producer.wire_group}")
        self.producers[producer.wire_group] = producer

    def add_consumer(self, consumer: ConsumerMember) -> None:
        self._refuse_twice(consumer.wire_group in self.consumers, f"consumer group {consumer.wire_group}")
        self.consumers[consumer.wire_group] = consumer

    def _refuse_twice(self, is_there: bool, what: str) -> None:
        if is_there:
            raise IllegalArgument(
                f"the {what} is already in use as client {self.client_id}: give one of the two another instance_name"
            )

    async def remove_producer(self, producer: ProducerMember) -> None:
        """The producer has ended: say so to the brokers."""
        if self.producers.pop(producer.wire_group, None) is not None:
            await self.heartbeats.say_goodbye(self.client_id, producer_group=producer.wire_group)

    async def remove_consumer(self, consumer: ConsumerMember) -> None:
        """The consumer has ended: say so to the brokers, who tell the rest of its group."""
        if self.consumers.pop(consumer.wire_group, None) is not None:
            await self.heartbeats.say_goodbye(self.client_id, consumer_group=consumer.wire_group)

    def _find_consumer(self, group: str) -> ConsumerMember | None:
        return self.consumers.get(group)

    def topics(self) -> set[str]:
        """The topics that some member uses."""
        members: list[ProducerMember | ConsumerMember] = [*self.producers.values(), *self.consumers.values()]
        return {topic for member in members for topic in member.topics()}

    # ----------------------------------------------------------------------------------------------------------- life

    async def open(self) -> None:
        """Start what runs in the background; a caller that comes meanwhile waits for the same opening."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="open client")
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await self.name_servers.find()
        settings = self.settings
        background = await self._opened.enter_async_context(Background(self.clock))
        if self.name_servers.are_found:
            background.every(REFRESH_INTERVAL_S, self.name_servers.refresh, first_after=REFRESH_FIRST_AFTER_S)
        background.every(settings.poll_name_server_interval_s, self._refresh_routes)
        background.every(UNSETTLED_INTERVAL_S, self._refresh_unsettled)
        background.every(settings.heartbeat_interval_s, self._beat, first_after=HEARTBEAT_FIRST_AFTER_S)
        background.every(settings.persist_offsets_interval_s, self._persist, first_after=PERSIST_FIRST_AFTER_S)
        self.routes.listeners.append(self._route_changed)
        logger.info("client started", extra={"client": self.client_id, "namesrv": list(self.name_servers.addresses)})

    async def close(self) -> None:
        """End everything. Called once, by the last user."""
        self.is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self._opened.aclose()
        await self.tasks.finish(clock=self.clock, grace_s=0.0)
        await self.net.close()
        logger.info("client ended", extra={"client": self.client_id})

    # ------------------------------------------------------------------------------------------------------ background

    async def _refresh_routes(self) -> None:
        await self.routes.refresh_all(self.topics())

    async def _refresh_unsettled(self) -> None:
        await self.routes.refresh_unsettled(self.topics())

    async def _beat(self) -> None:
        for address in self.routes.drop_offline():
            self.net.drop(address)
            self.heartbeats.forget(address)
        await self.heartbeats.send()

    async def _persist(self) -> None:
        for consumer in list(self.consumers.values()):
            try:
                await consumer.persist_offsets()
            except MQError as error:
                logger.warning("offsets not saved", extra={"group": consumer.wire_group, "reason": str(error)})

    def _route_changed(self, topic: str) -> None:
        for consumer in list(self.consumers.values()):
            if topic in consumer.topics():
                consumer.route_changed(topic)

    # -------------------------------------------------------------------------------------------------------- brokers

    def _describe(self) -> HeartbeatData | None:
        if not self.producers and not self.consumers:
            return None
        return HeartbeatData(
            client_id=self.client_id,
            producer_data_set=tuple(ProducerData(group) for group in (*self.producers, INNER_PRODUCER_GROUP)),
            consumer_data_set=tuple(consumer.heartbeat_data() for consumer in self.consumers.values()),
        )

    def _connected(self, connection: Connection) -> None:
        # The task's first step comes before that of others who wait for the connection: its frame is the first on it.
        address = self.net.address_of(connection)
        if address is None:
            return
        if not self.is_closed:
            self.tasks.start(self.heartbeats.greet(address), name=f"greet {address}")
        self._connection_changes.opened(connection, address)

    def watch_connections(self, listener: ConnectionListener | None) -> Callable[[], None]:
        """Tell a listener of connections that are made and lost, until the returned function is called."""
        return self._connection_changes.watch(listener)

    def _before_request(self, address: str, frame: Frame) -> None:
        if self._is_stream:
            frame.ext = {**(frame.ext or {}), STREAM_REQUEST[0]: STREAM_REQUEST[1]}
        if self.settings.binary_headers:
            frame.encoding = Encoding.BINARY
        credentials = self.settings.credentials
        if credentials is not None:
            frame.ext = sign_request(
                frame.ext,
                frame.body,
                access_key=credentials.access_key,
                secret_key=credentials.secret_key,
                security_token=credentials.security_token,
                is_binary=self.settings.binary_headers,
            )


def _local_timezone(now_ms: int) -> tzinfo:
    """The zone by whose calendar unique ids count months; Java takes the machine's."""
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    zone = now.astimezone().tzinfo
    return zone if zone is not None else UTC
