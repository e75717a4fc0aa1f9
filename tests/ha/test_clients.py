"""Clients of a cluster whose master goes and comes back: consumers turn to the slave, producers to other masters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from skyrocketmq import Message, Producer, PushConsumer
from skyrocketmq.broker import Broker
from skyrocketmq.config import EMBEDDED_DEFAULTS, load_broker_config
from skyrocketmq.model import MessageView, TopicConfig
from tests.broker.support import until
from tests.client.cluster import Cluster, open_cluster

TOPIC, GROUP, QUEUES = "Orders", "billing", 2
QUICK = {"poll_name_server_interval_s": 0.5, "heartbeat_interval_s": 1.0, "persist_offsets_interval_s": 0.3}


@asynccontextmanager
async def open_slave(cluster: Cluster, directory: Path, name: str) -> AsyncIterator[Broker]:
    """A slave of a broker of the cluster; the name server tells it where its master is."""
    loaded = load_broker_config(
        None,
        environ={},
        overrides={
            "brokerName": name,
            "brokerId": "1",
            "brokerRole": "SLAVE",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": "0",
            "namesrvAddr": cluster.namesrv,
            "storePathRootDir": str(directory / f"{name}-slave"),
            **EMBEDDED_DEFAULTS,
        },
    )
    async with Broker.open(loaded) as slave:
        yield slave


def progress(broker: Broker) -> int:
    """How many messages of the topic the group has committed at a broker."""
    offsets = broker.tables.offsets
    return sum(offsets.find(group=GROUP, topic=TOPIC, queue_id=queue_id) or 0 for queue_id in range(QUEUES))


def stored(broker: Broker) -> int:
    return sum(int(broker.store.max_offset(TOPIC, queue_id)) for queue_id in range(QUEUES))


async def test_consumers_move_to_the_slave_and_back_and_producers_to_other_masters(tmp_path: Path) -> None:
    seen: Counter[bytes] = Counter()

    async def handle(message: MessageView) -> None:
        seen[message.body] += 1

    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(open_cluster(tmp_path, broker_count=2))
        for broker in cluster.brokers.values():
            broker.tables.topics.put(TopicConfig(TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        slave = await opened.enter_async_context(open_slave(cluster, tmp_path, "broker-a"))
        producer = await opened.enter_async_context(
            Producer("writers", namesrv=cluster.namesrv, **QUICK)  # type: ignore[arg-type]
        )
        sent = [b"%d" % number for number in range(200)]
        for body in sent:
            await producer.send(Message(TOPIC, body))
        master = cluster.brokers["broker-a"]
        count = stored(master)
        assert 0 < count < 200
        await until(lambda: slave.store.log.whole_offset == master.store.log.max_offset)
        await until(lambda: slave.tables.topics.find(TOPIC))

        await cluster.stop_broker("broker-a")
        consumer = PushConsumer(GROUP, namesrv=cluster.namesrv, consume_from="first", **QUICK)  # type: ignore[arg-type]
        consumer.subscribe(TOPIC, "*", handle)
        await opened.enter_async_context(consumer)
        await until(lambda: len(seen) == 200, seconds=20)

        for number in range(200, 220):  # to the only master there is
            result = await producer.send(Message(TOPIC, b"%d" % number))
            assert result.queue.broker_name == "broker-b"
            sent.append(b"%d" % number)
        await until(lambda: progress(slave) == count, seconds=20)

        master = await cluster.start_broker("broker-a")
        await until(lambda: progress(master) == count, seconds=10)
        used: set[str] = set()
        while used != {"broker-a", "broker-b"}:  # the producer finds the master again
            body = b"%d" % len(sent)
            used.add((await producer.send(Message(TOPIC, body))).queue.broker_name)
            sent.append(body)
            await asyncio.sleep(0.05)
        await until(lambda: seen.keys() == set(sent), seconds=20)
        await until(lambda: progress(master) == stored(master), seconds=20)
        assert set(seen.values()) == {1}, "nothing was read twice"
