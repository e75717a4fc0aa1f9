"""Registrations of very many topics: read and taken in steps, between which others are served, and bounded."""

from __future__ import annotations

import struct
import zlib

import pytest

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.nameserver.routes import BrokerIdentity, Registration, RouteTables
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.registration import (
    TOPICS_MAX,
    RegisterBrokerBody,
    decode_in_steps,
    decode_registration,
    encode_registration,
)

BROKER = BrokerIdentity(cluster="c", name="b", broker_id=0, address="10.0.0.1:10911")


def body_of(count: int) -> RegisterBrokerBody:
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(count)}
    return RegisterBrokerBody(filter_server_list=["f"], topics=TopicConfigTable(topic_config_table=topics))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_registration_is_read_in_steps_to_the_same_end(compressed: bool) -> None:
    body = body_of(3000)
    data = encode_registration(body, compressed=compressed)
    assert sum(1 for _ in decode_in_steps(data, version=407, compressed=compressed)) > 10
    read = decode_registration(data, version=407, compressed=compressed)
    assert read.topics.topic_config_table == body.topics.topic_config_table
    assert read.filter_server_list == ["f"]


def registration(count: int) -> Registration:
    topics = body_of(count).topics.topic_config_table
    return Registration(
        broker=BROKER, ha_address="", data_version=DataVersion(), topics=topics, filter_servers=[], fingerprint=b""
    )


def test_topics_are_taken_in_steps() -> None:
    tables = RouteTables()
    steps = tables.register_in_steps(registration(3000), connection=1, now_s=0.0)
    next(steps)
    assert 0 < len(tables.topics()) < 3000
    assert sum(1 for _ in steps) > 3
    assert len(tables.topics()) == 3000


def test_of_a_broker_that_goes_meanwhile_nothing_is_left() -> None:
    tables = RouteTables()
    steps = tables.register_in_steps(registration(3000), connection=1, now_s=0.0)
    next(steps)
    tables.forget_connection(1, remote_address="")
    assert list(steps) == []
    assert tables.topics() == []
    assert tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


def test_more_topics_than_any_broker_has_are_refused_before_they_are_read() -> None:
    lines = struct.pack(">i", 2) + b"{}" + struct.pack(">i", TOPICS_MAX + 1) + bytes(4 * TOPICS_MAX + 8)
    with pytest.raises(ProtocolError, match="topics, at most"):
        next(decode_in_steps(zlib.compress(lines, 1), version=407, compressed=True))
    many = b",".join([b'"":{}'] * (TOPICS_MAX + 20))
    with pytest.raises(ProtocolError, match="topics, at most"):
        next(decode_in_steps(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%b}}}' % many, version=407))
    with pytest.raises(ProtocolError, match="consist of topics"):
        next(decode_in_steps(b'{"filterServerList":[%b]}' % b",".join([b'""'] * 30_000), version=407))


# -------------------------------------------------------------------------------------------- what goes, and is changed


def large_tables() -> RouteTables:
    tables = RouteTables()
    tables.register(registration(3000), connection=1, now_s=0.0)
    return tables


def test_a_large_broker_is_in_no_route_at_once_and_swept_away_in_steps() -> None:
    tables = large_tables()
    tables.unregister(BROKER)
    assert all(tables.find_route(f"T{number}") is None for number in range(3000))
    assert tables.counts()["topics"] > 2000
    tables.delete_topic("T2999")
    turns = 1
    while tables.sweep():
        turns += 1
    assert turns > 3
    assert tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


def test_a_large_broker_that_comes_back_meanwhile_has_what_it_says_then() -> None:
    tables = large_tables()
    tables.forget_connection(1, remote_address="")
    tables.register(registration(2000), connection=2, now_s=1.0)
    assert tables.find_route("T2999") is None
    while tables.sweep():
        pass
    assert sorted(tables.topics()) == sorted(f"T{number}" for number in range(2000))
    assert all(tables.find_route(f"T{number}") is not None for number in range(2000))


@pytest.mark.parametrize("end", ["nothing happens", "topics are deleted", "the broker goes", "the broker comes back"])
def test_permissions_of_a_large_broker_are_changed_in_steps(end: str) -> None:
    tables = large_tables()
    steps = tables.wipe_write_permission_in_steps("b")
    next(steps)
    generation = tables.generation
    if end == "topics are deleted":
        for number in range(3000):
            tables.delete_topic(f"T{number}")
    elif end != "nothing happens":
        tables.forget_connection(1, remote_address="")
        if end == "the broker comes back":
            tables.register(registration(10), connection=2, now_s=1.0)
    assert sum(1 for _ in steps) > 3
    if end == "nothing happens":
        assert tables.generation > generation, "routes that were asked for meanwhile are not kept"
        found = [tables.find_route(f"T{number}") for number in range(3000)]
        assert {route.queue_datas[0].perm for route in found if route is not None} == {4}
    while tables.sweep():
        pass
    assert len(tables.topics()) == {"nothing happens": 3000, "the broker comes back": 10}.get(end, 0)
