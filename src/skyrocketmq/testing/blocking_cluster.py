"""The cluster for tests that block: the same as `LocalCluster`, without `await`.

    with LocalCluster() as cluster:
        cluster.create_topic("orders")

The cluster runs on the loop of a thread of its own. `cluster.awaitable` is the same cluster for tests that are
coroutines: what it offers is awaited, on whichever loop the test has.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.loop_thread import LoopThread
from skyrocketmq.model import MessageView

if TYPE_CHECKING:
    from skyrocketmq.testing.cluster import LocalCluster

__all__ = ["BlockingCluster"]

T = TypeVar("T")


class BlockingCluster:
    """A running cluster. Made by `with LocalCluster()`, which also ends it. May be used from any thread."""

    def __init__(self, cluster: LocalCluster, thread: LoopThread) -> None:
        self.awaitable = cluster
        self._thread: LoopThread | None = thread

    def ended(self) -> None:
        """Told at the end of `with`: its loop is there no more."""
        self._thread = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise IllegalArgument("the cluster has ended with its 'with' block: use it inside, or begin another one")
        return self._thread.run(work)

    @property
    def namesrv(self) -> str:
        """The address that clients are given."""
        return self.awaitable.namesrv

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Have a topic on every broker; its route is known when this returns."""
        self._run(self.awaitable.create_topic(topic, queues=queues))

    def messages(self, topic: str, *, count: int = 0, timeout_s: float = 10.0) -> list[MessageView]:
        """What is stored of a topic, in the order of storing; waits until there are `count` of them."""
        return self._run(self.awaitable.messages(topic, count=count, timeout_s=timeout_s))

    def wait_consumed(self, group: str, topic: str, *, timeout_s: float = 10.0) -> None:
        """Wait until a group has consumed all that is stored of a topic."""
        self._run(self.awaitable.wait_consumed(group, topic, timeout_s=timeout_s))

    def advance(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Jump over time: what falls due on the way happens, and has happened when this returns."""
        self._run(self.awaitable.advance(hours=hours, minutes=minutes, seconds=seconds))

    def stop_broker(self, name: str = "broker-a") -> None:
        """Stop a broker as a signal would."""
        self._run(self.awaitable.stop_broker(name))

    def start_broker(self, name: str = "broker-a") -> None:
        """Start a broker that was stopped: on its port, with its data."""
        self._run(self.awaitable.start_broker(name))

    def restart_broker(self, name: str = "broker-a", *, down_s: float = 0.0) -> None:
        """Stop a broker and start it again, after so many seconds."""
        self._run(self.awaitable.restart_broker(name, down_s=down_s))

    def cut(self, name: str = "broker-a") -> None:
        """Break every connection of a broker, or of `namesrv`; clients may connect again at once."""
        self._run(self.awaitable.cut(name))

    def lose_power(self, *, seed: int | None = None, keep: bool = False) -> None:
        """Everything stops where it is, and is started again on what a power cut has left on the `FaultyDisk`."""
        self._run(self.awaitable.lose_power(seed=seed, keep=keep))
