"""The clients for code that blocks: the same classes, arguments and results, without `await`.

    from skyrocketmq.blocking import Producer

    with Producer("orders", namesrv="localhost:9876") as producer:
        result = producer.send(Message("TopicTest", b"hello"))

Each is a thin face: the asyncio client runs on a loop in a background thread (`loop_thread`). They may be used from any
thread. In a process made by fork (gunicorn, multiprocessing) a client that the parent has started is started anew with
its first use. Handlers of a push consumer are best plain functions: they run in threads, and may block.

`face` has what all of them do; `producers` with `window`, `consumers` and `admin` what each does.
"""

from __future__ import annotations

from skyrocketmq.blocking.admin import Admin
from skyrocketmq.blocking.consumers import LitePullConsumer, PullConsumer, PushConsumer
from skyrocketmq.blocking.producers import Producer, TransactionProducer

__all__ = ["Admin", "LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
