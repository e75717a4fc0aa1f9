"""What a producer sends and is answered: both forms beside each other, and beside the codec of `wire`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.client.outgoing import Outgoing, SendRequest, SendRequests
from skyrocketmq.client.send_result import read_send_result
from skyrocketmq.errors import FrameTooLarge, MQError
from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import FRAME_BYTES_MAX, Encoding, Frame, FrameDecoder, decode_frame, encode_frame
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("sends", forms_of("sends"))

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(
    st.characters(codec=None) | st.sampled_from('\x00\x01\x02\b\t\n\f\r\x1f"\\/\x7f\ud800é中😀'), max_size=40
)
EXT = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "msgId": "7F00", "queueId": "3", "queueOffset": "12"}
HEADER: dict[str, object] = {
    "code": 0,
    "extFields": EXT,
    "flag": 1,
    "language": "JAVA",
    "opaque": 7,
    "serializeTypeCurrentRPC": "JSON",
    "version": 401,
}


def framed(header: bytes, body: bytes = b"") -> bytes:
    length = 4 + len(header) + len(body)
    return length.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def answer(**changed: object) -> bytes:
    """A usual answer with other members; None leaves one out."""
    members = {name: value for name, value in {**HEADER, **changed}.items() if value is not None}
    return framed(json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode())


# ------------------------------------------------------------------------------------------------------------ requests


@both
@given(
    names=st.tuples(texts, texts, texts),
    numbers=st.tuples(int32, int32, int64, int32),
    opaque=st.integers(0, 2**31 - 1),
    properties=texts,
    body=st.binary(max_size=80),
)
def test_a_request_is_written_as_any_frame_is(
    sends: Any,
    names: tuple[str, str, str],
    numbers: tuple[int, int, int, int],
    opaque: int,
    properties: str,
    body: bytes,
) -> None:
    group, topic, broker = names
    queue_id, sys_flag, born_ms, flag = numbers
    queue = MessageQueue(topic, broker, queue_id)
    outgoing = Outgoing(RequestCode.SEND_MESSAGE_V2, topic, body, properties, "id", sys_flag, flag)
    requests = SendRequests(group, template="TBW102", template_queue_nums=4, unit_mode=False)
    request = requests.request(outgoing, queue, born_ms=born_ms)
    assert isinstance(request, SendRequest)
    same = request.same
    data = sends.encode_send(same.head, same.tail, same.end, opaque, sys_flag, born_ms, flag, properties, body)
    frame = request.frame()
    frame.opaque = opaque
    assert data == encode_frame(frame)
    assert data == request.encode(opaque)


@pytest.mark.parametrize("name", ['"f":"0","g":"0","h":"0","i":""', '"opaque":', '"opaque":0', "\\"])
def test_no_name_is_taken_for_a_part_of_the_header(name: str) -> None:
    queue = MessageQueue("orders", name, 3)
    outgoing = Outgoing(RequestCode.SEND_MESSAGE_V2, "orders", b"x", "A\x01b", "id")
    requests = SendRequests(name, template=name, template_queue_nums=4, unit_mode=True)
    request = requests.request(outgoing, queue, born_ms=5)
    frame = request.frame()
    frame.opaque = 9
    assert request.encode(9) == encode_frame(frame)


@both
def test_a_request_that_no_frame_can_hold_is_refused(sends: Any) -> None:
    def encode(body_bytes: int) -> bytes:
        return bytes(sends.encode_send(b"{", b",", b"}", 1, 0, 0, 0, "", bytes(body_bytes)))

    around = len(encode(0))
    assert len(encode(FRAME_BYTES_MAX - around)) == FRAME_BYTES_MAX
    with pytest.raises(FrameTooLarge, match=f"a frame of {FRAME_BYTES_MAX + 1} bytes, the limit is {FRAME_BYTES_MAX}"):
        encode(FRAME_BYTES_MAX + 1 - around)


# ------------------------------------------------------------------------------------------------------------- answers

values = (
    st.sampled_from(["true", "false", "", "3", "0", "007", "-1", "+3", "3.0", " 3", "2147483647", "2147483648"]) | texts
)
far = st.sampled_from(["9223372036854775807", "9223372036854775808", "99999999999999999999", "0" * 19, "0" * 20])
fields = st.dictionaries(st.sampled_from([*EXT, "transactionId", "other", "m\\u0073gId"]), values | far, max_size=6)
members: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from([0, 0, 0, 10, -1, None, "0", 0.0]),
        "extFields": fields | st.just({**EXT, "queueId": 3}) | st.none() | st.just([]),
        "flag": st.sampled_from([1, 3, 0, 2, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, True]),
        "language": st.sampled_from(["JAVA", "GO", 3, None]),
        "opaque": st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 10**12]),
        "remark": st.sampled_from([None, "why"]),
        "version": st.sampled_from([0, 401, 2**31]),
        "more": st.sampled_from([1, "text", None]),
    },
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Usual answers, unusual ones, in any order and spacing, cut off, or with some bytes that are others."""
    frames = []
    for _ in range(draw(st.integers(0, 4))):
        header = draw(st.just({}) | members)
        if draw(st.booleans()):
            header = {**HEADER, **header}
        items = draw(st.permutations(list(header.items())))
        separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r:\n")]))
        text = json.dumps(dict(items), separators=separators, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):  # what comes twice
            text = text.replace("{", '{"opaque":1,"extFields":{"msgId":"x","queueId":"1"},', 1)
        text = draw(st.sampled_from(["{}", "{}", " {}\n", "{}x", "{}\x00", "\x00{}", "{},"])).format(text)
        frames.append(framed(text.encode("utf-8", "replace"), draw(st.sampled_from([b"", b"", b"", b"body"]))))
    data = bytearray(b"".join(frames))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255) | st.sampled_from(b'{}":,0- \\'))
    return bytes(data[: draw(st.sampled_from([None, None, None, 60, -1]))])


