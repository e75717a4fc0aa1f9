"""What the modules of `skyrocketmq.hot` cost, compiled and as plain Python: CPU time of this process.

Both forms take turns on the same input, in slices of some milliseconds, and the quickest slice counts: what else the
machine does makes the others slower. `--quick` runs every case once, to see that it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from struct import pack
from time import thread_time_ns
from typing import Any

from benchmarks.report import OURS, PLAIN, Better, Report
from skyrocketmq import hot
from skyrocketmq.client.outgoing import Outgoing, SendRequest, SendRequests
from skyrocketmq.hot.form import Unusable, compiled_modules
from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame
from skyrocketmq.wire.records import encode_record

NAME = "hot"
SLICE_NS = 4_000_000
SLICES = 60  # of each form and case


@dataclass(frozen=True)
class Case:
    """One row: `prepare(module)` gives what is called, and how many of `each` a call deals with."""

    module: str
    name: str
    each: str
    prepare: Callable[[Any], tuple[Callable[[], object], int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    try:
        compiled = compiled_modules(Path(hot.__file__).parent)
    except Unusable as error:
        print(f"no compiled form: {error}")
        compiled = {}
    slices = 1 if arguments.quick else SLICES
    report = Report(NAME, {"slices": str(slices)}, others="plain Python")
    for case in CASES:
        forms = {PLAIN: import_module(f"skyrocketmq.hot.{case.module}")}
        if compiled:
            forms[OURS] = compiled[case.module]
        row = report.row(f"{case.module}: {case.name}", f"ns a {case.each}", Better.LESS, beside=PLAIN)
        prepared = {name: case.prepare(form) for name, form in forms.items()}
        best = dict.fromkeys(forms, float("inf"))
        for _ in range(slices):
            for name, (call, count) in prepared.items():
                best[name] = min(best[name], _slice_ns(call) / count)
        for name, nanoseconds in best.items():
            row.add(name, nanoseconds)
        print(f"  {row.name}: {', '.join(f'{name} {value:,.0f} ns' for name, value in best.items())}", flush=True)
    return report


def _slice_ns(call: Callable[[], object]) -> float:
    """What one call takes, over a slice of time."""
    calls = 0
    begin = now = thread_time_ns()
    while now - begin < SLICE_NS:
        for _ in range(8):
            call()
        calls += 8
        now = thread_time_ns()
    return (now - begin) / calls


# -------------------------------------------------------------------------------------------------------------- cells

FILE_BYTES = 1 << 30
RECORD = 1_200


def _pull(count: int, *, gap: int = 0, tags: int | None = None, gathers: bool = False) -> Any:
    """A pull that looks at so many cells, of records with a gap after each; every fourth has the wanted tag."""
    cells = b"".join(pack(">qiq", number * (RECORD + gap), RECORD, number % 4) for number in range(count))
    log = bytes((RECORD + gap) * count) if gathers else b""

    def prepare(form: Any) -> tuple[Callable[[], object], int]:
        limits = form.CellLimits(
            bytes_max=1 << 22,
            count_max=32,
            disk_bytes_max=1 << 16,
            disk_count_max=8,
            memory_bytes=1 << 30,
            file_bytes=FILE_BYTES,
        )
        wanted = None if tags is None else form.TagCodes([tags])
        files = {0: None}

        def pull() -> object:
            scan = form.CellScan(limits, 32, log_begin=0, log_end=1 << 28, own_from=0, files=files, tags=wanted)
            scan.scan(cells)
            return scan.gather(log, 0) if gathers else scan

        return pull, 1

    return prepare


# --------------------------------------------------------------------------------------------------------- conditions


def _filtered(form: Any) -> tuple[Callable[[], object], int]:
    """128 records of 1 KB with three properties that are asked for: a number in a range, a text, and a decimal."""
    cells, log = b"", b""
    for number in range(128):
        region = b"north" if number % 4 else b"south"
        properties = b"number\x01%d\x02region\x01%b\x02price\x010.%d" % (number, region, number)
        record = encode_record(
            topic=b"TopicTest", body=bytes(1024), properties=properties + b"\x02UNIQ_KEY\x01" + b"7F" * 16, queue_id=1,
            queue_offset=number, log_offset=len(log), born_timestamp=0, born_host=bytes(8), store_timestamp=0,
            store_host=bytes(8),
        )  # fmt: skip
        cells += pack(">qiq", len(log), len(record), 0)
        log += record
    condition = form.Junction(
        [
            form.Compared(0, ">=", 0, digits_sure=9, read=int),
            form.Compared(0, "<=", 1_000_000, digits_sure=9, read=int),
            form.IsIn(1, ("north",)),
            form.Compared(2, ">", 0.5, digits_sure=0, read=float),
        ],
        is_and=True,
    )
    reader = form.PropertyReader(("number", "region", "price"))
    return (lambda: reader.select(condition, log, 0, cells)), 128


# ----------------------------------------------------------------------------------------------------- binary headers


def _header(form: Any) -> tuple[Callable[[], object], int]:
    """The header of a pull."""
    names = "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subVersion"
    ext: dict[str, str | None] = dict.fromkeys(names.split(), "12345")
    data = encode_frame(Frame(RequestCode.PULL_MESSAGE, 12345, 0, ext, encoding=Encoding.BINARY))
    return (lambda: form.as_json(data, 8, len(data))), 1


# ------------------------------------------------------------------------------------------------------ index entries


def _keys(count: int) -> Any:
    """So many keys in one batch, into a file with few slots: all of them are in the cache."""
    keys = b"".join(
        pack(">iqq", number * 7919 % (1 << 31), number * RECORD, 1_700_000_000_000) for number in range(count)
    )

    def prepare(form: Any) -> tuple[Callable[[], object], int]:
        slot_count = 4_096
        mapped = bytearray(40 + 4 * slot_count)
        return (lambda: form.put_keys(mapped, keys, first=1, slot_count=slot_count, begin_ms=1_700_000_000_000)), count

    return prepare


def _packed(form: Any) -> tuple[Callable[[], object], int]:
    """A unique id of 32 characters on its way to the index."""
    key = b"7F0000010B2C18B4AAC2000000000000"
    return (lambda: form.pack_key(key, 12345, 70_000, 1_700_000_000_000)), 1


# ------------------------------------------------------------------------------------------------------------- hashes


def _hashed(text: bytes) -> Any:
    def prepare(form: Any) -> tuple[Callable[[], object], int]:
        return (lambda: form.text_hash(text)), 1

    return prepare


# ------------------------------------------------------------------------------------------------------------ records


def _answer(*, splits: bool) -> Any:
    """A pull's answer with 32 messages of 1 KB."""
    properties = (
        b"UNIQ_KEY\x01" + b"7F0000010B2C18B4AAC2000000000000" + b"\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"
    )
    record = encode_record(
        topic=b"TopicTest", body=bytes(1024), properties=properties, queue_id=1, queue_offset=7, log_offset=70_000,
        born_timestamp=1_700_000_000_000, born_host=bytes(8), store_timestamp=1_700_000_000_000, store_host=bytes(8),
    )  # fmt: skip
    data = record * 32

    def prepare(form: Any) -> tuple[Callable[[], object], int]:
        if splits:
            return (lambda: form.split_records(data)), 32
        named = {"stored_topic": b"TopicTest", "queue_id": 1, "topic": "TopicTest", "queue": None, "added": b"\x02"}
        return (lambda: form.read_pulled(data, 0, **named)), 32

    return prepare


