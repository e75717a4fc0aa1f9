"""`Admin` for code that blocks: the same members, methods, arguments and values, without `await`.

    from skyrocketmq.blocking import Admin

    with Admin(namesrv="localhost:9876") as admin:
        admin.topics.create("orders", queues=8)

Each method here is its asyncio namesake, run on the loop of the background thread; a type checker sees the same
arguments.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from skyrocketmq.admin.accounts import AccountAdmin
from skyrocketmq.admin.admin import Admin as AsyncAdmin
from skyrocketmq.admin.brokers import BrokerAdmin
from skyrocketmq.admin.cluster import ClusterAdmin
from skyrocketmq.admin.dead_letters import DeadLetterAdmin
from skyrocketmq.admin.groups import GroupAdmin
from skyrocketmq.admin.messages import MessageAdmin
from skyrocketmq.admin.name_servers import KeyValueAdmin, NameServerAdmin
from skyrocketmq.admin.offsets import OffsetAdmin
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.admin.traffic import TrafficAdmin
from skyrocketmq.blocking.face import Face, same_arguments
from skyrocketmq.loop_thread import LoopThread

__all__ = ["Admin"]

P = ParamSpec("P")
Part = TypeVar("Part")
Value = TypeVar("Value")


class _Member(Generic[Part]):
    """One member of an `Admin`: `running` gives the thread that it runs on, and the asyncio `Admin`."""

    def __init__(
        self, running: Callable[[], tuple[LoopThread, AsyncAdmin]], find: Callable[[AsyncAdmin], Part]
    ) -> None:
        self._running = running
        self._find = find

    def _part(self) -> tuple[LoopThread, Part]:
        thread, admin = self._running()
        return thread, self._find(admin)


def _blocking(
    method: Callable[Concatenate[Part, P], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate[_Member[Part], P], Value]:
    @functools.wraps(method)
    def call(self: _Member[Part], /, *args: P.args, **kwargs: P.kwargs) -> Value:
        thread, part = self._part()
        return thread.run(method(part, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[Part, P], AsyncIterator[Value]],
) -> Callable[Concatenate[_Member[Part], P], Iterator[Value]]:
    """What is fetched step by step is so here too: one pull at a time, however long the queue."""

    @functools.wraps(method)
    def call(self: _Member[Part], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Value]:
        thread, part = self._part()
        values = method(part, *args, **kwargs)
        while True:
            try:
                value = thread.run(_next(values))
            except StopAsyncIteration:
                return
            yield value

    return call


async def _next(values: AsyncIterator[Value]) -> Value:
    return await anext(values)


class Cluster(_Member[ClusterAdmin]):
    """`admin.cluster`."""

    nodes = _blocking(ClusterAdmin.nodes)
    clusters = _blocking(ClusterAdmin.clusters)
    overview = _blocking(ClusterAdmin.overview)
    wipe_write_permission = _blocking(ClusterAdmin.wipe_write_permission)
    add_write_permission = _blocking(ClusterAdmin.add_write_permission)


class Brokers(_Member[BrokerAdmin]):
    """`admin.brokers`."""

    runtime = _blocking(BrokerAdmin.runtime)
    replicas = _blocking(BrokerAdmin.replicas)
    config = _blocking(BrokerAdmin.config)
    statistic = _blocking(BrokerAdmin.statistic)
    producers = _blocking(BrokerAdmin.producers)
    update_config = _blocking(BrokerAdmin.update_config)
    clean_expired_queues = _blocking(BrokerAdmin.clean_expired_queues)
    clean_unused_topics = _blocking(BrokerAdmin.clean_unused_topics)
    delete_expired_log_files = _blocking(BrokerAdmin.delete_expired_log_files)


class NameServers(_Member[NameServerAdmin]):
    """`admin.name_servers`."""

    config = _blocking(NameServerAdmin.config)
    update_config = _blocking(NameServerAdmin.update_config)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers that are asked."""
        return self._part()[1].addresses


class KeyValues(_Member[KeyValueAdmin]):
    """`admin.key_values`."""

    get = _blocking(KeyValueAdmin.get)
    find = _blocking(KeyValueAdmin.find)
    all = _blocking(KeyValueAdmin.all)
    put = _blocking(KeyValueAdmin.put)
    delete = _blocking(KeyValueAdmin.delete)


class Topics(_Member[TopicAdmin]):
    """`admin.topics`."""

    names = _blocking(TopicAdmin.names)
    system_names = _blocking(TopicAdmin.system_names)
    route = _blocking(TopicAdmin.route)
    queues = _blocking(TopicAdmin.queues)
    clusters = _blocking(TopicAdmin.clusters)
    stats = _blocking(TopicAdmin.stats)
    configs = _blocking(TopicAdmin.configs)
    groups = _blocking(TopicAdmin.groups)
    uses = _blocking(TopicAdmin.uses)
    allocation = _blocking(TopicAdmin.allocation)
    create = _blocking(TopicAdmin.create)
    update = _blocking(TopicAdmin.update)
    delete = _blocking(TopicAdmin.delete)
    order = _blocking(TopicAdmin.order)
    set_order = _blocking(TopicAdmin.set_order)
    delete_order = _blocking(TopicAdmin.delete_order)


