"""Tag expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.filters.tags import parse_tags, tag_hash
from skyrocketmq.wire.java import string_hash

tags = st.text(min_size=1, max_size=12).filter(lambda tag: tag == tag.strip() and "|" not in tag and tag != "*")


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_and_a_star_mean_every_message(expression: str | None) -> None:
    everything = parse_tags(expression)
    assert (everything.expression, everything.tags, everything.codes) == ("*", (), frozenset())
    assert everything.matches_all
    assert everything.matches(None)
    assert everything.matches("TagA")
    assert everything.may_match(0)
    assert everything.may_match(12345)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("TagA", ("TagA",)),
        ("TagA || TagB", ("TagA", "TagB")),
        ("TagA||TagB||TagA", ("TagA", "TagB")),
        ("  TagA  ||  || TagB ||", ("TagA", "TagB")),
        ("a b || 中文", ("a b", "中文")),
        ("TagA | TagB", ("TagA | TagB",)),
        ("* || TagA", ("*", "TagA")),
    ],
)
def test_tags_are_split_at_double_bars_and_trimmed(expression: str, expected: tuple[str, ...]) -> None:
    parsed = parse_tags(expression)
    assert parsed.tags == expected
    assert parsed.expression == expression
    assert parsed.codes == {string_hash(tag) for tag in expected}


@pytest.mark.parametrize("expression", ["||", " || ", "||||", "   "])
def test_an_expression_without_a_tag_is_refused(expression: str) -> None:
    with pytest.raises(IllegalArgument, match="names no tag"):
        parse_tags(expression)


def test_the_broker_passes_on_a_tag_of_the_same_hash_and_the_consumer_drops_it() -> None:
    wanted = parse_tags("AaAa")
    assert tag_hash("BBBB") == tag_hash("AaAa")
    assert wanted.may_match(tag_hash("BBBB"))
    assert not wanted.matches("BBBB")
    assert wanted.matches("AaAa")


def test_a_message_without_a_tag_matches_no_tag() -> None:
    wanted = parse_tags("TagA")
    assert tag_hash(None) == tag_hash("") == 0
    assert not wanted.may_match(0)
    assert not wanted.matches(None)


@given(st.lists(tags, min_size=1, max_size=6), st.text(max_size=12))
def test_what_the_consumer_takes_the_broker_passes_on(wanted: list[str], tag: str) -> None:
    parsed = parse_tags(" || ".join(wanted))
    assert parsed.tags == tuple(dict.fromkeys(wanted))
    for candidate in [*wanted, tag]:
        assert parsed.matches(candidate) == (candidate in wanted)
        assert not parsed.matches(candidate) or parsed.may_match(tag_hash(candidate))


@given(st.text(max_size=60) | st.text(alphabet="|* aé", max_size=20))
def test_any_text_is_a_filter_or_one_error(expression: str) -> None:
    try:
        parse_tags(expression)
    except IllegalArgument:
        assert not expression.replace("|", "").strip()