# -------------------------------------------------------------------------------------------------------------- sends


def _sent(form: Any) -> tuple[Callable[[], object], int]:
    """A message of 1 KB, in the pieces that a producer has of it."""
    queue = MessageQueue("TopicTest", "broker-a", 3)
    properties = "UNIQ_KEY\x017F0000010B2C18B4AAC2000000000000\x02WAIT\x01true\x02TAGS\x01TagA"
    outgoing = Outgoing(RequestCode.SEND_MESSAGE_V2, "TopicTest", bytes(1024), properties, "")
    request = SendRequests("group", template="TBW102", template_queue_nums=4, unit_mode=False).request(
        outgoing, queue, born_ms=1_700_000_000_000
    )
    assert isinstance(request, SendRequest)
    same = request.same
    pieces = (same.head, same.tail, same.end, 12345, 0, 1_700_000_000_000, 0, properties, outgoing.body)
    return (lambda: form.encode_send(*pieces)), 1


def _answered(form: Any) -> tuple[Callable[[], object], int]:
    """64 answers in a buffer."""
    ext: dict[str, str | None] = {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": "7F00000100002A9F0000000000012345",
        "queueId": "3",
        "queueOffset": "12345",
    }
    data = encode_frame(Frame(0, 12345, 1, ext)) * 64
    return (lambda: form.read_send_answers(data)), 64


