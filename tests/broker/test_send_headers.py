"""Headers of plain sends: what is recognised, and that it means what the general way reads in the same bytes."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.broker import send_headers
from skyrocketmq.broker.send_headers import PlainSend, SendHeaders
from skyrocketmq.broker.send_topics import AnswerTexts, SendTopic
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import TopicConfig, TopicFilterType
from skyrocketmq.store.learnt import ENTRY_BYTES
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Frame, decode_frame, encode_frame, split_frames
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_send import SendMessageHeaderV2
from skyrocketmq.wire.properties import split_properties
from tests.broker.requests import TOPIC, binary_bytes, json_bytes, properties_text, send_fields, send_frame, unique_id
from tests.broker.support import CLUSTER
from tests.store.support import STORE_HOST, memory_disk, open_store

QUEUE_COUNT = 4
PROPERTIES = properties_text([("KEYS", "order-1"), ("UNIQ_KEY", unique_id(1)), ("WAIT", "true"), ("TAGS", "TagA")])
Opener = Callable[[str], SendTopic | None]


@asynccontextmanager
async def open_headers(*names: str, **config: Any) -> AsyncIterator[tuple[SendHeaders, list[str]]]:
    """Headers of a broker with these topics, and the names that were looked for."""
    asked: list[str] = []
    texts = AnswerTexts(store_host=STORE_HOST, region="DefaultRegion", trace_on=True)
    async with open_store(memory_disk(), clock=ManualClock()) as store:

        def open_topic(name: str) -> SendTopic | None:
            asked.append(name)
            if name not in (names or (TOPIC,)):
                return None
            queues = {"read_queue_nums": QUEUE_COUNT, "write_queue_nums": QUEUE_COUNT}
            topic = TopicConfig(topic_name=name, **(queues | config))
            return SendTopic(topic, cluster=CLUSTER, texts=texts, open_queue=store.queue)

        yield SendHeaders(open_topic), asked


def read(headers: SendHeaders, data: bytes | Frame) -> PlainSend | None:
    """What the headers make of the first frame."""
    data = encode_frame(data) if isinstance(data, Frame) else data
    word, header_at, body_at, _ = split_frames(data)[0][0]
    if word >= 0x01000000:
        return headers.read_binary(data, header_at, body_at)
    return headers.read_json(data, header_at, body_at)


def learn(headers: SendHeaders, data: bytes | Frame) -> None:
    """As after the general way has handled the frame."""
    data = encode_frame(data) if isinstance(data, Frame) else data
    place = split_frames(data)[0][0]
    headers.learn(decode_frame(data, *place), data, place[1], place[2])


def meaning(send: PlainSend) -> dict[str, object]:
    queue, shape, key, opaque, frame_flag, sys_flag, born_ms, flag, reconsumed = send
    return {
        "topic": queue.queue.topic,
        "queue_id": queue.queue.queue_id,
        "opaque": opaque,
        "is_oneway": bool(frame_flag & 2),
        "sys_flag": sys_flag,
        "born_ms": born_ms,
        "flag": flag,
        "reconsume_times": reconsumed,
        "properties": split_properties(shape.before + key + shape.after),
    }


def general_meaning(data: bytes) -> dict[str, object] | None:
    """The same, read in the general way; None for what is no send to one queue of the topic."""
    try:
        frame = decode_frame(data, *split_frames(data)[0][0])
        header = decode_header(SendMessageHeaderV2, frame.ext)
    except ProtocolError:
        return None
    needed = (header.queue_id, header.sys_flag, header.born_timestamp, header.flag)
    if frame.code != 310 or frame.is_response or header.topic != TOPIC or header.batch or None in needed:
        return None
    if header.queue_id is None or not 0 <= header.queue_id < QUEUE_COUNT:
        return None
    properties = split_properties((header.properties or "").encode("utf-8", "replace"))
    properties.pop(b"WAIT", None)
    return {
        "topic": header.topic,
        "queue_id": header.queue_id,
        "opaque": frame.opaque,
        "is_oneway": frame.is_oneway,
        "sys_flag": header.sys_flag,
        "born_ms": header.born_timestamp,
        "flag": header.flag,
        "reconsume_times": header.reconsume_times or 0,
        "properties": properties | {b"CLUSTER": CLUSTER.encode()},
    }


# ---------------------------------------------------------------------------------------------------- recognising


def respelled(frame: Frame, *, separators: tuple[str, str], is_reversed: bool) -> bytes:
    """A JSON frame with the same fields, spaced and ordered in another way."""
    data = encode_frame(frame)
    _, header_at, body_at, end = split_frames(data)[0][0]
    fields = json.loads(data[header_at:body_at])
    if is_reversed:
        fields["extFields"] = dict(reversed(fields["extFields"].items()))
        fields = dict(reversed(fields.items()))
    text = json.dumps(fields, separators=separators).encode()
    return struct.pack(">ii", 4 + len(text) + end - body_at, len(text)) + text + data[body_at:end]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n\t", " :  ")])
async def test_a_json_header_is_read_at_once_however_it_is_spaced_and_ordered(
    separators: tuple[str, str], is_reversed: bool
) -> None:
    async with open_headers() as (headers, _):
        learn(headers, send_frame())
        data = respelled(send_frame(opaque=7), separators=separators, is_reversed=is_reversed)
        send = read(headers, data)
        assert send is not None
        assert meaning(send) == general_meaning(data)


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_send_is_recognised_once_its_like_was_handled_in_general(is_binary: bool) -> None:
    async with open_headers() as (headers, _):
        first = send_frame(TOPIC, 1, properties=PROPERTIES, is_binary=is_binary, opaque=7)
        assert read(headers, first) is None
        learn(headers, first)
        second = send_frame(
            TOPIC, 1, properties=PROPERTIES.replace(unique_id(1), unique_id(2)), is_binary=is_binary, opaque=8
        )
        found = read(headers, second)
        assert found is not None
        assert meaning(found) == general_meaning(encode_frame(second))


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"topic": "Unknown"},
        {"queue_id": -1},
        {"queue_id": QUEUE_COUNT},
        {"queue_id": "x"},
        {"m": "true"},
        {"m": "TRUE"},
        {"sys_flag": 4},
        {"sys_flag": 12},
        {"born_ms": None},
        {"flag": 2**31},
        {"d": "four"},
        {"l": "x"},
        {"code": 10},
        {"code": 320},
    ],
    ids=str,
)
async def test_what_needs_a_decision_takes_the_general_way_every_time(is_binary: bool, change: dict[str, Any]) -> None:
    async with open_headers() as (headers, _):
        learn(headers, send_frame(is_binary=is_binary))
        odd = send_frame(is_binary=is_binary, properties=PROPERTIES, **change)
        for _ in range(3):
            assert read(headers, odd) is None
            learn(headers, odd)


@pytest.mark.parametrize("is_binary", [False, True])
async def test_an_answer_is_no_send(is_binary: bool) -> None:
    async with open_headers() as (headers, _):
        frame = send_frame(is_binary=is_binary)
        learn(headers, frame)
        assert read(headers, frame) is not None
        frame.flag = 1
        assert read(headers, frame) is None


async def test_the_filter_type_of_a_topic_is_part_of_the_system_flag() -> None:
    async with open_headers(topic_filter_type=TopicFilterType.MULTI_TAG) as (headers, _):
        for is_binary in (False, True):
            frame = send_frame(is_binary=is_binary, sys_flag=1)
            learn(headers, frame)
            found = read(headers, frame)
            assert found is not None
            assert found[5] == 3


async def test_a_topic_that_may_not_be_sent_to_is_not_remembered() -> None:
    async with open_headers() as (headers, asked):
        for _ in range(2):
            learn(headers, send_frame("Unknown"))
            assert read(headers, send_frame("Unknown")) is None
        assert asked == ["Unknown", "Unknown"]


async def test_json_with_its_fields_in_another_order_and_with_others_among_them_is_recognised() -> None:
    async with open_headers() as (headers, _):
        learn(headers, send_frame())
        header = (
            b'{"version":407,"extFields":{"z":"?","e":"2","b":"TopicTest","h":"5","g":"1700000000123","f":"0","a":"\xc3\xa9"},'
            b'"opaque":9,"flag":2,"code":310,"language":"GO","unknown":[{"code":1}]}'
        )
        found = read(headers, json_bytes(header))
        assert found is not None
        assert meaning(found) == general_meaning(json_bytes(header))


async def test_a_binary_header_in_another_order_is_read_in_general() -> None:
    async with open_headers() as (headers, _):
        learn(headers, send_frame(is_binary=True))
        fields = [(name, (value or "").encode()) for name, value in send_fields().items()]
        odd = binary_bytes(310, fields[::-1])
        for _ in range(2):
            assert read(headers, odd) is None
            learn(headers, odd)


async def test_a_signed_header_whose_fields_stand_twice_is_read_in_general() -> None:
    """Java's client writes every field of a signed send twice, and the later one counts."""
    async with open_headers() as (headers, _):
        learn(headers, send_frame(is_binary=True))
        fields = [(name, (value or "").encode()) for name, value in send_fields().items()]
        signed = [*fields, ("AccessKey", b"user"), ("Signature", b"c2lnbmF0dXJl"), *fields]
        for _ in range(2):
            assert read(headers, binary_bytes(310, signed)) is None
            learn(headers, binary_bytes(310, signed))


