"""As much of a broker as answers administrators: store and tables on a disk in memory, handlers behind a real port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from skyrocketmq.broker.handlers_cells import CellHandlers
from skyrocketmq.broker.handlers_config import ConfigHandlers
from skyrocketmq.broker.handlers_groups import GroupHandlers
from skyrocketmq.broker.handlers_offsets import OffsetHandlers
from skyrocketmq.broker.handlers_progress import ProgressHandlers
from skyrocketmq.broker.handlers_relay import RelayHandlers
from skyrocketmq.broker.handlers_runtime import RuntimeHandlers
from skyrocketmq.broker.handlers_topics import TopicHandlers
from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.name_servers import NameServers
from skyrocketmq.broker.registration import Registrar
from skyrocketmq.broker.runtime_figures import RuntimeFigures
from skyrocketmq.broker.slave_progress import CommitTimes
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.tables import BrokerTables
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder, StoreConfig
from skyrocketmq.net import Client, Dispatcher, Server, register_answers
from skyrocketmq.ports import SystemClock, TcpLink
from skyrocketmq.store import MessageStore, NewMessage, PutStatus
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.json_dialect import parse
from tests.broker.support import BROKER, CLUSTER, holder

ROOT = Path("/store")
ADDRESS = "10.0.0.1:10911"
HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class Desk:
    """Asks the broker as an administrator does. Everything inside can be looked at and changed."""

    config: ConfigHolder[BrokerConfig]
    store: MessageStore
    tables: BrokerTables
    registrar: Registrar
    figures: RuntimeFigures
    statistics: BrokerStatistics

    def __init__(self, disk: FaultyDisk, clock: ManualClock) -> None:
        self.disk = disk
        self.clock = clock
        self._client = Client()
        self._address = ""

    async def open(self, opened: AsyncExitStack, **config: Any) -> None:
        role = config.pop("role", BrokerRole.ASYNC_MASTER)
        store_config = StoreConfig(
            root_path=ROOT,
            commit_log_file_bytes=64 * 1024,
            queue_file_bytes=20 * 100,
            index_slot_count=100,
            index_entry_count=400,
            broker_role=role,
        )
        self.config = holder(self.clock, store=store_config, **config)
        self.store = await opened.enter_async_context(
            MessageStore.open(store_config, disk=self.disk, clock=self.clock, store_host=HOST)
        )
        self.tables = await opened.enter_async_context(BrokerTables.open(self.config, clock=self.clock, disk=self.disk))
        self._identity = identity = BrokerIdentity(
            cluster_name=CLUSTER, broker_name=BROKER, broker_id=0, address=ADDRESS, ha_address="10.0.0.1:10912"
        )
        outgoing = await opened.enter_async_context(Client())
        servers = NameServers(self.config, outgoing, clock=SystemClock(), link=TcpLink())
        self.registrar = Registrar(
            identity, self.config, self.tables.topics, servers, disk=self.disk, clock=SystemClock()
        )
        self.tables.topics.listeners.append(self.registrar.announce)
        opened.push_async_callback(self.registrar.close)
        await self.registrar.start()
        self.figures = RuntimeFigures(self.store.statistics, self.clock)
        self.statistics = BrokerStatistics(self.config, self.store, self.clock)
        server = await opened.enter_async_context(await Server.start(("127.0.0.1", 0), self._dispatcher()))
        self._address = f"127.0.0.1:{server.port}"
        await opened.enter_async_context(self._client)

    def _dispatcher(self) -> Dispatcher:
        tables, dispatcher = self.tables, Dispatcher()
        register_answers(
            dispatcher,
            TopicHandlers(
                config=self.config,
                topics=tables.topics,
                topics_file=tables.topics_saver,
                registrar=self.registrar,
                consumers=tables.consumers,
                offsets=tables.offsets,
                store=self.store,
                clock=self.clock,
            ),
            GroupHandlers(
                config=self.config,
                groups=tables.groups,
                groups_file=tables.groups_saver,
                offsets=tables.offsets,
                clock=self.clock,
            ),
            OffsetHandlers(
                config=self.config,
                offsets=tables.offsets,
                commit_times=CommitTimes(self.clock),
                store=self.store,
                disk=self.disk,
                clock=self.clock,
            ),
            ProgressHandlers(
                identity=self._identity,
                topics=tables.topics,
                groups=tables.groups,
                consumers=tables.consumers,
                offsets=tables.offsets,
                store=self.store,
                statistics=self.statistics,
                clock=self.clock,
            ),
            RelayHandlers(
                config=self.config,
                topics=tables.topics,
                consumers=tables.consumers,
                offsets=tables.offsets,
                store=self.store,
                clock=self.clock,
            ),
            CellHandlers(store=self.store, consumers=tables.consumers, filters=tables.filters, clock=self.clock),
            ConfigHandlers(self.config),
            RuntimeHandlers(
                config=self.config,
                store=self.store,
                figures=self.figures,
                statistics=self.statistics,
                more_figures=(),
                disk=self.disk,
            ),
        )
        return dispatcher

    async def ask(self, code: int, ext: Mapping[str, object] | None = None, *, body: object = None) -> Frame:
        """The answer, whatever its code. Values become text, and a body that is no bytes becomes JSON."""
        fields: dict[str, str | None] = {key: str(value) for key, value in (ext or {}).items()}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._client.request(self._address, Frame(code, ext=fields, body=data), 10)

    async def ok(self, code: int, ext: Mapping[str, object] | None = None, *, body: object = None) -> Frame:
        answer = await self.ask(code, ext, body=body)
        assert answer.code == 0, answer.remark
        return answer

    async def refused(
        self, code: int, ext: Mapping[str, object] | None = None, *, body: object = None
    ) -> tuple[int, str]:
        """The code and the remark of a refusal."""
        answer = await self.ask(code, ext, body=body)
        assert answer.code != 0
        assert answer.remark
        return answer.code, answer.remark

    async def make_topic(self, topic: str, **fields: object) -> None:
        ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        await self.ok(
            RequestCode.UPDATE_AND_CREATE_TOPIC, ext | {"topicFilterType": "SINGLE_TAG", "order": "false"} | fields
        )

    def put(self, topic: str, queue_id: int = 0, *, count: int = 1, body: bytes = b"hello") -> None:
        """Store messages now."""
        for _ in range(count):
            message = NewMessage(
                topic=topic, queue_id=queue_id, body=body, properties=b"", born_timestamp=0, born_host=HOST
            )
            assert self.store.put(message).status is PutStatus.PUT_OK

    def file(self, name: str) -> Any:
        """What a file of the configuration holds on disk."""
        return parse(self.disk.read(ROOT / "config" / name))


@asynccontextmanager
async def open_desk(disk: FaultyDisk | None = None, **config: Any) -> AsyncIterator[Desk]:
    desk = Desk(disk or FaultyDisk(directories=[ROOT]), ManualClock())
    async with AsyncExitStack() as opened:
        await desk.open(opened, **config)
        yield desk
