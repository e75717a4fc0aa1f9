"""An independent reader of a store directory: written from docs/formats, sharing no code with the store.

It reads every file byte by byte and asserts everything the formats promise: `check_store` is the last line of most
tests here. Slow and plain on purpose.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from skyrocketmq.ports import Disk

MESSAGE = 0xDAA320A7
BLANK = 0xCBD43194
FILLER = (0, 0x7FFFFFFF, 0)


@dataclass(frozen=True)
class Sizes:
    """The settings a store was written with."""

    log_file: int
    queue_file: int
    slots: int
    entries: int


@dataclass(frozen=True)
class Record:
    total: int
    crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: dict[str, str]

    @property
    def is_queued(self) -> bool:
        return self.sys_flag & 0xC in (0, 8)

    @property
    def keys(self) -> list[str]:
        if self.sys_flag & 0xC == 12:
            return []
        unique = self.properties.get("UNIQ_KEY")
        return ([unique] if unique else []) + [key for key in self.properties.get("KEYS", "").split(" ") if key]


@dataclass(frozen=True)
class Content:
    """Everything a store holds."""

    records: list[Record]
    end: int  # of the log
    queues: dict[tuple[str, int], list[tuple[int, int, int]]]
    times: tuple[int, int, int]

    def of_queue(self, topic: str, queue_id: int) -> list[Record]:
        return [each for each in self.records if (each.topic, each.queue_id) == (topic, queue_id) and each.is_queued]


def check_store(
    disk: Disk, root: Path, sizes: Sizes, *, has_index: bool = True, deleted: frozenset[str] = frozenset()
) -> Content:
    """Read a store that was closed and assert that all its parts agree.

    `deleted` are topics whose queues were deleted: the log still has their records.
    """
    assert not disk.exists(root / "abort"), "a closed store is not marked as in use"
    assert disk.read(root / "lock").startswith(b"SkyRocketMQ ")
    records, end = read_log(disk, root, sizes)
    queues = read_queues(disk, root, sizes)
    check_queues(
        [record for record in records if record.topic not in deleted],
        {name: cells for name, cells in queues.items() if name[0] not in deleted},
        read_ended(disk, root),
    )
    if has_index:
        check_index(disk, root, sizes, records)
    times = read_checkpoint(disk, root)
    if records:
        assert times[0] == records[-1].store_ms, "the checkpoint names the newest message"
    return Content(records, end, queues, times)


# ----------------------------------------------------------------------------------------------------------------- log


def read_log(disk: Disk, root: Path, sizes: Sizes, *, until_bad: bool = False) -> tuple[list[Record], int]:
    """All records and the offset at which the log ends."""
    names = list(disk.list(root / "commitlog"))
    records: list[Record] = []
    end = 0
    for number, name in enumerate(names):
        assert len(name) == 20
        start = int(name)
        assert start % sizes.log_file == 0
        assert start == int(names[0]) + number * sizes.log_file, "log files follow each other"
        data = disk.read(root / "commitlog" / name)
        assert len(data) == sizes.log_file
        at = 0
        while True:
            total, magic = struct.unpack(">iI", data[at : at + 8])
            if magic == BLANK:
                assert total == sizes.log_file - at
                at = sizes.log_file
                break
            if magic != MESSAGE and (until_bad or number == len(names) - 1):
                assert until_bad or data[at:] == bytes(sizes.log_file - at), "zeros follow the last record"
                end = start + at
                return records, end
            assert magic == MESSAGE
            record = read_record(data[at : at + total])
            assert record.log_offset == start + at
            records.append(record)
            at += total
            assert at + 8 <= sizes.log_file, "a blank record always fits behind"
        end = start + at
    return records, end


def read_record(data: bytes) -> Record:
    total, magic, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms = struct.unpack(
        ">iIIiiqqiq", data[:48]
    )
    assert magic == MESSAGE
    assert total == len(data)
    at = 48
    born_bytes = 20 if sys_flag & 0x10 else 8
    born_host = data[at : at + born_bytes]
    at += born_bytes
    (store_ms,) = struct.unpack(">q", data[at : at + 8])
    at += 8
    store_bytes = 20 if sys_flag & 0x20 else 8
    store_host = data[at : at + store_bytes]
    at += store_bytes
    reconsume_times, prepared_offset, body_bytes = struct.unpack(">iqi", data[at : at + 16])
    at += 16
    body = data[at : at + body_bytes]
    at += body_bytes
    topic_bytes = data[at]
    topic = data[at + 1 : at + 1 + topic_bytes].decode()
    at += 1 + topic_bytes
    (properties_bytes,) = struct.unpack(">h", data[at : at + 2])
    text = data[at + 2 : at + 2 + properties_bytes].decode()
    assert at + 2 + properties_bytes == total
    assert crc == zlib.crc32(body) & 0x7FFFFFFF
    properties = {}
    for pair in text.split("\x02"):
        name, _, value = pair.partition("\x01")
        if name and value:
            properties[name] = value
    return Record(
        total,
        crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        sys_flag,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body,
        topic,
        properties,
    )


def read_records(data: bytes) -> list[Record]:
    """Records one after the other, as a pull answer holds them."""
    records = []
    at = 0
    while at < len(data):
        (total,) = struct.unpack(">i", data[at : at + 4])
        records.append(read_record(data[at : at + total]))
        at += total
    return records


# -------------------------------------------------------------------------------------------------------------- queues


def read_queues(disk: Disk, root: Path, sizes: Sizes) -> dict[tuple[str, int], list[tuple[int, int, int]]]:
    """The cells of all queues; a queue whose first file is not the very first is padded with fillers."""
    queues = {}
    for topic in disk.list(root / "consumequeue"):
        for queue_id in disk.list(root / "consumequeue" / topic):
            cells = read_cells(disk, root / "consumequeue" / topic / queue_id, sizes)
            if cells:
                queues[topic, int(queue_id)] = cells
    return queues


def read_cells(disk: Disk, directory: Path, sizes: Sizes) -> list[tuple[int, int, int]]:
    names = list(disk.list(directory))
    cells: list[tuple[int, int, int]] = []
    has_ended = False
    for number, name in enumerate(names):
        assert len(name) == 20
        assert int(name) == int(names[0]) + number * sizes.queue_file, "queue files follow each other"
        data = disk.read(directory / name)
        assert len(data) == sizes.queue_file
        if not number:
            cells += [FILLER] * (int(name) // 20)
        for at in range(0, len(data), 20):
            cell = struct.unpack(">qiq", data[at : at + 20])
            if cell[1] == 0:
                has_ended = True
                assert data[at:] == bytes(len(data) - at), "zeros follow the last cell"
                break
            assert not has_ended
            cells.append(cell)
    return cells


def read_ended(disk: Disk, root: Path) -> dict[tuple[str, int], int]:
    """Where the queues of deleted topics ended."""
    data = disk.read(root / "ended") if disk.exists(root / "ended") else b""
    ended: dict[tuple[str, int], int] = {}
    while len(data) >= 32:
        crc, number, queue_id, length = struct.unpack_from(">IqiH", data)
        if zlib.crc32(data[4 : 18 + length]) != crc:  # it was being written when the power was lost
            data = data[32:]
            continue
        ended[data[18 : 18 + length].decode(), queue_id] = number
        data = data[-(-(18 + length) // 32) * 32 :]
    return ended


def check_queues(
    records: list[Record],
    queues: dict[tuple[str, int], list[tuple[int, int, int]]],
    ended: Mapping[tuple[str, int], int] = MappingProxyType({}),
    *,
    delays_ms: tuple[int, ...] = (1_000, 5_000, 10_000, 30_000),
) -> None:
    """Every queued record has its cell at its number, and there is no other cell but fillers and old ones."""
    expected: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for record in records:
        if record.is_queued:
            tags_code = java_hash(record.properties.get("TAGS", ""))
            if record.topic == "SCHEDULE_TOPIC_XXXX" and int(record.properties.get("DELAY", "0")) > 0:
                tags_code = record.store_ms + delays_ms[int(record.properties["DELAY"]) - 1]
            numbered = expected[record.topic, record.queue_id]
            if record.queue_offset in numbered:
                assert record.queue_offset == 0, "only a topic that was deleted begins again"
                numbered.clear()
            numbered[record.queue_offset] = (record.log_offset, record.total, tags_code)
    for name, numbered in expected.items():
        skipped = set(range(max(min(numbered), ended.get(name, 0)), max(numbered))) - set(numbered)
        assert all(queues[name][offset] == FILLER for offset in skipped), f"{name} has no gaps"
    first = records[0].log_offset if records else 0
    for name, cells in queues.items():
        for offset, cell in enumerate(cells):
            if cell != FILLER and cell[0] >= first:
                assert expected[name][offset] == cell, f"{name} at {offset}"
        for offset in expected[name]:
            if offset >= ended.get(name, 0):  # what was deleted has no place
                assert offset < len(cells), f"{name} lacks {offset}"
                assert cells[offset] != FILLER, f"{name} has nothing at {offset}"
    for name, numbered in expected.items():
        assert name in queues or max(numbered, default=-1) < ended.get(name, 0), f"{name} is missing"


# --------------------------------------------------------------------------------------------------------------- index


@dataclass(frozen=True)
class IndexFile:
    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    used: int
    count: int
    slots: list[int]
    entries: list[tuple[int, int, int, int]]  # (hash, log offset, seconds, previous), from entry 1 on


def read_index_file(data: bytes, sizes: Sizes) -> IndexFile:
    assert len(data) == 40 + 4 * sizes.slots + 20 * sizes.entries
    begin_ms, end_ms, begin_offset, end_offset, used, count = struct.unpack(">qqqqii", data[:40])
    slots = list(struct.unpack(f">{sizes.slots}i", data[40 : 40 + 4 * sizes.slots]))
    at = 40 + 4 * sizes.slots
    entries = [struct.unpack(">iqii", data[at + 20 * n : at + 20 * n + 20]) for n in range(1, max(count, 1))]
    rest = data[at + 20 * max(count, 1) :]
    assert rest == bytes(len(rest)), "zeros follow the last entry"
    return IndexFile(begin_ms, end_ms, begin_offset, end_offset, used, count, slots, entries)


def check_index(disk: Disk, root: Path, sizes: Sizes, records: list[Record]) -> None:
    """Every key of every record has one entry, in the order of the log, linked to where a search will find it."""
    names = list(disk.list(root / "index"))
    assert all(len(name) == 17 and name.isdigit() for name in names)
    files = [read_index_file(disk.read(root / "index" / name), sizes) for name in names]
    first = records[0].log_offset if records else 0
    store_ms = {record.log_offset: record.store_ms for record in records}
    indexed: list[tuple[int, int]] = []
    for number, file in enumerate(files):
        check_index_file(file, sizes, store_ms, is_last=number == len(files) - 1)
        indexed += [(key_hash, offset) for key_hash, offset, _, _ in file.entries if offset >= first]
    expected = [
        (abs(java_hash(f"{record.topic}#{key}")) & 0x7FFFFFFF, record.log_offset)
        for record in records
        for key in record.keys
    ]
    assert indexed == expected


def check_index_file(file: IndexFile, sizes: Sizes, store_ms: dict[int, int], *, is_last: bool) -> None:
    assert file.count <= sizes.entries
    assert is_last or file.count == sizes.entries, "a file is followed by another only when it is full"
    slots = [0] * sizes.slots
    offset_before = 0
    for number, (key_hash, log_offset, seconds, previous) in enumerate(file.entries, start=1):
        assert 0 <= key_hash < 2**31
        assert log_offset >= offset_before, "entries come in the order of the log"
        assert previous == slots[key_hash % sizes.slots]
        if log_offset in store_ms:
            assert seconds == max((store_ms[log_offset] - file.begin_ms) // 1000, 0)
        slots[key_hash % sizes.slots] = number
        offset_before = log_offset
    assert file.slots == slots
    assert file.used == sum(1 for slot in slots if slot)
    if file.entries:
        assert file.begin_offset == file.entries[0][1]
        assert file.end_offset == file.entries[-1][1]
        assert file.end_ms >= file.begin_ms > 0
        if file.end_offset in store_ms:
            assert file.end_ms == store_ms[file.end_offset]


# ---------------------------------------------------------------------------------------------------------- the others


def read_checkpoint(disk: Disk, root: Path) -> tuple[int, int, int]:
    data = disk.read(root / "checkpoint")
    assert len(data) == 4096
    assert data[24:] == bytes(4096 - 24)
    log_ms, queues_ms, index_ms = struct.unpack(">qqq", data[:24])
    return log_ms, queues_ms, index_ms


def java_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (value * 31 + units[at] * 256 + units[at + 1]) % 2**32
    return value - 2**32 if value >= 2**31 else value
