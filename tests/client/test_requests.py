"""Requests and replies between clients, over real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from skyrocketmq import blocking
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.replies import reply_message
from skyrocketmq.client.selectors import select_by_hash
from skyrocketmq.errors import (
    ClientError,
    IllegalArgument,
    MQError,
    NoRoute,
    ProtocolError,
    RequestTimeout,
    SystemFailure,
)
from skyrocketmq.model import Message, MessageView, TopicConfig
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.client.cluster import Cluster, open_cluster, until
from tests.client.messages import view


@asynccontextmanager
async def replying(cluster: Cluster, *, topic: str = "T", **options: Any) -> AsyncIterator[list[MessageView]]:
    """A consumer that replies to each request with its body in capitals; what it got."""
    seen: list[MessageView] = []
    consumer = PushConsumer("repliers", namesrv=cluster.namesrv, **options)
    async with Producer("repliers", namesrv=cluster.namesrv, **options) as producer:

        @consumer.subscribe(topic)
        async def reply(message: MessageView) -> None:
            seen.append(message)
            await producer.reply(message, message.body.upper(), keys=["a-reply"], properties={"n": "1"})

        async with consumer:
            await until(lambda: consumer.queues)
            yield seen


class TestOnACluster:
    async def test_a_request_is_replied_to(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with replying(cluster) as seen, Producer("askers", namesrv=cluster.namesrv) as asker:
            reply = await asker.request(Message("T", b"ping", tags="A", keys="k"), timeout_s=10)
            client_id = asker.client_id
        [request] = seen
        assert reply.body == b"PING"
        assert reply.topic == f"{cluster.brokers['broker-a'].identity.cluster_name}_REPLY_TOPIC"
        assert reply.user_properties == {"n": "1"}
        assert reply.keys == ("a-reply",)
        assert reply.store_host == cluster.brokers["broker-a"].address
        assert int(reply.properties["ARRIVE_TIME"]) >= int(reply.properties["PUSH_REPLY_TIME"]) > 0
        assert (request.tags, request.keys) == ("A", ("k",))
        assert request.properties["REPLY_TO_CLIENT"] == client_id
        assert request.properties["TTL"] == reply.properties["TTL"] == "10000"
        assert request.properties["CORRELATION_ID"] == reply.properties["CORRELATION_ID"]
        assert reply.properties["MSG_TYPE"] == "reply"

    async def test_hundreds_of_requests_wait_at_once_and_each_gets_its_own_reply(self, two_brokers: Cluster) -> None:
        two_brokers.create_topic("T")
        async with replying(two_brokers), Producer("askers", namesrv=two_brokers.namesrv) as asker:
            requests = [asker.request(Message("T", b"n%d" % n), timeout_s=20) for n in range(300)]
            replies = await asyncio.gather(*requests)
            assert len(asker._started()[0].replies) == 0
        assert [reply.body for reply in replies] == [b"N%d" % n for n in range(300)]

    async def test_a_reply_comes_through_a_broker_that_the_topic_is_not_on(self, two_brokers: Cluster) -> None:
        """A consumer that does not look where the request came from replies through any broker of the cluster."""
        two_brokers.brokers["broker-a"].tables.topics.put(TopicConfig("T", read_queue_nums=1, write_queue_nums=1))
        consumer = PushConsumer("repliers", namesrv=two_brokers.namesrv)
        brokers: list[str] = []
        async with Producer("repliers", namesrv=two_brokers.namesrv) as producer:

            @consumer.subscribe("T")
            async def reply(message: MessageView) -> None:
                [queue] = [
                    each
                    for each in await producer.queues(message.properties["CLUSTER"] + "_REPLY_TOPIC")
                    if each.broker_name == "broker-b"
                ]
                brokers.append(queue.broker_name)
                await producer.send(reply_message(message, b"pong"), queue=queue)

            async with consumer, Producer("askers", namesrv=two_brokers.namesrv, instance_name="own") as asker:
                reply_ = await asker.request(Message("T", b"ping"), timeout_s=10)
        assert reply_.body == b"pong"
        assert brokers == ["broker-b"]

    async def test_a_request_goes_to_the_selected_queue(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with replying(cluster) as seen, Producer("askers", namesrv=cluster.namesrv) as asker:
            await asker.request(Message("T", b"ping"), selector=select_by_hash, arg="7", timeout_s=10)
        assert [request.queue_id for request in seen] == [ord("7") % 4]

    async def test_large_requests_and_replies_travel_compressed(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with replying(cluster) as seen, Producer("askers", namesrv=cluster.namesrv) as asker:
            reply = await asker.request(Message("T", b"x" * 100_000), timeout_s=10)
        assert reply.body == b"X" * 100_000
        assert seen[0].sys_flag & 1
        assert reply.sys_flag & 1

    async def test_a_namespace_is_for_requests_and_the_reply_topic_is_everybodys(self, cluster: Cluster) -> None:
        cluster.create_topic("ns%T")
        async with (
            replying(cluster, namespace="ns") as seen,
            Producer("askers", namesrv=cluster.namesrv, namespace="ns") as asker,
        ):
            reply = await asker.request(Message("T", b"ping"), timeout_s=10)
        assert (reply.body, seen[0].topic) == (b"PING", "T")
        topics = cluster.brokers["broker-a"].tables.topics.names()
        assert [name for name in topics if name.startswith("ns%") and "REPLY" in name] == []

    async def test_requests_go_on_after_the_broker_was_restarted(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with replying(cluster), Producer("askers", namesrv=cluster.namesrv) as asker:
            await asker.request(Message("T", b"before"), timeout_s=10)
            await cluster.stop_broker("broker-a")
            await cluster.start_broker("broker-a")
            reply = None
            while reply is None:  # until all three are connected again
                try:
                    reply = await asker.request(Message("T", b"after"), timeout_s=2)
                except MQError:
                    await asyncio.sleep(0.05)
        assert reply.body == b"AFTER"

    async def test_the_blocking_face_asks_and_replies(self, cluster: Cluster) -> None:
        cluster.create_topic("T")

        def work() -> list[bytes]:
            consumer = blocking.PushConsumer("repliers", namesrv=cluster.namesrv)
            with (
                blocking.Producer("repliers", namesrv=cluster.namesrv) as replier,
                blocking.Producer("askers", namesrv=cluster.namesrv) as asker,
            ):

                @consumer.subscribe("T")
                def reply(message: MessageView) -> None:
                    replier.reply(message, message.body.upper())

                with consumer:
                    return [asker.request(Message("T", b"ping"), timeout_s=10).body for _ in range(3)]

        assert await asyncio.to_thread(work) == [b"PING"] * 3


class TestNoReply:
    async def test_a_request_that_nobody_replies_to_says_so(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with Producer("askers", namesrv=cluster.namesrv) as asker:
            await asker.send(Message("T", b"first"))
            with pytest.raises(RequestTimeout, match=r"within 0\.3 s; it is stored as \w+ on broker-a, queue 0\. Is a"):
                await asker.request(Message("T", b"ping"), timeout_s=0.3)
            assert len(asker._started()[0].replies) == 0

    async def test_a_request_that_nobody_takes_says_so(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with Producer("askers", namesrv=cluster.namesrv) as asker:
            await asker.send(Message("T", b"first"))
            await cluster.stop_broker("broker-a")
            with pytest.raises(Exception, match="topic T was not acknowledged"):
                await asker.request(Message("T", b"ping"), timeout_s=1)

    async def test_a_topic_that_does_not_exist_is_an_error_at_once(self, tmp_path: Any) -> None:
        async with (
            open_cluster(tmp_path, settings={"autoCreateTopicEnable": "false"}) as cluster,
            Producer("askers", namesrv=cluster.namesrv) as asker,
        ):
            with pytest.raises(NoRoute):
                await asker.request(Message("nowhere", b"ping"), timeout_s=10)

    async def test_a_producer_that_closes_ends_its_requests(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        asker = Producer("askers", namesrv=cluster.namesrv)
        async with Producer("others", namesrv=cluster.namesrv), asker:  # whose connections stay
            asking = asyncio.create_task(asker.request(Message("T", b"ping"), timeout_s=30))
            await until(lambda: cluster.brokers["broker-a"].store.log.max_offset > 0)
            await until(lambda: asker._requester is not None and asker._requester._waiting)
            await asker.close()
            with pytest.raises(ClientError, match="closed before the reply came"):
                await asking

    async def test_a_reply_that_comes_too_late_is_acknowledged_and_dropped(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        requests: list[MessageView] = []
        consumer = PushConsumer("repliers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def keep(message: MessageView) -> None:
            requests.append(message)

        async with consumer, Producer("askers", namesrv=cluster.namesrv) as asker:
            with pytest.raises(RequestTimeout):
                await asker.request(Message("T", b"ping"), timeout_s=0.3)
            await until(lambda: requests)
            result = await asker.reply(requests[0], b"late")
        assert result.is_ok


class TestReplying:
    async def test_a_reply_to_a_client_that_has_gone_is_an_error_that_says_so(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        requests: list[MessageView] = []
        consumer = PushConsumer("repliers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def keep(message: MessageView) -> None:
            requests.append(message)

        async with consumer, Producer("repliers", namesrv=cluster.namesrv) as producer:
            async with Producer("askers", namesrv=cluster.namesrv, instance_name="gone") as asker:
                with pytest.raises(RequestTimeout):
                    await asker.request(Message("T", b"ping"), timeout_s=0.3)
            await until(lambda: requests)
            with pytest.raises(SystemFailure, match="that asked is not connected to broker broker-a"):
                await producer.reply(requests[0], b"nobody hears that")

    @pytest.mark.parametrize(
        ("properties", "text"),
        [
            ({"CLUSTER": "C"}, "is no request (it has no CORRELATION_ID and no REPLY_TO_CLIENT)"),
            ({"CLUSTER": "C", "CORRELATION_ID": "c"}, "has no REPLY_TO_CLIENT"),
            ({"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "me"}, "has no CLUSTER"),
        ],
    )
    def test_only_requests_can_be_replied_to(self, properties: dict[str, str], text: str) -> None:
        with pytest.raises(IllegalArgument) as raised:
            reply_message(replace(view(0), properties=properties), b"pong")
        assert text in str(raised.value)

    def test_a_reply_carries_what_brokers_and_the_asker_need(self) -> None:
        request = view(0, CLUSTER="C", CORRELATION_ID="c", REPLY_TO_CLIENT="me", TTL="3000", KEYS="k")
        reply = reply_message(request, b"pong", tags="A", properties={"p": "1"})
        assert (reply.topic, reply.body, reply.tags, reply.keys) == ("C_REPLY_TOPIC", b"pong", "A", ())
        assert reply.system_properties == {
            "MSG_TYPE": "reply",
            "CORRELATION_ID": "c",
            "REPLY_TO_CLIENT": "me",
            "TTL": "3000",
        }


class TestPushes:
    """326, as any broker may send it."""

    async def push(self, cluster: Cluster, properties: str, body: bytes = b"pong", **ext: str) -> Frame:
        [connection] = {
            member.connection for member in cluster.brokers["broker-a"].tables.producers.members_of("askers")
        }
        fields: dict[str, str | None] = {
            "producerGroup": "g",
            "topic": "C_REPLY_TOPIC",
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": "1700000000000",
            "flag": "0",
            "properties": properties,
            "reconsumeTimes": "0",
            "unitMode": "false",
            "bornHost": "/127.0.0.1:5000",
            "storeHost": "broker/127.0.0.1:10911",
            "storeTimestamp": "1700000000001",
        }
        frame = Frame(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext={**fields, **ext}, body=body)
        return await connection.request(frame, 5)

    async def test_addresses_are_read_as_java_prints_them(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with Producer("askers", namesrv=cluster.namesrv) as asker:
            await asker.send(Message("T", b"x"))
            reply = asker._started()[0].replies.add("c-1")
            answers = [
                await self.push(cluster, "CORRELATION_ID\x01c-1"),
                await self.push(cluster, "CORRELATION_ID\x01c-1", storeHost="no address"),
                await self.push(cluster, "CORRELATION_ID\x01unknown"),
                await self.push(cluster, ""),
            ]
        message = reply.result()
        assert [answer.code for answer in answers] == [0, 0, 0, 0]
        assert (message.born_host, message.store_host) == ("127.0.0.1:5000", "127.0.0.1:10911")
        assert (message.born_timestamp, message.store_timestamp) == (1_700_000_000_000, 1_700_000_000_001)

    async def test_a_reply_that_cannot_be_read_fails_its_request_at_once(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        async with Producer("askers", namesrv=cluster.namesrv) as asker:
            await asker.send(Message("T", b"x"))
            reply = asker._started()[0].replies.add("c-1")
            answer = await self.push(cluster, "CORRELATION_ID\x01c-1", b"no zlib", sysFlag="1")
            with pytest.raises(ProtocolError, match="the reply came, but cannot be read"):
                await reply
        assert answer.code == 1
        assert "zlib" in (answer.remark or "")
