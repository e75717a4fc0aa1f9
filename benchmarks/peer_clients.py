"""The Python clients that are compared, each used in the quickest way it has that acknowledges.

| client | produces: 1,000 messages under way | consumes and acknowledges |
|---|---|---|
| ours | 1,000 tasks, each awaits `send`; `auto_batch` | `LitePullConsumer`: `poll`, and `commit` for every 1,000 |
| ours, plain | the same without `auto_batch` | `PushConsumer`: a handler's return acknowledges a message |
| aiokafka | `send` gives futures, the oldest of 1,000 is awaited | `getmany` of up to 1,000, then `commit` |
| nats-py | `publish_async` gives futures, 1,000 at most | `fetch` of 500; the last one's `ack_sync` is for all |
| redis-py | 4 pipelines of 250 `XADD` | a pipeline: `XACK` of the last 1,000, `XREADGROUP` of the next |

Rule 1: a message counts once the server has acknowledged it to the producer, or the consumer's acknowledgement has been
        answered by the server; with a push consumer, once its handler has returned.
Rule 2: what is measured is the client of a process with one event loop, uvloop's.
Rule 3: packages of the others are imported where they are used: a program has one of them.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from skyrocketmq import LitePullConsumer, Message, MessageView, Producer, PushConsumer

__all__ = ["CLIENTS", "IN_FLIGHT", "Client", "Tally"]

IN_FLIGHT: Final = 1_000
BATCH: Final = 1_000  # messages of one acknowledgement
PULL_BATCH: Final = 512  # of one queue of ours
NATS_BATCH: Final = 500
REDIS_PIPELINES: Final = 4
POLL_TIMEOUT_S: Final = 10.0

now_ns = time.perf_counter_ns


class Tally:
    """What was acknowledged so far, and whether to go on."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_over = False


class Client(ABC):
    """One client at one server, with one topic."""

    def __init__(self, address: str, topic: str) -> None:
        self.address = address
        self.topic = topic

    @abstractmethod
    async def create(self) -> None:
        """Make the topic."""

    @abstractmethod
    async def produce(self, body: bytes, tally: Tally) -> None:
        """Keep messages under way until the tally is over, then wait for the rest."""

    @abstractmethod
    async def consume(self, group: str, count: int) -> int:
        """The first so many messages, for a new group; nanoseconds from the first until all are acknowledged."""


class Ours(Client):
    auto_batch = True

    async def create(self) -> None:
        async with Producer("makers", namesrv=self.address) as producer:  # made by its first message
            await producer.send(Message(self.topic, b"first"))

    async def produce(self, body: bytes, tally: Tally) -> None:
        topic = self.topic

        async def send_on_and_on(producer: Producer) -> None:
            while not tally.is_over:
                await producer.send(Message(topic, body))
                tally.sent += 1

        batching = self.auto_batch
        async with (
            Producer("producers", namesrv=self.address, auto_batch=batching) as producer,
            asyncio.TaskGroup() as senders,
        ):
            for _ in range(IN_FLIGHT):
                senders.create_task(send_on_and_on(producer))

    async def consume(self, group: str, count: int) -> int:
        start = consumed = uncommitted = 0
        consumer = LitePullConsumer(
            group, namesrv=self.address, consume_from="first", auto_commit=False, pull_batch_size=BATCH
        )
        consumer.subscribe(self.topic)
        async with consumer:
            while consumed < count:
                messages = await consumer.poll()
                start = start or now_ns()
                consumed += len(messages)
                uncommitted += len(messages)
                if uncommitted >= BATCH or consumed >= count:
                    await consumer.commit()
                    uncommitted = 0
            return now_ns() - start


class OursPlain(Ours):
    """Every message is a request of its own, and consumed by a call of its own."""

    auto_batch = False

    async def consume(self, group: str, count: int) -> int:
        start = last = 0
        left = count
        done = asyncio.Event()

        async def handle(message: MessageView) -> None:
            nonlocal start, last, left
            start = start or now_ns()
            left -= 1
            if not left:
                last = now_ns()
                done.set()

        consumer = PushConsumer(group, namesrv=self.address, consume_from="first")
        consumer.subscribe(self.topic, "*", handle)
        async with consumer:
            await done.wait()
        return last - start


