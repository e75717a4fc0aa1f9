"""Records of the log: both forms beside each other, and beside what a plain reading of the rules gives."""

from __future__ import annotations

from itertools import accumulate
from struct import iter_unpack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.layout import DELAY_PROPERTY, KEYS_PROPERTY, SCHEDULE_TOPIC, TAGS_PROPERTY, UNIQ_KEY_PROPERTY
from skyrocketmq.model import names, properties
from skyrocketmq.wire.java import body_crc, string_hash
from skyrocketmq.wire.records import encode_blank, encode_record
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("form", forms_of("log_records"))

BEGIN = 70_000  # log offset of the first record
LEVELS = (1_000, 5_000, 10_000)
TOPICS = {b"orders": 7, b"other": -5, b"SCHEDULE_TOPIC_XXXX": 2**31 - 1, "中文".encode(): 0, b"bad topic": None}
HOST, HOST_V6 = bytes(8), bytes(range(20))
int64 = st.integers(-(2**63), 2**63 - 1)

texts = st.sampled_from([
    b"", b"a", b"TagA", b"a b", b" a  b ", b"3", b"0", b"007", b"99999999999999999999", b"-1", b"1\x01x", b"x\0y",
    "键 值".encode(), "\U0001f600".encode(), b"\xff\xc3", b"\xed\xa0\x80 k", b"7F0000010B2C18B4AAC2000000000000",
])  # fmt: skip
property_names = st.sampled_from([b"UNIQ_KEY", b"KEYS", b"TAGS", b"DELAY", b"TAG", b"KEYS2", b"", b"a", "名".encode()])
pair = st.builds(
    lambda name, value, mark: name + mark + value, property_names, texts, st.sampled_from([b"\x01"] * 5 + [b""])
)
property_texts = st.lists(pair, max_size=6).map(b"\x02".join) | st.binary(max_size=60)


def record(log_offset: int, **fields: Any) -> bytes:
    """A record of queue 1 of `orders`; fields may say otherwise."""
    flags = fields.get("sys_flag", 0)
    usual: dict[str, Any] = {
        "topic": b"orders",
        "body": b"hello",
        "properties": b"UNIQ_KEY\x01id\x02TAGS\x01TagA\x02KEYS\x01k1 k2",
        "queue_id": 1,
        "queue_offset": 4,
        "log_offset": log_offset,
        "born_timestamp": 1,
        "born_host": HOST_V6 if flags & 0x10 else HOST,
        "store_timestamp": 1_700_000_000_000,
        "store_host": HOST_V6 if flags & 0x20 else HOST,
    }
    return encode_record(**(usual | fields))


