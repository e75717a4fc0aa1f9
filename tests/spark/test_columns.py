"""Columns of records hold what a message view says of each of them."""

from __future__ import annotations

import contextlib
import random
import zlib
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from skyrocketmq.errors import CorruptRecord
from skyrocketmq.model import MessageView
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.spark.columns import COLUMN_NAMES, batches_of, columns_of
from skyrocketmq.spark.record_places import places_in_answer
from skyrocketmq.wire.records import decode_record, encode_record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PROPERTIES = [
    b"",
    b"TAGS\x01TagA",
    b"KEYS\x01one two  three\x02TAGS\x01TagB\x02",
    b"UNIQ_KEY\x017F000001ABCD\x02a\x01b=c\x01d",
    b"TAGS\x01first\x02TAGS\x01last\x02x\x01\x02\x01y\x02z",
    "größe\x01zehn\x02".encode(),
    b"bad\x01\xff\xfe\x02TAGS\x01ok",
]


def record(chance: random.Random, number: int, *, sys_flag: int = 0, body: bytes | None = None) -> bytes:
    return encode_record(
        topic=chance.choice([b"TopicA", b"%RETRY%group", b"T"]),
        body=chance.randbytes(chance.choice([1, 10, 300])) if body is None else body,
        properties=chance.choice(PROPERTIES),
        queue_id=chance.randrange(16),
        queue_offset=chance.randrange(1 << 40),
        log_offset=chance.randrange(1 << 50),
        born_timestamp=1_700_000_000_000 + number,
        born_host=chance.randbytes(20 if sys_flag & 0x10 else 8),
        store_timestamp=1_700_000_100_000 + number,
        store_host=chance.randbytes(20 if sys_flag & 0x20 else 8),
        sys_flag=sys_flag,
        reconsume_times=chance.randrange(20),
    )


def row_of(message: MessageView) -> dict[str, object]:
    return {
        "topic": message.topic,
        "tags": message.tags,
        "keys": list(message.keys),
        "body": message.body,
        "properties": sorted(message.properties.items()),
        "broker": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "log_offset": message.log_offset,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "born_timestamp": EPOCH + timedelta(milliseconds=message.born_timestamp),
        "store_timestamp": EPOCH + timedelta(milliseconds=message.store_timestamp),
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "sys_flag": message.sys_flag,
    }


def rows_of(data: bytes, starts: list[int]) -> list[dict[str, object]]:
    batch = columns_of(data, starts, broker="broker-a")
    batch.validate(full=True)
    rows = batch.to_pylist()
    return [{**row, "properties": sorted(row["properties"])} for row in rows]


def expected(data: bytes, starts: list[int]) -> list[dict[str, object]]:
    return [row_of(decode_record(data, start, broker_name="broker-a")) for start in starts]


@pytest.mark.parametrize("seed", range(6))
def test_columns_are_what_views_say(seed: int) -> None:
    chance = random.Random(seed)
    packed = zlib.compress(b"packed " * 50)
    flags = [0, 0, 0, 0x10, 0x20, 0x30] if seed % 2 else [0]
    records = []
    for number in range(200):
        flag = chance.choice(flags)
        if number % 7 == 0:
            records.append(record(chance, number, sys_flag=flag | BODY_COMPRESSED, body=packed))
        else:
            records.append(record(chance, number, sys_flag=flag))
    data = b"".join(records)
    starts = places_in_answer(data).tolist()
    assert len(starts) == 200
    assert rows_of(data, starts) == expected(data, starts)
    shuffled = chance.sample(starts, 50)
    assert rows_of(data, shuffled) == expected(data, shuffled)


def test_only_the_columns_asked_for_are_made() -> None:
    data = record(random.Random(1), 1)
    batch = columns_of(data, [0], broker="b", columns=("queue_offset", "body"))
    assert batch.schema.names == ["queue_offset", "body"]


def test_no_records_give_an_empty_batch() -> None:
    batch = columns_of(b"", [], broker="b")
    assert (batch.num_rows, tuple(batch.schema.names)) == (0, COLUMN_NAMES)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_bytes_are_named_or_read_as_something_but_never_crash(seed: int) -> None:
    chance = random.Random(seed)
    records = [record(chance, number) for number in range(5)]
    data = bytearray(b"".join(records))
    starts = places_in_answer(bytes(data)).tolist()
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    with contextlib.suppress(CorruptRecord):
        batch = columns_of(bytes(data[: chance.choice([len(data), len(data) - 20])]), starts, broker="broker-a")
        batch.validate(full=True)
        assert batch.num_rows == len(starts)


def test_a_body_that_cannot_be_inflated_is_named() -> None:
    data = record(random.Random(1), 1, sys_flag=BODY_COMPRESSED, body=b"not zlib")
    with pytest.raises(CorruptRecord, match="cannot be inflated"):
        columns_of(data, [0], broker="broker-a")


def test_bodies_that_inflate_to_much_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    monkeypatch.setattr("skyrocketmq.spark.columns.INFLATED_BYTES", 1_000_000)
    packed = zlib.compress(bytes(300_000))
    huge = zlib.compress(bytes(2_000_000))
    bodies = [packed, None, packed, packed, packed, None, huge, packed, None]
    data = b"".join(
        record(chance, number, sys_flag=BODY_COMPRESSED if body else chance.choice([0, 0x10]), body=body)
        for number, body in enumerate(bodies)
    )
    starts = places_in_answer(data).tolist()
    batches = list(batches_of(data, starts, broker="broker-a", columns=("body", "queue_offset")))
    assert all(batch.num_rows == 1 or batch.nbytes < 1_300_000 for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{name: row[name] for name in ("body", "queue_offset")} for row in expected(data, starts)]
    # Nobody has to inflate what is not asked for.
    assert len(list(batches_of(data, starts, broker="broker-a", columns=("queue_offset",)))) == 1
