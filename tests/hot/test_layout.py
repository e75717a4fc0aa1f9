"""The layout is written once: its numbers agree with each other, and nobody else has any of their own."""

from __future__ import annotations

import re
import struct
from itertools import accumulate
from pathlib import Path

import pytest

from skyrocketmq.hot import layout
from skyrocketmq.model import flags
from skyrocketmq.wire import records
from tests.hot.forms import FOLDER

SOURCES = FOLDER.parent
NUMBERS = {name: value for name, value in vars(layout).items() if isinstance(value, int)}
AT_HOME = {SOURCES / "hot" / "layout.py", SOURCES / "wire" / "records.py"}

STILL = {  # these take records apart themselves, until they are written anew
    "broker/pull_filters.py",
    "filters/sql_quick.py",
}

HEAD_OFFSETS = [
    "TOTAL", "MAGIC", "CRC", "QUEUE_ID", "FLAG", "QUEUE_OFFSET", "LOG_OFFSET", "SYS_FLAG", "BORN_TIME", "BORN_HOST",
    "STORE_TIME", "STORE_HOST", "RECONSUMED", "PREPARED", "BODY_LENGTH",
]  # fmt: skip

FOREIGN = {
    "a format of a record's head": r'"[<>=!]?iIIi',
    "a magic code": r"(?i)0xDAA320A7|0xCBD43194",
    "the bits that say which hosts are IPv6": r">>\s*4\)?\s*&\s*3\b|&\s*0x30\b",
    "the heads of records": r"\bHEADS?\[|import[^#\n]*\bHEADS?\b(?!_)",
    "an offset of a record": r"_(TOTAL|MAGIC|CRC|QUEUE_ID|(QUEUE|LOG)_OFFSET|SYS_FLAG|STORE_TIME)_\w+\b[^=\n]*= \d",
    "a field of a record by its number": r"\b(record|scanned)\[\d\](?!\s*\[)",
}


def fields_of(text: str) -> list[str]:
    return re.findall(r"\d*[a-zA-Z]", text)


def test_a_record_is_laid_out_as_struct_reads_it() -> None:
    usual = fields_of(layout.RECORD_HEAD_FORMATS[0])
    begins = [0, *accumulate(struct.calcsize(f">{field}") for field in usual)]
    names = [f"RECORD_{name}_AT" for name in HEAD_OFFSETS]
    assert [NUMBERS[name] for name in names] + [layout.RECORD_HEAD_BYTES] == begins
    assert len(records.RecordHead._fields) == len(names)


@pytest.mark.parametrize("hosts", range(4))
def test_each_ipv6_host_makes_the_head_longer(hosts: int) -> None:
    flag = layout.RECORD_BORN_IPV6 * (hosts & 1) + layout.RECORD_STORE_IPV6 * (hosts >> 1)
    assert flag >> layout.RECORD_HOSTS_SHIFT & layout.RECORD_HOSTS_MASK == hosts
    head = struct.Struct(layout.RECORD_HEAD_FORMATS[hosts])
    assert head.size == layout.RECORD_HEAD_BYTES + layout.RECORD_IPV6_BYTES * hosts.bit_count()
    assert records.head_bytes_of(flag) == head.size
    fields = fields_of(head.format)
    sizes = {False: layout.RECORD_HOST_BYTES, True: layout.RECORD_HOST_BYTES_IPV6}
    assert [fields[HEAD_OFFSETS.index(name)] for name in ("BORN_HOST", "STORE_HOST")] == [
        f"{sizes[bool(hosts & 1)]}s",
        f"{sizes[bool(hosts & 2)]}s",
    ]


def test_the_bits_of_a_record_are_those_of_the_model() -> None:
    assert (layout.RECORD_BORN_IPV6, layout.RECORD_STORE_IPV6) == (flags.BORN_HOST_V6, flags.STORE_HOST_V6)
    assert layout.RECORD_TRANSACTION_BITS == flags.TRANSACTION_MASK
    assert int(flags.TransactionType.ROLLBACK) == layout.RECORD_ROLLED_BACK
    for kind in flags.TransactionType:
        assert bool(kind & layout.RECORD_UNQUEUED) is not flags.is_dispatched_to_queues(kind)


def test_a_batch_entry_is_laid_out_as_struct_reads_it() -> None:
    begins = [0, *accumulate(struct.calcsize(f">{field}") for field in fields_of(layout.BATCH_HEAD_FORMAT))]
    assert begins[3:] == [layout.BATCH_FLAG_AT, layout.BATCH_BODY_LENGTH_AT, layout.BATCH_HEAD_BYTES]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("_[!_]*.pxd")), ids=lambda path: path.stem)
def test_compiled_modules_take_their_numbers_from_the_layout(path: Path) -> None:
    """What a .pxd declares with such a name is imported."""
    source = path.with_suffix(".py").read_text(encoding="utf-8")
    declared = path.read_text("utf-8")
    for name in re.findall(r"(?m)^cdef [\w ]+ ([A-Z0-9_]+_(?:AT|BYTES|BYTES_MIN|MAGIC|MASK))$", declared):
        is_imported = re.search(rf"(?m)^(    {name},$|from \S+ import .*\b{name}\b)", source)
        assert is_imported or name not in NUMBERS, f"{name} of {path.name} has a number of its own"


def test_nobody_else_takes_records_apart() -> None:
    found = [
        f"{path.relative_to(SOURCES)}: {what}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path not in AT_HOME and path.relative_to(SOURCES).as_posix() not in STILL
        for what, pattern in FOREIGN.items()
        if re.search(pattern, path.read_text(encoding="utf-8"))
    ]
    assert found == []