class Groups(_Member[GroupAdmin]):
    """`admin.groups`."""

    names = _blocking(GroupAdmin.names)
    create = _blocking(GroupAdmin.create)
    update = _blocking(GroupAdmin.update)
    delete = _blocking(GroupAdmin.delete)
    progress = _blocking(GroupAdmin.progress)
    summaries = _blocking(GroupAdmin.summaries)
    summary = _blocking(GroupAdmin.summary)
    progress_on_broker = _blocking(GroupAdmin.progress_on_broker)
    time_spans = _blocking(GroupAdmin.time_spans)
    nodes = _blocking(GroupAdmin.nodes)
    configs = _blocking(GroupAdmin.configs)
    config = _blocking(GroupAdmin.config)
    connections = _blocking(GroupAdmin.connections)
    subscriptions = _blocking(GroupAdmin.subscriptions)
    producers = _blocking(GroupAdmin.producers)
    running_info = _blocking(GroupAdmin.running_info)
    member_offsets = _blocking(GroupAdmin.member_offsets)
    diagnose = _blocking(GroupAdmin.diagnose)


class Offsets(_Member[OffsetAdmin]):
    """`admin.offsets`."""

    earliest = _blocking(OffsetAdmin.earliest)
    latest = _blocking(OffsetAdmin.latest)
    at = _blocking(OffsetAdmin.at)
    committed = _blocking(OffsetAdmin.committed)
    reset = _blocking(OffsetAdmin.reset)
    set = _blocking(OffsetAdmin.set)
    clone = _blocking(OffsetAdmin.clone)


class Messages(_Member[MessageAdmin]):
    """`admin.messages`."""

    get = _blocking(MessageAdmin.get)
    by_offset_id = _blocking(MessageAdmin.by_offset_id)
    by_unique_id = _blocking(MessageAdmin.by_unique_id)
    by_key = _blocking(MessageAdmin.by_key)
    at = _blocking(MessageAdmin.at)
    scan = _iterating(MessageAdmin.scan)
    queue_entries = _blocking(MessageAdmin.queue_entries)
    trace = _blocking(MessageAdmin.trace)
    tracks = _blocking(MessageAdmin.tracks)
    consume_directly = _blocking(MessageAdmin.consume_directly)
    send = _blocking(MessageAdmin.send)
    probe = _blocking(MessageAdmin.probe)
    resume_check = _blocking(MessageAdmin.resume_check)


class DeadLetters(_Member[DeadLetterAdmin]):
    """`admin.dead_letters`."""

    groups = _blocking(DeadLetterAdmin.groups)
    scan = _iterating(DeadLetterAdmin.scan)
    resend = _blocking(DeadLetterAdmin.resend)


class Accounts(_Member[AccountAdmin]):
    """`admin.accounts`."""

    rules = _blocking(AccountAdmin.rules)
    versions = _blocking(AccountAdmin.versions)
    put = _blocking(AccountAdmin.put)
    delete = _blocking(AccountAdmin.delete)
    set_white_addresses = _blocking(AccountAdmin.set_white_addresses)


class Traffic(_Member[TrafficAdmin]):
    """`admin.traffic`."""

    all = _blocking(TrafficAdmin.all)
    of = _blocking(TrafficAdmin.of)


class Admin(Face[AsyncAdmin]):
    """Administers a cluster; see `admin.Admin` for the arguments, and for what its members can do."""

    @same_arguments(AsyncAdmin)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncAdmin(*args, **options))
        self.cluster = Cluster(self._started, lambda admin: admin.cluster)
        self.brokers = Brokers(self._started, lambda admin: admin.brokers)
        self.name_servers = NameServers(self._started, lambda admin: admin.name_servers)
        self.key_values = KeyValues(self._started, lambda admin: admin.key_values)
        self.topics = Topics(self._started, lambda admin: admin.topics)
        self.groups = Groups(self._started, lambda admin: admin.groups)
        self.offsets = Offsets(self._started, lambda admin: admin.offsets)
        self.messages = Messages(self._started, lambda admin: admin.messages)
        self.dead_letters = DeadLetters(self._started, lambda admin: admin.dead_letters)
        self.accounts = Accounts(self._started, lambda admin: admin.accounts)
        self.traffic = Traffic(self._started, lambda admin: admin.traffic)

    def _started(self) -> tuple[LoopThread, AsyncAdmin]:
        return self._running(), self._client
