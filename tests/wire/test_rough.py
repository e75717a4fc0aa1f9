"""Large bodies an entry at a time: the same values and the same errors as in one go."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import msgspec
import pytest

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import DataVersion, SubscriptionGroupConfig, TopicConfig
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_tables import ConsumerOffsetTable, SubscriptionGroupTable, TopicConfigTable
from skyrocketmq.wire.rough import decode_in_steps

S = TypeVar("S", bound=msgspec.Struct)

TOPICS = TopicConfigTable(
    data_version=DataVersion(timestamp=7, counter=3),
    topic_config_table={f"t{n}": TopicConfig(topic_name=f"t{n}", perm=n) for n in range(9)},
)
GROUPS = SubscriptionGroupTable(subscription_group_table={"g": SubscriptionGroupConfig(group_name="g", broker_id=5)})
OFFSETS = ConsumerOffsetTable(offset_table={"t@g": {0: 5, 1: 7}, "t@h": {}})
MEMBERS = {
    TopicConfigTable: "topic_config_table",
    SubscriptionGroupTable: "subscription_group_table",
    ConsumerOffsetTable: "offset_table",
}


def run(steps: Generator[None, None, S]) -> tuple[S, int]:
    """What it returns, and after how many steps."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value, count
        count += 1


@pytest.mark.parametrize("table", [TOPICS, GROUPS, OFFSETS, ConsumerOffsetTable()], ids=lambda table: repr(table)[:20])
@pytest.mark.parametrize("standard_json", [True, False])
def test_it_reads_what_is_written(table: msgspec.Struct, standard_json: bool) -> None:
    data = encode_body(table, standard_json=standard_json)
    found, _ = run(decode_in_steps(type(table), MEMBERS[type(table)], data))
    assert found == decode_body(type(table), data) == table


def test_each_entry_is_a_step() -> None:
    assert run(decode_in_steps(TopicConfigTable, "topic_config_table", encode_body(TOPICS)))[1] == 1 + 9


@pytest.mark.parametrize(
    "data",
    [
        b'{"offsetTable":{"t@g":{0:5,1:7}}}',  # Java's numbers as keys
        b'{"offsetTable":{"t@g":{"0":"5"}},"unknown":[1,{}]}',
        b"{offsetTable:{'t@g':{0:5}}}",
        b'{"offsetTable":{"t@g":{"0":5},"t@h":{"$ref":"$.offsetTable.t@g"}}}',
        b"{}",
    ],
)
def test_every_dialect_is_read_as_in_one_go(data: bytes) -> None:
    found, _ = run(decode_in_steps(ConsumerOffsetTable, "offset_table", data))
    assert found == decode_body(ConsumerOffsetTable, data)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"offsetTable":{"t@g":{"0":"many"}}}', b'{"offsetTable":{"t@g":'])
def test_what_cannot_be_read_is_the_protocols_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        run(decode_in_steps(ConsumerOffsetTable, "offset_table", data))
