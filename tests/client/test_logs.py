"""What the client and the servers write to the log: never the body of a message, whatever goes wrong."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import MQError
from skyrocketmq.model import Message, MessageView
from skyrocketmq.testing import LocalCluster
from tests.client.cluster import until

SECRET = b"what-nobody-else-may-read-4711"


class Everything(logging.Handler):
    """Keeps all that a record holds: text, fields and traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self.lines.append(f"{record.getMessage()} {record.__dict__} {trace}")

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)


@pytest.fixture
def log() -> Iterator[Everything]:
    handler, root = Everything(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


async def test_no_body_is_ever_in_the_log(log: Everything) -> None:
    async with LocalCluster(settings={"messageDelayLevel": "1s 1s 1s 1s"}) as cluster:
        await cluster.create_topic("T", queues=1)
        attempts: list[int] = []

        def fail(message: MessageView) -> ConsumeResult:
            attempts.append(message.reconsume_times)
            if len(attempts) % 2:
                raise ValueError("as the test wants it")
            return ConsumeResult.RETRY

        consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", retry_count_max=1)
        consumer.subscribe("T", "*", fail)
        async with (
            Producer("senders", namesrv=cluster.namesrv, message_bytes_max=1000, send_timeout_s=0.5) as producer,
            consumer,
        ):
            await producer.send(Message("T", SECRET))
            await producer.send_batch([Message("T", SECRET), Message("T", SECRET)])
            await producer.send_oneway(Message("T", SECRET))
            with pytest.raises(MQError) as too_large:
                await producer.send(Message("T", SECRET * 100))
            await until(lambda: len(attempts) >= 5)
            await cluster.cut()
            await cluster.stop_broker()
            with pytest.raises(MQError) as unsent:
                await producer.send(Message("T", SECRET))
            await cluster.start_broker()
            await until(lambda: len(attempts) >= 8, seconds=20)
    assert log.said("handler failed")
    assert log.said("broker started")
    for form in (SECRET.decode(), SECRET.hex(), SECRET.hex().upper()):
        assert [line for line in log.lines if form in line] == []
        assert form not in f"{too_large.value!r} {unsent.value!r} {too_large.value} {unsent.value}"
