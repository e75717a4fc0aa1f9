"""What administrators ask of our consumers through the brokers of either make: how they are doing, to go elsewhere, to
handle one message now. And groups in which our members and Java's want different things."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.own_requests import OwnRequestCode
from tests.interop import remoting
from tests.interop.client.journal import Journal
from tests.interop.client.support import client_test, fresh_group, queues_of, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver
from tests.interop.ours import OurServer

pytestmark = client_test

COUNT = 8


async def mqadmin(java: Driver, cluster: Cluster, *arguments: str) -> str:
    return await asyncio.to_thread(lambda: java.mqadmin(*arguments, namesrv=cluster.namesrv))


async def send_to_all(producer: Producer, topic: str) -> list[str]:
    """A message into each queue; their offset ids."""
    queues = sorted(queues_of(topic))
    return [
        (await producer.send(Message(topic, str(number).encode()), queue=queue)).offset_msg_id
        for number, queue in enumerate(queues)
    ]


def stored_offsets(cluster: Cluster, group: str, topic: str) -> list[int]:
    """How far the group is in each queue, as its broker has it."""
    answers = [
        remoting.request(
            cluster.brokers[queue.broker_name].address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            {"consumerGroup": group, "topic": topic, "queueId": str(queue.queue_id)},
        )
        for queue in queues_of(topic)
    ]
    return [int(answer.ext.get("offset", "-1")) for answer in answers]


@pytest.mark.parametrize("way", ["concurrent", "orderly", "broadcasting"])
async def test_mqadmin_sees_a_push_consumer_moves_it_back_and_gives_it_a_message(
    java: Driver, cluster: Cluster, producer: Producer, topic: str, tmp_path: Any, way: str
) -> None:
    group, journal = fresh_group(), Journal()
    consumer = PushConsumer(
        group,
        namesrv=cluster.namesrv,
        consume_from="first",
        orderly=way == "orderly",
        broadcasting=way == "broadcasting",
        offsets_directory=tmp_path,
    )
    consumer.subscribe(topic, "*", journal.handler())
    async with consumer:
        await until(lambda: set(queues_of(topic)) <= set(consumer.queues))
        ids = await send_to_all(producer, topic)
        await journal.holds(COUNT)
        report = await mqadmin(java, cluster, "consumerStatus", "-g", group, "-i", consumer.client_id, "-s", "true")
        assert f"{'PROP_CONSUMEORDERLY':<40}: {'true' if way == 'orderly' else 'false'}" in report
        assert f"{'PROP_CONSUME_TYPE':<40}: CONSUME_PASSIVELY" in report
        assert sum(line.startswith(topic) and "broker-" in line for line in report.splitlines()) >= COUNT
        assert "thread MainThread" in report, "what Java's tools show of threads"

        directly = await mqadmin(java, cluster, "queryMsgById", "-i", ids[3], "-g", group, "-d", consumer.client_id)
        assert "CR_SUCCESS" in directly
        assert f"order={'true' if way == 'orderly' else 'false'}" in directly
        assert journal.counts["3"] == 2

        # Brokers move a group where they know how far it is, so not in broadcasting. Apache's are not asked here: what
        # they send to the members is sent once, without an answer.
        if way != "broadcasting" and isinstance(cluster.last_broker, OurServer):
            await consumer.persist_offsets()
            await until(lambda: stored_offsets(cluster, group, topic) == [1] * COUNT, what="the offsets are stored")
            moved = await mqadmin(java, cluster, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
            await until(
                lambda: min(journal.counts[str(number)] for number in range(COUNT)) >= 2,
                what=f"all come again; it was said: {moved}",
            )


async def test_a_handler_that_fails_is_told_to_whoever_gave_it_the_message(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    results: list[ConsumeResult | ValueError] = [ConsumeResult.SUCCESS] * COUNT
    results += [ConsumeResult.RETRY, ValueError("not now")]

    async def handle(message: MessageView) -> ConsumeResult:
        result = results.pop(0)
        if isinstance(result, ValueError):
            raise result
        return result

    consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe(topic, "*", handle)
    async with consumer:
        ids = await send_to_all(producer, topic)
        await until(lambda: len(results) == 2)
        asked = ("queryMsgById", "-i", ids[0], "-g", group, "-d", consumer.client_id)
        assert "CR_LATER" in await mqadmin(java, cluster, *asked)
        failed = await mqadmin(java, cluster, *asked)
    assert "CR_THROW_EXCEPTION" in failed
    assert "ValueError: not now" in failed


async def test_mqadmin_sees_consumers_that_pull(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    lite_group, pull_group = fresh_group(), fresh_group()
    lite = LitePullConsumer(lite_group, namesrv=cluster.namesrv, consume_from="first")
    lite.subscribe(topic)
    pull = PullConsumer(pull_group, namesrv=cluster.namesrv, topics=[topic])
    await send_to_all(producer, topic)
    async with lite, pull:
        await until(lambda: len(lite.assigned) == len(pull.assigned(topic)) == COUNT)
        assert await lite.poll()
        await pull.commit(MessageQueue(topic, "broker-a", 0), 1)
        for group, client_id in ((lite_group, lite_client_id(lite)), (pull_group, pull_client_id(pull))):
            report = await mqadmin(java, cluster, "consumerStatus", "-g", group, "-i", client_id)
            assert f"{'PROP_CONSUME_TYPE':<40}: CONSUME_ACTIVELY" in report
            assert f"{'PROP_CLIENT_VERSION':<40}: V4_9_7" in report
            assert topic in report


def lite_client_id(consumer: LitePullConsumer) -> str:
    return consumer._started().instance.client_id


def pull_client_id(consumer: PullConsumer) -> str:
    return consumer._started().client_id


@pytest.mark.parametrize("cluster", ["ours"], indirect=True)
async def test_members_of_either_make_that_want_different_things_are_told(
    java: Driver, cluster: Cluster, topic: str
) -> None:
    group = fresh_group()

    def differences() -> list[dict[str, Any]]:
        answers = [
            remoting.request(broker.address, OwnRequestCode.GET_SUBSCRIPTION_DIFFERENCES, {"consumerGroup": group})
            for broker in cluster.brokers.values()
        ]
        return [found for answer in answers for found in json.loads(answer.body)["groups"]]

    def expressions() -> list[set[str]]:
        return [{wanted["expression"] for wanted in each["topics"][0]["filters"]} for each in differences()]

    consumer = PushConsumer(group, namesrv=cluster.namesrv)
    consumer.subscribe(topic, "A || B", lambda message: None)
    async with consumer:
        with await asyncio.to_thread(
            lambda: java.push_consumer(group, namesrv=cluster.namesrv, topic=topic, tags="B || A")
        ):
            await asyncio.sleep(0.5)
            assert differences() == [], "the order of tags is no difference"
        with await asyncio.to_thread(
            lambda: java.push_consumer(group, namesrv=cluster.namesrv, topic=topic, tags="A")
        ) as other:
            await until(lambda: expressions() == [{"A || B", "A"}] * 2, what="both brokers tell it")
            (first, _) = differences()
            assert {member["clientId"] for member in first["members"]} == {consumer.client_id, other.client_id}
            assert not first["isReported"], "it may be a deployment"
        await until(lambda: differences() == [], what="the members agree again")
