"""A broker as administrators see it: on a disk in memory and with a clock that the test moves, behind a real port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from skyrocketmq.broker import Broker
from skyrocketmq.config import BrokerRole
from skyrocketmq.net import Client
from skyrocketmq.store import NewMessage, PutStatus
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.json_dialect import parse
from tests.broker.house import ROOT, open_house

HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])


class Desk:
    """Asks the broker as an administrator does. Everything inside can be looked at and changed."""

    def __init__(self, broker: Broker, client: Client, disk: FaultyDisk, clock: ManualClock) -> None:
        self.address = broker.address
        self.config = broker.config
        self.store = broker.store
        self.tables = broker.tables
        self.figures = broker.parts.figures
        self.statistics = broker.parts.statistics
        self.disk = disk
        self.clock = clock
        self._client = client

    async def ask(self, code: int, ext: Mapping[str, object] | None = None, *, body: object = None) -> Frame:
        """The answer, whatever its code. Values become text, and a body that is no bytes becomes JSON."""
        fields: dict[str, str | None] = {key: str(value) for key, value in (ext or {}).items()}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._client.request(self.address, Frame(code, ext=fields, body=data), 10)

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
    clock = ManualClock()
    disk = disk or FaultyDisk(directories=[ROOT])
    store = {
        "commit_log_file_bytes": 64 * 1024,
        "queue_file_bytes": 20 * 100,
        "index_entry_count": 400,
        "broker_role": config.pop("role", BrokerRole.ASYNC_MASTER),
    }
    async with (
        open_house(disk=disk, clock=clock, check=False, store=store, **config) as house,
        Client() as client,
    ):
        yield Desk(house.broker, client, disk, clock)
