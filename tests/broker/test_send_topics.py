"""What sends to a topic share: the shapes of their messages, and the answers to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.broker.send_topics import AnswerTexts, SendShape, SendTopic
from skyrocketmq.model import TopicConfig
from skyrocketmq.store.learnt import ENTRY_BYTES, LearntBudget
from skyrocketmq.store.record_shape import RecordShape
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Encoding, Frame, decode_frame, split_frames
from skyrocketmq.wire.properties import split_properties
from tests.broker.requests import TOPIC, properties_text, unique_id
from tests.broker.support import CLUSTER
from tests.store.support import HOST_V6, STORE_HOST, memory_disk, open_store

CLUSTER_BYTES = len(f"\x02CLUSTER\x01{CLUSTER}")


@asynccontextmanager
async def open_topic(
    *, region: str = "DefaultRegion", trace_on: bool = True, store_host: bytes = STORE_HOST, queues: int = 4
) -> AsyncIterator[SendTopic]:
    texts = AnswerTexts(store_host=store_host, region=region, trace_on=trace_on)
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=queues, write_queue_nums=2)
    async with open_store(memory_disk(), clock=ManualClock()) as store:
        yield SendTopic(config, cluster=CLUSTER, texts=texts, open_queue=store.queue)


def stored(shape: SendShape, key: bytes) -> dict[bytes, bytes]:
    return split_properties(shape.before + key + shape.after)


# ---------------------------------------------------------------------------------------------------------- shapes


async def test_messages_that_differ_in_their_ids_alone_share_a_shape() -> None:
    async with open_topic() as topic:
        shapes = [topic.shape(f"UNIQ_KEY\x01{unique_id(number)}\x02TAGS\x01TagA".encode())[0] for number in range(5)]
        assert all(shape is shapes[0] for shape in shapes)


async def test_messages_with_keys_of_their_own_are_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_topic() as topic:
        topic.shape(properties_text([("KEYS", "k0"), ("UNIQ_KEY", unique_id(0)), ("TAGS", "TagA")]).encode())
        monkeypatch.setattr(SendShape, "make", None)
        text = properties_text([("KEYS", "k1 k2"), ("UNIQ_KEY", unique_id(1)), ("TAGS", "TagA")])
        shape, key = topic.shape(text.encode())
        assert stored(shape, key) == split_properties(text.encode()) | {b"CLUSTER": CLUSTER.encode()}
        assert shape.keys == (b"k1", b"k2")


async def test_a_copy_with_other_keys_is_the_shape_that_parsing_makes() -> None:
    """Every attribute, so that none is forgotten when shapes get another one."""
    async with open_topic() as topic:
        parts = [("UNIQ_KEY", unique_id(1)), ("WAIT", "false"), ("TAGS", "TagA")]
        topic.shape(properties_text([("KEYS", "k0"), *parts]).encode())
        copy, key = topic.shape(properties_text([("KEYS", "a b"), *parts]).encode())
        parsed = SendShape(topic.keys, copy.before, key, copy.after)
        attributes = set(RecordShape.__slots__)
        assert {name: getattr(copy, name) for name in attributes} == {
            name: getattr(parsed, name) for name in attributes
        }
        assert not copy.waits
        assert copy.is_plain


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("has_keys", [False, True])
async def test_properties_may_take_32767_bytes_with_the_brokers_own(has_keys: bool, extra: int) -> None:
    async with open_topic() as topic:
        for _ in range(2):  # the second one finds a shape that is known
            pairs = [("KEYS", "k")] if has_keys else []
            pairs += [("UNIQ_KEY", unique_id(1)), ("x", "")]
            free = 32_767 - CLUSTER_BYTES - len(properties_text(pairs)) + extra
            pairs[-1] = ("x", "y" * free)
            shape, _ = topic.shape(properties_text(pairs).encode())
            assert shape.is_plain is (extra == 0)


async def test_keys_in_front_of_a_known_shape_may_break_the_limit_too() -> None:
    async with open_topic() as topic:
        pairs = [("UNIQ_KEY", unique_id(1)), ("x", "y" * 900)]
        topic.shape(properties_text([("KEYS", "k"), *pairs]).encode())
        for size, fits in ((31_700, True), (31_900, False), (40_000, False)):
            shape, _ = topic.shape(properties_text([("KEYS", "k" * size), *pairs]).encode())
            assert shape.is_plain is fits


async def test_a_topic_keeps_shapes_and_routes_within_its_budget() -> None:
    async with open_topic() as topic:
        topic.budget = LearntBudget(10_000)
        queue = topic.find_queue(0)
        assert queue is not None
        for number in range(100):
            topic.shape(f"UNIQ_KEY\x01{unique_id(number)}\x02TAGS\x01Tag{number}".encode())
            topic.learn_route(b"%d" % number, queue, 0)
        assert len(topic._shapes) + len(topic.routes) <= 10_000 // ENTRY_BYTES
        assert topic.budget.is_full


async def test_a_topic_keeps_no_shape_of_long_properties() -> None:
    async with open_topic() as topic:
        for size, count in ((3000, 0), (30_000, 0), (300, 1)):
            shape, _ = topic.shape(f"UNIQ_KEY\x01{unique_id(1)}\x02x\x01{'y' * size}".encode())
            assert shape.is_plain
            assert len(topic._shapes) == count


async def test_a_topic_has_the_larger_of_its_two_numbers_of_queues() -> None:
    async with open_topic(queues=3) as topic:
        assert [topic.find_queue(number) is not None for number in (-1, 0, 2, 3)] == [False, True, True, False]


# --------------------------------------------------------------------------------------------------------- answers


def answers(topic: SendTopic, queue_id: int, log_offset: int, queue_offset: int) -> list[Frame]:
    """The answers in both encodings, as the send path makes them."""
    queue = topic.find_queue(queue_id)
    assert queue is not None
    text = queue.json % (log_offset, queue_offset, 77)
    json = len(text).to_bytes(4, "big") + text
    json = len(json).to_bytes(4, "big") + json
    if not queue.binary_from <= queue_offset < queue.binary_until:
        queue.make_binary(queue_offset)
    binary = queue.binary % ((77).to_bytes(4, "big"), log_offset, queue_offset)
    frames = []
    for data in (json, binary):
        places, used = split_frames(data)
        assert used == len(data)
        frames.append(decode_frame(data, *places[0]))
    assert [frame.encoding for frame in frames] == [Encoding.JSON, Encoding.BINARY]
    return frames


OFFSETS = [0, 1, 8, 9, 10, 11, 99, 100, 101, 999, 1000, 10**12 - 1, 10**12, 2**62]


@pytest.mark.parametrize("offsets", [OFFSETS, OFFSETS[::-1], [9, 10, 9, 10, 100, 0]], ids=["up", "down", "to and fro"])
async def test_answers_are_whole_frames_whatever_the_number_of_digits(offsets: list[int]) -> None:
    async with open_topic(queues=20) as topic:
        for queue_offset in offsets:
            for frame in answers(topic, 13, queue_offset // 3, queue_offset):
                assert (frame.code, frame.opaque, frame.flag, frame.version, frame.body) == (0, 77, 1, 407, b"")
                assert frame.ext == {
                    "msgId": f"{STORE_HOST.hex().upper()}{queue_offset // 3:016X}",
                    "queueId": "13",
                    "queueOffset": str(queue_offset),
                    "MSG_REGION": "DefaultRegion",
                    "TRACE_ON": "true",
                }


@pytest.mark.parametrize("region", ['a "b" \\ c', "100%", "%d%b", "ю", "{}", "a\nb"])
async def test_any_text_may_be_the_region(region: str) -> None:
    async with open_topic(region=region, trace_on=False) as topic:
        for frame in answers(topic, 0, 1, 2):
            assert frame.ext is not None
            assert frame.ext["MSG_REGION"] == region
            assert frame.ext["TRACE_ON"] == "false"


async def test_the_message_id_of_an_ipv6_broker_has_56_digits() -> None:
    async with open_topic(store_host=HOST_V6) as topic:
        for frame in answers(topic, 0, 255, 2):
            assert frame.ext is not None
            assert frame.ext["msgId"] == HOST_V6.hex().upper() + "00000000000000FF"
