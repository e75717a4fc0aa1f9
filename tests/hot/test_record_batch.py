"""Messages into records, cells and keys: both forms beside each other, and beside the format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.hot.layout import CELL_BYTES, KEY_BYTES
from skyrocketmq.hot.record_batch import FULL, KEYS_MAX, LONG_PROPERTIES, MANY_KEYS
from skyrocketmq.wire.java import string_hash
from skyrocketmq.wire.records import scan_record
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("record_batch", forms_of("record_batch"))

V4 = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
V6 = bytes(range(16)) + V4[4:]
NOW_MS = 1_700_000_000_000

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8).map(str.encode)
values = texts | st.binary(max_size=8) | st.sampled_from([b"a b  c ", b" ", b"\0", "ключ 鍵".encode()])
pairs = st.tuples(st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"color", b"", b"KEY", b"TAGSX"]) | texts, values)
properties = st.lists(pairs, max_size=6).map(lambda each: b"\x02".join(b"\x01".join(pair) for pair in each))
properties |= st.binary(max_size=40) | st.sampled_from([b"\x02\x02", b"\x01", b"TAGS\x01", b"KEYS\x01a\x02KEYS\x01b"])
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
messages = st.tuples(
    st.integers(0, 2),
    properties,
    st.binary(max_size=300),
    int32,
    int32,
    int64,
    st.sampled_from([V4, V6]),
    st.sampled_from([V4, V6]),
    int32,
    int64,
    st.none() | int64,
)


def fill(form: Any, added: list[tuple[Any, ...]], *, limit: int, extend_at: int) -> object:
    """Everything that a batch says after these messages, as values."""
    queues = [form.QueueTail(b"TopicTest", 0), form.QueueTail("тема".encode(), 1), form.QueueTail(b"t", 7)]
    queues[1].is_watched = True
    queues[2].extend_at = extend_at
    batch = form.RecordBatch()
    batch.begin(NOW_MS, 1000, limit)
    places = [batch.add(queues[message[0]], *message[1:]) for message in added]
    return (
        places,
        batch.position,
        batch.count,
        batch.key_count,
        batch.vouched,
        [queues.index(queue) for queue in batch.touched],
        [queues.index(queue) for queue in batch.crossed],
        [(queues.index(queue), *rest) for queue, *rest in batch.arrivals],
        [(queue.next_offset, queue.extend_at, bytes(queue.pending)) for queue in queues],
        batch.take_records(),
        batch.take_keys(),
        batch.count,
        batch.take_records(),
    )


@given(added=st.lists(messages, max_size=8), limit=st.integers(1000, 4000), extend_at=st.integers(0, 3))
def test_both_forms_make_the_same(added: list[tuple[Any, ...]], limit: int, extend_at: int) -> None:
    plain, compiled = (
        fill(form, added, limit=limit, extend_at=extend_at)
        for form in (plain_form("record_batch"), compiled_form("record_batch"))
    )
    assert plain == compiled


@both
def test_records_read_back_as_they_were_added(record_batch: Any) -> None:
    queue = record_batch.QueueTail(b"TopicTest", 3)
    queue.next_offset = 41
    batch = record_batch.RecordBatch()
    batch.begin(NOW_MS, 1 << 40, 1 << 41)
    text = b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01id"
    first = batch.add(queue, text, b"one", 5, 0, NOW_MS - 7, V4, V6, 2, 0)
    second = batch.add(queue, b"", b"", 0, 0x4, 0, V6, V4, 0, 77)  # prepared: without a place in the queue
    data = batch.take_records()
    assert (first, batch.position) == (1 << 40, (1 << 40) + len(data))
    total, topic, queue_id, queue_offset, log_offset, sys_flag, store_ms, prepared, properties = scan_record(
        data, 0, len(data)
    ) or pytest.fail("the end of a file")
    assert (topic, queue_id, queue_offset, log_offset) == (b"TopicTest", 3, 41, first)
    assert (sys_flag, store_ms, prepared, properties) == (0x20, NOW_MS, 0, text)
    scanned = scan_record(data, total, len(data)) or pytest.fail("the end of a file")
    assert (scanned[3], scanned[4], scanned[5], scanned[7]) == (0, second, 0x14, 77)
    assert queue.next_offset == 42
    cell = bytes(queue.pending)
    assert len(cell) == CELL_BYTES
    assert int.from_bytes(cell[12:], "big") == string_hash("TagA")
    assert len(batch.take_keys()) == 3 * KEY_BYTES


@both
def test_what_cannot_be_a_record_changes_nothing(record_batch: Any) -> None:
    queue = record_batch.QueueTail(b"t", 0)
    batch = record_batch.RecordBatch()
    batch.begin(NOW_MS, 0, 1 << 20)
    long_text = b"a\x01" + bytes(32_766)
    many_keys = b"KEYS\x01" + b" ".join([b"k"] * (KEYS_MAX + 1))
    assert batch.add(queue, long_text, b"", 0, 0, 0, V4, V4) == LONG_PROPERTIES
    assert batch.add(queue, many_keys, b"", 0, 0, 0, V4, V4) == MANY_KEYS
    assert batch.add(queue, b"", bytes((1 << 20) - 91), 0, 0, 0, V4, V4) == FULL
    assert (batch.position, batch.count, queue.next_offset, bytes(queue.pending)) == (0, 0, 0, b"")
    assert batch.add(queue, many_keys[:-2], long_text, 0, 0, 0, V4, V4) == 0
    assert batch.key_count == KEYS_MAX
