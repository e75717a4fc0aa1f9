"""Members of one group that subscribe to different things: who says what, since when, and whether it was reported.

Queues are divided among all members as if they wanted the same, and the broker filters by what the latest heartbeat
said. Where members differ, messages are given to one who does not want them, or filtered out for one who does: they
are skipped, and nobody fails. So the members are compared here.

Rule 1: compared is what decides who gets which messages: topics, the type and content of the filter on each, push or
pull, clustering or broadcasting. The order of tags does not count, nor do versions, nor the group's retry topic.
Rule 2: a group may differ for a while: members are replaced one by one when a program is deployed. A difference is
reported once it has been the same for the grace period; one that changes is another difference, and waits anew.
Rule 3: this decides; `handlers_differences` logs and answers. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from skyrocketmq.model import SQL92_EXPRESSION, TAG_EXPRESSION, ConsumerData, SubscriptionData
from skyrocketmq.model.names import SYSTEM_GROUPS, is_retry_topic, is_system_group

__all__ = [
    "Filter",
    "GroupDifference",
    "MemberWishes",
    "SubscriptionDifferences",
    "Wishes",
    "differing_modes",
    "differing_topics",
    "wishes_of",
]

ALL_TAGS = "*"
C = TypeVar("C", bound=Hashable)


class Filter(NamedTuple):
    """What a member wants of a topic."""

    type: str
    expression: str


class Wishes(NamedTuple):
    """What one member says that its group does."""

    consume_type: str
    message_model: str
    filters: frozenset[tuple[str, Filter]]  # with their topics

    def by_topic(self) -> dict[str, Filter]:
        return dict(sorted(self.filters))


class MemberWishes(NamedTuple):
    client_id: str
    address: str
    wishes: Wishes


class GroupDifference(NamedTuple):
    """A group whose members differ."""

    group: str
    since_s: float
    is_reported: bool
    members: tuple[MemberWishes, ...]


@dataclass(slots=True)
class _Difference:
    sayings: frozenset[Wishes]
    since_s: float
    is_reported: bool = False


class SubscriptionDifferences(Generic[C]):
    """The comparison, by group and client id. The connection says which of two with one client id is the later one."""

    def __init__(self) -> None:
        self._members: dict[str, dict[str, tuple[C, MemberWishes]]] = {}
        self._client_ids: dict[tuple[str, C], str] = {}  # by group and connection, which has one at a time
        self._differences: dict[str, _Difference] = {}
        self.reported_count = 0  # differences since the start

    def heard(self, connection: C, client_id: str, address: str, data: ConsumerData, *, now_s: float) -> None:
        """A heartbeat says what a member wants."""
        group = data.group_name
        if group in SYSTEM_GROUPS or is_system_group(group):
            return  # tools come and go in these, each with a topic of its own
        if self._client_ids.get((group, connection), client_id) != client_id:
            self.gone(group, connection, now_s=now_s)
        self._client_ids[group, connection] = client_id
        members = self._members.setdefault(group, {})
        known = members.get(client_id)
        said = MemberWishes(client_id, address, _shared(wishes_of(data), members.values()))
        members[client_id] = (connection, said)
        if known is None or known[1].wishes != said.wishes:
            self._compare(group, now_s=now_s)

    def gone(self, group: str, connection: C, *, now_s: float) -> None:
        """A connection is no longer a member."""
        client_id = self._client_ids.pop((group, connection), "")
        members = self._members.get(group, {})
        if client_id not in members or members[client_id][0] != connection:
            return  # none, or another connection has its client id by now
        del members[client_id]
        if not members:
            del self._members[group]
        self._compare(group, now_s=now_s)

    def _compare(self, group: str, *, now_s: float) -> None:
        sayings = frozenset(said.wishes for _, said in self._members.get(group, {}).values())
        if len(sayings) < 2:
            self._differences.pop(group, None)
            return
        known = self._differences.get(group)
        if known is None or known.sayings != sayings:
            self._differences[group] = _Difference(sayings, now_s)

    def take_due(self, *, now_s: float, grace_s: float) -> list[GroupDifference]:
        """The differences that have lasted and were not reported yet; from now on they are."""
        due = [
            group
            for group, difference in self._differences.items()
            if not difference.is_reported and now_s - difference.since_s >= grace_s
        ]
        for group in due:
            self._differences[group].is_reported = True
            self.reported_count += 1
        return [self._describe(group) for group in due]

    def all(self) -> list[GroupDifference]:
        """The groups whose members differ now, reported or not, by name."""
        return [self._describe(group) for group in sorted(self._differences)]

    @property
    def reported_group_count(self) -> int:
        """The groups that differ now and were reported."""
        return sum(difference.is_reported for difference in self._differences.values())

    def _describe(self, group: str) -> GroupDifference:
        difference = self._differences[group]
        members = sorted(said for _, said in self._members[group].values())
        return GroupDifference(group, difference.since_s, difference.is_reported, tuple(members))


def wishes_of(data: ConsumerData) -> Wishes:
    """What a heartbeat says, in a form that can be compared."""
    return Wishes(
        consume_type=data.consume_type.value if data.consume_type else "",
        message_model=data.message_model.value if data.message_model else "",
        filters=frozenset(
            (subscription.topic, _filter_of(subscription))
            for subscription in data.subscription_data_set
            if not is_retry_topic(subscription.topic)
        ),
    )


def _shared(wishes: Wishes, members: Collection[tuple[object, MemberWishes]]) -> Wishes:
    """Those of the first member, if they are the same, as they should be.

    So a group has them once: every object that is kept is looked at whenever Python collects garbage.
    """
    first = next((member.wishes for _, member in members), wishes)
    return first if first == wishes else wishes


def _filter_of(subscription: SubscriptionData) -> Filter:
    kind = subscription.expression_type or TAG_EXPRESSION
    if kind == SQL92_EXPRESSION:
        return Filter(kind, subscription.sub_string.strip())
    tags = sorted({tag.strip() for tag in subscription.sub_string.split("||")} - {""})
    return Filter(kind, " || ".join(tags) or ALL_TAGS)


def differing_topics(members: Iterable[MemberWishes]) -> dict[str, dict[Filter | None, list[str]]]:
    """The topics about which members differ: the filters on each, with the clients that have them; None: no filter,
    the topic is not subscribed to."""
    by_member = {member.client_id: member.wishes.by_topic() for member in members}
    found: dict[str, dict[Filter | None, list[str]]] = {}
    for topic in sorted({topic for filters in by_member.values() for topic in filters}):
        clients: dict[Filter | None, list[str]] = {}
        for client_id, filters in by_member.items():
            clients.setdefault(filters.get(topic), []).append(client_id)
        if len(clients) > 1:
            found[topic] = clients
    return found


def differing_modes(members: Iterable[MemberWishes]) -> Mapping[str, list[str]]:
    """How members consume, each way with the clients that do; empty if all do it in one way."""
    modes: dict[str, list[str]] = {}
    for member in members:
        mode = f"{member.wishes.consume_type} {member.wishes.message_model}".strip()
        modes.setdefault(mode, []).append(member.client_id)
    return modes if len(modes) > 1 else {}
