"""Java's hash of texts: both forms beside each other, and beside the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("hashes", forms_of("hashes"))
int32 = st.integers(-(2**31), 2**31 - 1)


def java_hash(text: str, start: int = 0) -> int:
    """The definition: 31 * hash + unit, in 32 bits with a sign, over the units of UTF-16."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = start
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return (value + 2**31) % 2**32 - 2**31


texts = (
    st.text(max_size=200) | st.text(st.characters(codec="ascii"), max_size=200) | st.text("\ud800\udfffa", max_size=5)
)


@both
@given(text=texts, start=int32)
def test_a_text_has_java_s_hash(hashes: Any, text: str, start: int) -> None:
    assert hashes.text_hash(text) == java_hash(text)
    assert hashes.text_hash(text, start) == java_hash(text, start)


@both
@given(data=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_bytes_have_the_hash_of_the_text_that_they_are(hashes: Any, data: bytes) -> None:
    assert hashes.text_hash(data) == java_hash(data.decode("utf-8", "replace"))


@both
@given(first=st.text(max_size=20), rest=st.text(max_size=20))
def test_a_hash_goes_on_from_that_of_the_beginning(hashes: Any, first: str, rest: str) -> None:
    assert hashes.text_hash(rest, hashes.text_hash(first)) == java_hash(first + rest)


@given(key=st.binary(max_size=60), start=int32)
def test_both_forms_give_a_key_the_same_hash(key: bytes, start: int) -> None:
    assert plain_form("hashes").key_hash(key, start) == compiled_form("hashes").key_hash(key, start)


@both
def test_the_one_hash_without_a_positive_twin_counts_as_0(hashes: Any) -> None:
    assert hashes.key_hash(b"", -(2**31)) == 0
    assert hashes.key_hash(b"", -(2**31) + 1) == 2**31 - 1


@both
@pytest.mark.parametrize("text", [None, 5, ["a"]])
def test_what_is_no_text_has_no_hash(hashes: Any, text: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        hashes.text_hash(text)