# ------------------------------------------------------------------------------------------------ never mistaken


ID_FIRST = properties_text([("UNIQ_KEY", unique_id(1)), ("WAIT", "true"), ("TAGS", "TagA")])
KNOWN = [
    send_frame(TOPIC, 1, is_binary=True, properties=ID_FIRST),
    send_frame(TOPIC, 1, is_binary=False, properties=ID_FIRST),
    send_frame(TOPIC, 1, is_binary=False, properties=ID_FIRST, n="broker-a"),
    send_frame(TOPIC, 1, is_binary=True, properties=PROPERTIES),
    send_frame(TOPIC, 2, is_binary=True, properties="", k=None, m=None, reconsume_times=None),
    send_frame(TOPIC, 0, is_binary=True, properties=None, k=None, m=None, reconsume_times=None),
    send_frame(TOPIC, 3, is_binary=True, properties="a\x01b", n="broker-a", sys_flag=8, flag=-1, reconsume_times=3),
    send_frame(TOPIC, 1, is_binary=False, properties=PROPERTIES),
]
changes = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete", "swap"]), st.integers(0, 10_000), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


def make_known(headers: SendHeaders) -> None:
    """Let everything be remembered that can be: what is read once may be found more quickly the next time."""
    for frame in KNOWN:
        learn(headers, frame)
    for frame in KNOWN:
        read(headers, frame)


