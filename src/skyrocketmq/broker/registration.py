"""Telling every name server who this broker is and which topics it has.

Rule 1: the whole table goes out at the start, at intervals, and as soon as a lost connection is back, because a name
server forgets a broker with its connection. A topic that changed in between goes out alone, at once.
Rule 2: **a part of the table never travels under the version of the whole.** A name server takes topics only from a
version it does not know; were a part sent under the real version, one that was restarted or missed an earlier change
would hold the part for the whole, and pass over the whole when it comes. So a part has the version with a negative
counter, and the next regular registration is always taken.
Rule 3: the answers tell a slave where its master is, and every broker which topics are ordered. Of several name servers
the first in the list that says something counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.name_servers import NameServers
from skyrocketmq.broker.topics import TopicsChanged, TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import BrokerError, MQError
from skyrocketmq.model import DataVersion
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_tables import KvTable, TopicConfigTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header, encode_header
from skyrocketmq.wire.headers_namesrv import (
    QueryDataVersionAnswer,
    QueryDataVersionHeader,
    RegisterBrokerAnswer,
    RegisterBrokerHeader,
    UnregisterBrokerHeader,
)
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.registration import RegisterBrokerBody, encode_registration

__all__ = ["Master", "Registrar", "RegistrationAnswer", "merge_answers", "partial_version"]

logger = logging.getLogger(__name__)

FIRST_AFTER_S = 10.0  # the regular registrations begin so long after the first one
RECONNECT_INTERVAL_S = 3.0
REFRESH_ADDRESSES_INTERVAL_S = 120.0
UNREGISTER_TIMEOUT_S = 3.0
ANNOUNCE_WAIT_S = 3.0  # an administrator who made a topic waits no longer than this for the name servers


@dataclass(frozen=True, slots=True)
class Master:
    """Where a slave finds its master: for requests, and for replication."""

    address: str | None = None
    ha_address: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrationAnswer:
    """What a name server said. `ordered_topics` is None where it keeps no such list."""

    master: Master
    ordered_topics: frozenset[str] | None


def partial_version(version: DataVersion) -> DataVersion:
    """The version under which a part of a table travels: of the same change, but never equal to a whole table's."""
    return DataVersion(timestamp=version.timestamp, counter=-version.counter - 1)


def merge_answers(answers: Iterable[RegistrationAnswer]) -> RegistrationAnswer:
    """One answer from several, given in the order of the name servers: the first that says something counts."""
    master = Master()
    ordered = None
    for answer in answers:
        if master.address is None:
            master = answer.master
        if ordered is None:
            ordered = answer.ordered_topics
    return RegistrationAnswer(master, ordered)


