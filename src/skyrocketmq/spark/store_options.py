"""The options of the store reader: texts in, typed values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.options import Texts

__all__ = ["STORE_OPTIONS", "TABLES", "StoreOptions"]

TABLES: Final = ("messages", "queues", "index", "damage")
PARTITION_BYTES: Final = 128 << 20
_SIZES: Final = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue")
STORE_OPTIONS: Final = (
    "table",
    "subscribe",
    "config",
    "broker",
    "partitionBytes",
    "failOnDataLoss",
    "checkBodies",
    *_SIZES,
)


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Which store, which of its tables, and how. Travels to the tasks."""

    directory: Path
    table: str = "messages"
    topics: tuple[str, ...] = ()  # through their queues; none: the whole log
    config_path: Path | None = None
    settings: tuple[tuple[str, str], ...] = ()  # of the broker, in Apache's keys
    broker: str | None = None
    partition_bytes: int = PARTITION_BYTES
    fail_on_data_loss: bool = True
    check_bodies: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StoreOptions:
        """Raises `IllegalArgument`."""
        texts = Texts(options, STORE_OPTIONS, "store reader")
        directory = options.get("path") or ""
        if not directory:
            raise IllegalArgument("the store's directory is missing: load(DIR) with storePathRootDir of its broker")
        table = texts.find("table") or "messages"
        if table not in TABLES:
            raise IllegalArgument(f"a store has no table {table!r}: there are {', '.join(TABLES)}")
        if table not in ("messages", "queues"):
            texts.forbid("it is for the tables messages and queues", "subscribe")
        topics = [part.strip() for part in (texts.find("subscribe") or "").split(",")]
        given = [(name, texts.count(name)) for name in _SIZES]
        return cls(
            directory=Path(directory.removeprefix("file://")),
            table=table,
            topics=tuple(dict.fromkeys(filter(None, topics))),
            config_path=texts.read("config", Path, None),
            settings=tuple((name, str(size)) for name, size in given if size is not None),
            broker=texts.find("broker"),
            partition_bytes=texts.count("partitionBytes") or PARTITION_BYTES,
            fail_on_data_loss=texts.flag("failOnDataLoss", True),
            check_bodies=texts.flag("checkBodies", True),
        )
