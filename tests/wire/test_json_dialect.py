"""The JSON of fastjson: what is read, what is written, and what is refused."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.tables import MessageQueue
from skyrocketmq.wire.json_dialect import DEPTH_MAX, VALUES_MAX, ObjectKey, parse, write, write_pretty


class TestReading:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b'{0:"a",1:"b"}', {"0": "a", "1": "b"}),
            (b"{-1:5}", {"-1": 5}),
            (b"{a:1,b_2:2,$c:3}", {"a": 1, "b_2": 2, "$c": 3}),
            (b"{'a':'b \" c'}", {"a": 'b " c'}),
            (b'{"a":"b \' c"}', {"a": "b ' c"}),
            (b"[1,,2,]", [1, 2]),
            (b"[,]", []),
            (b'[1 2 "x"{}]', [1, 2, "x", {}]),
            (b"{,}", {}),
            (b'{"a":1,,"b":2,}', {"a": 1, "b": 2}),
            (b"// one\n[1, // two\n 2 /* three */, /**/ 3] // four", [1, 2, 3]),
            (b"[1L,2S,3B,1.5F,2.5D]", [1, 2, 3, 1.5, 2.5]),
            (b"[1.0E-10,1.23456789015E10,-0.5,+7,.5,1.]", [1e-10, 12345678901.5, -0.5, 7, 0.5, 1.0]),
            (b"[true,false,null,NaN,undefined]", [True, False, None, None, None]),
            (b"9223372036854775807", 9223372036854775807),
            (b'{"a":1,"a":2}', {"a": 2}),
            (b"\xef\xbb\xbf [1]\x0b\x0c\x08", [1]),
            (b'"\\u4e2d\\u6587 \\x41 \\v\\0\\7\\F\\/"', "中文 A \v\0\7\f/"),
            (b'"\\ud83d\\ude00"', "😀"),
            (b'"\\ud83d x"', "\ufffd x"),
            (b'"\xff"', "\ufffd"),
            (b'"a\nb\tc"', "a\nb\tc"),
            (b'"\\\\"', "\\"),
            (b'["\\\\","\\""]', ["\\", '"']),
        ],
    )
    def test_every_form_that_fastjson_accepts(self, data: bytes, expected: object) -> None:
        assert parse(data) == expected

    def test_objects_as_keys_are_mappings_with_a_hash(self) -> None:
        value = parse(b'{{"brokerName":"a","queueId":0,"topic":"t"}:{"x":1},{"queueId":1}:2}')
        assert isinstance(value, dict)
        first, second = value
        assert isinstance(first, ObjectKey)
        assert dict(first) == {"brokerName": "a", "queueId": 0, "topic": "t"}
        assert value[ObjectKey({"topic": "t", "queueId": 0, "brokerName": "a"})] == {"x": 1}
        assert dict(second) == {"queueId": 1}
        assert first != second
        assert first != dict(first)
        assert len(first) == 3
        assert "brokerName" in repr(first)
        assert msgspec.convert(first, MessageQueue) == MessageQueue("t", "a", 0)

    @pytest.mark.parametrize(
        "data",
        [
            *(b"", b" ", b"/", b"/* x", b"//", b"{", b"[", b"}", b"]", b":", b",", b"{}}", b"[]]", b"1 2", b"{} []"),
            *(b'{"a" 1}', b'{"a":}', b'{"a"}', b'{"a":1 "b":2}', b"{a}", b"{:1}", b"{[1]:2}", b"{1}"),
            *(b'"', b"'", b'"a', b"'a\"", b'"\\', b'"\\"', b'"\\u12"', b'"\\q"', b'"\\x4"'),
            *(b"x", b"tru", b"nul", b"truefalse", b"-", b"+", b".", b"--1", b"1e", b"0x10", b"{a:b}", b"\x00"),
            *(b"[" * (DEPTH_MAX + 2), b'{"a":' * (DEPTH_MAX + 2), b"{" * (DEPTH_MAX + 2), b"[" * 1_000_000),
            *(b"9" * 41, b"9" * 1_000_000, b"1." + b"0" * 1_000_000),
        ],
        ids=lambda data: repr(data[:12]),
    )
    def test_what_is_not_in_the_dialect_is_a_protocol_error(self, data: bytes) -> None:
        with pytest.raises(ProtocolError):
            parse(data)

    def test_the_deepest_text_is_read(self) -> None:
        assert parse(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)

    def test_the_number_of_values_is_bounded(self) -> None:
        with pytest.raises(ProtocolError, match="values"):
            parse(b"[" + b"0," * VALUES_MAX + b"]")

    def test_keys_that_differ_only_inside_do_not_collide(self) -> None:
        data = b"{" + b",".join(b"{a:[%d]}:1" % number for number in range(20_000)) + b"}"
        assert len(parse(data)) == 20_000  # type: ignore[arg-type]  # with colliding hashes this takes minutes

    KEYS = st.text("ab$ \"'\\é", max_size=4)
    STANDARD = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text("ab$ \"'\\é", max_size=4), inner, max_size=4)
        ),
        max_leaves=20,
    ).filter(lambda value: "$ref" not in repr(value))

    @given(STANDARD, st.booleans())
    def test_standard_json_is_read_as_json_reads_it(self, value: Any, ascii_only: bool) -> None:
        assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value

    @given(STANDARD)
    def test_what_is_written_is_read_back(self, value: Any) -> None:
        expected = _without_null_members(value)
        assert parse(write(value)) == expected
        assert parse(write_pretty(value)) == expected

    @given(st.binary(max_size=60) | st.text("{}[]:,\"'\\/*ab10.-eu$ref@", max_size=60).map(str.encode))
    def test_any_bytes_give_a_value_or_a_protocol_error(self, data: bytes) -> None:
        try:
            parse(data)
        except ProtocolError:
            pass


def _without_null_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null_members(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null_members(item) for item in value]
    return value


class TestReferences:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b'{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
            (b'{"a":[[7],{"x":1}],"b":{"$ref":"$.a[1]"}}', {"a": [[7], {"x": 1}], "b": {"x": 1}}),
            (b'[{"x":1},{"$ref":"$[0]"}]', [{"x": 1}, {"x": 1}]),
            (b'{"b":{"$ref":"$.a.c"},"a":{"c":[1]}}', {"b": [1], "a": {"c": [1]}}),
            (b'{"a.b":{"x":1},"c":{"$ref":"$.a\\\\.b"}}', {"a.b": {"x": 1}, "c": {"x": 1}}),
            (b'{"t":{0:{"x":1}},"c":{"$ref":"$.t[0]"}}', {"t": {"0": {"x": 1}}, "c": {"x": 1}}),
            (b'{"$ref":"x","y":1}', {"$ref": "x", "y": 1}),
            (b'{"$ref":5}', {"$ref": 5}),
        ],
    )
    def test_references_are_replaced_by_what_they_name(self, data: bytes, expected: object) -> None:
        assert parse(data) == expected

    def test_what_is_mentioned_twice_is_shared(self) -> None:
        value: Any = parse(b'{"a":{"x":1},"b":{"$ref":"$.a"},"c":{"$ref":"$.a"}}')
        assert value["a"] is value["b"] is value["c"]

    def test_a_reference_may_be_a_key(self) -> None:
        value: Any = parse(b'{"a":{"topic":"t"},"b":{{"$ref":"$.a"}:5}}')
        assert value["b"] == {ObjectKey({"topic": "t"}): 5}

    @pytest.mark.parametrize(
        "data",
        [
            b'{"$ref":"$"}',
            b'{"$ref":"@"}',
            b'{"$ref":".."}',
            b'{"a":{"$ref":"$"}}',
            b'{"a":{"$ref":"@"}}',
            b'{"a":{"b":{"$ref":".."}}}',
            b'{"a":{"b":{"$ref":"$.a"}}}',
            b'{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}',
            b'{"a":[{"$ref":"$.b"}],"b":[{"$ref":"$.a"}]}',
        ],
    )
    def test_a_value_that_contains_itself_is_refused(self, data: bytes) -> None:
        with pytest.raises(ProtocolError):
            parse(data)

    @pytest.mark.parametrize(
        "path",
        ["", "x", "$x", "$.", "$.b", "$.a.x", "$.a[0]", "$.l[9]", "$.l[-1]", "$.l[99999999999]", "$.s", "$" * 2000],
    )
    def test_a_reference_to_nothing_is_refused(self, path: str) -> None:
        with pytest.raises(ProtocolError):
            parse(json.dumps({"a": {"y": 1}, "l": [[1]], "s": "text", "r": {"$ref": path}}).encode())

    def test_a_reference_inside_a_key_is_refused(self) -> None:
        with pytest.raises(ProtocolError):
            parse(b'{"a":{"x":1},"b":{{"k":{"$ref":"$.a"}}:5}}')

    def test_references_that_double_at_every_level_are_refused(self) -> None:
        levels = ",".join(f'"a{n}":[{{"$ref":"$.a{n + 1}"}},{{"$ref":"$.a{n + 1}"}}]' for n in range(30))
        with pytest.raises(ProtocolError):
            parse(f'{{{levels},"a30":[1]}}'.encode())

    def test_a_long_text_mentioned_often_is_refused(self) -> None:
        text = b"x" * 1_000_000
        data = b'{"a":{"t":"%b"},"b":[%b]}' % (text, b",".join([b'{"$ref":"$.a"}'] * 1_000))
        with pytest.raises(ProtocolError, match="multiply"):
            parse(data)


class Color(Enum):
    RED = 5


class Point(msgspec.Struct, rename="camel"):
    z_last: int | None = None
    a_first: str | None = None


class TestWriting:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ({0: "a", 1: "b"}, b'{0:"a",1:"b"}'),
            ({"b": 1, "a": None}, b'{"b":1}'),
            ({MessageQueue("t", "b", 1): 5}, b'{{"brokerName":"b","queueId":1,"topic":"t"}:5}'),
            ({"p": Point(1, "x"), "q": Point()}, b'{"p":{"aFirst":"x","zLast":1},"q":{}}'),
            ([1, True, False, None, 0.5, float("nan"), float("inf")], b"[1,true,false,null,0.5,null,null]"),
            ((1, 2), b"[1,2]"),
            (frozenset({"b", "a"}), b'["a","b"]'),
            (frozenset({10, 9}), b"[9,10]"),
            ({Color.RED: Color.RED}, b'{"RED":"RED"}'),
            ('é\n\x01"\\', b'"\xc3\xa9\\n\\u0001\\"\\\\"'),
            ("a\ud800b", b'"a?b"'),
            ("\x7f\u2028/", b'"\\u007F\\u2028/"'),
            (9223372036854775807, b"9223372036854775807"),
        ],
    )
    def test_the_compact_form(self, value: object, expected: bytes) -> None:
        assert write(value) == expected

    def test_standard_json_on_request(self) -> None:
        data = write({0: "é😀\x7f"}, quote_integer_keys=True, ascii_only=True)
        assert data == b'{"0":"\\u00E9\\uD83D\\uDE00\\u007F"}'
        assert json.loads(data) == {"0": "é😀\x7f"}

    def test_consumer_offsets_look_as_in_apaches_file(self) -> None:
        text = '{\n\t"offsetTable":{\n\t\t"TopicTest@g1":{0:5,1:7\n\t\t}\n\t}\n}'
        assert write_pretty({"offsetTable": {"TopicTest@g1": {1: 7, 0: 5}}}) == text.encode()

    def test_delay_offsets_look_as_in_apaches_file(self) -> None:
        assert write_pretty({"offsetTable": {3: 10, 12: 2}}) == b'{\n\t"offsetTable":{3:10,12:2\n\t}\n}'

    def test_members_are_sorted_and_stand_on_lines_of_their_own(self) -> None:
        value = {"b": {"y": 1, "x": "t"}, "a": {}, "l": [1, {"k": 2}], "e": [], "t": (1, 2)}
        assert write_pretty(value).decode() == (
            '{\n\t"a":{},\n\t"b":{\n\t\t"x":"t",\n\t\t"y":1\n\t},\n\t"e":[],\n\t"l":[\n\t\t1,\n\t\t{\n\t\t\t"k":2\n\t\t}'
            '\n\t],\n\t"t":[1,2]\n}'
        )

    def test_a_map_by_queues_looks_as_in_apaches_file(self) -> None:
        assert write_pretty({"t": {MessageQueue("t", "b", 1): 5}}).decode() == (
            '{\n\t"t":{{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"t"\n\t\t}:5\n\t}\n}'
        )

    def test_a_pretty_file_is_read_back(self) -> None:
        value = {"offsetTable": {"T@G": {"0": 5}}, "x": [{"a": "b"}]}
        assert parse(write_pretty(value)) == value
