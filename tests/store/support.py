"""What the tests of the store share: small settings, a producer, a store on a disk of choice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.store import MessageStore, NewMessage, PutResult, PutStatus
from skyrocketmq.store.consume_queue import CELL
from skyrocketmq.store.queue_extension import ExtensionUnit
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.reader import Content, Sizes, check_store

ROOT = Path("/store")
STORE_HOST = bytes([10, 0, 0, 2]) + (10911).to_bytes(4, "big")
BORN_HOST = bytes([10, 0, 0, 1]) + (50000).to_bytes(4, "big")
HOST_V6 = bytes.fromhex("20010db8000000000000000000000001") + (10911).to_bytes(4, "big")
BORN_MS = 1_700_000_000_000


class Picky:
    """A filter that a function of each record decides. It counts those that it was asked about."""

    def __init__(self, wants: Callable[[bytes], bool], *, scan_max: int = 2_000) -> None:
        self._wants = wants
        self.scan_max = scan_max
        self.asked = 0

    def may_match(self, unit: ExtensionUnit) -> bool:
        return True

    def select(self, view: bytes | memoryview, base: int, cells: bytes) -> bytes:
        verdicts = bytearray()
        for position, size, _ in CELL.iter_unpack(cells):
            if not 0 <= position - base <= len(view) - size:
                break
            self.asked += 1
            verdicts.append(self._wants(bytes(view[position - base : position - base + size])))
        return bytes(verdicts)


def store_config(root: Path = ROOT, **changes: Any) -> StoreConfig:
    """Settings with which a few messages fill a file."""
    settings: dict[str, Any] = {
        "root_path": root,
        "commit_log_file_bytes": 4096,
        "queue_file_bytes": 20 * 10,
        "index_slot_count": 7,
        "index_entry_count": 20,
    }
    return StoreConfig(**(settings | changes))


def sizes_of(config: StoreConfig) -> Sizes:
    return Sizes(
        log_file=config.commit_log_file_bytes,
        queue_file=config.queue_file_bytes,
        slots=config.index_slot_count,
        entries=config.index_entry_count,
    )


@asynccontextmanager
async def open_store(
    disk: Disk, config: StoreConfig | None = None, *, clock: Clock | None = None, store_host: bytes = STORE_HOST
) -> AsyncIterator[MessageStore]:
    async with MessageStore.open(
        config or store_config(), disk=disk, clock=clock or ManualClock(), store_host=store_host
    ) as store:
        yield store


@asynccontextmanager
async def killed_store(
    disk: FaultyDisk, config: StoreConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[MessageStore]:
    """A store whose process dies at the end of the block, or when the disk loses its power within it."""
    try:
        async with open_store(disk, config, clock=clock) as store:
            yield store
            disk.cut_power()
    except PowerLost:
        pass


def memory_disk(**options: Any) -> FaultyDisk:
    return FaultyDisk(directories=[ROOT], **options)


def check(disk: Disk, config: StoreConfig | None = None, *, deleted: frozenset[str] = frozenset()) -> Content:
    """All that the formats promise holds in the closed store; returns what it holds."""
    config = config or store_config()
    return check_store(disk, config.root_path, sizes_of(config), has_index=config.index_enable, deleted=deleted)


def new_message(
    topic: str = "TopicTest",
    queue_id: int = 0,
    body: bytes = b"hello",
    *,
    tags: str = "",
    keys: str = "",
    unique: str = "",
    **fields: Any,
) -> NewMessage:
    pairs: dict[str, str] = {"KEYS": keys, "UNIQ_KEY": unique, "TAGS": tags} | fields.pop("more", {})
    properties = "\x02".join(f"{name}\x01{value}" for name, value in pairs.items() if value)
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=fields.pop("properties", properties.encode()),
        born_timestamp=fields.pop("born_timestamp", BORN_MS),
        born_host=fields.pop("born_host", BORN_HOST),
        **fields,
    )


def put_ok(store: MessageStore, message: NewMessage) -> PutResult:
    result = store.put(message)
    assert result.status is PutStatus.PUT_OK, result
    return result


def put_batch(
    store: MessageStore, messages: Sequence[NewMessage], *, shared: bytes = b""
) -> tuple[PutResult, list[int]]:
    """Messages that differ in body, flag and properties only, as one batch."""
    common = msgspec.structs.replace(messages[0], body=b"", properties=shared)
    return store.put_batch(common, [(message.flag, message.body, message.properties) for message in messages])


def unique_id(number: int) -> str:
    """As producers make them: 28 characters that rarely change, and a counter."""
    return f"0A000001C35018B4AAC2{number // 100:08X}{number % 65536:04X}"
