"""The frames of the load are those of real clients: our own decoder reads them, and they look as captured ones do."""

from __future__ import annotations

import json
import re
import struct

import pytest
from benchmarks.broker_frames import Traffic
from benchmarks.decks import FIRST_OPAQUE, MARKS, Change
from benchmarks.send_shapes import SHAPES, Encoding, Properties, SendShape, send_frames

from skyrocketmq.wire.frames import Encoding as WireEncoding
from skyrocketmq.wire.frames import Frame, FrameDecoder

# What Java's client 4.9.7 and Go's client 2.1.2 wrote, with the names and numbers of the benchmark put in.
JAVA_USER = (
    rb'{"code":310,"extFields":{"a":"benchmark-producers-\d","b":"BenchmarkTopic-\d","c":"TBW102","d":"4","e":"\d",'
    rb'"f":"0","g":"@born@","h":"0","i":"amount\\u0001\d+\\u0002orderId\\u0001@id@\\u0002'
    rb"UNIQ_KEY\\u00017F000001@long id@\\u0002"
    rb'WAIT\\u0001true\\u0002TAGS\\u0001Tag[A-D]","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,'
    rb'"language":"JAVA","opaque":\d{9},"serializeTypeCurrentRPC":"JSON","version":407}'
)
GO_START = rb'{"code":10,"language":"GO","version":317,"opaque":\d{9},"flag":0,"remark":"","extFields":{'
GO_FIELDS = {
    *("producerGroup", "topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes"),
    *("unitMode", "maxReconsumeTimes", "defaultTopic", "defaultTopicQueueNums", "batch"),
}


def frames(shape: SendShape, count: int = 200) -> list[bytes]:
    return list(send_frames(shape, Traffic(), count))


def header(frame: bytes) -> bytes:
    (word,) = struct.unpack_from(">I", frame, 4)
    return frame[8 : 8 + (word & 0xFF_FFFF)]


def properties(frame: Frame) -> str:
    assert frame.ext is not None
    return frame.ext["i" if frame.code == 310 else "properties"] or ""


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_whole_sends_with_its_body_and_numbers_that_go_up(shape: SendShape) -> None:
    sends = FrameDecoder().feed(b"".join(frames(shape)))

    wire = WireEncoding.BINARY if shape.encoding is Encoding.BINARY else WireEncoding.JSON
    code = 10 if shape.encoding is Encoding.GO else 310
    assert {(send.code, send.encoding, len(send.body)) for send in sends} == {(code, wire, shape.body_bytes)}
    assert [send.opaque for send in sends] == list(range(FIRST_OPAQUE, FIRST_OPAQUE + 200))
    names = {name.partition("\1")[0] for send in sends for name in properties(send).strip("\2").split("\2")}
    more = {Properties.USUAL: set(), Properties.KEY: {"KEYS"}, Properties.USER: {"amount", "orderId"}}
    waits = set() if shape.encoding is Encoding.GO else {"WAIT"}
    assert names == {"UNIQ_KEY", "TAGS"} | waits | more[shape.properties]


def test_java_writes_its_fields_and_properties_in_one_order() -> None:
    marks = {"@born@": Change.BORN, "@id@": Change.ID_UPPER}
    pattern = JAVA_USER
    for text, change in marks.items():
        process = MARKS[Change.PROCESS] if change is Change.ID_UPPER else b""
        pattern = pattern.replace(text.encode(), process + MARKS[change])
    pattern = pattern.replace(b"@long id@", MARKS[Change.PROCESS] + b"1B4FB44C" + MARKS[Change.ID_UPPER])

    for frame in frames(SendShape(10, Encoding.JAVA, Properties.USER)):
        assert re.fullmatch(pattern, header(frame)), header(frame)


def test_blanks_are_all_that_a_spaced_header_has_besides() -> None:
    [java, *_], [spaced, *_] = (
        frames(SendShape(10, encoding, Properties.KEY)) for encoding in (Encoding.JAVA, Encoding.SPACED)
    )

    assert header(spaced) == json.dumps(json.loads(header(java))).encode()
    assert header(spaced).replace(b'": ', b'":').replace(b", ", b",") == header(java)


def test_go_writes_its_fields_and_properties_in_any_order_and_a_separator_after_the_last() -> None:
    written = [header(frame) for frame in frames(SendShape(10, Encoding.GO, Properties.USER))]

    assert all(re.match(GO_START, each) for each in written)
    fields = [json.loads(each)["extFields"] for each in written]
    assert all(set(each) == GO_FIELDS for each in fields)
    assert len({tuple(each) for each in fields}) > 150
    orders = {tuple(part.partition("\1")[0] for part in each["properties"].split("\2")) for each in fields}
    assert len(orders) == 24
    assert {order[-1] for order in orders} == {""}


def test_messages_spread_over_topics_queues_groups_and_tags() -> None:
    sends = FrameDecoder().feed(b"".join(frames(SendShape(10), 2_000)))

    ext = [send.ext or {} for send in sends]
    assert len({(each["b"], each["e"]) for each in ext}) == 64
    assert len({each["a"] for each in ext}) == 4
    assert len({(each["i"] or "")[-4:] for each in ext}) == 4
