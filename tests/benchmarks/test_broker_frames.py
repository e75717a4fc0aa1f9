"""The hand-written frames of the broker benchmark mean what they should: our own decoder reads them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from benchmarks.broker_frames import CHUNK_FRAMES, FramePool, SendForm, Traffic

from benchmarks import broker_frames as frames
from skyrocketmq.wire.frames import Encoding, Frame, FrameDecoder
from skyrocketmq.wire.properties import split_properties

FORMS = [SendForm(100, binary=binary, has_keys=has_keys) for binary in (False, True) for has_keys in (False, True)]


def decode(data: bytes) -> list[Frame]:
    return FrameDecoder().feed(data)


def properties_of(frame: Frame) -> dict[bytes, bytes]:
    assert frame.ext is not None
    return split_properties((frame.ext["i"] or "").encode())


def ext_of(frame: Frame) -> dict[str, str | None]:
    assert frame.ext is not None
    return frame.ext


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_pool_is_whole_frames_of_one_length_each_a_java_clients_send(form: SendForm) -> None:
    pool = FramePool(form, Traffic(), chunk_count=1)

    sends = decode(bytes(pool.view))

    assert len(sends) == pool.frame_count == CHUNK_FRAMES
    assert {(send.code, send.encoding, len(send.body)) for send in sends} == {(310, Encoding(form.binary), 100)}
    assert [send.opaque for send in sends] == [frames.FIRST_OPAQUE + number for number in range(CHUNK_FRAMES)]
    names = (["KEYS"] if form.has_keys else []) + ["UNIQ_KEY", "WAIT", "TAGS"]
    assert {tuple(properties_of(send)) for send in sends} == {tuple(name.encode() for name in names)}


def test_messages_spread_over_topics_queues_groups_and_tags() -> None:
    traffic = Traffic()
    sends = decode(bytes(FramePool(SendForm(10), traffic, chunk_count=2).view))

    queues = Counter((ext_of(send)["b"], ext_of(send)["e"]) for send in sends)
    assert len(queues) == traffic.topic_count * traffic.queue_count
    assert max(queues.values()) < 3 * len(sends) / len(queues)
    assert len({ext_of(send)["a"] for send in sends}) == traffic.group_count
    assert len({properties_of(send)[b"TAGS"] for send in sends}) == 4


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_ids_and_keys_never_repeat_over_turns_and_connections(form: SendForm) -> None:
    pools = [FramePool(form, Traffic(), chunk_count=4) for _ in range(2)]
    ids: list[bytes] = []
    keys: list[bytes] = []

    for _ in range(5):
        for pool in pools:
            for chunk in range(4):
                pool.renew(chunk)
            sent = [properties_of(send) for send in decode(bytes(pool.view))]
            ids += [properties[b"UNIQ_KEY"] for properties in sent]
            keys += [properties[b"KEYS"] for properties in sent if form.has_keys]

    assert len(set(ids)) == len(ids) == 2 * 5 * 4 * CHUNK_FRAMES
    assert len(set(keys)) == len(keys)
    assert {len(each) for each in ids} == {32}


def test_the_counter_of_the_ids_takes_all_values_as_a_real_clients_does() -> None:
    pool = FramePool(SendForm(10), Traffic())
    counters: set[bytes] = set()

    for _ in range(4):
        for chunk in range(frames.POOL_CHUNKS):
            pool.renew(chunk)
        counters |= {properties_of(send)[b"UNIQ_KEY"][28:] for send in decode(bytes(pool.view))}

    assert len(counters) == 65_536


def test_a_renewed_frame_is_born_now_and_else_the_same() -> None:
    pool = FramePool(SendForm(50, binary=True), Traffic(), chunk_count=1)
    [before, *_] = decode(bytes(pool.view))

    pool.renew(0)

    [after, *_] = decode(bytes(pool.view))
    changed = {key for key in ext_of(before) if ext_of(before)[key] != ext_of(after)[key]}
    assert "i" in changed
    assert changed <= {"i", "g"}
    assert int(ext_of(after)["g"] or 0) >= int(ext_of(before)["g"] or 0)
    assert (before.body, before.opaque) == (after.body, after.opaque)


def test_a_pull_asks_for_32_messages_and_may_wait_if_told_so() -> None:
    [now, later] = decode(frames.pull("G", "T", 3, 64) + frames.pull("G", "T", 3, 64, may_suspend=True))

    assert (now.code, ext_of(now)["queueOffset"], ext_of(now)["maxMsgNums"]) == (11, "64", "32")
    assert (ext_of(now)["sysFlag"], ext_of(later)["sysFlag"]) == ("0", "2")


def test_a_heartbeat_subscribes_to_everything_of_its_topics() -> None:
    [beat] = decode(frames.heartbeat("client", "G", ["T"]))

    [consumer] = json.loads(beat.body)["consumerDataSet"]
    assert (beat.code, consumer["groupName"]) == (34, "G")
    assert [(each["topic"], each["subString"]) for each in consumer["subscriptionDataSet"]] == [("T", "*")]