def damaged(data: bytes, damage: list[tuple[str, int, int]]) -> bytes:
    """The frame with some bytes changed, its two lengths put right again: deeper damage than a wrong length."""
    header_bytes = int.from_bytes(data[5:8], "big")
    header, body = bytearray(data[8 : 8 + header_bytes]), data[8 + header_bytes :]
    for kind, position, value in damage:
        at = position % len(header)
        if kind == "set":
            header[at] = value
        elif kind == "insert":
            header.insert(at, value)
        elif kind == "delete" and len(header) > 1:
            del header[at]
        elif kind == "swap":
            other = value % len(header)
            header[at], header[other] = header[other], header[at]
    start = (4 + len(header) + len(body)).to_bytes(4, "big") + data[4:5] + len(header).to_bytes(3, "big")
    return start + bytes(header) + body


@settings(max_examples=250)
@given(st.sampled_from(KNOWN), changes, st.sampled_from([b"", b"x", b"\0\1i\0\0\0\0"]))
def test_a_damaged_header_means_what_the_general_way_reads_or_is_left_to_it(
    known: Frame, damage: list[tuple[str, int, int]], body: bytes
) -> None:
    async def check() -> None:
        async with open_headers() as (headers, _):
            make_known(headers)
            known.body = body
            data = damaged(encode_frame(known), damage)
            found = read(headers, data)
            if found is not None:
                assert meaning(found) == general_meaning(data)

    asyncio.run(check())


