"""What tests of jobs share: messages with numbers, and a folder in which a run dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skyrocketmq import Message, MessageView
from skyrocketmq.blocking import Producer
from skyrocketmq.spark.jobs.folder import Folder, open_folder
from skyrocketmq.testing import BlockingCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fill(cluster: BlockingCluster, topic: str, count: int, *, first: int = 0) -> None:
    """Messages with the numbers from `first` on as bodies, in turn to all queues."""
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for number in range(first, first + count):
            tags = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tags, keys=[f"k{number}"], properties={"n": str(number)}))


def send_empty(cluster: BlockingCluster, topic: str) -> None:
    """A message without a body: clients of ours refuse to make one, brokers store it."""
    message = Message(topic, b"x")
    object.__setattr__(message, "body", b"")
    with Producer("empty", namesrv=cluster.namesrv) as producer:
        producer.send(message)


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def by_queue(messages: list[MessageView]) -> dict[str, list[int]]:
    """The numbers of each queue, in its order."""
    queues: dict[str, list[int]] = {}
    for message in sorted(messages, key=lambda message: message.queue_offset):
        queues.setdefault(f"{message.queue.broker_name}:{message.queue.queue_id}", []).append(int(message.body))
    return queues


class Died(Exception):
    """The process is gone."""


class DyingFolder:
    """A folder whose run dies where it would change something for the n-th time."""

    CHANGES = ("create", "replace", "move", "delete")

    def __init__(self, folder: Folder, *, at: int) -> None:
        self._folder = folder
        self._left = at

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._folder, name)
        return self._dying(called) if name in self.CHANGES else called

    def _dying(self, called: Callable[..., None]) -> Callable[..., None]:
        def change(*arguments: Any) -> None:
            self._left -= 1
            if self._left == 0:
                raise Died
            called(*arguments)

        return change


def dying_folders(at: int) -> Callable[..., Any]:
    """In place of `open_folder`."""

    @contextmanager
    def opened(spark: SparkSession, path: str, *, control_name: str) -> Iterator[DyingFolder]:
        with open_folder(spark, path, control_name=control_name) as folder:
            yield DyingFolder(folder, at=at)

    return opened
