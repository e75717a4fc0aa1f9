"""Messages of a batch: both forms beside each other."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.batches import encode_batch
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("form", forms_of("batches"))
entries = st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40))


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Entries one after the other, whole, or cut off, or with some bytes that are others."""
    data = bytearray(encode_batch(draw(st.lists(entries, max_size=5))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.sampled_from([None, None, 21, 30, -1]))])


def outcome(form: Any, data: bytes, count_max: int) -> object:
    try:
        return form.decode_batch(data, count_max=count_max)
    except ProtocolError as error:
        return str(error)


@given(data=batches() | st.binary(max_size=100), count_max=st.sampled_from([0, 1, 3, sys.maxsize]))
def test_both_forms_read_the_same(data: bytes, count_max: int) -> None:
    plain, compiled = plain_form("batches"), compiled_form("batches")
    assert outcome(compiled, data, count_max) == outcome(plain, data, count_max)


@both
@given(batch=st.lists(entries, max_size=6))
def test_what_is_written_is_read_back(form: Any, batch: list[tuple[int, bytes, bytes]]) -> None:
    assert form.decode_batch(encode_batch(batch)) == batch
    if batch:
        with pytest.raises(ProtocolError, match="more than"):
            form.decode_batch(encode_batch(batch), count_max=len(batch) - 1)