def joined(*many: dict[str, Any]) -> bytes:
    """Records one after the other, each of which says where it stands."""
    data = b""
    for fields in many:
        data += record(BEGIN + len(data), **fields)
    return data


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A stretch of the log: records of some queues, now and then misplaced, torn, overwritten, or with a blank end."""
    data = bytearray()
    for _ in range(draw(st.integers(0, 6))):
        data += record(
            BEGIN + len(data) + draw(st.sampled_from([0] * 15 + [1])),
            topic=draw(st.sampled_from([*TOPICS, b"orders", b"orders"])),
            body=draw(st.binary(max_size=40) | st.just(bytes(300))),
            properties=draw(property_texts),
            queue_id=draw(st.sampled_from([1, 1, 1, 2, -1])),
            queue_offset=draw(st.sampled_from([4, 5, 6, 7, -1, 2**63 - 1])),
            store_timestamp=draw(st.just(1_700_000_000_000) | int64),
            sys_flag=draw(st.sampled_from([0, 0, 0, 4, 8, 0xC, 0x10, 0x20, 0x30, 1, -1])),
        )
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    tail = draw(st.sampled_from([b"", b"", encode_blank(20) + bytes(12), bytes(200)]))
    return bytes(data)[: draw(st.sampled_from([None, None, None, 50, 95, 110, -1]))] + tail


def outcome(call: Any, *arguments: Any, **named: Any) -> object:
    """What a call returns, or what it refuses with."""
    try:
        return call(*arguments, **named)
    except ProtocolError as error:
        return type(error), str(error)


def derived(form: Any, data: bytes, at: int = 0, end: int | None = None) -> Any:
    return form.derive_entries(data, at, len(data) if end is None else end, topics=TOPICS, delay_levels_ms=LEVELS)


@given(data=logs() | st.binary(max_size=300), at=st.integers(-5, 300), end=st.integers(-5, 700), crc=st.booleans())
def test_both_forms_scan_the_same(data: bytes, at: int, end: int, crc: bool) -> None:
    plain, compiled = plain_form("log_records"), compiled_form("log_records")
    for place, stop in ((0, len(data)), (at, end)):
        for view in (data, memoryview(data), bytearray(data)):
            expected = outcome(plain.scan_record, data, place, stop, check_crc=crc)
            assert outcome(compiled.scan_record, view, place, stop, check_crc=crc) == expected


@given(
    data=logs(),
    at=st.just(0) | st.integers(-5, 200),
    cut=st.just(0) | st.integers(-5, 200),
    stop=st.sampled_from([BEGIN, BEGIN + 1, BEGIN + 250, 2**63 - 1]),
    nul_from=st.sampled_from([0, BEGIN + 1, BEGIN + 200, 2**63 - 1]),
    crc=st.booleans(),
)
def test_both_forms_find_the_same_end_of_what_is_whole(
    data: bytes, at: int, cut: int, stop: int, nul_from: int, crc: bool
) -> None:
    found = {
        form.check_records(
            data, at, len(data) - cut, log_offset=BEGIN + at, stop=stop, nul_from=nul_from, check_crc=crc
        )
        for form in (plain_form("log_records"), compiled_form("log_records"))
    }
    assert len(found) == 1


@given(data=logs(), at=st.just(0) | st.integers(-5, 100), end=st.integers(-5, 900))
def test_both_forms_derive_the_same(data: bytes, at: int, end: int) -> None:
    plain, compiled = plain_form("log_records"), compiled_form("log_records")
    good_end = plain.check_records(data, 0, len(data), log_offset=BEGIN)
    for place, stop in ((0, good_end), (0, len(data)), (at, end)):
        assert outcome(derived, compiled, data, place, stop) == outcome(derived, plain, data, place, stop)


@both
@given(data=logs())
def test_what_was_checked_is_what_was_written(form: Any, data: bytes) -> None:
    """An independent walk by the totals: every record before the end is whole, and the one there is not."""
    end = form.check_records(data, 0, len(data), log_offset=BEGIN, check_crc=True)
    at = 0
    while at < end:
        scanned = form.scan_record(data, at, len(data))
        assert scanned.log_offset == BEGIN + at
        at += scanned.total_bytes
    assert at == end
    scanned = outcome(form.scan_record, data, end, len(data))
    assert scanned is None or scanned[0] is ProtocolError or scanned[4] != BEGIN + end  # type: ignore[index]


@both
def test_a_check_ends_at_the_record_that_is_torn(form: Any) -> None:
    many: list[dict[str, Any]] = [{}, {"body": b"", "properties": b""}, {"sys_flag": 0x30}]
    data = joined(*many)
    ends = list(accumulate(len(record(0, **fields)) for fields in many))
    for kept in range(len(data) + 1):
        expected = max((end for end in ends if end <= kept), default=0)
        assert form.check_records(data, 0, kept, log_offset=BEGIN) == expected
        torn = data[:kept] + bytes(len(data) - kept)  # what was never written reads as zeros
        whole = max((end for end in ends if torn[:end] == data[:end]), default=0)
        assert form.check_records(torn, 0, len(data), log_offset=BEGIN, check_crc=True, nul_from=0) == whole


@both
def test_bodies_are_checked_if_asked_for_whatever_their_length(form: Any) -> None:
    for size in (0, 1, 255, 256, 1024):
        data = bytearray(record(BEGIN, body=bytes(size)))
        assert form.check_records(data, 0, len(data), log_offset=BEGIN, check_crc=True) == len(data)
        if size:
            data[88] ^= 1
            assert form.check_records(data, 0, len(data), log_offset=BEGIN, check_crc=True) == 0
            assert form.check_records(data, 0, len(data), log_offset=BEGIN) == len(data)
    assert body_crc(bytes(255)) != body_crc(bytes(256))


@both
def test_zeros_in_properties_end_a_check_only_from_where_they_are_doubted(form: Any) -> None:
    data = joined({}, {"properties": b"a\x01\0"}, {})
    first, second = len(record(0)), len(record(0)) + len(record(0, properties=b"a\x01\0"))
    assert form.check_records(data, 0, len(data), log_offset=BEGIN, nul_from=0) == first
    assert form.check_records(data, 0, len(data), log_offset=BEGIN, nul_from=BEGIN + first) == first
    assert form.check_records(data, 0, len(data), log_offset=BEGIN, nul_from=BEGIN + second) == len(data)
    assert form.check_records(data, 0, len(data), log_offset=BEGIN, stop=BEGIN + first) == first
    assert form.check_records(data, 0, len(data), log_offset=BEGIN, stop=BEGIN + first + 1) == second


@both
def test_cells_that_follow_each_other_in_a_queue_come_together(form: Any) -> None:
    data = joined(
        {"queue_offset": 4},
        {"queue_id": 2, "queue_offset": 0},
        {"queue_offset": 5},
        {"queue_offset": 9},  # after a gap
        {"queue_id": 2, "queue_offset": 1},
        {"topic": b"other", "queue_offset": 10},
        {"queue_offset": 10},
        {"sys_flag": 4, "queue_offset": 11},  # prepared
        {"sys_flag": 0xC, "queue_offset": 11},  # rolled back
        {"sys_flag": 8, "queue_offset": 11},  # committed
        {"queue_id": -1, "queue_offset": 12},
        {"topic": b"bad topic", "queue_offset": 12},
    )
    entries = derived(form, data)
    size, other = len(record(0)), len(record(0, topic=b"other"))
    code = string_hash("TagA")
    runs = [(run.topic, run.queue_id, run.queue_offset, list(iter_unpack(">qiq", run.cells))) for run in entries.runs]
    after = BEGIN + 5 * size + other
    assert runs == [
        (b"orders", 1, 4, [(BEGIN, size, code), (BEGIN + 2 * size, size, code)]),
        (b"orders", 2, 0, [(BEGIN + size, size, code), (BEGIN + 4 * size, size, code)]),
        (b"orders", 1, 9, [(BEGIN + 3 * size, size, code), (after, size, code), (after + 3 * size, size, code)]),
        (b"other", 1, 10, [(BEGIN + 5 * size, other, code)]),
    ]
    assert [run.end for run in entries.runs] == [6, 2, 12, 11]
    assert entries.record_count == 12
    assert (entries.last_offset, entries.last_store_ms) == (after + 5 * size, 1_700_000_000_000)
    indexed = [log_offset for _, log_offset, _ in iter_unpack(">iqq", entries.keys)]
    rolled_back, illegal = after + 2 * size, after + 5 * size
    assert len(indexed) == 3 * 10
    assert indexed == sorted(indexed)
    assert not {rolled_back, illegal} & set(indexed)


@both
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (b"", []),
        (b"UNIQ_KEY\x01id", ["id"]),
        (b"KEYS\x01b a\x02UNIQ_KEY\x01id", ["id", "b", "a"]),
        (b"UNIQ_KEY\x01first\x02UNIQ_KEY\x01last\x02UNIQ_KEY\x01", ["last"]),
        (b"KEYS\x01 a   b \x02KEYS2\x01c", ["a", "b"]),
        (b"UNIQ_KEY\x01a\x01b\x02\x02\x01x\x02KEYS", ["a\x01b"]),
        ("KEYS\x01中文 \U0001f600".encode(), ["中文", "\U0001f600"]),
        (b"KEYS\x01a\0b \xff", ["a\0b", "�"]),
        (b"XUNIQ_KEY\x01no\x02UNIQ_KEYX\x01no", []),
    ],
)
def test_keys_are_those_that_the_properties_name(form: Any, text: bytes, keys: list[str]) -> None:
    packed = derived(form, record(BEGIN, properties=text)).keys
    topic_hash = TOPICS[b"orders"] or 0
    assert list(iter_unpack(">iqq", packed)) == [
        (abs(string_hash(key, topic_hash)) & 0x7FFF_FFFF, BEGIN, 1_700_000_000_000) for key in keys
    ]


@both
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", 0),
        (b"TAGS\x01", 0),
        (b"TAGS\x01a\x02TAGS\x01TagA", string_hash("TagA")),
        ("TAGS\x01\U0001f600".encode(), string_hash("\U0001f600")),
        (b"TAGS\x01TagA\x02DELAY\x012", string_hash("TagA")),  # of an ordinary topic
    ],
)
def test_a_cell_keeps_the_hash_of_the_tags(form: Any, text: bytes, code: int) -> None:
    assert code_of(form, properties=text) == code


@both
@pytest.mark.parametrize(
    ("level", "waits_ms"),
    [
        (b"1", 1_000), (b"3", 10_000), (b"4", 10_000), (b"0002", 5_000), (b"9" * 5_000, 10_000),
        (b"0", None), (b"000", None), (b"-1", None), (b"+1", None), (b"1 ", None), (b"", None), ("２".encode(), None),
    ],
)  # fmt: skip
def test_a_cell_of_a_waiting_message_keeps_the_time_of_its_delivery(
    form: Any, level: bytes, waits_ms: int | None
) -> None:
    text = b"TAGS\x01TagA\x02DELAY\x01" + level
    code = code_of(form, topic=SCHEDULE_TOPIC, properties=text)
    assert code == (string_hash("TagA") if waits_ms is None else 1_700_000_000_000 + waits_ms)


@both
def test_without_levels_a_message_waits_a_second(form: Any) -> None:
    data = record(BEGIN, topic=SCHEDULE_TOPIC, properties=b"DELAY\x013")
    (run,) = form.derive_entries(data, 0, len(data), topics=TOPICS, delay_levels_ms=()).runs
    assert next(iter_unpack(">qiq", run.cells))[2] == 1_700_000_001_000


@both
def test_what_is_no_record_is_not_derived(form: Any) -> None:
    data = record(BEGIN) + encode_blank(100) + bytes(92)
    with pytest.raises(ProtocolError, match="blank end"):
        derived(form, data)
    with pytest.raises(ProtocolError, match="magic"):
        derived(form, data, 0, len(data) + 1)
    with pytest.raises(ProtocolError, match="magic"):
        derived(form, data, 1)
    with pytest.raises(KeyError):
        derived(form, record(BEGIN, topic=b"unheard of"))
    assert derived(form, b"") == ([], b"", 0, -1, 0)


def test_names_are_those_of_the_model() -> None:
    assert SCHEDULE_TOPIC.decode() == names.SCHEDULE_TOPIC
    wanted = (UNIQ_KEY_PROPERTY, KEYS_PROPERTY, TAGS_PROPERTY, DELAY_PROPERTY)
    assert [name.decode() for name in wanted] == [
        properties.UNIQ_KEY,
        properties.KEYS,
        properties.TAGS,
        properties.DELAY,
    ]


def code_of(form: Any, **fields: Any) -> int:
    """The third field of the cell of a single record."""
    (run,) = derived(form, record(BEGIN, **fields)).runs
    code: int = next(iter_unpack(">qiq", run.cells))[2]
    return code
