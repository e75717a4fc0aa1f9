"""Clients with equal settings share connections and routes; the last one leaves nothing."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.client import sharing
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.settings import Credentials
from skyrocketmq.client.uninterrupted import uninterrupted
from skyrocketmq.errors import ClientError, IllegalArgument
from skyrocketmq.model import Message
from tests.client.cluster import Cluster


class TestWhoShares:
    async def test_clients_with_equal_settings_have_one_id_and_one_connection(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        connections = cluster.brokers["broker-a"].tables.producers
        async with (
            Producer("one", namesrv=cluster.namesrv) as one,
            Producer("two", namesrv=cluster.namesrv) as two,
        ):
            assert one.client_id == two.client_id
            for producer in (one, two):
                await producer.send(Message("T", b"x"))
            assert one._instance is two._instance
            assert one._instance is not None
            await one._instance.heartbeats.send()
            assert {"one", "two"} <= set(connections.groups())
        assert sharing._instances == {}

    async def test_the_second_goes_on_when_the_first_is_closed(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        first = Producer("one", namesrv=cluster.namesrv)
        await first.start()
        async with Producer("two", namesrv=cluster.namesrv) as second:
            await first.close()
            await second.send(Message("T", b"x"))

    async def test_other_settings_mean_another_client(self, cluster: Cluster) -> None:
        credentials = Credentials("rocketmq2", "12345678")
        async with (
            Producer("one", namesrv=cluster.namesrv) as plain,
            Producer("one", namesrv=cluster.namesrv, credentials=credentials) as signed,
            Producer("one", namesrv=cluster.namesrv, unit_name="unit") as unit,
            Producer("one", namesrv=cluster.namesrv, instance_name="mine") as named,
        ):
            ids = {producer.client_id for producer in (plain, signed, unit, named)}
            assert len(ids) == 4
            assert unit.client_id.endswith("@unit")
            assert named.client_id.endswith("@mine")

    async def test_a_group_that_is_there_twice_gets_two_ids(self, cluster: Cluster) -> None:
        async with (
            Producer("one", namesrv=cluster.namesrv) as first,
            Producer("one", namesrv=cluster.namesrv) as second,
        ):
            assert first.client_id != second.client_id

    async def test_a_group_that_is_there_twice_under_one_name_is_refused(self, cluster: Cluster) -> None:
        async with Producer("one", namesrv=cluster.namesrv, instance_name="mine"):
            with pytest.raises(IllegalArgument, match="another instance_name"):
                await Producer("one", namesrv=cluster.namesrv, instance_name="mine").start()
        assert sharing._instances == {}

    async def test_a_client_is_started_once(self, cluster: Cluster) -> None:
        async with Producer("one", namesrv=cluster.namesrv) as producer:
            with pytest.raises(ClientError, match="started already"):
                await producer.start()

    async def test_a_client_may_be_started_again_after_its_end(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        producer = Producer("one", namesrv=cluster.namesrv)
        for _ in range(2):
            async with producer:
                await producer.send(Message("T", b"x"))


class TestClosing:
    async def test_a_cancelled_close_is_finished_all_the_same(self, cluster: Cluster) -> None:
        cluster.create_topic("T")
        producer = Producer("one", namesrv=cluster.namesrv)
        await producer.start()
        await producer.send(Message("T", b"x"))
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert sharing._instances == {}

    async def test_work_that_must_not_be_interrupted_ends_before_the_cancellation_counts(self) -> None:
        steps: list[str] = []

        async def work() -> str:
            await asyncio.sleep(0.01)
            steps.append("done")
            return "result"

        assert await uninterrupted(asyncio.create_task(work())) == "result"
        task = asyncio.create_task(uninterrupted(asyncio.create_task(work())))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["done", "done"]
