"""What answers a broker's requests: the handlers, put together, and the two feeds that its ports are served with.

The main port answers everything. The fast port is for clients that keep administration apart from consumption: it
answers all but pulls, which may be held for long.
"""

from __future__ import annotations

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.bit_maps import BitMaps
from skyrocketmq.broker.dead_letters import DeadLetters
from skyrocketmq.broker.delay import DelayDelivery
from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.hand_backs import HandBacks
from skyrocketmq.broker.handlers_access import AccessHandlers
from skyrocketmq.broker.handlers_cells import CellHandlers
from skyrocketmq.broker.handlers_cleaning import CleaningHandlers
from skyrocketmq.broker.handlers_clients import ClientHandlers
from skyrocketmq.broker.handlers_config import ConfigHandlers
from skyrocketmq.broker.handlers_differences import DifferenceHandlers
from skyrocketmq.broker.handlers_groups import GroupHandlers
from skyrocketmq.broker.handlers_locks import LockHandlers
from skyrocketmq.broker.handlers_offsets import OffsetHandlers
from skyrocketmq.broker.handlers_progress import ProgressHandlers
from skyrocketmq.broker.handlers_queries import QueryHandlers
from skyrocketmq.broker.handlers_relay import RelayHandlers
from skyrocketmq.broker.handlers_runtime import RuntimeHandlers
from skyrocketmq.broker.handlers_topics import TopicHandlers
from skyrocketmq.broker.handlers_transactions import TransactionHandlers
from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.message_writer import MessageWriter
from skyrocketmq.broker.notices import ChangeNotices
from skyrocketmq.broker.offset_moved import OffsetMovedEvents
from skyrocketmq.broker.ordinary_sends import OrdinarySends
from skyrocketmq.broker.pull import PullHandler
from skyrocketmq.broker.registration import Registrar
from skyrocketmq.broker.replication import Replication
from skyrocketmq.broker.replies import ReplyHandler
from skyrocketmq.broker.router import Router
from skyrocketmq.broker.runtime_figures import RuntimeFigures
from skyrocketmq.broker.send_back import SendBackHandler
from skyrocketmq.broker.send_handler import SendHandler
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.tables import BrokerTables
from skyrocketmq.broker.topics import TopicsChanged
from skyrocketmq.broker.transactions import Transactions
from skyrocketmq.broker.turn import Turn
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.model import TopicConfig
from skyrocketmq.model.names import CLOSED_TOPICS, PERM_WRITE, is_retry_topic
from skyrocketmq.net import Connection, Dispatcher, Feed, register_answers
from skyrocketmq.net.dispatch import SERVER_HEADER_BYTES_MAX
from skyrocketmq.ports import Chance, Clock, Disk
from skyrocketmq.store import MessageStore

__all__ = ["BrokerParts"]


