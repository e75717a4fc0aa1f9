"""Records as a pull brings them: read the short way or the long way, they are the same messages."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.pulled_records import PulledRecords
from skyrocketmq.wire.records import decode_record, encode_record, split_records

QUEUE = MessageQueue("TopicTest", "broker-a", 3)


def record(
    *,
    topic: bytes = b"TopicTest",
    body: bytes = b"hello",
    properties: bytes = b"UNIQ_KEY\x01id\x02TAGS\x01TagA",
    queue_id: int = 3,
    host: bytes = bytes(range(8)),
    sys_flag: int = 0,
    flag: int = 7,
) -> bytes:
    return encode_record(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        queue_offset=41,
        log_offset=1000,
        born_timestamp=1_700_000_000_000,
        born_host=host,
        store_timestamp=1_700_000_000_001,
        store_host=host,
        sys_flag=sys_flag,
        flag=flag,
    )


RECORDS = {
    "common": record(),
    "no properties": record(properties=b""),
    "empty body": record(body=b""),
    "another topic": record(topic=b"%RETRY%group"),
    "a longer topic": record(topic=b"TopicTest2"),
    "a topic of equal length": record(topic=b"TopicTesT"),
    "another queue": record(queue_id=4),
    "compressed": record(body=zlib.compress(b"hello" * 100), sys_flag=1),
    "IPv6": record(host=bytes(range(20)), sys_flag=0x30),
    "large": record(body=bytes(70_000), properties=b"a\x01" + b"b" * 30_000),
}


@pytest.mark.parametrize("data", RECORDS.values(), ids=list(RECORDS))
def test_both_ways_read_the_same(data: bytes) -> None:
    expected = decode_record(data, broker_name="broker-a")
    assert PulledRecords(QUEUE).decode(data, 0, len(data)) == expected


def test_each_record_of_an_answer_is_read_at_its_place() -> None:
    answer = b"".join(RECORDS.values())
    reader = PulledRecords(QUEUE)
    read = [reader.decode(answer, at, end) for at, end in split_records(answer)]
    assert read == [decode_record(data, broker_name="broker-a") for data in RECORDS.values()]


@given(st.data())
def test_a_damaged_record_is_an_error_or_the_same_message_both_ways(data: st.DataObject) -> None:
    damaged = bytearray(record())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(8, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(damaged)
    try:
        expected = decode_record(raw, broker_name="broker-a")
    except ProtocolError:
        with pytest.raises(ProtocolError):
            PulledRecords(QUEUE).decode(raw, 0, len(raw))
    else:
        assert PulledRecords(QUEUE).decode(raw, 0, len(raw)) == expected