class Registrar:
    """Keeps a broker known to its name servers. Used on the loop's thread.

    The owner calls `start` once, then `register` every `period_s`, `reconnect` every `RECONNECT_INTERVAL_S` and
    `refresh_addresses` every `REFRESH_ADDRESSES_INTERVAL_S`; gives `announce` to the topic table as a listener; and
    ends with `close`.
    """

    def __init__(
        self,
        identity: BrokerIdentity,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        name_servers: NameServers,
        *,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self._identity = identity
        self._config = config
        self._topics = topics
        self._name_servers = name_servers
        self._disk = disk
        self._clock = clock
        self._tasks = Tasks()
        self._answers: dict[str, RegistrationAnswer] = {}  # the last of each name server
        self._announcing: dict[str, set[str]] = {}  # name server -> topics it is yet to hear of, while a task tells it
        self._all_announced = asyncio.Event()
        self._all_announced.set()
        self._whole: tuple[object, bytes] = (None, b"")  # the last body, and what it was made from
        self._is_closed = False
        self.master = Master()
        self.master_listeners: list[Callable[[Master], object]] = []

    @property
    def period_s(self) -> float:
        return self._config.current.register_period_ms / 1000

    async def start(self) -> int:
        """Find the name servers and register with all of them; returns how many answered."""
        await self.refresh_addresses()
        return await self._register(self._name_servers.addresses, is_forced=True)

    async def register(self) -> int:
        """Register with every name server, or only where it is needed if so configured; returns how many answered."""
        return await self._register(self._name_servers.addresses, is_forced=self._config.current.force_register)

    async def reconnect(self) -> None:
        """Register anew with the name servers to which the connection was lost."""
        lost = self._name_servers.lost()
        if lost:
            await self._register(lost, is_forced=True)

    async def refresh_addresses(self) -> None:
        """Follow the list of name servers; one that is new on it is registered with by the next `reconnect`."""
        await self._name_servers.refresh()

    def announce(self, change: TopicsChanged) -> None:
        """Tell the name servers of topics that changed, without waiting. Give this to the topic table as a listener."""
        if not change.is_announced or self._is_closed:
            return
        for address in self._name_servers.addresses:
            waiting = self._announcing.get(address)
            if waiting is not None:
                waiting |= change.names  # the task that tells this name server takes them along
                continue
            self._announcing[address] = set(change.names)
            self._all_announced.clear()
            self._tasks.start(self._announce_to(address), name=f"announce topics to {address}")

    async def announced(self) -> bool:
        """Wait until the name servers have heard of every change so far; false if it takes too long."""
        try:
            async with self._clock.timeout(ANNOUNCE_WAIT_S):
                await self._all_announced.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Say good-bye to every name server, and leave no task behind."""
        self._is_closed = True
        await self._tasks.finish(clock=self._clock, grace_s=0)
        await self._name_servers.with_each(self._name_servers.addresses, self._unregister_at)

    # ------------------------------------------------------------------------------------------------ the whole table

    async def _register(self, addresses: Sequence[str], *, is_forced: bool) -> int:
        if self._is_closed:
            return 0  # a timer that fires once more must not undo the good-bye
        if is_forced or not self._identity.is_master:
            # A slave registers always: its table is passed over, and what it needs is the answer.
            await self._whole_body()
            outcomes = await self._name_servers.with_each(addresses, self._register_at)
        else:
            outcomes = await self._name_servers.with_each(addresses, self._register_if_needed_at)
        for address in addresses:
            if address not in outcomes:
                self._answers.pop(address, None)
        self._answers |= outcomes
        if outcomes:
            known = [self._answers[address] for address in self._name_servers.addresses if address in self._answers]
            self._apply(merge_answers(known))
        return len(outcomes)

    def _apply(self, answer: RegistrationAnswer) -> None:
        if answer.ordered_topics is not None:
            self._topics.apply_order_topics(answer.ordered_topics)
        if answer.master != self.master:
            self.master = answer.master
            for listener in self.master_listeners:
                listener(answer.master)

    async def _register_if_needed_at(self, address: str) -> RegistrationAnswer:
        known = self._answers.get(address)
        if known is not None and not await self._is_needed_at(address):
            return known
        return await self._register_at(address)

    async def _is_needed_at(self, address: str) -> bool:
        """Whether the name server lacks this version; being asked is a sign of life to it as well."""
        who = self._identity
        header = QueryDataVersionHeader(
            broker_name=who.broker_name,
            broker_addr=who.address,
            cluster_name=who.cluster_name,
            broker_id=who.broker_id,
        )
        body = encode_body(self._topics.data_version)
        frame = Frame(RequestCode.QUERY_DATA_VERSION, ext=encode_header(header), body=body)
        try:
            answer = await self._request(address, frame)
        except BrokerError:
            return True  # one that cannot answer the question is given the whole table
        return decode_header(QueryDataVersionAnswer, answer.ext).changed is not False

    async def _register_at(self, address: str) -> RegistrationAnswer:
        return await self._send_body(address, await self._whole_body())

    async def _whole_body(self) -> bytes:
        """The encoded table; made once a change, not once a name server and interval."""
        while True:
            config = self._config.current
            version = self._topics.data_version
            made_from = (version, config.permission, config.compressed_register)
            if self._whole[0] == made_from:
                return self._whole[1]
            table = TopicConfigTable(data_version=version, topic_config_table=self._topics.registered())
            registered = RegisterBrokerBody(topics=table)
            body = await self._disk.run(encode_registration, registered, compressed=config.compressed_register)
            self._whole = (made_from, body)

    async def _send_body(self, address: str, body: bytes) -> RegistrationAnswer:
        who = self._identity
        header = RegisterBrokerHeader(
            broker_name=who.broker_name,
            broker_addr=who.address,
            cluster_name=who.cluster_name,
            ha_server_addr=who.ha_address,
            broker_id=who.broker_id,
            compressed=self._config.current.compressed_register,
            body_crc32=body_crc(body),
        )
        frame = Frame(RequestCode.REGISTER_BROKER, ext=encode_header(header), body=body)
        answer = await self._request(address, frame)
        said = decode_header(RegisterBrokerAnswer, answer.ext)
        ordered = frozenset(decode_body(KvTable, answer.body).table) if answer.body else None
        return RegistrationAnswer(Master(said.master_addr, said.ha_server_addr), ordered)

    async def _request(self, address: str, frame: Frame) -> Frame:
        return await self._name_servers.request(
            address, frame, timeout_s=self._config.current.register_timeout_ms / 1000
        )

    # -------------------------------------------------------------------------------------------------- single topics

    async def _announce_to(self, address: str) -> None:
        try:
            while names := self._announcing[address]:
                self._announcing[address] = set()
                await self._send_body(address, self._part_of_table(names))
        except MQError as error:
            # No second try: whatever this name server missed, it hears with the next regular registration.
            self._name_servers.note(address, error)
        finally:
            del self._announcing[address]
            if not self._announcing:
                self._all_announced.set()

    def _part_of_table(self, names: Iterable[str]) -> bytes:
        table = TopicConfigTable(
            data_version=partial_version(self._topics.data_version),
            topic_config_table=self._topics.registered(names),
        )
        return encode_registration(
            RegisterBrokerBody(topics=table), compressed=self._config.current.compressed_register
        )

    # ------------------------------------------------------------------------------------------------------- good-bye

    async def _unregister_at(self, address: str) -> Frame:
        who = self._identity
        header = UnregisterBrokerHeader(
            broker_name=who.broker_name,
            broker_addr=who.address,
            cluster_name=who.cluster_name,
            broker_id=who.broker_id,
        )
        frame = Frame(RequestCode.UNREGISTER_BROKER, ext=encode_header(header))
        return await self._name_servers.request(address, frame, timeout_s=UNREGISTER_TIMEOUT_S)
