"""Which queues a consumer of a group reads.

Rule 1: every member of a group computes the whole division alone, and all arrive at the same one, because they start
from the same lists in the same order and use the same strategy. Nobody coordinates.
Rule 2: that includes Java members. The order is Java's (texts by UTF-16 unit), and so is every number in here.
Rule 3: this file knows queues and client ids; it knows neither brokers' health nor offsets.

A strategy is any callable `(client_id, queues, client_ids) -> list of queues`. It is handed both lists sorted, and
returns nothing for a client that is not listed. `share_of` does the sorting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Final, Protocol, TypeVar

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue

__all__ = [
    "AllocationStrategy",
    "ConsistentHash",
    "FixedQueues",
    "MachineRoom",
    "MachineRoomNearby",
    "average",
    "average_by_circle",
    "machine_room_of",
    "share_of",
    "sorted_client_ids",
    "sorted_queues",
    "utf16_key",
]

CONSISTENT_HASH_POINTS: Final = 10  # as in Apache's client: a member that uses another number sees another ring


class AllocationStrategy(Protocol):
    """How the queues of a topic are divided among the members of a group."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]: ...


def share_of(
    client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str], *, strategy: AllocationStrategy
) -> list[MessageQueue]:
    """The queues of one member. The order in which the lists come does not matter.

    A client id that a broker lists twice (an old connection of a client that has come back) counts twice, as it does
    for Java members: to agree matters more than to be clever.
    """
    return strategy(client_id, sorted_queues(queues), sorted_client_ids(client_ids))


# Order ---------------------------------------------------------------------------------------------------------------


def utf16_key(text: str) -> bytes:
    """Sorts texts as Java does, by UTF-16 unit: characters beyond U+FFFF come before those from U+E000 on."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_queues(queues: Collection[MessageQueue]) -> list[MessageQueue]:
    """By topic, broker name and queue id."""
    return sorted(queues, key=lambda queue: (utf16_key(queue.topic), utf16_key(queue.broker_name), queue.queue_id))


def sorted_client_ids(client_ids: Collection[str]) -> list[str]:
    return sorted(client_ids, key=utf16_key)


# Strategies ----------------------------------------------------------------------------------------------------------


def average(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Neighbouring queues to each member, the first members get one more. The default, as in Apache's client."""
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    size, rest = divmod(len(queues), len(client_ids))
    start = index * size + min(index, rest)
    return list(queues[start : start + size + (index < rest)])


def average_by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Queues dealt out like cards: the first to the first member, the second to the second."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """A ring with several points for each member; a queue belongs to the next point. A member that comes or goes moves
    only the queues of its own points. `points` must be the same for the whole group."""

    points: int = CONSISTENT_HASH_POINTS
    hash_of: Callable[[str], int] = field(default_factory=lambda: _md5_hash)

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        # Where two points meet, the later member has the place, as in Java's map.
        owners = {self.hash_of(f"{member}-{k}"): member for member in client_ids for k in range(self.points)}
        ring = sorted(owners)
        return [queue for queue in queues if owners[_next_point(ring, self.hash_of(_java_text(queue)))] == client_id]


def _next_point(ring: list[int], value: int) -> int:
    at = bisect_left(ring, value)
    return ring[at] if at < len(ring) else ring[0]


def _md5_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    """What a Java member hashes for this queue."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


@dataclass(frozen=True, slots=True)
class FixedQueues:
    """The queues that the configuration names, regardless of the other members."""

    queues: tuple[MessageQueue, ...]

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        return list(self.queues)


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Only queues of brokers in these machine rooms (`room@name`), divided evenly; the others are read by nobody."""

    rooms: frozenset[str]

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        near = [queue for queue in queues if machine_room_of(queue.broker_name) in self.rooms]
        size, rest = divmod(len(near), len(client_ids))
        share = near[index * size : (index + 1) * size]
        if index < rest:
            share.append(near[size * len(client_ids) + index])  # what is left over lies at the end, unlike `average`'s
        return share


def machine_room_of(broker_name: str) -> str | None:
    """The room in a broker name of the form `room@name`."""
    parts = broker_name.split("@")
    while parts and not parts[-1]:
        parts.pop()  # Java's split drops empty parts at the end
    return parts[0] if len(parts) == 2 else None


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Queues are read in their own machine room, divided there by `inner`; those of a room without members by all.

    The resolvers say where a queue's broker and a client are. A place that is not known is an `IllegalArgument`:
    members that guess would not agree.
    """

    inner: AllocationStrategy
    room_of_queue: Callable[[MessageQueue], str | None]
    room_of_client: Callable[[str], str | None]

    def __call__(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_by_room = _by_room(queues, self.room_of_queue)
        clients_by_room = _by_room(client_ids, self.room_of_client)
        share: list[MessageQueue] = []
        for room in sorted(queues_by_room, key=utf16_key):
            members = clients_by_room.get(room, client_ids)
            share += self.inner(client_id, queues_by_room[room], members)  # nothing where the client is no member
        return share


Placed = TypeVar("Placed", MessageQueue, str)


def _by_room(items: Sequence[Placed], room_of: Callable[[Placed], str | None]) -> dict[str, list[Placed]]:
    rooms: dict[str, list[Placed]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise IllegalArgument(f"the machine room of {item} is not known: let the resolver name one for each")
        rooms.setdefault(room, []).append(item)
    return rooms
