"""Every way of sending a message stores the same record.

A send may take the plain way or the general one, its header may be JSON or binary, of version 1 or 2, known or new:
what is stored and answered depends on what is sent and on nothing else. A small model says what that is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, open_house, read_store
from tests.broker.requests import (
    BORN_MS,
    TOPIC,
    as_version_1,
    binary_bytes,
    json_bytes,
    properties_text,
    send_fields,
    send_frame,
    unique_id,
)
from tests.broker.support import CLUSTER
from tests.store.reader import Record

QUEUE_COUNT = 4
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@dataclass(frozen=True)
class Send:
    """What a producer wants to send. The numbers are texts: they need not be numbers."""

    properties: str = ""
    queue_id: str = "0"
    sys_flag: str = "0"
    born_ms: str = str(BORN_MS)
    flag: str = "0"
    reconsume_times: str = "0"
    body: bytes = b"hello"
    others: dict[str, Any] = field(default_factory=dict)

    def frame(self, opaque: int, *, is_binary: bool) -> Frame:
        return send_frame(
            TOPIC,
            self.queue_id,
            opaque=opaque,
            is_binary=is_binary,
            body=self.body,
            properties=self.properties,
            sys_flag=self.sys_flag,
            born_ms=self.born_ms,
            flag=self.flag,
            reconsume_times=self.reconsume_times,
            **self.others,
        )


# ---------------------------------------------------------------------------------------------------------------- model


def is_number(text: str, bits: int) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit() and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)


def read_pairs(text: str) -> dict[str, str]:
    pairs = {}
    for pair in text.split("\x02"):
        name, _, value = pair.partition("\x01")
        if name and value:
            pairs[name] = value
    return pairs


def refusal_of(send: Send, *, version: int) -> int:
    """The code of the answer; 0 if the message is stored."""
    needed = [(send.queue_id, 32), (send.sys_flag, 32), (send.born_ms, 64), (send.flag, 32)]
    fast = [(send.reconsume_times, 32), (send.others.get("d", "4") or "", 32), (send.others.get("l") or "0", 32)]
    if not all(is_number(text, bits) for text, bits in needed + (fast if version == 2 else [])):
        return 1
    if int(send.queue_id) >= QUEUE_COUNT:
        return 1
    return 13 if is_half(send) and delay_level(send) else 0


def is_half(send: Send) -> bool:
    return read_pairs(send.properties).get("TRAN_MSG", "").lower() == "true"


def delay_level(send: Send) -> int:
    text = read_pairs(send.properties).get("DELAY", "")
    return int(text) if text.isdigit() else 0


def expected(send: Send) -> dict[str, object]:
    """What the record holds, but for what the store decides."""
    pairs = read_pairs(send.properties) | {"CLUSTER": CLUSTER}
    topic, queue_id = TOPIC, int(send.queue_id)
    sys_flag = int(send.sys_flag) & ~0x30
    level = delay_level(send)
    if is_half(send):
        pairs |= {"REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
        topic, queue_id, sys_flag = HALF_TOPIC, 0, sys_flag & ~0xC
    elif level > 0 and sys_flag & 0xC in (0, 8):
        level = min(level, 18)
        pairs |= {"DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
        topic, queue_id = SCHEDULE, level - 1
    else:
        pairs.pop("WAIT", None)
    return {
        "topic": topic,
        "queue_id": queue_id,
        "sys_flag": sys_flag,
        "born_ms": int(send.born_ms),
        "flag": int(send.flag),
        "reconsume_times": int(send.reconsume_times) if is_number(send.reconsume_times, 32) else 0,
        "prepared_offset": 0,
        "body": send.body,
        "properties": pairs,
    }


# ----------------------------------------------------------------------------------------------------------------- ways

WAYS: tuple[tuple[int, Callable[[Send, int], Frame]], ...] = (
    (1, lambda send, opaque: as_version_1(send.frame(opaque, is_binary=False))),
    (1, lambda send, opaque: as_version_1(send.frame(opaque, is_binary=True))),
    (2, lambda send, opaque: send.frame(opaque, is_binary=False)),
    (2, lambda send, opaque: send.frame(opaque, is_binary=True)),
)


async def check_all_ways(sends: list[Send], *, together: bool) -> None:
    """Send everything in every way, twice, so that the second time finds what the first has left behind."""
    disk = FaultyDisk(directories=[ROOT])
    asked: list[tuple[Send, int, Frame]] = []
    for repeat in range(2):
        for send in sends:
            for version, make in WAYS:
                opaque = len(asked) + 1 + repeat * 1_000_000
                asked.append((send, version, make(send, opaque)))
    async with open_house(disk=disk, clock=ManualClock()) as house:
        await house.make_topic(readQueueNums=QUEUE_COUNT, writeQueueNums=QUEUE_COUNT)
        answers = await _ask(house, [frame for _, _, frame in asked], together=together)
    records = {record.log_offset: record for record in read_store(disk).records}
    for send, version, frame in asked:
        answer = answers[frame.opaque]
        assert answer.code == refusal_of(send, version=version), (send, version, answer.remark)
        if answer.code == 0:
            check_answer(send, answer, records)
    assert not records, "nothing but what was acknowledged is stored"


async def _ask(house: House, frames: list[Frame], *, together: bool) -> dict[int, Frame]:
    peer = await house.connect()
    if together:
        await peer.write(*frames)
        return await peer.all(len(frames))
    return {frame.opaque: await peer.ask(frame) for frame in frames}


def check_answer(send: Send, answer: Frame, records: dict[int, Record]) -> None:
    """The answer leads to the record, and the record is what the model says."""
    ext = answer.ext
    assert ext is not None
    assert ext["MSG_REGION"] == "DefaultRegion"
    assert ext["TRACE_ON"] == "true"
    message_id = ext["msgId"] or ""
    assert len(message_id) == 32
    record = records.pop(int(message_id[16:], 16))
    assert record.store_host.hex().upper() == message_id[:16]
    assert int(ext["queueOffset"] or "") == record.queue_offset
    wanted = expected(send)
    queue_id = int(ext["queueId"] or "")
    if int(send.queue_id) < 0:
        assert 0 <= queue_id < QUEUE_COUNT
        if wanted["topic"] == TOPIC:
            wanted["queue_id"] = queue_id
        else:
            assert isinstance(wanted["properties"], dict)
            wanted["properties"]["REAL_QID"] = str(queue_id)
    else:
        assert queue_id == int(send.queue_id)
    assert {name: getattr(record, name) for name in wanted} == wanted


# ------------------------------------------------------------------------------------------------------------ sends

ids = st.builds(unique_id, st.integers(0, 300))
words = st.sampled_from(
    ["order-1", "order-1 order-2", " a  b ", "ключ", "中文 x", "x" * 32, "a\x01b", "😀", "true", "false"]
)
values = st.one_of(words, ids, st.just(""), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
names = st.sampled_from(["KEYS", "UNIQ_KEY", "TAGS", "WAIT", "user", "имя", "CLUSTER", "UNIQ_KEY2", "XKEYS"])
rare = st.sampled_from(
    [
        ("DELAY", "0"),
        ("DELAY", "3"),
        ("DELAY", "x"),
        ("TRAN_MSG", "true"),
        ("TRAN_MSG", "no"),
        ("INNER_MULTI_DISPATCH", "q"),
    ]
)
free_pairs = st.lists(st.one_of(st.tuples(names, values), st.tuples(names, values), rare), max_size=5)


@st.composite
def java_pairs(draw: st.DrawFn) -> list[tuple[str, str]]:
    """What Java's client sends, in its order, with parts left out."""
    pairs = [("KEYS", draw(words)), ("UNIQ_KEY", draw(ids)), ("WAIT", draw(st.sampled_from(["true", "false"])))]
    pairs.append(("TAGS", draw(st.sampled_from(["TagA", "TagB", "тег"]))))
    return [pair for pair in pairs if draw(st.integers(0, 3))]


