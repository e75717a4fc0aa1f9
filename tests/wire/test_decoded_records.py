"""Records decoded to messages, as consumers and tools see them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.flags import BORN_HOST_V6, STORE_HOST_V6, CompressionType
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.tables import MessageQueue
from skyrocketmq.wire.compression import compress, compression_bits
from skyrocketmq.wire.records import decode_record, decode_records, encode_blank, encode_record
from tests.wire.test_records import BORN_HOST, SMALL, STORE_HOST, STORED, V6_HOST


def record(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "topic": b"T",
        "body": b"hello",
        "properties": b"",
        "queue_id": 1,
        "queue_offset": 2,
        "log_offset": 3,
        "born_timestamp": 4,
        "born_host": BORN_HOST,
        "store_timestamp": 5,
        "store_host": STORE_HOST,
    }
    return encode_record(**(fields | changes))


def test_every_field_of_a_record_is_in_the_message() -> None:
    message = decode_record(STORED, broker_name="broker-a")
    assert message == MessageView(
        topic="TopicTest",
        body=b"hello",
        properties={"TAGS": "TagA", "KEYS": "k1"},
        queue=MessageQueue("TopicTest", "broker-a", 2),
        queue_offset=message.queue_offset,
        log_offset=message.log_offset,
        born_timestamp=1_700_000_000_000,
        born_host_packed=bytes.fromhex("0a0000010000c350"),
        store_timestamp=1_700_000_000_123,
        store_host_packed=STORE_HOST,
        flag=1,
        body_crc=0x3610A686,
        stored_bytes=122,
    )
    assert (message.queue_offset, message.log_offset) == (7, 4096)
    assert message.msg_id == "0A00000200002A9F0000000000001000"


def test_the_rare_fields_are_decoded_too() -> None:
    message = decode_record(record(reconsume_times=9, prepared_transaction_offset=77, sys_flag=8, flag=-5))
    assert (message.reconsume_times, message.prepared_transaction_offset) == (9, 77)
    assert (message.sys_flag, message.flag) == (8, -5)


@pytest.mark.parametrize("bits", [0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6])
def test_hosts_of_both_families_are_decoded(bits: int) -> None:
    born = V6_HOST if bits & BORN_HOST_V6 else BORN_HOST
    store = V6_HOST if bits & STORE_HOST_V6 else STORE_HOST
    message = decode_record(record(sys_flag=bits, born_host=born, store_host=store, reconsume_times=6))
    assert message.born_host == ("[2001:db8::1]:10911" if bits & BORN_HOST_V6 else "10.0.0.1:5000")
    assert message.store_host == ("[2001:db8::1]:10911" if bits & STORE_HOST_V6 else "10.0.0.2:10911")
    assert (message.body, message.store_timestamp, message.reconsume_times) == (b"hello", 5, 6)
    assert len(message.offset_msg_id) == (56 if bits & STORE_HOST_V6 else 32)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_compressed_body_is_inflated_and_the_flag_kept(kind: CompressionType) -> None:
    body = b"some text " * 1000
    data = record(body=compress(body, kind), sys_flag=compression_bits(kind))
    message = decode_record(data)
    assert message.body == body
    assert message.sys_flag == compression_bits(kind)
    assert decode_record(data, inflate=False).body == compress(body, kind)


def test_a_body_that_would_grow_too_large_is_refused() -> None:
    data = record(body=compress(bytes(100_000)), sys_flag=0x301)
    with pytest.raises(ProtocolError, match="limit of 99999"):
        decode_record(data, body_bytes_max=99_999)
    assert len(decode_records(data * 3, total_bytes_max=300_000)) == 3
    with pytest.raises(ProtocolError, match="limit"):
        decode_records(data * 3, total_bytes_max=299_999)


def test_large_plain_bodies_leave_nothing_for_compressed_ones() -> None:
    data = record(body=b"x" * 1000) + record(body=compress(b"y" * 10), sys_flag=0x301)
    with pytest.raises(ProtocolError, match="limit of 0"):
        decode_records(data, total_bytes_max=900)


def test_an_unknown_compression_type_is_refused() -> None:
    with pytest.raises(ProtocolError, match="compression type 7"):
        decode_record(record(sys_flag=0x701))
    assert decode_record(record(sys_flag=0x700)).body == b"hello"


def test_an_answer_is_decoded_whole() -> None:
    messages = decode_records(SMALL + STORED, broker_name="b")
    assert [message.topic for message in messages] == ["T", "TopicTest"]
    assert [message.queue for message in messages] == [MessageQueue("T", "b", 1), MessageQueue("TopicTest", "b", 2)]
    assert decode_records(b"") == []


def test_a_record_inside_others_is_decoded_in_place() -> None:
    assert decode_record(SMALL + STORED, len(SMALL)).topic == "TopicTest"
    assert decode_record(memoryview(SMALL + STORED), len(SMALL)) == decode_record(STORED)


def test_an_empty_body_is_empty() -> None:
    assert decode_record(record(body=b"")).body == b""


def test_text_that_is_not_utf8_does_not_lose_the_message() -> None:
    message = decode_record(record(topic=b"\xff", properties=b"a\x01\xfe"))
    assert message.topic == "�"
    assert message.properties == {"a": "�"}


def test_a_blank_record_is_no_message() -> None:
    with pytest.raises(ProtocolError, match="blank"):
        decode_record(encode_blank(8))


@given(st.binary(max_size=300), st.integers(0, 130), st.sampled_from([0, 1, 0x301, 0x101, 0x201, 0x31]))
def test_any_bytes_are_messages_or_one_error(noise: bytes, place: int, sys_flag: int) -> None:
    flagged = STORED[:36] + sys_flag.to_bytes(4, "big") + STORED[40:]
    for data in (noise, STORED[:place] + noise, flagged[:place] + noise + flagged[place + len(noise) :], flagged):
        try:
            for message in decode_records(data, body_bytes_max=10_000):
                assert message.msg_id
                assert message.born_host
        except ProtocolError:
            pass
