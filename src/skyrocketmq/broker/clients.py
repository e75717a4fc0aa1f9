"""Who is connected: the producers and consumers that heartbeats tell of.

Rule 1: a member is a connection, not a client id. It is there from its first heartbeat until it says good-bye, its
connection ends, or it has been silent too long.
Rule 2: a consumer group is what its latest heartbeat says it is. A topic missing there is dropped for the whole group:
its members are meant to subscribe to the same things.
Rule 3: the tables decide, and tell who has to be notified by returning it; `notices` does the sending.
Rule 4: what a pull asks for, the subscription of a group to a topic, is two dict look-ups.
Rule 5: anybody can say in a heartbeat that he is a producer of a group, or has a client id. What the broker sends to
producers by itself goes to those who may have it: questions about half messages to members whose account may send to
the topic, replies to the account that had the client id first. That one keeps it for a while after its connection is
lost, since it will be back.

The connection type is a parameter, since nothing here is done with one but keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from skyrocketmq.model import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData

__all__ = ["ConsumerGroup", "ConsumerTable", "Member", "ProducerTable"]

C = TypeVar("C", bound=Hashable)

CLIENT_ID_KEPT_S: Final = 120.0  # after the last heartbeat: as long as a silent client is taken for alive
LOST_COUNT_MAX: Final = 10_000  # lost clients whose ids are kept; above, the oldest are forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Generic[C]):
    """One connected client, as its last heartbeat described it."""

    connection: C
    client_id: str
    address: str
    language: int | None
    version: int
    heard_ms: int  # wall time, which is shown
    heard_s: float  # monotonic time, which is measured
    account: str | None = None  # who has signed; None for whoever is not asked: all of them without access control


class Membership(Generic[C]):
    """Groups of connections, looked up from both ends."""

    def __init__(self) -> None:
        self._members: dict[str, dict[C, Member[C]]] = {}
        self._groups: dict[C, set[str]] = {}

    def join(self, group: str, member: Member[C]) -> bool:
        """Add or refresh a member; true if its connection is new to the group."""
        members = self._members.setdefault(group, {})
        is_new = member.connection not in members
        members[member.connection] = member
        if is_new:
            self._groups.setdefault(member.connection, set()).add(group)
        return is_new

    def leave(self, group: str, connection: C) -> bool:
        """Remove a member; false if it was none. A group whose last member leaves is gone."""
        members = self._members.get(group)
        if members is None or members.pop(connection, None) is None:
            return False
        if not members:
            del self._members[group]
        groups = self._groups[connection]
        groups.discard(group)
        if not groups:
            del self._groups[connection]
        return True

    def groups_of(self, connection: C) -> Set[str]:
        return self._groups.get(connection, frozenset())

    def is_in_any(self, connection: C) -> bool:
        return connection in self._groups

    def of(self, group: str) -> Mapping[C, Member[C]]:
        return self._members.get(group, {})

    def groups(self) -> list[str]:
        return list(self._members)

    def silent_in(self, group: str, deadline_s: float) -> list[C]:
        """The connections that a group has not heard of since the deadline."""
        return [connection for connection, member in self.of(group).items() if member.heard_s < deadline_s]


class ConsumerGroup:
    """What the members of a group have in common. `subscriptions` is by topic, and read by pulls."""

    __slots__ = ("consume_from_where", "consume_type", "message_model", "name", "subscriptions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type: ConsumeType | None = None
        self.message_model: MessageModel | None = None
        self.consume_from_where: ConsumeFromWhere | None = None
        self.subscriptions: dict[str, SubscriptionData] = {}

    def describe(self, data: ConsumerData) -> bool:
        """Become what a heartbeat says; true if a topic came or went. A newer version of a known one is no change."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        before = self.subscriptions
        after: dict[str, SubscriptionData] = {}
        for subscription in data.subscription_data_set:
            known = after.get(subscription.topic) or before.get(subscription.topic)
            if known is None or subscription.sub_version > known.sub_version:
                known = subscription
            after[subscription.topic] = known
        self.subscriptions = after
        return before.keys() != after.keys()


