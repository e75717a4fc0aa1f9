"""What brokers ask of a consumer: 220, 221, 307, 309."""

from __future__ import annotations

import asyncio

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import (
    ConsumeMessageDirectlyResult,
    ConsumeResultName,
    ConsumerRunningInfo,
    ConsumerStatus,
    ResetOffsets,
)
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.client.cluster import Cluster, until
from tests.client.test_push_consumer import Inbox, numbered, send_all

QUEUE = MessageQueue("T", "broker-a", 0)


async def ask(cluster: Cluster, code: RequestCode, ext: dict[str, str | None], body: bytes = b"") -> Frame:
    """Ask the first member of the group, as its broker would."""
    members = cluster.brokers["broker-a"].tables.consumers.members_of("readers")
    return await members[0].connection.request(Frame(code, ext=ext, body=body), 5)


class TestPushConsumer:
    async def test_it_tells_how_far_it_is(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        await send_all(cluster, numbered(5))
        async with consumer:
            await until(lambda: len(inbox.messages) == 5)
            answer = await ask(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "readers"})
        assert decode_body(ConsumerStatus, answer.body).message_queue_table == {QUEUE: 5}

    async def test_it_goes_on_where_it_is_told(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        for body in numbered(5):
            await send_all(cluster, [body])
        async with consumer:
            await until(lambda: len(inbox.messages) == 5)
            body = encode_body(ResetOffsets(offset_table={QUEUE: 3, MessageQueue("T", "broker-a", 9): 1}))
            members = cluster.brokers["broker-a"].tables.consumers.members_of("readers")
            ext: dict[str, str | None] = {"topic": "T", "group": "readers", "timestamp": "0", "isForce": "false"}
            members[0].connection.send_oneway(Frame(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=ext, body=body))
            await until(lambda: len(inbox.messages) == 7)
        assert inbox.bodies[5:] == [b"3", b"4"]
        assert cluster.stored_offset("readers", "T", 0) == 5

    async def test_it_tells_how_it_is_doing(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        entered, released = asyncio.Event(), asyncio.Event()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T", "A")
        async def read(message: MessageView) -> None:
            entered.set()
            await released.wait()

        await send_all(cluster, [b"x"], tags="A")
        async with consumer:
            await entered.wait()
            answer = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "readers"})
            released.set()
        info = decode_body(ConsumerRunningInfo, answer.body)
        assert info.mq_table[QUEUE].cached_msg_count == 1
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert info.properties["PROP_NAMESERVER_ADDR"] == f"{cluster.namesrv};"
        assert info.status_table["T"].pull_tps == 1.0
        assert {data.topic: data.sub_string for data in info.subscription_set} == {"T": "A", "%RETRY%readers": "*"}

    async def test_it_handles_a_message_on_demand_and_says_how_that_went(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        results: list[ConsumeResult | Exception | None] = [
            None,
            None,
            ConsumeResult.RETRY,
            ValueError("cannot"),
        ]
        seen: list[bytes] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> ConsumeResult | None:
            seen.append(message.body)
            result = results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        await send_all(cluster, [b"x"])
        async with consumer:
            await until(lambda: seen)
            stored = await cluster.brokers["broker-a"].store.message_at(0)
            assert stored is not None
            answers = [
                await ask(
                    cluster,
                    RequestCode.CONSUME_MESSAGE_DIRECTLY,
                    {"consumerGroup": "readers", "brokerName": "broker-a"},
                    bytes(stored),
                )
                for _ in range(3)
            ]
        outcomes = [decode_body(ConsumeMessageDirectlyResult, answer.body) for answer in answers]
        assert [outcome.consume_result for outcome in outcomes] == [
            ConsumeResultName.CR_SUCCESS,
            ConsumeResultName.CR_LATER,
            ConsumeResultName.CR_THROW_EXCEPTION,
        ]
        assert outcomes[2].remark == "ValueError: cannot"
        assert seen == [b"x"] * 4
        assert cluster.stored_offset("readers", "T", 0) == 1


async def test_a_group_that_is_not_here_is_an_error(cluster: Cluster) -> None:
    async with PullConsumer("readers", namesrv=cluster.namesrv, topics=["T"]) as consumer:
        cluster.create_topic("T")
        await until(lambda: consumer.assigned("T"))
        answer = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "others"})
        assert answer.code == 1
        answer = await ask(cluster, RequestCode.CHECK_TRANSACTION_STATE, {})
        assert answer.code == 3
