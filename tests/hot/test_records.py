"""Records out of a pull's answer: both forms beside each other, and beside the readers of `wire`."""

from __future__ import annotations

from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.tables import MessageQueue
from skyrocketmq.wire import records as wire_records
from skyrocketmq.wire.pulled_records import PulledRecords
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("records", forms_of("records"))

TOPIC = "orders"
QUEUE = MessageQueue(TOPIC, "broker-a", 3)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def record(draw: st.DrawFn) -> bytes:
    """Mostly of the queue that is read; now and then of another, compressed, or with IPv6 hosts."""
    flags = draw(st.sampled_from([0, 0, 0, 4, 8, 0x10, 0x20, 0x30, 1, 0x100]))
    return wire_records.encode_record(
        topic=draw(st.sampled_from([b"orders", b"orders", b"orders", b"order", b"orders2", "中文".encode()])),
        body=draw(st.binary(max_size=60)),
        properties=draw(st.binary(max_size=40)),
        queue_id=draw(st.sampled_from([3, 3, 3, 3, 2, -1])),
        queue_offset=draw(int64),
        log_offset=draw(int64),
        born_timestamp=draw(int64),
        born_host=draw(st.binary(min_size=20, max_size=20))[: 20 if flags & 0x10 else 8],
        store_timestamp=draw(int64),
        store_host=draw(st.binary(min_size=20, max_size=20))[: 20 if flags & 0x20 else 8],
        flag=draw(int32),
        sys_flag=flags,
        reconsume_times=draw(int32),
        prepared_transaction_offset=draw(int64),
        crc=draw(st.none() | st.integers(0, 2**32 - 1)),
    )


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Records one after the other, whole, or cut off, or with some bytes that are others."""
    data = bytearray(b"".join(draw(st.lists(record(), max_size=6))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.sampled_from([None, None, None, 50, 95, -1]))])


def outcome(call: Any, *arguments: Any, **named: Any) -> object:
    """What a call returns, or what it refuses with."""
    try:
        return call(*arguments, **named)
    except ProtocolError as error:
        return type(error), str(error)


def read(form: Any, data: bytes, at: int = 0) -> Any:
    return form.read_pulled(
        data, at, stored_topic=TOPIC.encode(), queue_id=3, topic=TOPIC, queue=QUEUE, added=b"\x02MORE\x01yes"
    )


@both
@given(data=answers())
def test_records_are_split_by_their_sizes(records: Any, data: bytes) -> None:
    bounds = outcome(records.split_records, data)
    assert outcome(records.split_records, memoryview(data)) == bounds
    if isinstance(bounds, list):
        assert [begin for begin, _ in bounds] + [len(data)] == [0, *(end for _, end in bounds)]
        assert [int.from_bytes(data[begin : begin + 4], "big") for begin, _ in bounds] == [
            end - begin for begin, end in bounds
        ]


@given(data=answers() | st.binary(max_size=300), at=st.integers(-5, 300), end=st.none() | st.integers(-5, 300))
def test_both_forms_split_and_read_the_same(data: bytes, at: int, end: int | None) -> None:
    plain, compiled = plain_form("records"), compiled_form("records")
    assert outcome(plain.split_records, data, at, end) == outcome(compiled.split_records, data, at, end)
    assert outcome(read, plain, data, at) == outcome(read, compiled, data, at)


@both
@given(data=answers())
def test_common_records_are_read_as_the_client_reads_them(records: Any, data: bytes) -> None:
    """Those that are left out are read as before; together that is what the client gets."""
    reader = PulledRecords(QUEUE, added=b"MORE\x01yes", on_unreadable=lambda at, error: None)
    bounds = outcome(records.split_records, data)
    if not isinstance(bounds, list):
        return
    for begin, end in bounds:
        rows, at = read(records, data[begin:end])
        if at:
            expected, _ = reader.read(data[begin:end])
            assert list(starmap(MessageView, rows)) == expected


@both
@given(data=answers())
def test_only_what_is_uncommon_is_left_to_the_caller(records: Any, data: bytes) -> None:
    rows, at = read(records, data)
    assert at == sum(row[-1] for row in rows)
    if at < len(data) - 90 and isinstance(outcome(records.split_records, data, at), list):
        message = outcome(wire_records.decode_record, data, at, records.split_records(data, at)[0][1])
        is_common = (
            isinstance(message, MessageView)
            and (message.topic, message.queue.queue_id) == (TOPIC, 3)
            and not message.sys_flag & 0x31
        )
        assert not is_common
