"""Splitting many messages into batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.client.batches import split_batches
from skyrocketmq.client.outgoing import pack_batch
from skyrocketmq.client.producer import Producer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message
from skyrocketmq.wire.ids import UniqueIdGenerator
from tests.client.cluster import Cluster

IDS = UniqueIdGenerator(ip=bytes(16), process_id=1, constant=1)  # the longest ids there are

messages = st.builds(
    Message,
    st.sampled_from(["T", "U"]),
    st.binary(min_size=1, max_size=400),
    tags=st.none() | st.just("Tä"),
    keys=st.lists(st.sampled_from(["k1", "schlüssel"]), max_size=3),
    properties=st.dictionaries(st.sampled_from(["höhe", "b"]), st.just("3 m²"), max_size=2),
    flag=st.integers(0, 9),
    wait_for_store=st.booleans(),
)


@given(listed=st.lists(messages, max_size=30))
def test_every_part_is_taken_and_nothing_is_lost_or_moved(listed: list[Message]) -> None:
    parts = list(split_batches(listed, bytes_max=1000))
    assert [message for part in parts for message in part] == listed
    for part in parts:
        pack_batch(part, ids=IDS, now_ms=0, bytes_max=1000)


def test_parts_are_as_long_as_they_may_be() -> None:
    parts = list(split_batches([Message("T", bytes(1000))] * 10_000))
    assert 10 < len(parts) < 13
    assert len(pack_batch(parts[0], ids=IDS, now_ms=0).body) > 990_000


def test_a_message_longer_than_a_part_has_one_of_its_own() -> None:
    short, long = Message("T", b"x"), Message("T", bytes(5000))
    assert list(split_batches([short, long, short], bytes_max=1000)) == [[short], [long], [short]]


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        ([], "empty"),
        ([Message("T", b"x"), Message("U", b"x")], "one topic"),
        ([Message("T", b"x"), Message("T", b"x", wait_for_store=False)], "wait_for_store"),
        ([Message("T", b"x"), Message("T", b"x", delay_level=1)], "delayed"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message("T", bytes(600)), Message("T", bytes(600))], "in parts"),
        ([Message("T", bytes(1001))], "1001 bytes"),
        ([Message("T", b"x", system_properties={"TRAN_MSG": "true"})], "transaction"),
        ([Message("T", b"x", system_properties={"MSG_TYPE": "reply"})], "reply"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_batch_cannot_hold_is_refused_before_anything_is_sent(batch: list[Message], text: str) -> None:
    with pytest.raises(IllegalArgument, match=text):
        pack_batch(batch, ids=IDS, now_ms=0, bytes_max=1000)


async def test_a_long_list_is_sent_in_parts(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    listed = [Message("T", b"%d" % number * 1000) for number in range(500)]
    async with Producer("orders", namesrv=cluster.namesrv) as producer:
        results = [await producer.send_batch(part) for part in split_batches(listed, bytes_max=300_000)]
    assert len(results) > 3
    assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 500
