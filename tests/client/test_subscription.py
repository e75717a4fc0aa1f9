"""Subscriptions, as brokers get them."""

from __future__ import annotations

import pytest

from skyrocketmq.client.subscription import subscription_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import SQL92_EXPRESSION, SubscriptionData
from skyrocketmq.wire.java import string_hash


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_every_message_is_a_star_without_tags(expression: str | None) -> None:
    assert subscription_of("T", expression, sub_version=5) == SubscriptionData(
        topic="T", sub_string="*", sub_version=5, expression_type="TAG"
    )


def test_tags_travel_with_their_hashes_and_the_text_as_it_was_written() -> None:
    subscription = subscription_of("T", " TagA||TagB || ", sub_version=5)
    assert subscription.sub_string == " TagA||TagB || "
    assert subscription.tags_set == {"TagA", "TagB"}
    assert subscription.code_set == {string_hash("TagA"), string_hash("TagB")}


def test_an_sql_expression_travels_as_it_is() -> None:
    subscription = subscription_of("T", "a > 5", sub_version=5, expression_type=SQL92_EXPRESSION)
    assert subscription == SubscriptionData(
        topic="T", sub_string="a > 5", sub_version=5, expression_type=SQL92_EXPRESSION
    )


@pytest.mark.parametrize("expression", [None, "", "  "])
def test_an_sql_subscription_without_expression_is_refused(expression: str | None) -> None:
    with pytest.raises(IllegalArgument, match="no expression"):
        subscription_of("T", expression, sub_version=5, expression_type=SQL92_EXPRESSION)


def test_an_unknown_kind_of_expression_is_refused() -> None:
    with pytest.raises(IllegalArgument, match="SQL99"):
        subscription_of("T", "a", sub_version=5, expression_type="SQL99")


def test_an_expression_of_separators_only_is_refused() -> None:
    with pytest.raises(IllegalArgument, match="names no tag"):
        subscription_of("T", " || ", sub_version=5)
