"""The hand-written frames of the name server benchmark mean what they should: our own decoder reads them."""

from __future__ import annotations

import json

import pytest
from benchmarks.namesrv import REGISTRATIONS
from benchmarks.namesrv_frames import Form, Plan

from benchmarks import namesrv_frames as frames
from skyrocketmq.wire.frames import Frame, FrameDecoder

PLAN = Plan(broker_count=10, topic_count=50, spread=4)


def decode(data: bytes) -> Frame:
    [frame] = FrameDecoder().feed(data)
    return frame


def test_every_topic_lives_on_as_many_brokers_as_planned() -> None:
    carried = [topic for broker in range(PLAN.broker_count) for topic in PLAN.topics_of(broker)]

    assert {topic: carried.count(topic) for topic in PLAN.topics} == dict.fromkeys(PLAN.topics, 4)
    assert {len(PLAN.topics_of(broker)) for broker in range(PLAN.broker_count)} == {20}


@pytest.mark.parametrize("binary", [False, True])
def test_a_route_query_asks_for_its_topic_in_either_encoding(binary: bool) -> None:
    frame = decode(frames.route_query("T", form=Form(binary=binary, version=frames.VERSION_4_9_3)))

    assert (frame.code, frame.version, frame.ext, frame.body) == (105, 399, {"topic": "T"}, b"")


@pytest.mark.parametrize("form", REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_a_registration_of_another_version_differs_in_one_topic(form: Form) -> None:
    one, same, other = (decode(frames.registration(PLAN, 3, counter=counter, form=form)) for counter in (0, 0, 1))

    assert one.code == 103
    assert one.body == same.body != other.body
    assert one.ext is not None
    assert one.ext["brokerName"] == "broker-003"
    if not form.compressed:
        tables = [topics_in(json.loads(frame.body)) for frame in (one, other)]
        changed = [name for name in tables[0] if tables[0][name] != tables[1][name]]
        assert changed == PLAN.topics_of(3)[:2]  # the one changed now, and the one changed before, which is as it was


def topics_in(body: dict[str, dict[str, object]]) -> dict[str, object]:
    wrapper = body.get("topicConfigSerializeWrapper", body)
    table = wrapper["topicConfigTable"]
    assert isinstance(table, dict)
    return table
