"""Batches: stored as their messages one by one would be, in whatever way they get there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.store import Arrival, NewMessage
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from skyrocketmq.wire.properties import join_properties
from tests.store.reader import read_record
from tests.store.support import (
    ROOT,
    check,
    memory_disk,
    new_message,
    open_store,
    put_batch,
    put_ok,
    store_config,
    unique_id,
)

CONFIG = store_config(commit_log_file_bytes=65536)
SHARED = b"CLUSTER\x01DefaultCluster"
IDS = ("", unique_id(1), unique_id(2), unique_id(70_000), "short", "not-a-plain-one" * 3, unique_id(3)[:-1] + "-")
OWN = {
    "none": b"",
    "tags": b"TAGS\x01TagA",
    "keys": b"KEYS\x01k1 k2",
    "ends early": b"TAGS\x01TagA\x02",
    "two ids": b"UNIQ_KEY\x01first\x02a\x01b\x02UNIQ_KEY\x01second",
}


def messages_of(drawn: list[tuple[str, str, bool, bytes, int]], born_host: bytes) -> list[NewMessage]:
    found = []
    for unique, own, is_behind, body, flag in drawn:
        key = b"UNIQ_KEY\x01" + unique.encode() if unique else b""
        parts = (OWN[own], key) if is_behind else (key, OWN[own])
        message = new_message(body=body, born_host=born_host, flag=flag)
        found.append(msgspec.structs.replace(message, properties=join_properties(*parts)))
    return found


DRAWN = st.tuples(
    st.sampled_from(IDS),
    st.sampled_from(sorted(OWN)),
    st.booleans(),
    st.binary(min_size=1, max_size=400),
    st.sampled_from([0, 7, -1]),
)


@dataclass
class Outcome:
    places: list[int]
    arrivals: list[Arrival]
    found: dict[str, tuple[bytes, ...]]  # by key
    disk: FaultyDisk


async def put_all(messages: list[NewMessage], *, is_batch: bool) -> Outcome:
    disk, clock = memory_disk(), ManualClock()
    arrivals: list[Arrival] = []
    async with open_store(disk, CONFIG, clock=clock) as store:
        store.on_arrival = arrivals.extend
        store.queue("TopicTest", 0).is_watched = True
        if is_batch:
            result, places = put_batch(store, messages, shared=SHARED)
            assert result.status.is_stored
            assert (result.log_offset, result.queue_offset) == (places[0], 0)
        else:
            places = []
            for message in messages:
                joined = join_properties(message.properties, SHARED)
                places.append(put_ok(store, msgspec.structs.replace(message, properties=joined)).log_offset)
        found = {}
        for key in ("k1", "k2", "first", "second", *IDS):
            result_of_key = await store.query("TopicTest", key, 100, 0, clock.now_ms() + 1000)
            found[key] = tuple(bytes(record) for record in result_of_key.records)
    return Outcome(places, arrivals, found, disk)


@pytest.mark.parametrize("host_bytes", [8, 20])
@settings(max_examples=50, deadline=None)
@given(drawn=st.lists(DRAWN, min_size=1, max_size=12))
def test_a_batch_is_stored_as_its_messages_one_by_one(
    host_bytes: int, drawn: list[tuple[str, str, bool, bytes, int]]
) -> None:
    messages = messages_of(drawn, bytes(range(host_bytes)))
    batch = asyncio.run(put_all(messages, is_batch=True))
    single = asyncio.run(put_all(messages, is_batch=False))
    assert (batch.places, batch.arrivals, batch.found) == (single.places, single.arrivals, single.found)
    assert len(check(batch.disk, CONFIG).records) == len(messages)
    for directory in ("commitlog", "consumequeue/TopicTest/0"):
        for name in single.disk.list(ROOT / directory):
            assert batch.disk.read(ROOT / directory / name) == single.disk.read(ROOT / directory / name)


async def test_of_messages_alike_but_for_their_ids_each_is_found_by_its_own() -> None:
    async with open_store(memory_disk(), CONFIG) as store:
        messages = [new_message(body=b"%d" % n, unique=unique_id(n), tags="TagA") for n in range(50)]
        _, places = put_batch(store, messages, shared=SHARED)
        for number, place in enumerate(places):
            (record,) = (await store.query("TopicTest", unique_id(number), 10, 0, 1 << 50)).records
            assert read_record(bytes(record)).log_offset == place
            assert read_record(bytes(record)).body == b"%d" % number