class ConsumerTable(Generic[C]):
    """The consumer groups that have members connected."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], object]] = []  # called when what a group subscribes to may have changed
        self._membership: Membership[C] = Membership()
        self._groups: dict[str, ConsumerGroup] = {}

    def find(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def find_subscription(self, group: str, topic: str) -> SubscriptionData | None:
        known = self._groups.get(group)
        return None if known is None else known.subscriptions.get(topic)

    def register(self, member: Member[C], data: ConsumerData) -> bool:
        """Take in what a heartbeat says of one group; true if its members have to be notified."""
        group = self._groups.get(data.group_name)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(data.group_name)
        is_new = self._membership.join(data.group_name, member)
        before = group.message_model, group.subscriptions
        is_news = group.describe(data)
        if before != (group.message_model, group.subscriptions):
            self._changed()
        return is_news or is_new

    def unregister(self, group: str, connection: C) -> bool:
        """A consumer says good-bye; true if it was a member."""
        was_member = self._membership.leave(group, connection)
        if not self._membership.of(group) and self._groups.pop(group, None) is not None:
            self._changed()
        return was_member

    def _changed(self) -> None:
        for listener in self.listeners:
            listener()

    def forget_in_steps(self, connection: C) -> Iterator[str]:
        """A connection is gone: leaves the groups it was a member of, one in each step; each has to be notified."""
        for group in sorted(self._membership.groups_of(connection)):
            if self.unregister(group, connection):
                yield group

    def subscriptions_of(self, connection: C) -> dict[str, int]:
        """The groups that a connection is a member of, with the number of topics that each subscribes to."""
        return {group: len(self._groups[group].subscriptions) for group in self._membership.groups_of(connection)}

    def members_of(self, group: str) -> list[Member[C]]:
        return list(self._membership.of(group).values())

    def find_member(self, group: str, client_id: str) -> Member[C] | None:
        """The member that has this client id."""
        members = self._membership.of(group).values()
        return next((member for member in members if member.client_id == client_id), None)

    def client_ids_of(self, group: str) -> list[str]:
        """The members' client ids, each once, in the order in which they came."""
        return list(dict.fromkeys(member.client_id for member in self._membership.of(group).values()))

    def groups(self) -> list[str]:
        return list(self._groups)

    def groups_on(self, topic: str) -> list[str]:
        """The groups that subscribe to a topic. Walks the table: for administration only."""
        return [group.name for group in self._groups.values() if topic in group.subscriptions]

    def silent_in(self, group: str, deadline_s: float) -> list[C]:
        return self._membership.silent_in(group, deadline_s)


class ProducerTable(Generic[C]):
    """The producer groups that have members connected, and each producer by its client id."""

    def __init__(self) -> None:
        self.may_be_told: Callable[[Member[C], str], bool] | None = None  # of the messages of a topic; None: everybody
        self._membership: Membership[C] = Membership()
        self._by_client_id: dict[str, Member[C]] = {}
        self._client_ids: dict[C, str] = {}
        self._lost: dict[str, Member[C]] = {}  # by client id: who went without a good-bye

    def register(self, group: str, member: Member[C]) -> bool:
        """Take in what a heartbeat says; true if the connection is new to the group."""
        if self._client_ids.get(member.connection) != member.client_id:
            self._drop_client_id(member.connection)
        if self.may_have_client_id(member):
            # Whoever spoke last under a client id is the one that replies are pushed to.
            self._lost.pop(member.client_id, None)
            self._by_client_id[member.client_id] = member
            self._client_ids[member.connection] = member.client_id
        return self._membership.join(group, member)

    def may_have_client_id(self, member: Member[C]) -> bool:
        """Whether its client id is free, or another connection's of the same account."""
        known = self._by_client_id.get(member.client_id)
        if known is None:
            known = self._lost.get(member.client_id)
            if known is None or member.heard_s - known.heard_s > CLIENT_ID_KEPT_S:
                return True
        return member.account is None or member.account == known.account or member.connection == known.connection

    def unregister(self, group: str, connection: C) -> bool:
        """A producer says good-bye; true if it was a member."""
        was_member = self._membership.leave(group, connection)
        if was_member and not self._membership.is_in_any(connection):
            self._drop_client_id(connection)
        return was_member

    def groups_of(self, connection: C) -> Set[str]:
        """The groups that a connection is a member of."""
        return self._membership.groups_of(connection)

    def forget_in_steps(self, connection: C) -> Iterator[str]:
        """A connection is gone: frees its client id, and leaves the groups it was a member of, one in each step."""
        lost = self._drop_client_id(connection)
        if lost is not None and self.may_be_told is not None:  # without accounts it is the next one's anyway
            self._lost[lost.client_id] = lost
            if len(self._lost) > LOST_COUNT_MAX:
                del self._lost[next(iter(self._lost))]
        for group in sorted(self._membership.groups_of(connection)):
            if self._membership.leave(group, connection):
                yield group

    def _drop_client_id(self, connection: C) -> Member[C] | None:
        """The client id of a connection is free again; returns who had it."""
        client_id = self._client_ids.pop(connection, "")
        known = self._by_client_id.get(client_id)
        if known is None or known.connection != connection:
            return None
        return self._by_client_id.pop(client_id)

    def find_connection(self, client_id: str) -> C | None:
        """The connection of the producer with this client id: where a reply to its request goes."""
        known = self._by_client_id.get(client_id)
        return None if known is None else known.connection

    def members_of(self, group: str) -> list[Member[C]]:
        return list(self._membership.of(group).values())

    def members_for(self, group: str, topic: str) -> list[Member[C]]:
        """The members that may be told of messages of a topic."""
        may_be_told = self.may_be_told
        return [member for member in self.members_of(group) if may_be_told is None or may_be_told(member, topic)]

    def groups(self) -> list[str]:
        return self._membership.groups()

    def silent_in(self, group: str, deadline_s: float) -> list[C]:
        return self._membership.silent_in(group, deadline_s)
