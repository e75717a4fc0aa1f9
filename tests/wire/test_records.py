"""The record layout: byte vectors, what a scan gives, and that no bytes surprise it."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.hot import split_records
from skyrocketmq.model.flags import BORN_HOST_V6, STORE_HOST_V6
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.properties import encode_properties
from skyrocketmq.wire.records import (
    BLANK_MAGIC,
    MESSAGE_MAGIC,
    encode_blank,
    encode_record,
    encode_tail,
    pack_head,
    record_bytes,
    scan_record,
)

BORN_HOST = bytes.fromhex("0a00000100001388")
STORE_HOST = bytes.fromhex("0a00000200002a9f")
V6_HOST = bytes.fromhex("20010db8000000000000000000000001 00002a9f")

SMALL = bytes.fromhex(
    "0000006a daa320a7 3610a686 00000001 00000000 0000000000000002 0000000000000003 00000000"
    "0000018bcfe56800 0a00000100001388 0000018bcfe56801 0a00000200002a9f 00000000 0000000000000000"
    "00000005 68656c6c6f 01 54 0009 5441475301 54616741"
)
STORED = bytes.fromhex(
    "0000007a daa320a7 3610a686 00000002 00000001 0000000000000007 0000000000001000 00000000"
    "0000018bcfe56800 0a0000010000c350 0000018bcfe5687b 0a00000200002a9f 00000000 0000000000000000"
    "00000005 68656c6c6f 09 546f70696354657374 0011 544147530154616741024b455953016b31"
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


def small_record() -> bytes:
    return encode_record(
        topic=b"T",
        body=b"hello",
        properties=encode_properties({"TAGS": "TagA"}),
        queue_id=1,
        queue_offset=2,
        log_offset=3,
        born_timestamp=1_700_000_000_000,
        born_host=BORN_HOST,
        store_timestamp=1_700_000_000_001,
        store_host=STORE_HOST,
    )


def stored_record() -> bytes:
    return encode_record(
        topic=b"TopicTest",
        body=b"hello",
        properties=encode_properties({"TAGS": "TagA", "KEYS": "k1"}),
        queue_id=2,
        queue_offset=7,
        log_offset=4096,
        born_timestamp=1_700_000_000_000,
        born_host=bytes.fromhex("0a0000010000c350"),
        store_timestamp=1_700_000_000_123,
        store_host=STORE_HOST,
        flag=1,
    )


def test_a_record_is_written_as_apache_writes_it() -> None:
    assert small_record() == SMALL
    assert stored_record() == STORED


def test_the_packed_head_and_tail_make_the_same_record() -> None:
    tail = encode_tail(b"TopicTest", b"TAGS\x01TagA\x02KEYS\x01k1")
    total = record_bytes(0, body_bytes=5, topic_bytes=9, properties_bytes=17)
    head = pack_head(
        total,
        MESSAGE_MAGIC,
        body_crc(b"hello"),
        2,
        1,
        7,
        4096,
        0,
        1_700_000_000_000,
        bytes.fromhex("0a0000010000c350"),
        1_700_000_000_123,
        STORE_HOST,
        0,
        0,
        5,
    )
    assert head + b"hello" + tail == STORED


def test_a_scan_gives_what_queues_and_index_need() -> None:
    assert scan_record(STORED, 0, len(STORED)) == (
        122,
        b"TopicTest",
        2,
        7,
        4096,
        0,
        1_700_000_000_123,
        0,
        b"TAGS\x01TagA\x02KEYS\x01k1",
    )


def test_a_scan_reads_mapped_files_and_views_alike() -> None:
    data = b"rest" + STORED + b"more"
    expected = scan_record(data, 4, len(data))
    with mmap.mmap(-1, len(data)) as mapped:
        mapped[:] = data
        assert scan_record(mapped, 4, len(data)) == expected
    assert scan_record(memoryview(data), 4, len(data)) == expected
    assert scan_record(bytearray(data), 4, len(data)) == expected


@pytest.mark.parametrize(
    ("sys_flag", "born", "store", "fixed"),
    [
        (0, BORN_HOST, STORE_HOST, 91),
        (BORN_HOST_V6, V6_HOST, STORE_HOST, 103),
        (STORE_HOST_V6, BORN_HOST, V6_HOST, 103),
        (BORN_HOST_V6 | STORE_HOST_V6, V6_HOST, V6_HOST, 115),
    ],
)
def test_each_host_takes_the_size_its_own_bit_says(sys_flag: int, born: bytes, store: bytes, fixed: int) -> None:
    record = encode_record(
        topic=b"T",
        body=b"b",
        properties=b"",
        queue_id=1,
        queue_offset=2,
        log_offset=3,
        born_timestamp=4,
        born_host=born,
        store_timestamp=5,
        store_host=store,
        sys_flag=sys_flag,
        prepared_transaction_offset=6,
    )
    assert len(record) == fixed + 2
    assert scan_record(record, 0, len(record)) == (fixed + 2, b"T", 1, 2, 3, sys_flag, 5, 6, b"")


def test_a_flipped_bit_of_the_body_is_found_by_its_checksum_only() -> None:
    data = bytearray(STORED)
    data[90] ^= 1
    with pytest.raises(ProtocolError, match="checksum"):
        scan_record(data, 0, len(data))
    assert scan_record(data, 0, len(data), check_crc=False) is not None


@pytest.mark.parametrize("kept", range(len(STORED)))
def test_a_record_cut_anywhere_is_refused(kept: int) -> None:
    with pytest.raises(ProtocolError):
        scan_record(STORED, 0, kept)
    with pytest.raises(ProtocolError):
        scan_record(STORED[:kept], 0, kept)


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 5, 6, 7, 84, 85, 86, 87, 93, 103, 104])
def test_a_damaged_length_or_magic_is_refused(at: int) -> None:
    for bit in range(8):
        data = bytearray(STORED) + bytes(200)
        data[at] ^= 1 << bit
        with pytest.raises(ProtocolError):
            scan_record(data, 0, len(data))


def test_a_blank_record_is_the_end_of_the_file_and_no_error() -> None:
    space = encode_blank(8)
    assert space == bytes.fromhex("00000008 cbd43194")
    assert scan_record(space, 0, 8) is None
    file = STORED + encode_blank(300) + b"left as it was".ljust(292, b"\xff")
    assert scan_record(file, len(STORED), len(file)) is None


@pytest.mark.parametrize("size", [-1, 0, 7, 301])
def test_a_blank_record_that_does_not_fill_the_file_is_refused(size: int) -> None:
    data = size.to_bytes(4, "big", signed=True) + BLANK_MAGIC.to_bytes(4, "big") + bytes(292)
    with pytest.raises(ProtocolError, match="blank"):
        scan_record(data, 0, len(data))


def test_unwritten_space_is_no_record() -> None:
    with pytest.raises(ProtocolError, match="magic"):
        scan_record(bytes(4096), 0, 4096)


def test_a_topic_longer_than_its_signed_length_byte_is_refused() -> None:
    record = bytearray(STORED[:93]) + bytes([128]) + b"t" * 128 + bytes(2)
    record[:4] = len(record).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="add up"):
        scan_record(record, 0, len(record))
    with pytest.raises(IllegalArgument, match="128 bytes"):
        encode_tail(b"t" * 128, b"")
    with pytest.raises(IllegalArgument, match="0 bytes"):
        encode_tail(b"", b"")


def test_properties_longer_than_their_signed_length_are_refused() -> None:
    assert encode_tail(b"t", b"p" * 32_767)[2:4] == b"\x7f\xff"
    with pytest.raises(IllegalArgument, match="32768 bytes"):
        encode_tail(b"t", b"p" * 32_768)
    record = bytearray(STORED[:103]) + b"\x80\x00" + b"p" * 32_768
    record[:4] = len(record).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="add up"):
        scan_record(record, 0, len(record))


def test_a_pull_answer_is_split_by_the_sizes_of_its_records() -> None:
    assert split_records(SMALL + STORED + SMALL) == [(0, 106), (106, 228), (228, 334)]
    assert split_records(b"") == []
    with pytest.raises(ProtocolError):
        split_records(SMALL + STORED[:-1])
    with pytest.raises(ProtocolError):
        split_records(SMALL + bytes(100))


@given(
    body=st.binary(max_size=600),
    topic=st.binary(min_size=1, max_size=127),
    properties=st.binary(max_size=200),
    queue_id=int32,
    queue_offset=int64,
    log_offset=int64,
    store_timestamp=int64,
    prepared=int64,
    sys_flag=int32,
    before=st.binary(max_size=20),
)
def test_whatever_is_written_is_scanned_back(
    body: bytes,
    topic: bytes,
    properties: bytes,
    queue_id: int,
    queue_offset: int,
    log_offset: int,
    store_timestamp: int,
    prepared: int,
    sys_flag: int,
    before: bytes,
) -> None:
    record = encode_record(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        queue_offset=queue_offset,
        log_offset=log_offset,
        born_timestamp=0,
        born_host=V6_HOST if sys_flag & BORN_HOST_V6 else BORN_HOST,
        store_timestamp=store_timestamp,
        store_host=V6_HOST if sys_flag & STORE_HOST_V6 else STORE_HOST,
        sys_flag=sys_flag,
        prepared_transaction_offset=prepared,
    )
    data = before + record + b"next"
    assert scan_record(data, len(before), len(data)) == (
        len(record),
        topic,
        queue_id,
        queue_offset,
        log_offset,
        sys_flag,
        store_timestamp,
        prepared,
        properties,
    )


@given(st.binary(max_size=300), st.integers(-10, 310), st.integers(-10, 310))
def test_any_bytes_at_any_place_give_a_record_or_one_error(noise: bytes, at: int, end: int) -> None:
    for data in (noise, STORED + noise, STORED[:8] + noise):
        try:
            scan_record(data, at, end)
        except ProtocolError:
            pass
        try:
            split_records(data)
        except ProtocolError:
            pass