texts = st.one_of(
    st.builds(properties_text, java_pairs()),
    st.builds(properties_text, free_pairs),
    st.builds(lambda pairs: properties_text(pairs) + "\x02", java_pairs()),
    st.text("\x01\x02aUNIQ_KEY", max_size=20),
)
sends = st.builds(
    Send,
    properties=texts,
    queue_id=st.sampled_from(["0", "1", "3", "-1", "4", "2147483648", "x", "", "1_0", "+2", " 1", "02"]),
    sys_flag=st.sampled_from(["0", "0", "1", "769", "2", "4", "8", "12", "16", "48", "4294967296", "٣"]),
    born_ms=st.sampled_from(
        [str(BORN_MS), "0", "-5", "9223372036854775807", "9223372036854775808", "170000000012x", "+1"]
    ),
    flag=st.sampled_from(["0", "7", "-7", "2147483647", "2147483648", "0x1", "1_1"]),
    reconsume_times=st.sampled_from(["0", "0", "5", "-1", "y", "2147483648"]),
    body=st.sampled_from([b"", b"x", b"hello", bytes(300), b"\0\1e\0\0\0" * 3, b"\0\1i" * 5]),
    others=st.sampled_from(
        [{}, {}, {"n": "broker-a"}, {"zz": "odd"}, {"hi": "odd"}, {"l": "3"}, {"l": "bad"}, {"d": "bad"}, {"k": "true"}]
    ),
)
plain_sends = st.builds(Send, properties=texts, queue_id=st.sampled_from(["0", "1"]))


