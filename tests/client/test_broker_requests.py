"""What brokers ask of a consumer: 220, 221, 307, 309."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_clients import (
    ConsumeMessageDirectlyResult,
    ConsumeResultName,
    ConsumerRunningInfo,
    ConsumerStatus,
    QueueOffsetItem,
    ResetOffsetList,
    ResetOffsets,
)
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.records import encode_record
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

    async def test_it_takes_offsets_as_a_list_too(self, cluster: Cluster) -> None:
        """What brokers send where an administrator takes the group for one of C++ clients."""
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        await send_all(cluster, numbered(3))
        async with consumer:
            await until(lambda: len(inbox.messages) == 3)
            item = QueueOffsetItem(broker_name="broker-a", offset=2, queue_id=0, topic="T")
            reset(cluster, encode_body(ResetOffsetList(offset_table=(item,))))
            await until(lambda: len(inbox.messages) == 4)
        assert inbox.bodies[3:] == [b"2"]

    async def test_it_goes_on_where_it_is_told_though_its_queues_are_divided_anew_meanwhile(
        self, cluster: Cluster
    ) -> None:
        cluster.create_topic("T", queues=8)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", inbox)
        await send_all(cluster, numbered(16))
        async with consumer:
            await until(lambda: len(inbox.messages) == 16)
            queues = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(8)]
            resetting = asyncio.create_task(consumer.reset_offsets("T", dict.fromkeys(queues, 0)))
            consumer.members_changed()  # a round that finds queues on their way to another offset
            await resetting
            await until(lambda: min(Counter(inbox.bodies).values()) == 2)

    async def test_in_order_it_goes_on_where_it_is_told_and_keeps_the_order(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True)
        consumer.subscribe("T", "*", inbox)
        for body in numbered(4):
            await send_all(cluster, [body])
        async with consumer:
            await until(lambda: len(inbox.messages) == 4)
            reset(cluster, encode_body(ResetOffsets(offset_table={QUEUE: 1})))
            await until(lambda: len(inbox.messages) == 7)
        assert inbox.bodies[4:] == [b"1", b"2", b"3"]
        assert cluster.stored_offset("readers", "T", 0) == 4

    async def test_broadcasting_it_goes_on_where_it_is_told_and_tells_how_far_it_is(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        cluster.create_topic("T", queues=1)
        inbox = Inbox()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, broadcasting=True, offsets_directory=tmp_path)
        consumer.subscribe("T", "*", inbox)
        async with consumer:
            await until(lambda: consumer.queues)
            for body in numbered(4):
                await send_all(cluster, [body])
            await until(lambda: len(inbox.messages) == 4)
            reset(cluster, encode_body(ResetOffsets(offset_table={QUEUE: 2})))
            await until(lambda: len(inbox.messages) == 6)
            answer = await ask(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "readers"})
        assert inbox.bodies[4:] == [b"2", b"3"]
        assert decode_body(ConsumerStatus, answer.body).message_queue_table == {QUEUE: 4}
        assert cluster.stored_offset("readers", "T", 0) is None

    @pytest.mark.parametrize("auto_commit", [True, False])
    async def test_in_order_it_says_what_the_handler_decided(self, cluster: Cluster, auto_commit: bool) -> None:
        cluster.create_topic("T", queues=1)
        results = [ConsumeResult.SUCCESS, ConsumeResult.RETRY, ConsumeResult.COMMIT, ConsumeResult.ROLLBACK]
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=True, auto_commit=auto_commit)
        consumer.subscribe("T", "*", lambda message: results.pop(0) if message.body == b"now" else None)
        await send_all(cluster, [b"now"])
        stored = await cluster.brokers["broker-a"].store.message_at(0)
        assert stored is not None
        async with consumer:
            await until(lambda: len(results) == 3)
            outcomes = [await handle_now(cluster, bytes(stored)) for _ in range(3)]
        assert [outcome.consume_result for outcome in outcomes] == [
            ConsumeResultName.CR_LATER,
            ConsumeResultName.CR_COMMIT,
            ConsumeResultName.CR_ROLLBACK,
        ]
        assert {(outcome.order, outcome.auto_commit) for outcome in outcomes} == {(True, auto_commit)}

    async def test_out_of_order_a_message_is_consumed_or_comes_later(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        results = [ConsumeResult.SUCCESS, ConsumeResult.COMMIT, ConsumeResult.consumed(0)]
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, auto_commit=False)

        @consumer.subscribe("T", batch=4)
        def read(messages: list[MessageView]) -> ConsumeResult:
            return results.pop(0)

        await send_all(cluster, [b"x"])
        stored = await cluster.brokers["broker-a"].store.message_at(0)
        assert stored is not None
        async with consumer:
            await until(lambda: len(results) == 2)
            outcomes = [await handle_now(cluster, bytes(stored)) for _ in range(2)]
        assert [(outcome.consume_result, outcome.order, outcome.auto_commit) for outcome in outcomes] == [
            (ConsumeResultName.CR_SUCCESS, False, True),
            (ConsumeResultName.CR_LATER, False, True),
        ]

    async def test_a_message_of_a_topic_that_is_not_subscribed_has_no_handler(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        cluster.create_topic("Other", queues=1)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("Other", "*", Inbox())
        await send_all(cluster, [b"x"])
        stored = await cluster.brokers["broker-a"].store.message_at(0)
        assert stored is not None
        async with consumer:
            outcome = await handle_now(cluster, bytes(stored))
        assert outcome.consume_result is ConsumeResultName.CR_THROW_EXCEPTION
        assert outcome.remark == "topic T is not subscribed here"

    async def test_a_handler_whose_wait_was_cancelled_has_failed(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def read(message: MessageView) -> None:
            raise asyncio.CancelledError

        await send_all(cluster, [b"x"])
        stored = await cluster.brokers["broker-a"].store.message_at(0)
        assert stored is not None
        async with consumer:
            outcome = await handle_now(cluster, bytes(stored))
        assert outcome.consume_result is ConsumeResultName.CR_THROW_EXCEPTION

    async def test_it_tells_where_its_threads_and_tasks_are(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        entered, released = asyncio.Event(), asyncio.Event()
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)

        @consumer.subscribe("T")
        async def hangs_here(message: MessageView) -> None:
            entered.set()
            await released.wait()

        await send_all(cluster, [b"x"])
        async with consumer:
            await entered.wait()
            answers = [
                await ask(
                    cluster,
                    RequestCode.GET_CONSUMER_RUNNING_INFO,
                    {"consumerGroup": "readers", "jstackEnable": wanted},
                )
                for wanted in ("true", "false")
            ]
            released.set()
        with_stacks, without = [decode_body(ConsumerRunningInfo, answer.body).jstack for answer in answers]
        assert with_stacks is not None
        assert "thread MainThread" in with_stacks
        assert "hangs_here" in with_stacks
        assert without is None


class TestPullConsumers:
    async def test_a_pull_consumer_tells_who_it_is_and_what_it_has_committed(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        async with PullConsumer("readers", namesrv=cluster.namesrv, topics=["T"]) as consumer:
            await until(lambda: consumer.assigned("T"))
            await consumer.commit(QUEUE, 3)
            info = await running_info(cluster)
            status = await ask(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "readers"})
            answer = await ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "readers"}, RECORD)
            reset(cluster, encode_body(ResetOffsets(offset_table={QUEUE: 0})))
            assert await consumer.committed(QUEUE) == 3, "where it reads is the application's"
        check_common(info, cluster, "CONSUME_ACTIVELY")
        assert [data.topic for data in info.subscription_set] == ["T"]
        assert decode_body(ConsumerStatus, status.body).message_queue_table == {QUEUE: 3}
        assert (answer.code, "has no handler" in (answer.remark or "")) == (1, True)

    async def test_a_lite_pull_consumer_tells_who_it_is_and_what_it_holds(self, cluster: Cluster) -> None:
        cluster.create_topic("T", queues=1)
        consumer = LitePullConsumer("readers", namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe("T")
        await send_all(cluster, numbered(2))
        async with consumer:
            await until(lambda: consumer.assigned)
            assert await consumer.poll()
            info = await running_info(cluster)
            status = await ask(cluster, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "readers"})
            answer = await ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "readers"}, RECORD)
        check_common(info, cluster, "CONSUME_ACTIVELY")
        assert list(info.mq_table) == [QUEUE]
        assert decode_body(ConsumerStatus, status.body).message_queue_table == {}
        assert (answer.code, "has no handler" in (answer.remark or "")) == (1, True)


RECORD = encode_record(
    topic=b"T", body=b"x", properties=b"", queue_id=0, queue_offset=0, log_offset=0, born_timestamp=0,
    born_host=bytes(8), store_timestamp=0, store_host=bytes(8),
)  # fmt: skip


def reset(cluster: Cluster, body: bytes) -> None:
    """Tell the first member where to go on, as its broker would."""
    members = cluster.brokers["broker-a"].tables.consumers.members_of("readers")
    ext: dict[str, str | None] = {"topic": "T", "group": "readers", "timestamp": "0", "isForce": "false"}
    members[0].connection.send_oneway(Frame(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=ext, body=body))


async def handle_now(cluster: Cluster, record: bytes) -> ConsumeMessageDirectlyResult:
    ext: dict[str, str | None] = {"consumerGroup": "readers", "brokerName": "broker-a"}
    answer = await ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, record)
    return decode_body(ConsumeMessageDirectlyResult, answer.body)


async def running_info(cluster: Cluster) -> ConsumerRunningInfo:
    answer = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "readers"})
    return decode_body(ConsumerRunningInfo, answer.body)


def check_common(info: ConsumerRunningInfo, cluster: Cluster, kind: str) -> None:
    """What tools look for in the answer of any consumer."""
    started_ms = int(info.properties.pop("PROP_CONSUMER_START_TIMESTAMP"))
    assert 0 <= time.time() * 1000 - started_ms < 60_000
    assert info.properties == {
        "PROP_NAMESERVER_ADDR": f"{cluster.namesrv};",
        "PROP_CONSUME_TYPE": kind,
        "PROP_CLIENT_VERSION": "V4_9_7",
    }


async def test_a_group_that_is_not_here_is_an_error(cluster: Cluster) -> None:
    async with PullConsumer("readers", namesrv=cluster.namesrv, topics=["T"]) as consumer:
        cluster.create_topic("T")
        await until(lambda: consumer.assigned("T"))
        answer = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "others"})
        assert answer.code == 1
        answer = await ask(cluster, RequestCode.CHECK_TRANSACTION_STATE, {})
        assert answer.code == 3
