"""Administration of a cluster, ours or Apache's.

    async with Admin(namesrv="localhost:9876") as admin:
        await admin.topics.create("orders", queues=8)
        for queue in (await admin.topics.stats("orders")).queues:
            print(queue.queue, queue.message_count)

What can be asked and done is grouped by what it is about; `Admin` has one member for each group. Everything that comes
back is a frozen value. Names are those on the wire: a topic T of a namespace is `namespace%T`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, Unpack

from skyrocketmq.admin.accounts import AccountAdmin
from skyrocketmq.admin.brokers import BrokerAdmin
from skyrocketmq.admin.cluster import ClusterAdmin
from skyrocketmq.admin.dead_letters import DeadLetterAdmin
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.groups import GroupAdmin
from skyrocketmq.admin.messages import MessageAdmin
from skyrocketmq.admin.name_servers import KeyValueAdmin, NameServerAdmin
from skyrocketmq.admin.offsets import OffsetAdmin
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.admin.traffic import TrafficAdmin
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.life import ClientLife
from skyrocketmq.client.settings import Doors, SharedOptions, settings_from
from skyrocketmq.errors import IllegalArgument

__all__ = ["Admin"]

ADMIN_GROUP: Final = "admin_ext_group"  # under which Apache's tools run


class Admin(ClientLife):
    """Use it as `async with`, or call `start` and `close`; from one event loop only.

    | argument | default | meaning |
    |---|---|---|
    | namesrv | `NAMESRV_ADDR`, else an address server | `host:port`, several with `;` between or as a list |
    | timeout_s | 5 | one request; three times as long for what a broker works long for |

    and those of `SharedOptions`. Raises `NotFound` or `NoRoute` for what does not exist, the `BrokerError` of a
    refusal, a `NetError` for trouble on the way, and `PartialFailure` where some of several servers have failed.
    """

    def __init__(
        self,
        *,
        namesrv: str | Sequence[str] | None = None,
        timeout_s: float = 5.0,
        **shared: Unpack[SharedOptions],
    ) -> None:
        if not 0 < timeout_s < float("inf"):
            raise IllegalArgument(f"timeout_s = {timeout_s!r} is not a number of seconds above 0")
        super().__init__(ADMIN_GROUP, kind="admin client")
        self._doors = Doors.of(shared)
        shared["api_timeout_s"] = timeout_s
        self._settings = settings_from(namesrv, shared, environ=os.environ)
        self._timeout_s = timeout_s
        self._parts: _Parts | None = None

    async def _open(self, opened: AsyncExitStack) -> None:
        # Not shared with producers and consumers: it is no member of a group, and sends no heartbeats.
        instance = ClientInstance(
            self._settings,
            instance_name=None,
            is_stream=False,
            doors=self._doors,
        )
        opened.push_async_callback(instance.close)
        await instance.open()
        self._parts = _Parts(Gateway(instance, timeout_s=self._timeout_s))

    def _closed(self) -> None:
        self._parts = None

    @property
    def client_id(self) -> str:
        """Who this client is; known once it is started."""
        return self._started().gateway.instance.client_id

    def _started(self) -> _Parts:
        if self._parts is None:
            raise self._not_started()
        return self._parts

    @property
    def cluster(self) -> ClusterAdmin:
        """Which brokers there are, and how they are doing."""
        return self._started().cluster

    @property
    def brokers(self) -> BrokerAdmin:
        """Single brokers: figures, configuration, replicas, cleaning."""
        return self._started().brokers

    @property
    def name_servers(self) -> NameServerAdmin:
        """The name servers' configuration."""
        return self._started().name_servers

    @property
    def key_values(self) -> KeyValueAdmin:
        """The settings that name servers keep for others."""
        return self._started().key_values

    @property
    def topics(self) -> TopicAdmin:
        """Topics: which there are and how full, making, changing and deleting them."""
        return self._started().topics

    @property
    def groups(self) -> GroupAdmin:
        """Consumer groups: settings, members, and how far they are."""
        return self._started().groups

    @property
    def offsets(self) -> OffsetAdmin:
        """Where queues begin and end; moving groups."""
        return self._started().offsets

    @property
    def messages(self) -> MessageAdmin:
        """Finding, reading, tracing and sending messages."""
        return self._started().messages

    @property
    def dead_letters(self) -> DeadLetterAdmin:
        """What groups have given up, and another chance for it."""
        return self._started().dead_letters

    @property
    def accounts(self) -> AccountAdmin:
        """Who may do what."""
        return self._started().accounts

    @property
    def traffic(self) -> TrafficAdmin:
        """How much comes in and goes out."""
        return self._started().traffic


class _Parts:
    """What an open `Admin` consists of."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.cluster = ClusterAdmin(gateway)
        self.brokers = BrokerAdmin(gateway)
        self.name_servers = NameServerAdmin(gateway)
        self.key_values = KeyValueAdmin(gateway)
        self.topics = TopicAdmin(gateway, self.key_values)
        self.groups = GroupAdmin(gateway, self.topics)
        self.offsets = OffsetAdmin(gateway, self.groups, self.topics)
        self.messages = MessageAdmin(gateway, self.topics, self.groups)
        self.dead_letters = DeadLetterAdmin(self.topics, self.messages)
        self.accounts = AccountAdmin(gateway)
        self.traffic = TrafficAdmin(gateway, self.brokers, self.topics, self.groups)
