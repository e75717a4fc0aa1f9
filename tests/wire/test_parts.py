"""Large tables in parts: the same bytes as in one go, whatever names and values they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.model import MessageQueue, SubscriptionGroupConfig, TopicConfig, TopicFilterType
from skyrocketmq.wire.bodies import body_parts, encode_body
from skyrocketmq.wire.bodies_admin import ConsumeOffsets, ConsumeStats, ConsumeStatsList
from skyrocketmq.wire.bodies_tables import (
    ConsumerFilter,
    ConsumerFiltersOfTopic,
    ConsumerFilterTable,
    ConsumerOffsetTable,
    DelayOffsetTable,
    QueueLockTable,
    SubscriptionGroupTable,
    TopicConfigTable,
    TopicList,
)
from skyrocketmq.wire.json_dialect import parse, pretty_parts, write_pretty
from skyrocketmq.wire.json_writer import _is_plain, _struct_members, _Writer
from skyrocketmq.wire.parts import ENTRIES_A_PART, in_parts

Encode = Callable[[msgspec.Struct], bytes]

names = st.text(max_size=8) | st.sampled_from(["a,", ',"', "}", '"', "\\", "\x7f", "\u2028", "ü", ":null", "null", ","])
numbers = st.integers(-(2**31), 2**31 - 1)
topics = st.builds(
    TopicConfig,
    topic_name=names,
    perm=numbers,
    topic_filter_type=st.sampled_from(TopicFilterType),
    order=st.booleans(),
)
offsets_by_queue = st.dictionaries(st.integers(0, 70_000), numbers, max_size=3)
tables = st.one_of(
    st.builds(TopicConfigTable, topic_config_table=st.dictionaries(names, topics, max_size=9)),
    st.builds(ConsumerOffsetTable, offset_table=st.dictionaries(names, offsets_by_queue, max_size=9)),
    st.builds(DelayOffsetTable, offset_table=offsets_by_queue),
    st.builds(TopicList, topic_list=st.lists(names, max_size=9).map(tuple)),
)


@given(tables, st.integers(1, 5))
def test_parts_of_any_size_are_the_whole(table: msgspec.Struct, count: int) -> None:
    assert b"".join(in_parts(table, write_pretty, count=count, is_sorted=True)) == write_pretty(table)
    is_sorted = not isinstance(table, (ConsumerOffsetTable, DelayOffsetTable))
    assert b"".join(in_parts(table, encode_body, count=count, is_sorted=is_sorted)) == encode_body(table)


@given(st.one_of(topics, st.builds(SubscriptionGroupConfig, group_name=names, broker_id=numbers)), st.booleans())
def test_a_struct_of_plain_values_is_written_as_its_members_would_be(struct: msgspec.Struct, is_pretty: bool) -> None:
    """The quick way and the slow one, for texts that look like the marks between members too."""
    slow, quick = list[str](), list[str]()
    _Writer(slow, quote_integer_keys=False, is_pretty=is_pretty).members(_struct_members(struct), 2)
    _Writer(quick, quote_integer_keys=False, is_pretty=is_pretty).value(struct, 2)
    assert "".join(quick) == "".join(slow)


def test_which_structs_are_plain() -> None:
    assert [_is_plain(kind) for kind in (TopicConfig, SubscriptionGroupConfig)] == [True, True]
    assert [_is_plain(kind) for kind in (ConsumerFilter, TopicConfigTable, TopicList)] == [False, False, False]


LARGE: list[msgspec.Struct] = [
    TopicConfigTable(topic_config_table={f"t{n}": TopicConfig(topic_name=f"t{n}") for n in range(200, 0, -1)}),
    SubscriptionGroupTable(
        subscription_group_table={f"g{n}": SubscriptionGroupConfig(group_name=f"g{n}") for n in range(200)}
    ),
    ConsumerOffsetTable(offset_table={f"t@g{n}": {1: n, 0: 2} for n in range(200)}),
    ConsumerFilterTable(
        filter_data_by_topic={
            f"t{n}": ConsumerFiltersOfTopic(topic=f"t{n}", group_filter_data={"g": ConsumerFilter(topic="t")})
            for n in range(200)
        }
    ),
    QueueLockTable(noted_ms=5, owner_table={f"g{n}": {MessageQueue("t", "b", 0): "client"} for n in range(200)}),
    ConsumeStats(offset_table={MessageQueue("t", "b", n): ConsumeOffsets(broker_offset=n) for n in range(200)}),
    ConsumeStatsList(
        broker_addr="a", consume_stats_list=[{f"g{n}": [ConsumeStats()]} for n in range(200)], total_diff=7
    ),
]


@pytest.mark.parametrize("table", LARGE, ids=lambda table: type(table).__name__)
@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (write_pretty, pretty_parts),
        (encode_body, body_parts),
        (lambda value: encode_body(value, standard_json=True), lambda value: body_parts(value, standard_json=True)),
    ],
    ids=["file", "body", "standard"],
)
def test_every_large_table_is_the_same_in_parts(
    table: msgspec.Struct, whole: Encode, parts: Callable[[msgspec.Struct], Iterator[bytes]]
) -> None:
    made = list(parts(table))
    assert len(made) == 200 // ENTRIES_A_PART + 3
    assert b"".join(made) == whole(table)
    assert parse(b"".join(made)) == parse(whole(table))
