"""A whole cluster for a test: in this process, on free ports, gone without a trace at the end.

    async with LocalCluster() as cluster:                       # on the loop of the test
        producer = Producer("orders", namesrv=cluster.namesrv)

    with LocalCluster() as cluster:                             # on a loop of its own, in a thread
        producer = blocking.Producer("orders", namesrv=cluster.namesrv)

The brokers are those that `skyrocketmq up` starts, behind real sockets, so any client can use them, Java's too.

Rule 1: a coroutine of the cluster may be awaited on any loop: it runs on the cluster's own. So the tests of a session,
        each with a loop of its own, share one cluster.
Rule 2: time stands still only for who has the clock. With `clock=ManualClock()` the brokers have it; give it to clients
        as well (`clock=cluster.clock`, on the same loop), or a long jump looks to the brokers as if those had died.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from skyrocketmq.broker import Broker
from skyrocketmq.embedded import LOOPBACK, Embedded, EmbeddedOptions, broker_name
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.loop_thread import LoopThread
from skyrocketmq.model import MessageView, TopicConfig
from skyrocketmq.net import parse_address
from skyrocketmq.net.listeners import three_ports
from skyrocketmq.ports import Clock, Disk, SystemClock
from skyrocketmq.testing.blocking_cluster import BlockingCluster
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.cluster_progress import is_consumed, is_known, stored_messages
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from skyrocketmq.testing.kept_ports import KeptPorts
from skyrocketmq.testing.link import FaultyLink
from skyrocketmq.testing.quiet import CountedDisk, until_quiet

__all__ = ["LocalCluster"]

P = ParamSpec("P")
T = TypeVar("T")

# Of a jump over time: shorter than any of the protocol's intervals and time-outs, so that a stride that comes while a
# thread of a client's handler is just about to ask something ends no request.
STRIDE_S: Final = 2.0
BREATH_S: Final = 0.002  # real time after a jump, for the threads of handlers
LOOK_EVERY_S: Final = 0.005
# Small files for a store that lives for seconds; the largest message fits in twice over.
TEMPORARY_SIZES: Final = {"mappedFileSizeCommitLog": str(16 << 20)}


def _on_own_loop(
    method: Callable[Concatenate[LocalCluster, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[LocalCluster, P], Coroutine[Any, Any, T]]:
    """Have a coroutine run where the cluster does, whichever loop awaits it."""

    @wraps(method)
    async def called(self: LocalCluster, /, *args: P.args, **kwargs: P.kwargs) -> T:
        own = self._loop
        if own is None or own is asyncio.get_running_loop():
            return await method(self, *args, **kwargs)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(method(self, *args, **kwargs), own))

    return called


class LocalCluster:
    """A name server and brokers. `async with` runs it here; `with` gives its blocking face, `BlockingCluster`.

    | argument | default | meaning |
    |---|---|---|
    | brokers | 1 | how many, named `broker-a`, `broker-b`, ... |
    | directory | a temporary one | where they keep their data; stays afterwards if it is given |
    | settings | none | Apache's keys, for every broker |
    | clock | the machine's | a `ManualClock` to jump over delays with `advance` |
    | disk | the machine's | a `FaultyDisk` that fails, stalls and loses power |
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        directory: Path | None = None,
        settings: Mapping[str, str] | None = None,
        namesrv_settings: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.disk = disk
        self._given_directory = directory
        self._options = EmbeddedOptions(
            namesrv_port=0,
            broker_port=0,
            broker_count=brokers,
            settings={**(TEMPORARY_SIZES if directory is None else {}), **(settings or {})},
            namesrv_settings=namesrv_settings or {},
        )
        self._links = {
            name: FaultyLink(clock=clock) for name in ("namesrv", *(broker_name(index) for index in range(brokers)))
        }
        self._kept_ports = KeptPorts(LOOPBACK)
        self._opened = AsyncExitStack()
        self._disk_in_use: Disk | None = None
        self._running: Embedded | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._face: tuple[LoopThread, BlockingCluster] | None = None

    # ------------------------------------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """What `async with` does at its beginning."""
        if self._running is not None:
            raise IllegalArgument("the cluster is started already")
        self._loop = asyncio.get_running_loop()
        try:
            self._running = await self._open(self._directory(), self._options)
        except BaseException:
            await self.close()
            raise

    def _directory(self) -> Path:
        if isinstance(self.disk, FaultyDisk):
            directory = self._given_directory or Path("/cluster")  # on a disk in memory any will do
            self.disk.make_directories(directory)
            for made in (directory, *directory.parents):
                self.disk.sync_directory(made)
            return directory
        if self._given_directory is not None:
            return self._given_directory
        return Path(self._opened.enter_context(TemporaryDirectory(prefix="skyrocketmq-", ignore_cleanup_errors=True)))

    async def _open(self, directory: Path, options: EmbeddedOptions) -> Embedded:
        disk = self.disk
        if disk is None:
            disk = CountedDisk()
            self._opened.callback(disk.close)
        self._disk_in_use = disk
        return await self._opened.enter_async_context(
            Embedded.open(
                directory,
                options,
                clock=self.clock,
                disk=disk,
                link=self._links["namesrv"],
                links=self._links.__getitem__,
            )
        )

    async def close(self) -> None:
        """What `async with` does at its end. Closing twice is harmless."""
        self._running = self._loop = None
        self._kept_ports.close()
        await self._opened.aclose()

    async def __aenter__(self) -> LocalCluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> BlockingCluster:
        thread = LoopThread()
        try:
            thread.run(self.start())
        except BaseException:
            thread.stop()
            raise
        self._face = (thread, BlockingCluster(self, thread))
        return self._face[1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._face is not None, "left without having been entered"
        (thread, face), self._face = self._face, None
        face.ended()
        try:
            thread.run(self.close())
        finally:
            thread.stop()

    # ---------------------------------------------------------------------------------------------------- what is there

    @property
    def embedded(self) -> Embedded:
        """The servers themselves, for who wants to look inside; on the cluster's loop."""
        if self._running is None:
            raise IllegalArgument("the cluster is not started: use it inside 'async with' or 'with'")
        return self._running

    @property
    def namesrv(self) -> str:
        """The address that clients are given."""
        return self.embedded.namesrv_address

    @property
    def brokers(self) -> dict[str, Broker]:
        """The brokers that run now, by name."""
        return {broker.identity.broker_name: broker for broker in self.embedded.brokers}

    @property
    def _stopped_names(self) -> list[str]:
        return sorted(self._links.keys() - {"namesrv"} - self.brokers.keys())

    @property
    def _stopped_text(self) -> str:
        return f"{' and '.join(self._stopped_names)} {'is' if len(self._stopped_names) == 1 else 'are'} stopped"

    @_on_own_loop
    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Have a topic on every broker; its route is known when this returns. `IllegalArgument` if one is stopped."""
        if self._stopped_names:
            raise IllegalArgument(
                f"topic {topic} cannot be made on every broker, for {self._stopped_text}: start_broker first"
            )
        names = set(self.brokers)
        for broker in self.embedded.brokers:
            broker.tables.topics.put(TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues))
        tables = self.embedded.name_server.tables

        async def is_known() -> bool:
            route = tables.find_route(topic)
            return route is not None and {data.broker_name for data in route.queue_datas} >= names

        await _until(is_known, timeout_s=10.0, what=f"the name server to know topic {topic}")

    @_on_own_loop
    async def messages(self, topic: str, *, count: int = 0, timeout_s: float = 10.0) -> list[MessageView]:
        """What is stored of a topic, in the order of storing; waits until there are `count` of them.

        Of the brokers that run: what is on one that is stopped is there again when it is. None running is an error.
        """
        self._refuse_all_stopped()
        found: list[MessageView] = []

        async def are_enough() -> bool:
            found[:] = await stored_messages(self.embedded.brokers, topic)
            return len(found) >= count

        def what() -> str:
            stopped = f", and {self._stopped_text}" if self._stopped_names else ""
            return f"{count} messages of {topic}; {len(found)} came{stopped}"

        await _until(are_enough, timeout_s=timeout_s, what=what)
        return found

    def _refuse_all_stopped(self) -> None:
        if not self.embedded.brokers:
            raise IllegalArgument(f"no broker can be asked, for {self._stopped_text}: start_broker first")

    @_on_own_loop
    async def wait_consumed(self, group: str, topic: str, *, timeout_s: float = 10.0) -> None:
        """Wait until a group has consumed all that is stored of a topic. A message that was handed back to be tried
        again counts: what waits for its next attempt is in the topic `%RETRY%` + group. Each member of a group that
        broadcasts must be through. Raises `IllegalArgument` for a topic that no broker has."""
        self._refuse_all_stopped()
        if not any(is_known(broker, topic) for broker in self.embedded.brokers):
            raise IllegalArgument(f"no running broker has topic {topic}: create_topic, or send to it, before waiting")

        async def is_done() -> bool:
            return await is_consumed(self.embedded.brokers, group=group, topic=topic)

        await _until(is_done, timeout_s=timeout_s, what=f"group {group} to consume all of {topic}")

    # ------------------------------------------------------------------------------------------------------------- time

    @_on_own_loop
    async def advance(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Jump over time: what falls due on the way happens, and has happened when this returns."""
        clock = self.clock
        if not isinstance(clock, ManualClock):
            raise IllegalArgument("the cluster's time is the machine's: make it with LocalCluster(clock=ManualClock())")
        left_s = timedelta(hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        while left_s > 0:
            stride_s = min(left_s, STRIDE_S)
            await until_quiet(clock, self._links.values(), self._disk_in_use)
            await clock.skip(stride_s)
            left_s -= stride_s
        for _ in range(10):  # a delivery that was begun reads, writes and wakes those who wait
            await until_quiet(clock, self._links.values(), self._disk_in_use)
            await asyncio.sleep(BREATH_S)

    # ----------------------------------------------------------------------------------------------------------- faults

    @_on_own_loop
    async def stop_broker(self, name: str = "broker-a") -> None:
        """Stop a broker as a signal would. Its ports are kept for it."""
        broker = self.brokers.get(name)
        await self.embedded.stop_broker(name)
        if broker is not None:
            self._kept_ports.keep(name, three_ports(parse_address(broker.address).port))

    @_on_own_loop
    async def start_broker(self, name: str = "broker-a") -> None:
        """Start a broker that was stopped: on its port, with its data."""
        await self.embedded.start_broker(name)
        self._kept_ports.let_go(name)

    @_on_own_loop
    async def restart_broker(self, name: str = "broker-a", *, down_s: float = 0.0) -> None:
        """Stop a broker and start it again, after so many seconds of real time."""
        await self.stop_broker(name)
        await asyncio.sleep(down_s)
        await self.start_broker(name)

    def link(self, name: str = "broker-a") -> FaultyLink:
        """The network of one broker, or of `namesrv`: to be stalled, delayed or cut; on the cluster's loop."""
        if name not in self._links:
            raise IllegalArgument(f"{name!r} is not here: there are {', '.join(sorted(self._links))}")
        return self._links[name]

    @_on_own_loop
    async def cut(self, name: str = "broker-a") -> None:
        """Break every connection of a broker, or of `namesrv`; clients may connect again at once."""
        self.link(name).cut()

    @_on_own_loop
    async def lose_power(self, *, seed: int | None = None, keep: bool = False) -> None:
        """Everything stops where it is, and is started again on what a power cut has left on the `FaultyDisk`: `disk`
        is another one then. The name server has its old port, brokers have new ones.

        What was not synced is chosen by `seed`; without one all of it is lost, or with `keep` (a kill, not a power cut)
        all of it is there.
        """
        if not isinstance(self.disk, FaultyDisk):
            raise IllegalArgument("only a disk in memory can lose power: make it with LocalCluster(disk=FaultyDisk())")
        options = replace(self._options, namesrv_port=self.embedded.name_server.port)
        self.disk.cut_power()
        try:
            await self._opened.aclose()
        except (PowerLost, Exception):
            pass  # what servers say when they cannot write any more
        self.disk = self.disk.after_power_loss(seed, keep=keep)
        self._running = await self._open(self._directory(), options)


async def _until(condition: Callable[[], Awaitable[bool]], *, timeout_s: float, what: str | Callable[[], str]) -> None:
    """Wait, in real time, for what the network or another task brings about."""
    deadline = time.monotonic() + timeout_s
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what if isinstance(what, str) else what()}")
        await asyncio.sleep(LOOK_EVERY_S)
