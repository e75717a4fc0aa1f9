"""Frames: the two encodings of a header, the limits, and what a peer may send that Java would accept."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import FrameTooLarge, ProtocolError
from skyrocketmq.wire.codes import Language
from skyrocketmq.wire.frames import (
    EXT_FIELDS_MAX,
    FRAME_BYTES_MAX,
    OPAQUE_MISSING,
    Encoding,
    Frame,
    FrameDecoder,
    _decode_any_ext,
    _decode_ext,
    decode_frame,
    encode_frame,
    encode_head,
    split_frames,
)

ROUTE_JSON = bytes.fromhex("0000007f0000007b") + (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":407}'
)
ROUTE_BINARY = bytes.fromhex(
    "00000025 01000021 0069 00 0197 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54"
)
HEARTBEAT_BINARY = bytes.fromhex("0000001b 01000015 0022 00 0197 00000007 00000000 00000000 00000000 7b7d")

ROUTE_FRAME = Frame(105, 7, ext={"topic": "T"}, language=Language.JAVA)


def decode_one(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def json_frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def binary_frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


def binary_header(ext: bytes = b"", *, language: int = 0, remark: bytes = b"") -> bytes:
    return struct.pack(">hBhiii", 10, language, 407, 7, 0, len(remark)) + remark + struct.pack(">i", len(ext)) + ext


def ext_entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


class TestWorkedExamples:
    @pytest.mark.parametrize(
        ("data", "frame"),
        [
            (ROUTE_JSON, ROUTE_FRAME),
            (ROUTE_BINARY, msgspec.structs.replace(ROUTE_FRAME, encoding=Encoding.BINARY)),
            (HEARTBEAT_BINARY, Frame(34, 7, body=b"{}", language=Language.JAVA, encoding=Encoding.BINARY)),
        ],
    )
    def test_the_worked_examples_are_read_and_written_to_the_byte(self, data: bytes, frame: Frame) -> None:
        assert decode_one(data) == frame
        assert encode_frame(frame) == data

    def test_a_reply_keeps_opaque_and_encoding_and_sets_only_the_response_bit(self) -> None:
        request = Frame(34, 99, flag=2, encoding=Encoding.BINARY)
        reply = request.reply(17, remark="no", ext={"a": "b"}, body=b"x")
        assert reply == Frame(17, 99, 1, {"a": "b"}, b"x", "no", encoding=Encoding.BINARY)
        assert reply.is_response
        assert not reply.is_oneway
        assert request.is_oneway
        assert not request.is_response

    def test_the_head_of_a_frame_can_be_written_without_its_body(self) -> None:
        for encoding in Encoding:
            frame = Frame(0, 1, 1, {"a": "b"}, b"0123456789", encoding=encoding)
            assert encode_head(frame, 10) + b"0123456789" == encode_frame(frame)


class TestBothEncodings:
    TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
    FRAMES = st.builds(
        Frame,
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=8),
        st.binary(max_size=64),
        st.none() | TEXT,
        st.sampled_from(Language),
        st.integers(-(2**15), 2**15 - 1),
        st.sampled_from(Encoding),
    )

    @given(FRAMES)
    def test_what_is_written_is_read_back(self, frame: Frame) -> None:
        assert decode_one(encode_frame(frame)) == frame

    @given(st.lists(FRAMES, max_size=4), st.lists(st.integers(1, 40), min_size=1, max_size=10))
    def test_pieces_of_any_size_give_the_same_frames(self, frames: list[Frame], sizes: list[int]) -> None:
        data = b"".join(map(encode_frame, frames))
        decoder = FrameDecoder()
        read: list[Frame] = []
        at = piece = 0
        while at < len(data):
            size = sizes[piece % len(sizes)]
            read += decoder.feed(data[at : at + size])
            at += size
            piece += 1
        assert read == frames
        assert decoder.pending_bytes == 0

    @given(FRAMES, st.integers(0, 200))
    def test_a_rest_is_kept_until_it_is_complete(self, frame: Frame, rest_bytes: int) -> None:
        data = encode_frame(frame)
        rest = data[: min(rest_bytes, len(data) - 1)]
        decoder = FrameDecoder()
        assert decoder.feed(data + rest) == [frame]
        assert decoder.pending_bytes == len(rest)
        assert decoder.feed(data[len(rest) :]) == [frame]

    def test_fed_byte_by_byte(self) -> None:
        decoder = FrameDecoder()
        pieces = [decoder.feed(bytes([byte])) for byte in ROUTE_JSON + ROUTE_BINARY]
        frames = [frame for piece in pieces for frame in piece]
        assert [frame.encoding for frame in frames] == [Encoding.JSON, Encoding.BINARY]
        assert all(frame.ext == {"topic": "T"} for frame in frames)

    def test_null_fields_are_not_written(self) -> None:
        for encoding in Encoding:
            frame = Frame(1, 2, ext={"a": None, "b": "x"}, encoding=encoding)
            assert decode_one(encode_frame(frame)).ext == {"b": "x"}

    def test_a_language_that_nobody_has_is_read_as_none_and_written_back(self) -> None:
        for encoding in Encoding:
            frame = Frame(1, 2, language=None, encoding=encoding)
            read = decode_one(encode_frame(frame))
            assert read.language == (Language.JAVA if encoding is Encoding.JSON else None)

    def test_half_a_surrogate_pair_is_written_as_a_question_mark(self) -> None:
        for encoding in Encoding:
            frame = Frame(1, 2, ext={"a": "x\ud800y"}, remark="\udc00", encoding=encoding)
            read = decode_one(encode_frame(frame))
            assert read.ext == {"a": "x?y"}
            assert read.remark == "?"

    def test_a_zero_length_body_is_no_body(self) -> None:
        assert decode_one(json_frame(b'{"code":1,"opaque":1}')).body == b""


class TestJsonHeaders:
    def read(self, header: bytes) -> Frame:
        return decode_one(json_frame(header))

    def test_missing_keys_have_javas_defaults(self) -> None:
        assert self.read(b"{}") == Frame(0, OPAQUE_MISSING, language=Language.JAVA, version=0)

    @pytest.mark.parametrize(
        "header",
        [
            b'{"code":"105","opaque":"7","version":"407","extFields":{"topic":"T"}}',
            b"{code:105,opaque:7,version:407,extFields:{topic:'T'}}",
            b"{'code':105, 'opaque':7, 'version':407, 'extFields':{'topic':'T'}}",
            b'{"unknown":{"a":[1,2]},"code":105,"opaque":7,"version":407,"extFields":{"topic":"T"}}',
            b'{"code":1,"code":105,"opaque":7,"version":407,"extFields":{"topic":"T"}}',
            b'{"code":105,"opaque":7,"version":407,"flag":null,"remark":null,"extFields":{"topic":"T"}}',
            b'{"code":"1,05","opaque":7.9,"version":407,"extFields":{"topic":"T"}}',
            b'{"code":105.0,"opaque":7,"version":407,"extFields":{"topic":"T",},}',
            b'/* why not */{"code":105,"opaque":7,"version":407,"extFields":{"topic":"T"}}',
            b'{"language":"java","code":105,"opaque":7,"version":407,"extFields":{"topic":"T"}}',
            b'{"language":0,"code":105,"opaque":7,"version":407,"extFields":{"topic":"T"}}',
            b'{"serializeTypeCurrentRPC":"ROCKETMQ","code":105,"opaque":7,"version":407,"extFields":{"topic":"T"}}',
            b'\t{"code":" 105 ","opaque":7,"version":407,"extFields":{"topic":"T"}}\r\n',
        ],
    )
    def test_every_form_that_java_accepts_is_read(self, header: bytes) -> None:
        assert self.read(header) == ROUTE_FRAME

    def test_numbers_and_booleans_in_ext_fields_become_their_text(self) -> None:
        header = b'{"code":1,"extFields":{"i":5,"l":9223372036854775807,"t":true,"f":false,"n":null,"e":"","d":0.5}}'
        assert self.read(header).ext == {
            "i": "5",
            "l": "9223372036854775807",
            "t": "true",
            "f": "false",
            "n": None,
            "e": "",
            "d": "0.5",
        }

    @pytest.mark.parametrize(
        ("language", "expected"),
        [(b'"GO"', Language.GO), (b'"go"', Language.GO), (b"12", 12), (b"null", None), (b'"COBOL"', None)],
    )
    def test_languages(self, language: bytes, expected: int | None) -> None:
        assert self.read(b'{"code":1,"language":%b}' % language).language == expected

    def test_text_that_is_not_utf8_is_read_with_replacement_characters(self) -> None:
        assert self.read(b'{"code":1,"remark":"a\xffb"}').remark == "a\ufffdb"

    @pytest.mark.parametrize(
        "header",
        [
            b"null",
            b"[]",
            b"5",
            b'"x"',
            b"{",
            b"{}x",
            b'{"code":2147483648}',
            b'{"opaque":-2147483649}',
            b'{"code":"x"}',
            b'{"code":[]}',
            b'{"code":1e400}',
            b'{"code":' + b"9" * 5000 + b"}",
            b'{"code":"' + b"9" * 5000 + b'"}',
            b'{"language":13}',
            b'{"language":-1}',
            b'{"extFields":[]}',
            b'{"extFields":"x"}',
            b'{"x":' + b"[" * 100_000,
            b'{"x":' + b"[" * 1000 + b"]" * 1000 + b"}",
            b"\x00",
        ],
        ids=lambda header: header[:20].decode("latin-1"),
    )
    def test_what_java_refuses_is_refused(self, header: bytes) -> None:
        with pytest.raises(ProtocolError):
            self.read(header)


class TestBinaryHeaders:
    def test_an_empty_value_is_null_and_a_later_duplicate_wins(self) -> None:
        ext = ext_entry(b"a", b"1") + ext_entry(b"b", b"") + ext_entry(b"a", b"2")
        assert decode_one(binary_frame(binary_header(ext))).ext == {"a": "2", "b": None}

    def test_an_unknown_language_is_none(self) -> None:
        assert decode_one(binary_frame(binary_header(language=13))).language is None

    def test_text_that_is_not_utf8_is_read_with_replacement_characters(self) -> None:
        frame = decode_one(binary_frame(binary_header(ext_entry(b"k\xff", b"v\xff"), remark=b"r\xff")))
        assert (frame.ext, frame.remark) == ({"k\ufffd": "v\ufffd"}, "r\ufffd")

    def test_an_entry_without_a_key_is_dropped(self) -> None:
        assert decode_one(binary_frame(binary_header(ext_entry(b"", b"x") + ext_entry(b"a", b"y")))).ext == {"a": "y"}

    @pytest.mark.parametrize(
        "header",
        [
            binary_header()[:-1],
            binary_header()[:-4] + struct.pack(">i", 1),
            binary_header()[:-4] + struct.pack(">i", -1),
            binary_header()[:-8] + struct.pack(">ii", 1, 0),
            binary_header()[:-8] + struct.pack(">ii", -1, 0),
            binary_header()[:-8] + struct.pack(">ii", 2**31 - 1, 0),
            binary_header(b"\x00"),
            binary_header(b"\x00\x05a"),
            binary_header(b"\xff\xff" + b"a" * 10),
            binary_header(b"\x00\x01a\x7f\xff\xff\xff"),
            binary_header(b"\x00\x01a\xff\xff\xff\xff"),
            binary_header(ext_entry(b"a", b"b")[:-1]),
            binary_header(ext_entry(b"", b"") * (EXT_FIELDS_MAX + 1)),
        ],
    )
    def test_lengths_that_do_not_fit_are_refused(self, header: bytes) -> None:
        with pytest.raises(ProtocolError):
            decode_one(binary_frame(header, body=b"body that must not be read as header"))

    PIECES = st.sampled_from(
        [b"\0\1a", b"\0\0\0\1", b"v", b"\0", b"\1", b"\0\0", b"\0\0\1\0", b"x" * 256, b"\x7f", b"\0\2bc"]
    )

    @given(st.lists(PIECES, max_size=12).map(b"".join))
    def test_both_ways_of_reading_a_map_agree(self, entries: bytes) -> None:
        assert outcome(_decode_ext, entries) == outcome(_decode_any_ext, entries)


def outcome(read: Callable[[bytes], dict[str, str | None]], entries: bytes) -> dict[str, str | None] | None:
    try:
        return read(entries)
    except ProtocolError:
        return None


class TestLimits:
    def test_the_largest_frame_is_accepted_and_one_byte_more_is_not(self) -> None:
        frame = Frame(10, 1, body=bytes(FRAME_BYTES_MAX - len(encode_head(Frame(10, 1), 0)) - 20))
        spare = FRAME_BYTES_MAX - len(encode_frame(frame))
        frame.body += bytes(spare)
        data = encode_frame(frame)
        assert len(data) == FRAME_BYTES_MAX
        assert decode_one(data).body == frame.body
        with pytest.raises(FrameTooLarge):
            encode_head(frame, len(frame.body) + 1)
        with pytest.raises(FrameTooLarge):
            split_frames(struct.pack(">I", FRAME_BYTES_MAX - 3))

    @pytest.mark.parametrize("length", [FRAME_BYTES_MAX - 3, 2**31, 2**32 - 1])
    def test_a_length_above_the_limit_is_refused_with_its_fourth_byte(self, length: int) -> None:
        decoder = FrameDecoder()
        data = struct.pack(">I", length)
        assert decoder.feed(data[:3]) == []
        with pytest.raises(FrameTooLarge):
            decoder.feed(data[3:])

    @pytest.mark.parametrize("length", [0, 1, 3, 4])
    def test_a_length_too_small_for_a_header_is_refused_with_its_fourth_byte(self, length: int) -> None:
        with pytest.raises(ProtocolError):
            FrameDecoder().feed(struct.pack(">I", length))

    @pytest.mark.parametrize("word", [0, 1 << 24, 97, 1 << 24 | 97, 2 << 24 | 30, 0xFF000010])
    def test_a_header_word_that_cannot_be_is_refused_before_the_frame_is_complete(self, word: int) -> None:
        with pytest.raises(ProtocolError):
            FrameDecoder().feed(struct.pack(">II", 100, word))

    def test_a_value_too_large_for_a_binary_header_is_refused_when_written(self) -> None:
        with pytest.raises(FrameTooLarge):
            encode_frame(Frame(70_000, 1, encoding=Encoding.BINARY))

    def test_a_header_with_millions_of_fields_is_refused(self) -> None:
        header = b'{"extFields":{' + b",".join(b'"%d":""' % number for number in range(100_000)) + b"}}"
        with pytest.raises(ProtocolError, match="too many fields"):
            decode_one(json_frame(header))

    def test_a_long_list_of_message_ids_is_no_such_header(self) -> None:
        ids = ",".join(["0A00000200002A9F0000000000000003"] * 100_000)
        for encoding in Encoding:
            frame = Frame(0, 1, 1, {"msgId": ids}, encoding=encoding)
            assert decode_one(encode_frame(frame)).ext == {"msgId": ids}

    def test_a_large_frame_in_small_pieces_costs_no_more_than_its_bytes(self) -> None:
        data = encode_frame(Frame(10, 1, body=bytes(8 << 20)))
        decoder = FrameDecoder()
        frames = [frame for at in range(0, len(data), 1024) for frame in decoder.feed(data[at : at + 1024])]
        assert len(frames) == 1  # with quadratic copying this would move 32 GiB and meet the test's time limit


@pytest.mark.parametrize("wrap", [json_frame, binary_frame])
@given(st.binary(min_size=1, max_size=120))
def test_any_header_gives_a_frame_or_a_protocol_error(wrap: Callable[[bytes], bytes], header: bytes) -> None:
    try:
        assert isinstance(decode_one(wrap(header)), Frame)
    except ProtocolError:
        pass


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_protocol_error(data: bytes) -> None:
    try:
        places, used = split_frames(data)
        assert used <= len(data)
        for place in places:
            decode_frame(data, *place)
    except ProtocolError:
        pass
