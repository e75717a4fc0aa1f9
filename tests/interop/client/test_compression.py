"""Bodies that Apache's producer compressed, read by our consumer; `test_sending` has the other direction.

Apache's clients from 4.9.4 on read and write all three kinds; older ones zlib only.
"""

from __future__ import annotations

import asyncio

from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import CompressionType, MessageView
from skyrocketmq.wire.compression import compression_bits
from tests.interop.client.support import client_test, fresh_group, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, large_message

pytestmark = client_test


async def test_bodies_that_apaches_producer_compressed_are_read(java: Driver, cluster: Cluster, topic: str) -> None:
    seen: list[MessageView] = []

    def send() -> None:
        for kind in CompressionType:
            with java.producer(fresh_group(), namesrv=cluster.namesrv, compression=kind.name) as producer:
                producer.send(large_message(topic, fill="rocket ", body_bytes=300_000, tags=kind.name))

    consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")

    @consumer.subscribe(topic)
    async def read(message: MessageView) -> None:
        seen.append(message)

    async with consumer:
        await asyncio.to_thread(send)
        await until(lambda: len(seen) == 3, what="a message of each kind")

    assert {message.body for message in seen} == {(b"rocket " * 50_000)[:300_000]}
    assert {message.tags: message.sys_flag for message in seen} == {
        kind.name: compression_bits(kind) for kind in CompressionType
    }
    assert all(message.stored_bytes < 30_000 for message in seen)