class BrokerParts:
    """The handlers of one broker."""

    def __init__(
        self,
        identity: BrokerIdentity,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        tables: BrokerTables,
        registrar: Registrar,
        delay: DelayDelivery,
        transactions: Transactions,
        replication: Replication,
        *,
        access: AccessControl | None,
        store_host: bytes,
        disk: Disk,
        clock: Clock,
        watch: LoopWatch,
        chance: Chance | None = None,
    ) -> None:
        self._store_host = store_host
        self._config = config
        self._access = access
        self._store = store
        self._tables = tables
        self._clock = clock
        self.loop_watch = watch
        self._notices = ChangeNotices(tables.consumers.members_of, clock=clock)
        self.figures = RuntimeFigures(store.statistics, clock)
        self.statistics = BrokerStatistics(config, store, clock)
        delay.on_delivered = self.statistics.delivered
        durability = self._durability = Durability(store, replication.replicas)
        writer = MessageWriter(store, on_delayed=delay.arrived)
        dead_letters = DeadLetters(store, writer, disk)
        self.clients = ClientHandlers(
            config=config,
            topics=tables.topics,
            groups=tables.groups,
            consumers=tables.consumers,
            filters=tables.filters,
            producers=tables.producers,
            differences=tables.differences,
            notices=self._notices,
            clock=clock,
            access=access,
        )
        self._locks = LockHandlers(config=config, topics=tables.topics, locks=tables.locks, clock=clock)
        self._differences = DifferenceHandlers(config=config, differences=tables.differences, clock=clock)
        self.pulls = PullHandler(
            config=config,
            topics=tables.topics,
            groups=tables.groups,
            consumers=tables.consumers,
            filters=tables.filters,
            offsets=tables.offsets,
            store=store,
            replication=replication,
            offset_moved=OffsetMovedEvents(writer, broker_name=identity.broker_name, host=store_host, clock=clock),
            statistics=self.statistics,
            clock=clock,
            watch=watch,
            access=access,
        )
        store.on_arrival = self.pulls.held.arrived
        if store.extensions is not None and config.current.calc_filter_bit_map:
            store.extensions.bit_map_of = BitMaps(tables.filters, clock).of
        hand_backs = HandBacks()
        handlers = (
            SendHandler(
                config=config,
                topics=tables.topics,
                topics_file=tables.topics_saver,
                groups=tables.groups,
                store=store,
                durability=durability,
                writer=writer,
                dead_letters=dead_letters,
                transactions=transactions,
                hand_backs=hand_backs,
                store_host=store_host,
                clock=clock,
                chance=chance,
            ),
            SendBackHandler(
                config=config,
                topics=tables.topics,
                topics_file=tables.topics_saver,
                groups=tables.groups,
                store=store,
                writer=writer,
                statistics=self.statistics,
                dead_letters=dead_letters,
                durability=durability,
                hand_backs=hand_backs,
                clock=clock,
                access=access,
                chance=chance,
            ),
            ReplyHandler(
                config=config,
                topics=tables.topics,
                topics_file=tables.topics_saver,
                producers=tables.producers,
                store=store,
                durability=durability,
                writer=writer,
                store_host=store_host,
                clock=clock,
                chance=chance,
            ),
            TransactionHandlers(transactions, config=config, store=store, durability=durability, access=access),
            QueryHandlers(config=config, store=store, access=access),
            CleaningHandlers(topics=tables.topics, store=store),
            TopicHandlers(
                config=config,
                topics=tables.topics,
                topics_file=tables.topics_saver,
                registrar=registrar,
                consumers=tables.consumers,
                offsets=tables.offsets,
                store=store,
                clock=clock,
            ),
            OffsetHandlers(
                config=config,
                offsets=tables.offsets,
                commit_times=replication.commit_times,
                store=store,
                disk=disk,
                clock=clock,
            ),
            ProgressHandlers(
                identity=identity,
                topics=tables.topics,
                groups=tables.groups,
                consumers=tables.consumers,
                offsets=tables.offsets,
                store=store,
                statistics=self.statistics,
                clock=clock,
            ),
            RelayHandlers(
                config=config,
                topics=tables.topics,
                consumers=tables.consumers,
                offsets=tables.offsets,
                store=store,
                clock=clock,
            ),
            CellHandlers(store=store, consumers=tables.consumers, filters=tables.filters, clock=clock),
            RuntimeHandlers(
                config=config,
                store=store,
                figures=self.figures,
                statistics=self.statistics,
                more_figures=(delay.figures, self._differences.figures, watch.figures),
                disk=disk,
            ),
            self.clients,
            self._locks,
            self._differences,
            GroupHandlers(
                config=config,
                groups=tables.groups,
                groups_file=tables.groups_saver,
                offsets=tables.offsets,
                clock=clock,
            ),
            ConfigHandlers(config),
            AccessHandlers(access, identity, answers_secrets=config.current.acl_answers_secrets),
        )
        check = None if access is None else access.check
        main, fast = (Dispatcher(before=check, watch=watch, header_bytes_max=SERVER_HEADER_BYTES_MAX) for _ in range(2))
        register_answers(main, *handlers, self.pulls)
        register_answers(fast, *handlers)
        self.main_dispatcher = main

        self._sends = OrdinarySends(
            store, durability, Turn(store), self._find_open_topic, store_host=store_host, config=config.current
        )
        self.main_feed: Feed = Router(store, self._sends, main, pulls=self.pulls, access=access).feed
        self.fast_feed: Feed = Router(store, self._sends, fast, pulls=None, access=access).feed
        tables.topics.listeners.append(self._topics_changed)
        tables.groups.listeners.append(self._groups_changed)
        self.apply_config(config.current)

    def _find_open_topic(self, name: str) -> TopicConfig | None:
        """A topic that may be sent to without a decision."""
        topic = self._tables.topics.find(name)
        config = self._config.current
        if topic is None or name in CLOSED_TOPICS or is_retry_topic(name):
            return None
        if not self._tables.topics_saver.is_saved:
            return None  # it may be new: its first messages wait until it is in the file
        if topic.order and not config.permission & PERM_WRITE:
            return None
        return topic

    def _topics_changed(self, change: TopicsChanged) -> None:
        self._sends.forget_topics(change.names)
        if self._config.current.delete_unused_stats:
            for name in change.names:
                if self._tables.topics.find(name) is None:
                    self.statistics.forget_topic(name)

    def _groups_changed(self, names: frozenset[str]) -> None:
        if self._config.current.delete_unused_stats:
            for name in names:
                if self._tables.groups.find(name) is None:
                    self.statistics.forget_group(name)

    def apply_config(self, config: BrokerConfig) -> None:
        """Follow a configuration that has changed: nothing that was derived from the old one is kept."""
        self._store.apply_config(config.store)
        self._sends.apply_config(config)
        if self._access is not None:
            self._access.apply_config(config)

    # -- comings and goings

    def connection_closed(self, connection: Connection) -> None:
        self.pulls.held.forget(connection)
        self.clients.connection_closed(connection)

    def expire_silent(self) -> None:
        self.clients.expire_silent()
        self._locks.drop_expired()
        self._differences.report()

    async def release_waiting(self) -> None:
        """Answer whoever waits, for messages or for the disk: the broker is stopping."""
        self.pulls.stop()
        await self._durability.wait_safe(self._store.log.max_offset)

    def close(self) -> None:
        self._notices.close()
        self.clients.close()
        self._locks.close()
