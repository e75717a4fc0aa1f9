"""Sends out of received bytes: both forms beside each other, and beside the general decoder."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.layout import RECORD_HEAD_BYTES, TICKET_BYTES
from skyrocketmq.hot.send_reader import DECIDED, END, ENOUGH, NO_ROOM, OTHER, UNKNOWN
from skyrocketmq.wire.frames import Encoding, Frame, decode_frame, encode_frame, split_frames
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_send import SendMessageHeaderV2
from skyrocketmq.wire.properties import split_properties
from skyrocketmq.wire.records import scan_record
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("sends", forms_of("send_reader"))
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
LIMIT = 1 << 20
BODY_MAX = 2000
FIELDS: dict[str, str | None] = {
    "a": "group",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000123",
    "h": "7",
    "i": "UNIQ_KEY\x017F0000010001\x02WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01k1 k2",
    "j": "2",
    "k": "false",
    "l": "16",
    "m": "false",
}

texts = st.text(max_size=6) | st.sampled_from(
    ["", "0", "-1", "false", "true", "TopicTest", "+5", "007", " 1", "9" * 19]
)
names = st.sampled_from(["WAIT", "TAGS", "KEYS", "UNIQ_KEY", "color", "DELAY", "TRAN_MSG", "CLUSTER", "é", ""])
pairs = st.lists(st.tuples(names, texts), max_size=5).map(lambda each: "\x02".join(f"{n}\x01{v}" for n, v in each))
values = dict.fromkeys("acdefghjklmnz", texts) | {"b": st.just("TopicTest") | texts, "i": pairs | texts}
changes = st.fixed_dictionaries({}, optional={letter: value | st.none() for letter, value in values.items()})
spacing = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")])
damage = st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255))


def write_frame(
    fields: dict[str, str | None],
    *,
    is_binary: bool,
    spaces: tuple[str, str] = (",", ":"),
    is_ascii: bool = True,
    reverse: bool = False,
    body: bytes = b"hello",
) -> bytes:
    """A send as some client might write it."""
    if reverse:
        fields = dict(reversed(fields.items()))
    if is_binary:
        return encode_frame(Frame(310, 5, 0, fields, body, encoding=Encoding.BINARY))
    header: dict[str, object] = {"code": 310, "language": "JAVA", "version": 407, "opaque": 5, "flag": 0}
    header |= {"remark": None, "extFields": fields, "serializeTypeCurrentRPC": "JSON"}
    if reverse:
        header = dict(reversed(header.items()))
    text = json.dumps(header, separators=spaces, ensure_ascii=is_ascii).encode("utf-8", "replace")
    return b"".join(((4 + len(text) + len(body)).to_bytes(4, "big"), len(text).to_bytes(4, "big"), text, body))


def take(form: Any, batches: Any, data: bytes, *, limit: int = LIMIT) -> tuple[Any, ...]:
    """Everything that a reader says about these bytes, as values."""
    queue = batches.QueueTail(b"TopicTest", 1)
    reader = form.SendReader(cluster=b"c1", store_host=HOST, body_bytes_max=BODY_MAX)
    reader.topics[b"TopicTest"] = topic = form.SendTopic(3, 0x80)
    topic.queues[1] = queue
    batch = batches.RecordBatch()
    batch.begin(1_700_000_000_999, 0, limit)
    at = reader.take(data, 0, batch, HOST)
    unknown = (reader.unknown_topic, reader.unknown_queue) if reader.stop == UNKNOWN else None
    return (
        at,
        reader.stop,
        unknown,
        batch.take_records(),
        batch.take_keys(),
        bytes(queue.pending),
        reader.take_tickets(),
    )


def take_both(data: bytes) -> list[tuple[Any, ...]]:
    plain = take(plain_form("send_reader"), plain_form("record_batch"), data)
    return [plain, take(compiled_form("send_reader"), compiled_form("record_batch"), data)]


@given(
    changed=changes,
    is_binary=st.booleans(),
    spaces=spacing,
    is_ascii=st.booleans(),
    reverse=st.booleans(),
    body=st.binary(max_size=30) | st.just(bytes(BODY_MAX + 1)),
    damaged=damage,
)
def test_what_is_taken_is_what_the_general_decoder_reads(
    changed: dict[str, str | None], damaged: tuple[int, int] | None, body: bytes, is_binary: bool, **how: Any
) -> None:
    try:
        data = write_frame(FIELDS | changed, is_binary=is_binary, body=body, **how)
    except UnicodeEncodeError:
        return  # halves of pairs cannot be written in binary
    if damaged is not None and 8 + damaged[0] < len(data):
        data = data[: 8 + damaged[0]] + bytes([damaged[1]]) + data[9 + damaged[0] :]
    for at, stop, _, records, _, _, tickets in take_both(data):
        assert at in (0, len(data))
        if at == 0:
            assert (records, tickets) == (b"", b"")
            continue
        assert stop == END
        (place,), _ = split_frames(data)
        frame = decode_frame(data, *place)
        header = decode_header(SendMessageHeaderV2, frame.ext)
        assert (frame.code, frame.flag & 1) == (310, 0)
        assert (header.topic, header.queue_id, header.batch) == ("TopicTest", 1, False)
        pairs = split_properties((header.properties or "").encode("utf-8", "replace"))
        assert pairs.keys().isdisjoint(DECIDED)
        pairs.pop(b"WAIT", None)
        pairs[b"CLUSTER"] = b"c1"
        scanned = scan_record(records, 0, len(records))
        assert scanned is not None
        assert scanned[8] == b"\x02".join(b"%b\x01%b" % pair for pair in pairs.items())
        assert scanned[5] == ((header.sys_flag or 0) | 0x80) & ~0x30
        assert records[RECORD_HEAD_BYTES:].startswith(frame.body)
        assert len(tickets) == (0 if frame.flag & 2 else TICKET_BYTES)
        assert not tickets or int.from_bytes(tickets[:4], "big", signed=True) == frame.opaque


@given(changed=changes, is_binary=st.booleans(), spaces=spacing, reverse=st.booleans())
def test_both_forms_store_the_same(changed: dict[str, str | None], is_binary: bool, **how: Any) -> None:
    try:
        data = write_frame(FIELDS | changed, is_binary=is_binary, **how)
    except UnicodeEncodeError:
        return
    plain, compiled = take_both(data)
    if plain[0] and compiled[0]:
        assert plain == compiled


@both
@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("spaces", [(",", ":"), (", ", ": "), (" , ", " : ")])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_clients_write_is_taken(sends: Any, is_binary: bool, spaces: tuple[str, str], reverse: bool) -> None:
    batches = plain_form("record_batch") if sends is plain_form("send_reader") else compiled_form("record_batch")
    data = write_frame(dict(FIELDS), is_binary=is_binary, spaces=spaces, reverse=reverse)
    data += write_frame(FIELDS | {"i": "a\x01b\x02"}, is_binary=is_binary, spaces=spaces, is_ascii=False)
    data += write_frame(FIELDS | {"i": None, "j": None}, is_binary=is_binary, spaces=spaces)
    data += write_frame(FIELDS | {"i": "цвет\x01красный"}, is_binary=is_binary, spaces=spaces, is_ascii=is_binary)
    at, stop, _, _, _, cells, tickets = take(sends, batches, data + data[:11])
    assert (at, stop) == (len(data), END)
    assert (len(cells), len(tickets)) == (4 * 20, 4 * TICKET_BYTES)


@both
@pytest.mark.parametrize(
    ("changed", "stop"),
    [
        ({"i": "DELAY\x013"}, OTHER),
        ({"i": "TRAN_MSG\x01true"}, OTHER),
        ({"m": "true"}, OTHER),
        ({"f": "4"}, OTHER),
        ({"g": None}, OTHER),
        ({"h": "x"}, OTHER),
        ({"e": "0"}, UNKNOWN),
        ({"e": "9"}, UNKNOWN),
        ({"b": "Another"}, UNKNOWN),
    ],
)
@pytest.mark.parametrize("is_binary", [False, True])
def test_what_needs_a_decision_is_left_untouched(
    sends: Any, changed: dict[str, str | None], stop: int, is_binary: bool
) -> None:
    batches = plain_form("record_batch") if sends is plain_form("send_reader") else compiled_form("record_batch")
    good = write_frame(dict(FIELDS), is_binary=is_binary)
    found = take(sends, batches, good + write_frame(FIELDS | changed, is_binary=is_binary) + good)
    assert found[:2] == (len(good), stop)
    assert len(found[6]) == TICKET_BYTES


@both
def test_a_record_that_does_not_fit_in_its_file_waits_for_room(sends: Any) -> None:
    batches = plain_form("record_batch") if sends is plain_form("send_reader") else compiled_form("record_batch")
    good = write_frame(dict(FIELDS), is_binary=True)
    found = take(sends, batches, good * 3, limit=400)
    assert found[:2] == (2 * len(good), NO_ROOM)


@both
def test_what_others_have_added_keeps_nobody_from_the_first_step(sends: Any) -> None:
    """A feed that takes nothing of a complete frame would be asked again at once, for ever."""
    batches = plain_form("record_batch") if sends is plain_form("send_reader") else compiled_form("record_batch")
    queue = batches.QueueTail(b"TopicTest", 1)
    reader = sends.SendReader(cluster=b"c1", store_host=HOST, body_bytes_max=BODY_MAX)
    reader.topics[b"TopicTest"] = topic = sends.SendTopic(3)
    topic.queues[1] = queue
    batch = batches.RecordBatch()
    batch.begin(0, 0, LIMIT)
    many_keys = write_frame(FIELDS | {"i": "KEYS\x01" + " ".join(["k"] * 1000)}, is_binary=True)
    for _ in range(3):
        assert reader.take(many_keys * 2, 0, batch, HOST) == 2 * len(many_keys)
    at = reader.take(many_keys * 9, 0, batch, HOST)
    assert (at, reader.stop) == (3 * len(many_keys), ENOUGH)


@both
@given(data=st.binary(max_size=60))
def test_any_bytes_are_left_or_taken(sends: Any, data: bytes) -> None:
    batches = plain_form("record_batch") if sends is plain_form("send_reader") else compiled_form("record_batch")
    at, stop, _, records, _, _, _ = take(sends, batches, data)
    assert (at, records) == (0, b"")
    try:
        split_frames(data)
    except ProtocolError:
        assert stop == OTHER or len(data) < 8