# -------------------------------------------------------------------------------------------------------- log, batches


def _log(*, derives: bool = False, checks_bodies: bool = False) -> Any:
    """A stretch of 64 messages of 128 B, which went to eight queues in turn."""
    properties = b"UNIQ_KEY\x017F0000010B2C18B4AAC2%012d\x02WAIT\x01true\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"
    data = b""
    for number in range(64):
        data += encode_record(
            topic=b"TopicTest", body=bytes(128), properties=properties % number, queue_id=number % 8,
            queue_offset=number // 8, log_offset=len(data), born_timestamp=1_700_000_000_000, born_host=bytes(8),
            store_timestamp=1_700_000_000_000, store_host=bytes(8),
        )  # fmt: skip

    def prepare(form: Any) -> tuple[Callable[[], object], int]:
        size, topics = len(data), {b"TopicTest": 12345}
        if derives:
            return (lambda: form.derive_entries(data, 0, size, topics=topics, delay_levels_ms=())), 64
        return (lambda: form.check_records(data, 0, size, log_offset=0, check_crc=checks_bodies)), 64

    return prepare


def _batch(form: Any) -> tuple[Callable[[], object], int]:
    """The body of a batch request with 64 messages of 128 B."""
    data = encode_batch([(0, bytes(128), b"UNIQ_KEY\x017F0000010B2C18B4AAC2000000000000\x02WAIT\x01true")] * 64)
    return (lambda: form.decode_batch(data)), 64


CASES = [
    Case("batches", "64 x 128 B", "message", _batch),
    Case("binary_headers", "a pull as JSON", "header", _header),
    Case("cells", "32 cells, records together", "pull", _pull(32)),
    Case("cells", "32 cells, records scattered, gathered", "pull", _pull(32, gap=300, gathers=True)),
    Case("cells", "128 cells, a quarter has the tag", "pull", _pull(128, tags=2)),
    Case("conditions", "four conditions, three properties", "record", _filtered),
    Case("index_entries", "64 keys in a batch", "key", _keys(64)),
    Case("index_entries", "one key in a batch", "key", _keys(1)),
    Case("index_entries", "a unique id packed", "key", _packed),
    Case("hashes", "a tag of 4 characters", "text", _hashed(b"TagA")),
    Case("hashes", "a unique id of 32 characters", "text", _hashed(b"7F0000010B2C18B4AAC2000000000000")),
    Case("log_records", "64 x 128 B checked", "record", _log()),
    Case("log_records", "64 x 128 B checked with their bodies", "record", _log(checks_bodies=True)),
    Case("log_records", "64 x 128 B, entries derived", "record", _log(derives=True)),
    Case("records", "32 x 1 KB split", "record", _answer(splits=True)),
    Case("records", "32 x 1 KB read", "record", _answer(splits=False)),
    Case("sends", "1 KB", "request", _sent),
    Case("sends", "64 in a buffer", "answer", _answered),
]
