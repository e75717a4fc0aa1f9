"""Requests and replies: our client and Apache's ask each other, over brokers of either make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import RequestTimeout, SystemFailure
from skyrocketmq.model import Message, MessageView
from tests.interop.client.support import COMPRESSED, client_test, fresh_group, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, JavaError, large_message, message

pytestmark = client_test


@asynccontextmanager
async def our_replier(cluster: Cluster, topic: str) -> AsyncIterator[list[MessageView]]:
    """A consumer of ours that replies to each request with its body in capitals; what it got."""
    seen: list[MessageView] = []
    consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")
    async with Producer(fresh_group(), namesrv=cluster.namesrv) as producer:

        @consumer.subscribe(topic)
        async def reply(request: MessageView) -> None:
            seen.append(request)
            await producer.reply(request, request.body.upper(), properties={"by": "us"})

        async with consumer:
            yield seen


async def test_apaches_client_replies_to_ours(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    def start() -> list[object]:
        replier = java.producer(fresh_group(), namesrv=cluster.namesrv)
        behaviour = {"reply_producer": replier.handle, "reply_text": "pong"}
        consumer = java.push_consumer(
            fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first", behaviour=behaviour
        )
        return [consumer.stop, replier.stop]

    stops = await asyncio.to_thread(start)
    try:
        replies = await asyncio.gather(
            *(producer.request(Message(topic, b"ping %d" % n), timeout_s=20) for n in range(20))
        )
    finally:
        for stop in stops:
            await asyncio.to_thread(stop)  # type: ignore[arg-type]

    assert {reply.body for reply in replies} == {b"pong"}
    assert {reply.topic for reply in replies} == {"DefaultCluster_REPLY_TOPIC"}
    assert len({reply.properties["CORRELATION_ID"] for reply in replies}) == 20
    assert all(reply.store_host in {broker.address for broker in cluster.brokers.values()} for reply in replies)


async def test_our_client_replies_to_apaches(java: Driver, cluster: Cluster, topic: str) -> None:
    def ask() -> tuple[list[str], str, int]:
        with java.producer(fresh_group(), namesrv=cluster.namesrv) as asker:
            texts = [asker.request(message(topic, f"ping {n}"), timeout_s=20).text for n in range(5)]
            large = asker.request(large_message(topic, fill="large ", body_bytes=100_000), timeout_s=20)
            return texts, large.properties["by"], len(large.body)

    async with our_replier(cluster, topic) as seen:
        texts, by, body_bytes = await asyncio.to_thread(ask)

    assert texts == [f"PING {n}" for n in range(5)]
    assert (by, body_bytes) == ("us", 100_000)
    assert [request.sys_flag & COMPRESSED for request in seen] == [0, 0, 0, 0, 0, COMPRESSED]


async def test_our_clients_ask_each_other(cluster: Cluster, topic: str) -> None:
    async with our_replier(cluster, topic), Producer(fresh_group(), namesrv=cluster.namesrv) as asker:
        requests = [asker.request(Message(topic, b"n%d" % n), timeout_s=20) for n in range(100)]
        replies = await asyncio.gather(*requests)
    assert [reply.body for reply in replies] == [b"N%d" % n for n in range(100)]


async def test_a_request_without_a_reply_ends_in_time_for_either_client(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    def ask() -> str:
        with java.producer(fresh_group(), namesrv=cluster.namesrv) as asker:
            with pytest.raises(JavaError) as raised:
                asker.request(message(topic, "ping"), timeout_s=1)
            return raised.value.type

    assert (await asyncio.to_thread(ask)).endswith("RequestTimeoutException")
    with pytest.raises(RequestTimeout, match="no reply to the request"):
        await producer.request(Message(topic, b"ping"), timeout_s=1)


async def test_a_reply_to_a_client_that_has_gone_is_refused(cluster: Cluster, producer: Producer, topic: str) -> None:
    requests: list[MessageView] = []
    consumer = PushConsumer(fresh_group(), namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe(topic, "*", requests.append)
    async with consumer:
        async with Producer(fresh_group(), namesrv=cluster.namesrv, instance_name="gone") as asker:
            with pytest.raises(RequestTimeout):
                await asker.request(Message(topic, b"ping"), timeout_s=1)
        await until(lambda: requests, what="the request is consumed")
    with pytest.raises(SystemFailure):
        await producer.reply(requests[0], b"nobody hears that")