class Kafka(Client):
    async def create(self) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin: Any = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(self.topic, num_partitions=1, replication_factor=1)])
        finally:
            await admin.close()

    async def produce(self, body: bytes, tally: Tally) -> None:
        from aiokafka import AIOKafkaProducer

        under_way: deque[Any] = deque()
        producer: Any = AIOKafkaProducer(bootstrap_servers=self.address, acks="all", max_batch_size=1 << 20)
        async with producer:
            while not tally.is_over:
                under_way.append(await producer.send(self.topic, body))
                if len(under_way) >= IN_FLIGHT:
                    await under_way.popleft()
                    tally.sent += 1
            for acknowledged in under_way:
                await acknowledged

    async def consume(self, group: str, count: int) -> int:
        from aiokafka import AIOKafkaConsumer

        start = consumed = 0
        consumer: Any = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer:
            while consumed < count:
                batches = await consumer.getmany(timeout_ms=round(POLL_TIMEOUT_S * 1000), max_records=BATCH)
                start = start or now_ns()
                consumed += sum(len(messages) for messages in batches.values())
                await consumer.commit()
            return now_ns() - start


class Nats(Client):
    async def create(self) -> None:
        import nats

        connection: Any = await nats.connect(f"nats://{self.address}")
        async with connection:
            await connection.jetstream().add_stream(name=self.topic, subjects=[self.topic])  # in files: the default

    async def produce(self, body: bytes, tally: Tally) -> None:
        import nats

        def acknowledged(future: Any) -> None:
            future.result()
            tally.sent += 1

        connection: Any = await nats.connect(f"nats://{self.address}")
        async with connection:
            stream = connection.jetstream(publish_async_max_pending=IN_FLIGHT)
            while not tally.is_over:
                (await stream.publish_async(self.topic, body)).add_done_callback(acknowledged)
            await stream.publish_async_completed()

    async def consume(self, group: str, count: int) -> int:
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig

        start = consumed = 0
        connection: Any = await nats.connect(f"nats://{self.address}")
        async with connection:
            config = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=10 * NATS_BATCH)
            subscription = await connection.jetstream().pull_subscribe(self.topic, durable=group, config=config)
            while consumed < count:
                messages = await subscription.fetch(NATS_BATCH, timeout=POLL_TIMEOUT_S)
                start = start or now_ns()
                consumed += len(messages)
                await messages[-1].ack_sync()
            return now_ns() - start


class Redis(Client):
    def _connect(self) -> Any:
        import redis.asyncio

        host, _, port = self.address.rpartition(":")
        return redis.asyncio.Redis(host=host, port=int(port))

    async def create(self) -> None:
        """A stream is there with its first message."""

    async def produce(self, body: bytes, tally: Tally) -> None:
        count = IN_FLIGHT // REDIS_PIPELINES
        fields = {"body": body}

        async def send_on_and_on(client: Any) -> None:
            while not tally.is_over:
                async with client.pipeline(transaction=False) as pipeline:
                    for _ in range(count):
                        pipeline.xadd(self.topic, fields)
                    await pipeline.execute()
                tally.sent += count

        async with self._connect() as client, asyncio.TaskGroup() as senders:
            for _ in range(REDIS_PIPELINES):
                senders.create_task(send_on_and_on(client))

    async def consume(self, group: str, count: int) -> int:
        start = consumed = 0
        async with self._connect() as client:
            await client.xgroup_create(self.topic, group, id="0")
            numbers: list[bytes] = []
            while True:
                async with client.pipeline(transaction=False) as pipeline:
                    if numbers:
                        pipeline.xack(self.topic, group, *numbers)
                    pipeline.xreadgroup(group, "reader", {self.topic: ">"}, count=BATCH)
                    answers = await pipeline.execute()
                if consumed >= count:
                    return now_ns() - start
                start = start or now_ns()
                [(_, messages)] = answers[-1]
                numbers = [number for number, _ in messages]
                consumed += len(numbers)


CLIENTS: Final[Mapping[str, Callable[[str, str], Client]]] = {
    "ours": Ours,
    "ours-plain": OursPlain,
    "kafka": Kafka,
    "nats": Nats,
    "redis": Redis,
}
