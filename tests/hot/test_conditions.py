"""What conditions say of values, texts and records: both forms beside each other."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.filters.sql_values import read_double, read_int32, read_int64
from skyrocketmq.wire.properties import split_properties
from skyrocketmq.wire.records import encode_record
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("conditions", forms_of("conditions"))
NAMES = ("a", "b", "ab", "missing")


def record(properties: bytes, *, body: bytes = b"", sys_flag: int = 0) -> bytes:
    host = {bit: bytes(20 if sys_flag & bit else 8) for bit in (0x10, 0x20)}
    return encode_record(
        topic=b"T", body=body, properties=properties, queue_id=0, queue_offset=0, log_offset=0, born_timestamp=0,
        born_host=host[0x10], store_timestamp=0, store_host=host[0x20], sys_flag=sys_flag,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ values

fields = st.sampled_from([b"a", b"b", b"ab", b"abc", b"", b"\xff"]) | st.binary(max_size=2)
pairs = st.tuples(fields, st.binary(max_size=4) | st.sampled_from([b"1", "ü".encode(), b"x\x01y"])).map(b"\x01".join)
texts = st.lists(pairs | fields, max_size=8).map(b"\x02".join)


@both
@given(text=texts)
def test_a_reader_finds_the_last_value_of_each_name(conditions: Any, text: bytes) -> None:
    known = split_properties(text)
    wanted = [known[name.encode()].decode("utf-8", "replace") if name.encode() in known else None for name in NAMES]
    for kind in (bytes, bytearray, memoryview):
        assert conditions.PropertyReader(NAMES).values(kind(text)) == wanted


@both
def test_names_may_come_twice_or_not_at_all(conditions: Any) -> None:
    assert conditions.PropertyReader(("a", "b", "a")).values(b"a\x011\x02b\x012") == ["1", "2", "1"]
    assert conditions.PropertyReader(()).values(b"a\x011") == []


# -------------------------------------------------------------------------------------------------------- conditions

usual_numbers = ["0", "7", "-7", "+7", "007", "7.5", ".5", "7.", "-0.0", "1e3", "NaN", "Infinity", "0x1p3"]
large_numbers = ["999999999", "2147483647", "2147483648", "-2147483648", "9" * 18, "9223372036854775808", "1" * 40]
numbers = st.sampled_from([*usual_numbers, *large_numbers, "", "-", ".", "x", "٣"])
values_of_a = st.none() | numbers | st.text(max_size=3)


def asked(condition: Any, values: list[str | None]) -> object:
    try:
        return condition.ask(values)
    except ValueError:
        return "no number"


@given(
    value=values_of_a,
    sign=st.sampled_from(["<", "<=", ">", ">=", "="]),
    wanted=st.sampled_from([(7, 9, read_int32), (-7, 9, read_int32), (2**40, 18, read_int64), (7.5, 0, read_double)])
    | st.integers(-(2**31), 2**31 - 1).map(lambda number: (number, 9, read_int32)),
)
def test_both_forms_compare_alike(value: str | None, sign: str, wanted: tuple[Any, int, Any]) -> None:
    number, digits_sure, read = wanted
    plain, compiled = (
        form.Compared(0, sign, number, digits_sure=digits_sure, read=read)
        for form in (plain_form("conditions"), compiled_form("conditions"))
    )
    assert asked(plain, [value]) == asked(compiled, [value])


@both
@pytest.mark.parametrize(
    ("sign", "value", "answer"),
    [
        ("<", "6", True),
        ("<", "7", False),
        ("<=", "7", True),
        (">", "7", False),
        (">", "8", True),
        (">=", "7", True),
        ("=", "7", True),
        ("=", "-7", False),
        ("=", None, None),
        ("=", "+7", True),
        ("<", "-2147483648", True),
    ],
)
def test_a_value_is_compared_as_a_number(conditions: Any, sign: str, value: str | None, answer: bool | None) -> None:
    assert conditions.Compared(0, sign, 7, digits_sure=9, read=read_int32).ask([value]) is answer


@both
def test_what_is_not_a_number_is_above_all_others(conditions: Any) -> None:
    for sign, answer in (("<", False), ("<=", False), (">", True), (">=", True), ("=", False)):
        assert conditions.Compared(0, sign, 1e300, digits_sure=0, read=read_double).ask(["NaN"]) is answer


@both
@pytest.mark.parametrize("is_and", [False, True])
def test_junctions_and_negations_know_three_answers(conditions: Any, is_and: bool) -> None:
    for first in (True, False, None):
        for second in (True, False, None):
            parts = [conditions.Asked(lambda values, answer=answer: answer) for answer in (first, second)]
            stop = not is_and
            wanted = stop if stop in (first, second) else None if None in (first, second) else is_and
            assert conditions.Junction(parts, is_and=is_and).ask([]) is wanted
        negated = conditions.Negation(conditions.Asked(lambda values, answer=first: answer))
        assert negated.ask([]) is (None if first is None else not first)


@both
def test_a_junction_asks_no_more_than_it_needs(conditions: Any) -> None:
    def fail(values: object) -> bool:
        raise ValueError("not a number")

    false, true, bad = (conditions.Asked(function) for function in (lambda _: False, lambda _: True, fail))
    assert conditions.Junction([false, bad], is_and=True).ask([]) is False
    assert conditions.Junction([true, bad], is_and=False).ask([]) is True
    with pytest.raises(ValueError, match="not a number"):
        conditions.Junction([bad, false], is_and=True).ask([])


@both
def test_texts_are_found_among_others_and_missing_ones_missed(conditions: Any) -> None:
    assert conditions.IsIn(1, ("x", "ü")).ask([None, "ü"]) is True
    assert conditions.IsIn(1, ("x",)).ask([None, "X"]) is False
    assert conditions.IsIn(0, ("x",)).ask([None, "x"]) is None
    assert conditions.IsMissing(0).ask([None]) is True
    assert conditions.IsMissing(0).ask([""]) is False


@both
def test_a_place_outside_the_values_is_an_error(conditions: Any) -> None:
    for condition in (conditions.IsMissing(2), conditions.IsIn(2, ()), conditions.IsMissing(-3)):
        with pytest.raises(IndexError):
            condition.ask(["a", "b"])


# ----------------------------------------------------------------------------------------------------------- records


def below(form: Any, number: int) -> Any:
    return form.Compared(0, "<", number, digits_sure=9, read=read_int32)


@both
@pytest.mark.parametrize("sys_flag", [0, 0x10, 0x20, 0x30])
def test_records_are_asked_as_far_as_the_view_goes(conditions: Any, sys_flag: int) -> None:
    records = [record(b"id\x01x\x02a\x01%d" % n, body=b"\x02a\x010" * n, sys_flag=sys_flag) for n in range(6)]
    records[3] = record(b"a\x01three", sys_flag=sys_flag)
    cells, at = b"", 1000
    for each in records:
        cells += pack(">qiq", at, len(each), 0)
        at += len(each)
    log = b"".join(records)
    reader = conditions.PropertyReader(["a"])
    for view in (log, memoryview(log)):
        assert reader.select(below(conditions, 5), view, 1000, cells) == b"\x01\x01\x01\x00\x01\x00"
    assert reader.select(below(conditions, 5), log[:-1], 1000, cells) == b"\x01\x01\x01\x00\x01"
    assert reader.select(below(conditions, 5), log, 1001, cells) == b""
    assert reader.select(below(conditions, 5), log, 1000, cells[:39]) == b"\x01"
    assert reader.select(below(conditions, 5), log, 1000, b"") == b""


@both
def test_a_record_whose_lengths_do_not_fit_is_for_others_to_judge(conditions: Any) -> None:
    good = record(b"a\x019", body=b"body")
    reader = conditions.PropertyReader(["a"])
    for at, damage in ((84, b"\x7f"), (84, b"\xff"), (39, b"\x30"), (92, b"\xff")):
        bad = good[:at] + damage + good[at + 1 :]
        verdict = reader.select(below(conditions, 5), bad, 0, pack(">qiq", 0, len(bad), 0))
        assert verdict == (b"\x00" if at == 39 and damage == b"\x00" else b"\x01"), (at, damage)
    assert reader.select(below(conditions, 5), good, 0, pack(">qiq", 0, 50, 0)) == b"\x01"
    assert reader.select(below(conditions, 5), good, 0, pack(">qiq", 0, len(good), 0)) == b"\x00"


places = st.integers(-5, 400) | st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(-2, 300) | st.integers(-(2**31), 2**31 - 1)


@given(
    view=st.binary(max_size=300) | texts.map(record),
    cells=st.lists(st.tuples(places, sizes), max_size=4),
    base=st.integers(-5, 300),
)
def test_both_forms_say_the_same_of_any_bytes(view: bytes, cells: list[tuple[int, int]], base: int) -> None:
    data = b"".join(pack(">qiq", position, size, 0) for position, size in [*cells, (base, len(view))])
    said = [
        form.PropertyReader(["a", "b"]).select(
            form.Junction([below(form, 5), form.IsMissing(1)], is_and=False), view, base, data
        )
        for form in (plain_form("conditions"), compiled_form("conditions"))
    ]
    assert said[0] == said[1]
