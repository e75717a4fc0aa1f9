"""Offsets of a broadcasting consumer, in a file in its user's home, in the form in which Java's client writes it:

    ~/.rocketmq_offsets/<client id>/<group>/offsets.json

    {
        "offsetTable":{{
                        "brokerName":"broker-a",
                        "queueId":1,
                        "topic":"T"
                }:6
        }
    }

A consumer moved from Java to Python, with the same client id, goes on where it was. The file is replaced whole and the
old one kept as `.bak`, which is used when the file itself cannot be read; if neither can, the consumer does not start:
to begin anew is its owner's decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from skyrocketmq.client.offset_store import OffsetTable
from skyrocketmq.errors import ProtocolError, StoreError
from skyrocketmq.model import MessageQueue, QueueOffset
from skyrocketmq.ports import Disk
from skyrocketmq.store.config_file import ConfigFile
from skyrocketmq.wire.json_dialect import parse, write_pretty

__all__ = ["LocalOffsets", "local_offsets_root"]

ROOT_VARIABLE: Final = "ROCKETMQ_CLIENT_LOCAL_OFFSET_STORE_DIR"
_TABLE: Final = "offsetTable"

logger = logging.getLogger(__name__)


def local_offsets_root(environ: Mapping[str, str]) -> Path:
    """Where the files of all clients are."""
    given = environ.get(ROOT_VARIABLE)
    return Path(given) if given else Path.home() / ".rocketmq_offsets"


class LocalOffsets(OffsetTable):
    """Offsets in a file; see `offset_store` for what each call means."""

    def __init__(self, disk: Disk, *, root: Path, client_id: str, group: str) -> None:
        super().__init__()
        self.path = root / client_id / group / "offsets.json"
        self._disk = disk
        self._file = ConfigFile(disk, self.path)
        self._saved = b""
        self._saving = asyncio.Lock()  # guards the file: two writers would meet in its temporary copy

    async def load(self) -> None:
        self._offsets.update(await self._read_file())

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        known = self._offsets.get(queue)
        return known if known is not None else await self.read_stored(queue)

    async def read_stored(self, queue: MessageQueue) -> QueueOffset | None:
        offset = (await self._read_file()).get(queue)
        if offset is not None:
            self._offsets[queue] = offset
        return offset

    async def persist(self, queue: MessageQueue, *, wait_for_answer: bool = False) -> None:
        """Nothing: nobody else goes on with a broadcasting consumer's queue."""

    async def persist_all(self, held: Collection[MessageQueue], *, wait_for_answer: bool = False) -> None:
        try:
            await self.store(held)
        except StoreError as error:
            logger.error("offsets not persisted", extra={"path": str(self.path), "error": str(error)})

    async def store(self, held: Collection[MessageQueue]) -> None:
        """Rewrite the file with the queues that are held, if something has changed."""
        if not held:
            return
        kept = {queue: self._offsets[queue] for queue in sorted(set(held) & self._offsets.keys())}
        data = write_pretty({_TABLE: kept})
        async with self._saving:
            if data == self._saved:
                return
            try:
                await self._disk.run(self._file.save_bytes, data)
            except OSError as error:
                raise StoreError(f"the offsets were not written to {self.path}: {error.strerror or error}") from error
            self._saved = data

    def forget(self, queue: MessageQueue) -> None:
        """Nothing: the queue stays this consumer's."""

    async def _read_file(self) -> dict[MessageQueue, QueueOffset]:
        return await self._disk.run(self._file.load, _decode) or {}


def _decode(data: bytes) -> dict[MessageQueue, QueueOffset]:
    document = parse(data)
    if not isinstance(document, dict):
        raise ProtocolError("it holds no object")
    table = document.get(_TABLE, {})
    if not isinstance(table, dict):
        raise ProtocolError(f"its {_TABLE} is no table")
    return dict(_decode_entry(key, value) for key, value in table.items())


def _decode_entry(key: object, value: object) -> tuple[MessageQueue, QueueOffset]:
    if not isinstance(key, Mapping) or not isinstance(value, int):
        raise ProtocolError(f"its entry {key!r}: {value!r} is no queue with an offset")
    topic, broker_name, queue_id = key.get("topic"), key.get("brokerName"), key.get("queueId")
    if not (isinstance(topic, str) and isinstance(broker_name, str) and isinstance(queue_id, int)):
        raise ProtocolError(f"its key {key!r} is no queue")
    return MessageQueue(topic, broker_name, queue_id), QueueOffset(value)
