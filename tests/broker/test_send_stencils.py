"""Stencils: a header that differs from a known one only in its holes is read as it would be in full."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.broker.send_headers import SendHeaders
from skyrocketmq.broker.send_stencils import SendStencils
from skyrocketmq.broker.send_topics import AnswerTexts, SendTopic
from skyrocketmq.model import TopicConfig
from skyrocketmq.ports import LocalDisk
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.wire.frames import Encoding, Frame, decode_frame, encode_frame, split_frames

ID = "7F0000010A2B18B4AAC20123456789AB"
FIELDS = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": f"UNIQ_KEY\x01{ID}\x02WAIT\x01true\x02TAGS\x01TagA", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def make_headers(directory: Path) -> SendHeaders:
    queues = ConsumeQueues(LocalDisk(threads=1), directory, file_bytes=6000)
    texts = AnswerTexts(store_host=bytes(8), region="R", trace_on=True)
    topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)
    return SendHeaders(lambda name: SendTopic(topic, cluster="C", texts=texts, open_queue=queues.get))


def read(headers: SendHeaders, fields: dict[str, str], opaque: int, encoding: Encoding) -> object:
    """What is read of a header, without the objects that differ from one broker to the next."""
    frame = Frame(310, opaque=opaque, ext=dict(fields), encoding=encoding)
    data = encode_frame(frame)
    ((word, header_at, body_at, end),), _ = split_frames(data)
    reader = headers.read_json if encoding is Encoding.JSON else headers.read_binary
    send = reader(data, header_at, body_at)
    if send is None:
        headers.learn(decode_frame(data, word, header_at, body_at, end), data, header_at, body_at)
        send = reader(data, header_at, body_at)
    if send is None:
        return None
    queue, shape, *rest = send
    return queue.queue.queue_id, shape.middle, shape.after, shape.tags_code, shape.keys, shape.waits, *rest


@pytest.mark.parametrize("encoding", list(Encoding))
@given(data=st.data())
def test_a_header_is_read_alike_with_and_without_stencils(
    tmp_path_factory: pytest.TempPathFactory, encoding: Encoding, data: st.DataObject
) -> None:
    directory = tmp_path_factory.getbasetemp()
    warm = make_headers(directory)
    for opaque in (1, 2, 3):
        read(warm, FIELDS, opaque, encoding)
    character = st.sampled_from('0123456789ABCDEFz"\\\x01\x02,:é ')
    changes = {
        "e": st.sampled_from(["0", "1", "3", "4", "-1", "12"]),
        "f": st.sampled_from(["0", "1", "769", "4"]),
        "g": st.sampled_from(["1700000000001", "1", "17000000000ab", "-170000000000", ""]),
        "h": st.sampled_from(["0", "7", "12", "x"]),
        "i": st.text(character, min_size=32, max_size=32).map(lambda key: FIELDS["i"].replace(ID, key)),
        "j": st.sampled_from(["0", "5", ""]),
        "m": st.sampled_from(["false", "true", "TRUE"]),
    }
    names = data.draw(st.sets(st.sampled_from(sorted(changes)), max_size=3))
    fields = FIELDS | {name: data.draw(changes[name]) for name in names}
    opaque = data.draw(st.sampled_from([0, 4, 2**31 - 1, -1]))
    assert read(warm, fields, opaque, encoding) == read(make_headers(directory), fields, opaque, encoding)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_the_second_send_of_a_producer_finds_a_stencil(
    tmp_path: Path, encoding: Encoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = make_headers(tmp_path)
    first = read(headers, FIELDS, 1, encoding)
    monkeypatch.setattr(headers, "_read_json", None)
    monkeypatch.setattr(headers, "_read_binary", None)
    other = FIELDS | {"g": "1700000000999", "i": FIELDS["i"].replace(ID, ID[::-1])}
    again = read(headers, other, 77, encoding)
    assert isinstance(first, tuple)
    assert isinstance(again, tuple)
    assert again[:6] == first[:6]
    assert again[6:] == (ID[::-1].encode(), 77, 0, 0, 1700000000999, 0, 0)
    headers.forget(frozenset({"T"}))
    with pytest.raises(TypeError):
        read(headers, other, 78, encoding)


def test_bytes_that_are_no_header_find_no_stencil() -> None:
    stencils = SendStencils()
    assert stencils.find_json(b"", 0, 0) is None
    assert stencils.find_binary(b"\x01\x36" + bytes(40), 0, 42) is None


@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_header_that_ends_inside_the_id_finds_no_stencil(tmp_path: Path, encoding: Encoding) -> None:
    headers = make_headers(tmp_path)
    fields = {name: value for name, value in FIELDS.items() if name < "j"} | {"i": f"UNIQ_KEY\x01{ID}"}
    for opaque in (1, 2, 3):
        read(headers, fields, opaque, encoding)
    data = encode_frame(Frame(310, opaque=4, ext=dict(fields), encoding=encoding))
    ((_, header_at, body_at, _),), _ = split_frames(data)
    reader = headers.read_json if encoding is Encoding.JSON else headers.read_binary
    for end in range(header_at, body_at):
        found = reader(data, header_at, end)
        assert found is None


def test_a_request_number_that_is_too_long_is_left_to_the_general_way(tmp_path: Path) -> None:
    headers = make_headers(tmp_path)
    for opaque in (1, 2, 3):
        read(headers, FIELDS, opaque, Encoding.JSON)
    header = encode_frame(Frame(310, opaque=7, ext=dict(FIELDS)))[8:]
    assert headers.read_json(header, 0, len(header)) is not None
    for number in (b"9" * 5000, b"%d" % 2**40, b"%d" % 2**31):
        strange = header.replace(b'"opaque":7', b'"opaque":' + number)
        assert headers.read_json(strange, 0, len(strange)) is None
    largest = header.replace(b'"opaque":7', b'"opaque":%d' % (2**31 - 1))
    found = headers.read_json(largest, 0, len(largest))
    assert found is not None
    assert found[3] == 2**31 - 1