@settings(max_examples=40)
@given(st.lists(plain_sends, min_size=1, max_size=8), st.booleans())
def test_ordinary_messages_are_stored_alike_whatever_way_they_take(some: list[Send], together: bool) -> None:
    asyncio.run(check_all_ways(some, together=together))


@settings(max_examples=40)
@given(st.lists(sends, min_size=1, max_size=8), st.booleans())
@example([Send(queue_id="1_0")], False)
@example([Send(sys_flag="٣")], False)
@example([Send(others={"d": "bad"})], True)
def test_odd_messages_are_stored_or_refused_alike_whatever_way_they_take(some: list[Send], together: bool) -> None:
    asyncio.run(check_all_ways(some, together=together))


# -------------------------------------------------------------------------------------------------- headers of others


async def stored_after(*requests: bytes) -> list[Record]:
    """The records of frames that are sent one after the other, each stored."""
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, clock=ManualClock()) as house:
        await house.make_topic(readQueueNums=QUEUE_COUNT, writeQueueNums=QUEUE_COUNT)
        peer = await house.connect()
        for request in requests:
            await peer.ok(request)
    return read_store(disk).records


def pairs_of(**changes: Any) -> list[tuple[str, bytes]]:
    return [(name, (value or "").encode()) for name, value in send_fields(**changes).items()]


async def test_of_fields_that_stand_twice_the_later_one_counts() -> None:
    """Java's client writes every field of a signed send twice, in another order; the two agree. Here they do not."""
    first = pairs_of(topic="Other", queue_id=3, properties="TAGS\x01First", flag=1, born_ms=1, sys_flag=1)
    second = pairs_of(queue_id=2, properties=properties_text([("UNIQ_KEY", unique_id(5)), ("TAGS", "Second")]), flag=9)
    signature = [("AccessKey", b"user"), ("Signature", b"c2lnbmF0dXJl")]
    signed = binary_bytes(310, [*first, *signature, *second[::-1]], b"hello")
    plain = binary_bytes(310, second, b"hello")
    records = await stored_after(signed, plain, signed, plain, signed)
    assert len(records) == 5
    for record in records:
        assert (record.topic, record.queue_id, record.flag, record.born_ms, record.sys_flag) == (
            TOPIC,
            2,
            9,
            BORN_MS,
            0,
        )
        assert record.properties == {"UNIQ_KEY": unique_id(5), "TAGS": "Second", "CLUSTER": CLUSTER}


@settings(max_examples=20)
@given(st.permutations(list("abcdefghijkm")))
def test_fields_may_come_in_any_order(letters: list[str]) -> None:
    values = send_fields(queue_id=1, flag=5, properties=properties_text([("UNIQ_KEY", unique_id(5)), ("TAGS", "TagA")]))
    binary = binary_bytes(310, [(letter, (values[letter] or "").encode()) for letter in letters], b"hello")
    text = json.dumps({letter: values[letter] for letter in letters})
    header = b'{"opaque":1,"extFields":%b,"flag":0,"version":407,"code":310}' % text.encode()
    for record in asyncio.run(stored_after(binary, json_bytes(header, b"hello"), binary, json_bytes(header, b"hello"))):
        assert (record.topic, record.queue_id, record.flag, record.body) == (TOPIC, 1, 5, b"hello")
        assert record.properties == {"UNIQ_KEY": unique_id(5), "TAGS": "TagA", "CLUSTER": CLUSTER}


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (rb"k\u0001a\ud800b", "a\ufffdb"),  # half a surrogate pair, which UTF-8 cannot say
        (rb"k\u0001\ud83d\ude00", "\U0001f600"),
        (b"k\\u0001\xc3\xa9", "\xe9"),
        (rb"k\u0001\u0000\n\"\/", '\0\n"/'),
    ],
)
async def test_any_text_of_a_json_header_is_stored_alike_every_time(text: bytes, stored: str) -> None:
    values = json.dumps(send_fields(properties="?")).encode().replace(b'"?"', b'"%b"' % text)
    header = b'{"code":310,"extFields":%b,"flag":0,"language":"GO","opaque":1,"version":407}' % values
    for record in await stored_after(*[json_bytes(header, b"hello")] * 3):
        assert record.properties == {"k": stored, "CLUSTER": CLUSTER}


async def test_bytes_that_are_no_text_are_stored_as_replacement_characters_every_time() -> None:
    fields = [(name, b"k\x01a\xffb" if name == "i" else value) for name, value in pairs_of()]
    for record in await stored_after(*[binary_bytes(310, fields, b"hello")] * 3):
        assert record.properties == {"k": "a\ufffdb", "CLUSTER": CLUSTER}
