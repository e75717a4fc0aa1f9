"""Compressed bodies from producer to consumer, and those that cannot be inflated."""

from __future__ import annotations

import asyncio
import logging
import zlib

import pytest

from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import CompressionType, Message, MessageView
from skyrocketmq.store import NewMessage, PutStatus
from skyrocketmq.wire import pulled_records
from skyrocketmq.wire.compression import INFLATED_BYTES_MAX, compress, compression_bits
from tests.client.cluster import Cluster, until

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
TEXT = b"rocket " * 10_000


async def consume(cluster: Cluster, count: int) -> list[MessageView]:
    seen: list[MessageView] = []
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first")

    @consumer.subscribe("T")
    async def read(message: MessageView) -> None:
        seen.append(message)

    async with consumer:
        await until(lambda: len(seen) >= count)
    return seen


def store(cluster: Cluster, body: bytes, *, sys_flag: int = 0) -> None:
    """Have a message stored, however strange."""
    message = NewMessage(
        topic="T", queue_id=0, body=body, properties=b"", born_timestamp=0, born_host=HOST, sys_flag=sys_flag
    )
    assert cluster.brokers["broker-a"].store.put(message).status is PutStatus.PUT_OK


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
async def test_large_bodies_are_compressed_on_the_way(cluster: Cluster, kind: str) -> None:
    cluster.create_topic("T", queues=1)
    bodies = [TEXT[:4095], TEXT[:4096], TEXT]  # below the threshold, at it, and long enough for a thread
    async with Producer("senders", namesrv=cluster.namesrv, compression=kind) as producer:
        for body in bodies:
            await producer.send(Message("T", body))
    seen = await consume(cluster, 3)
    bits = compression_bits(CompressionType[kind.upper()])
    assert [message.body for message in seen] == bodies
    assert [message.sys_flag for message in seen] == [0, bits, bits]
    assert seen[2].stored_bytes < len(TEXT) // 10


async def test_the_threshold_and_the_level_are_the_producers(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    for level in (0, 9):
        async with Producer("s", namesrv=cluster.namesrv, compress_from_bytes=10, compress_level=level) as producer:
            await producer.send(Message("T", b"x" * 1000))
            await producer.send(Message("T", b"x" * 9))
    stored, short, packed, _ = await consume(cluster, 4)
    assert [message.sys_flag for message in (stored, short, packed)] == [0x301, 0, 0x301]
    assert stored.stored_bytes > 1000 > packed.stored_bytes


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compression": "gzip"}, "'gzip' is not known: use one of lz4, zstd, zlib"),
        ({"compression": "zlib", "compress_level": 10}, "not from 0 to 9"),
        ({"compression": "zstd", "compress_level": 0}, "not from 1 to 22"),
        ({"compress_from_bytes": -1}, "below 0"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(options: dict[str, object], text: str) -> None:
    with pytest.raises(IllegalArgument, match=text):
        Producer("senders", namesrv="127.0.0.1:1", **options)  # type: ignore[arg-type]


async def test_bodies_of_old_producers_and_of_every_kind_are_inflated(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    store(cluster, zlib.compress(b"before 4.9.4"), sys_flag=0x1)
    for kind in CompressionType:
        store(cluster, compress(kind.name.encode(), kind), sys_flag=compression_bits(kind))
    assert [message.body for message in await consume(cluster, 4)] == [b"before 4.9.4", b"LZ4", b"ZSTD", b"ZLIB"]


async def test_bodies_that_cannot_be_inflated_are_said_and_stepped_over(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("T", queues=1)
    bomb = zlib.compress(bytes(INFLATED_BYTES_MAX + 1))
    bad = [
        (b"no zlib", 0x301),
        (b"this is no lz4 frame at all", 0x101),
        (b"no zstd", 0x201),
        (zlib.compress(b"x"), 0x701),
        (bomb, 0x301),
    ]
    store(cluster, b"before")
    for body, sys_flag in bad:
        store(cluster, body, sys_flag=sys_flag)
    store(cluster, b"behind")
    with caplog.at_level(logging.ERROR, "skyrocketmq.client.pulls"):
        seen = await consume(cluster, 2)
    assert [message.body for message in seen] == [b"before", b"behind"]
    said = [record for record in caplog.records if record.message == "message not readable"]
    assert [record.__dict__["offset"] for record in said] == [1, 2, 3, 4, 5]
    assert all(reason in str([record.__dict__["reason"] for record in said]) for reason in ("zlib", "LZ4", "type 7"))
    assert "beyond the limit of 16777216 bytes" in said[4].__dict__["reason"]
    assert cluster.stored_offset("readers", "T", 0) == 7


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_an_answer_that_inflates_to_too_much_is_read_in_parts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(pulled_records, "INFLATED_TOGETHER_MAX", 3_000)
    cluster.create_topic("T", queues=1)
    bodies = [b"%02d" % number * 500 for number in range(20)]
    for body in bodies:
        store(cluster, zlib.compress(body), sys_flag=0x301)
    store(cluster, b"last")
    if kind == "push":
        assert [message.body for message in await consume(cluster, 21)] == [*bodies, b"last"]
        return
    seen: list[bytes] = []
    async with LitePullConsumer("readers", namesrv=cluster.namesrv, consume_from="first") as consumer:
        consumer.subscribe("T")
        async with asyncio.timeout(20):
            while len(seen) < 21:
                seen += [message.body for message in await consumer.poll(1)]
    assert seen == [*bodies, b"last"]