@pytest.mark.parametrize("known", KNOWN, ids=range(len(KNOWN)))
async def test_a_header_cut_off_anywhere_is_left_to_the_general_way(known: Frame) -> None:
    async with open_headers() as (headers, _):
        make_known(headers)
        for body in (b"", b"x", b"\0\0\0\0"):
            known.body = body
            data = encode_frame(known)
            header_bytes = int.from_bytes(data[5:8], "big")
            for cut in range(1, header_bytes):
                short = damaged(data, [("delete", header_bytes - 1 - n, 0) for n in range(cut)])
                found = read(headers, short)
                assert found is None or meaning(found) == general_meaning(short)


async def test_a_header_whose_length_of_fields_lies_is_left_to_the_general_way() -> None:
    async with open_headers() as (headers, _):
        fields = [(name, (value or "").encode()) for name, value in send_fields().items()]
        honest = binary_bytes(310, fields)
        learn(headers, honest)
        assert read(headers, honest) is not None
        for lie in (0, 1, len(honest) - 30, 2**31 - 1):
            assert read(headers, binary_bytes(310, fields, ext_bytes=lie)) is None


async def test_a_header_with_a_remark_is_left_to_the_general_way() -> None:
    async with open_headers() as (headers, _):
        fields = [(name, (value or "").encode()) for name, value in send_fields().items()]
        learn(headers, binary_bytes(310, fields))
        assert read(headers, binary_bytes(310, fields, remark=b"so")) is None


async def test_bytes_that_are_no_text_are_replaced_as_in_the_general_way() -> None:
    async with open_headers() as (headers, _):
        fields = dict(send_fields())
        for text in (b"k\x01\xff\xfe", b"UNIQ_KEY\x01" + b"\xff" * 32, b"KEYS\x01\xc3\x02UNIQ_KEY\x01" + b"A" * 32):
            data = binary_bytes(310, [(name, (value or "").encode()) for name, value in (fields | {"i": "?"}).items()])
            learn(headers, data)
            odd = [(name, text if name == "i" else (value or "").encode()) for name, value in fields.items()]
            found = read(headers, binary_bytes(310, odd))
            assert found is not None
            assert meaning(found) == general_meaning(binary_bytes(310, odd))


# ------------------------------------------------------------------------------------------------------ forgetting


@pytest.mark.parametrize("is_binary", [False, True])
async def test_what_is_known_of_a_topic_is_dropped_when_the_topic_changes(is_binary: bool) -> None:
    async with open_headers("One", "Two") as (headers, asked):
        one, two = send_frame("One", is_binary=is_binary), send_frame("Two", is_binary=is_binary)
        learn(headers, one)
        learn(headers, two)
        headers.forget(frozenset({"One", "Other"}))
        assert read(headers, one) is None
        assert read(headers, two) is not None
        learn(headers, one)
        assert read(headers, one) is not None
        assert asked == ["One", "Two", "One"]


@pytest.mark.parametrize("is_binary", [False, True])
async def test_everything_is_dropped_when_the_configuration_changes(is_binary: bool) -> None:
    async with open_headers("One", "Two") as (headers, _):
        frames = [send_frame(name, is_binary=is_binary) for name in ("One", "Two")]
        for frame in frames:
            learn(headers, frame)
        headers.forget()
        assert [read(headers, frame) for frame in frames] == [None, None]


async def test_the_tables_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_headers, "LEARNT_BYTES_MAX", 10_000)
    async with open_headers() as (headers, _):
        for number in range(100):
            frame = send_frame(is_binary=True, a=f"group-{number}", flag=number, n=f"broker-{number}")
            learn(headers, frame)
            assert read(headers, frame) is not None, "what was learnt last is known"
            sizes = (len(headers._starts), len(headers._ends), len(headers._flags))
            assert max(sizes) <= 10_000 // ENTRY_BYTES
