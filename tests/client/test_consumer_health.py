"""`consumer.health()`: what is known of a consumer, as values; and who is told of connections."""

from __future__ import annotations

import asyncio
import threading

import pytest

from skyrocketmq import blocking
from skyrocketmq.client.connection_changes import ConnectionChange
from skyrocketmq.client.consumer_health import ConsumerHealth
from skyrocketmq.client.flow_control import PullGate
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import ClientError
from skyrocketmq.model import Message, MessageView
from tests.client.cluster import Cluster, until


async def send(cluster: Cluster, count: int) -> None:
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        for _ in range(count):
            await producer.send(Message("T", b"body"))


async def test_a_consumer_that_is_well_says_so(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=2)
    await send(cluster, 6)
    seen: list[bytes] = []
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe("T", "*", lambda message: seen.append(message.body))
    with pytest.raises(ClientError, match="not started"):
        consumer.health()
    async with consumer:
        await until(lambda: len(seen) == 6)
        await until(lambda: consumer.health().lag == 0)
        health = consumer.health()
        assert health.is_ok
        assert health.troubles == []
        assert (health.group, health.client_id) == ("readers", consumer.client_id)
        assert health.name_servers == (cluster.namesrv,)
        assert [(broker.address, broker.is_connected) for broker in health.brokers] == [
            (cluster.brokers["broker-a"].address, True)
        ]
        queues = [one for one in health.queues if one.queue.topic == "T"]
        assert [(one.queue.queue_id, one.state, one.cached_count) for one in queues] == [
            (0, PullGate.OPEN, 0),
            (1, PullGate.OPEN, 0),
        ]
        assert sum(one.committed_offset or 0 for one in queues) == 6
        assert all(0 <= health.at_ms - one.last_pull_ms < 60_000 for one in queues)
        assert any(0 <= health.at_ms - one.last_consume_ms < 60_000 for one in queues)


async def test_a_slow_handler_shows_as_lag_and_a_full_cache(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    await send(cluster, 8)
    gate = asyncio.Event()

    async def wait(message: MessageView) -> None:
        await gate.wait()

    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", cache_count_max=2)
    consumer.subscribe("T", "*", wait)

    def queue_state(health: ConsumerHealth) -> tuple[PullGate, int | None, int, int]:
        (one,) = [one for one in health.queues if one.queue.topic == "T"]
        return one.state, one.lag, one.cached_count, one.cached_bytes

    async with consumer:
        await until(lambda: consumer.health().queues and consumer.health().queues[-1].cached_count == 8)
        health = consumer.health()
        assert queue_state(health) == (PullGate.TOO_MANY_MESSAGES, 8, 8, 32)
        assert health.is_ok, "a consumer that is throttled works as it should"
        consumer.pause()
        paused = consumer.health()
        assert paused.is_paused
        assert queue_state(paused)[0] is PullGate.PAUSED
        consumer.resume()
        gate.set()
        await until(lambda: consumer.health().lag == 0)


async def test_a_broker_that_is_gone_is_named(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    changes: list[ConnectionChange] = []
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, on_connection_change=changes.append)
    consumer.subscribe("T", "*", lambda message: None)
    address = cluster.brokers["broker-a"].address
    async with consumer:
        await until(lambda: consumer.health().is_ok and consumer.health().queues)
        assert ConnectionChange(address, is_connected=True) in changes
        await cluster.stop_broker("broker-a")
        await until(lambda: not consumer.health().is_ok)
        lost = [change for change in changes if not change.is_connected]
        assert lost[0].address == address
        assert lost[0].reason
        changes.clear()
        await cluster.start_broker("broker-a")
        await until(lambda: consumer.health().is_ok and consumer.health().queues, seconds=20)
        assert ConnectionChange(address, is_connected=True) in changes


async def test_every_kind_of_client_tells_of_connections_until_it_is_closed(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    told: dict[str, list[ConnectionChange]] = {"producer": [], "pull": [], "lite": []}

    def broken(change: ConnectionChange) -> None:
        told["producer"].append(change)
        raise ValueError("a listener of the user's")

    async with Producer("senders", namesrv=cluster.namesrv, on_connection_change=broken) as producer:
        await producer.send(Message("T", b"x"))
    async with PullConsumer("pullers", namesrv=cluster.namesrv, on_connection_change=told["pull"].append) as pulling:
        await pulling.queues("T")
    async with LitePullConsumer("lites", namesrv=cluster.namesrv, on_connection_change=told["lite"].append) as lite:
        await lite.queues("T")
    for changes in told.values():
        assert cluster.namesrv in [change.address for change in changes if change.is_connected]


async def test_the_blocking_consumer_has_its_health_too(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)

    def work() -> bool:
        consumer = blocking.PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", "*", lambda message: None)
        with consumer:
            for _ in range(1000):
                if consumer.health().is_ok:
                    return True
                threading.Event().wait(0.01)
        return False

    assert await asyncio.to_thread(work)
