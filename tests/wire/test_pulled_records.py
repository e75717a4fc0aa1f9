"""Records as a pull brings them: read the short way or the long way, they are the same messages."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.wire import pulled_records
from skyrocketmq.wire.pulled_records import PulledRecords
from skyrocketmq.wire.records import decode_record, encode_record

QUEUE = MessageQueue("TopicTest", "broker-a", 3)
ADDED = b"MIN_OFFSET\x010\x02MAX_OFFSET\x0199"


def record(
    *,
    topic: bytes = b"TopicTest",
    body: bytes = b"hello",
    properties: bytes = b"UNIQ_KEY\x01id\x02TAGS\x01TagA",
    queue_id: int = 3,
    queue_offset: int = 41,
    host: bytes = bytes(range(8)),
    sys_flag: int = 0,
    flag: int = 7,
) -> bytes:
    return encode_record(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        queue_offset=queue_offset,
        log_offset=1000,
        born_timestamp=1_700_000_000_000,
        born_host=host,
        store_timestamp=1_700_000_000_001,
        store_host=host,
        sys_flag=sys_flag,
        flag=flag,
    )


def read(data: bytes) -> tuple[list[MessageView], list[int], int | None]:
    """The messages, the places of those that cannot be read, and where it was not read on."""
    unreadable: list[int] = []
    reader = PulledRecords(QUEUE, added=ADDED, on_unreadable=lambda at, _: unreadable.append(at))
    messages, unread_from = reader.read(data)
    return messages, unreadable, unread_from


def expected_of(data: bytes) -> MessageView:
    """The same message, read the long way."""
    message = decode_record(data, broker_name="broker-a")
    message.properties.update({"MIN_OFFSET": "0", "MAX_OFFSET": "99"})
    return message


RECORDS = {
    "common": record(),
    "no properties": record(properties=b""),
    "a separator at the end": record(properties=b"TAGS\x01TagA\x02"),
    "a character broken off": record(properties=b"TAGS\x01\xe4\xb8"),
    "what is added is there already": record(properties=b"MAX_OFFSET\x017\x02TAGS\x01TagA"),
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
    [message], unreadable, unread_from = read(data)
    assert message == expected_of(data)
    assert list(message.properties) == list(expected_of(data).properties)
    assert unreadable == []
    assert unread_from is None


def test_each_record_of_an_answer_is_read_at_its_place() -> None:
    messages, _, _ = read(b"".join(RECORDS.values()))
    assert messages == [expected_of(data) for data in RECORDS.values()]


def test_a_record_that_cannot_be_read_is_stepped_over() -> None:
    broken = record(body=b"not compressed at all", sys_flag=1)
    messages, unreadable, unread_from = read(record() + broken + record(body=b"later"))
    assert [message.body for message in messages] == [b"hello", b"later"]
    assert unreadable == [len(record())]
    assert unread_from is None


def test_what_would_inflate_to_too_much_is_left_for_the_next_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulled_records, "INFLATED_TOGETHER_MAX", 1000)
    packed = zlib.compress(bytes(600))
    answer = b"".join(record(body=packed, sys_flag=1, queue_offset=offset) for offset in range(5))
    messages, unreadable, unread_from = read(answer)
    assert [message.queue_offset for message in messages] == [0, 1]
    assert unreadable == []
    assert unread_from == 2


@pytest.mark.parametrize("tail", [b"\x00", bytes(91), record()[:-1], b"\x00\x00\x00\x05" + record()[4:]])
def test_an_answer_that_is_not_all_records_is_an_error(tail: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"at {len(record())}"):
        read(record() + tail)


def test_a_length_of_properties_below_zero_is_unreadable() -> None:
    properties = b"a\x01" + b"b" * 30_000
    data = bytearray(record(properties=properties) + bytes(40_000 - len(properties)))
    at = len(record(properties=b"")) - 2
    data[:4] = len(data).to_bytes(4, "big")
    data[at : at + 2] = (40_000).to_bytes(2, "big")
    assert read(bytes(data)) == ([], [0], None)


@given(st.data())
def test_a_damaged_record_is_an_error_or_the_same_message_both_ways(data: st.DataObject) -> None:
    damaged = bytearray(record())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(8, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(damaged)
    try:
        expected = [expected_of(raw)]
    except ProtocolError:
        assert read(raw) == ([], [0], None)
    else:
        assert read(raw) == (expected, [], None)