@given(data=answers() | st.binary(max_size=300))
def test_both_forms_read_the_same_answers(data: bytes) -> None:
    assert plain_form("sends").read_send_answers(data) == compiled_form("sends").read_send_answers(data)


@both
@given(data=answers())
def test_an_answer_that_is_read_says_what_its_frame_says(sends: Any, data: bytes) -> None:
    read, used_bytes = sends.read_send_answers(data)
    frames = FrameDecoder().feed(data[:used_bytes])
    target = MessageQueue("orders", "broker-a", 1)
    assert [one[0] for one in read] == [frame.opaque for frame in frames]
    for one, frame in zip(read, frames, strict=True):
        assert frame.is_response
        assert read_send_result(one, target, topic="orders", msg_id="id") == read_send_result(
            frame, target, topic="orders", msg_id="id"
        )


@both
@pytest.mark.parametrize(
    "data",
    [
        answer(),
        answer(remark=None, language="PYTHON", version=485),
        answer(extFields=EXT | {"transactionId": "7F01", "more": ""}),
        framed(json.dumps(HEADER, indent=2).encode() + b"\n"),
        encode_frame(Frame(0, 7, 1, dict(EXT))),
    ],
)
def test_every_usual_answer_is_read_here(sends: Any, data: bytes) -> None:
    read, used_bytes = sends.read_send_answers(data * 3)
    assert used_bytes == 3 * len(data)
    transaction_id = "7F01" if b"7F01" in data else None
    assert read == [(7, "7F00", 3, 12, transaction_id, "DefaultRegion", True)] * 3


@both
@pytest.mark.parametrize(
    "data",
    [
        answer(code=10),
        answer(flag=0),
        answer(remark="stored"),
        answer(opaque=None),
        answer(extFields={**EXT, "msgId": "\\"}),
        answer(extFields={**EXT, "MSG_REGION": "北京"}),
        answer(extFields={"queueId": "3", "queueOffset": "12"}),
        framed(json.dumps(HEADER).encode(), b"body"),
        encode_frame(Frame(0, 7, 1, dict(EXT), encoding=Encoding.BINARY)),
        encode_frame(Frame(10, 7)),
        answer()[:-1],
        b"\xff" * 40,
    ],
)
def test_whatever_else_comes_is_left_to_the_caller(sends: Any, data: bytes) -> None:
    assert sends.read_send_answers(data) == ([], 0)
    read, used_bytes = sends.read_send_answers(answer() + data + answer())
    assert (len(read), used_bytes) == (1, len(answer()))


def test_what_is_left_is_read_in_the_general_way() -> None:
    data = answer(code=10, remark="late")
    with_place = decode_frame(data, len(data) - 8, 8, len(data), len(data))
    assert (
        read_send_result(with_place, MessageQueue("orders", "broker-a", 3), topic="orders", msg_id="id").is_ok is False
    )
    with pytest.raises(MQError):
        read_send_result(Frame(1, 7, 1, remark="no"), MessageQueue("orders", "broker-a", 3), topic="t", msg_id="id")
