"""Offsets: where queues begin and end, how far groups are, and moving groups.

Rule 1: members keep their offsets in memory and store them every few seconds. A group with members is moved through
        them (`reset`); what is stored beside them they would overwrite, so `set` and `clone` refuse one that is online.
Rule 2: a queue is found by name; an offset that the queue does not have is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeVar

from skyrocketmq.admin.fan_out import Steps, ask_each, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.groups import GroupAdmin
from skyrocketmq.admin.moments import ms_of
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.errors import ClientError, ConsumerNotOnline, IllegalArgument, NotFound
from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_clients import ResetOffsets
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_clients import ResetOffsetHeader

__all__ = ["OffsetAdmin", "OffsetChange", "Place"]

Answer = TypeVar("Answer")

TO_THE_END: Final = -1  # as a timestamp of a reset
TO_THE_BEGINNING: Final = 0

Place = datetime | Literal["earliest", "latest"]
"""Where to go: to what was stored about then, to the first message that is still there, or after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """A group's place in one queue, before and after."""

    queue: MessageQueue
    before: int | None  # None where nothing was stored
    after: int
    through_members: bool  # the broker told them, or will; else it was stored from here


class OffsetAdmin:
    """`admin.offsets`."""

    def __init__(self, gateway: Gateway, groups: GroupAdmin, topics: TopicAdmin) -> None:
        self._gateway = gateway
        self._groups = groups
        self._topics = topics

    # --------------------------------------------------------------------------------------------------------- looking

    async def earliest(self, topic: str) -> Mapping[MessageQueue, int]:
        """The first message that is still stored, of every queue of a topic."""
        return await self._of_queues("the first offsets", topic, self._gateway.instance.calls.min_offset)

    async def latest(self, topic: str) -> Mapping[MessageQueue, int]:
        """What the next message gets, of every queue of a topic."""
        return await self._of_queues("the last offsets", topic, self._gateway.instance.calls.max_offset)

    async def at(self, topic: str, moment: datetime) -> Mapping[MessageQueue, int]:
        """The message that was stored nearest to a moment, of every queue of a topic."""
        ms = ms_of(moment)
        calls = self._gateway.instance.calls
        return await self._of_queues("the offsets at a time", topic, lambda queue: calls.search_offset(queue, ms))

    async def committed(self, group: str, topic: str) -> Mapping[MessageQueue, int | None]:
        """How far a group is in every queue of a topic, as a member that starts would hear; None for nothing."""
        calls = self._gateway.instance.calls
        return await self._of_queues(
            f"the offsets of group {group}", topic, lambda queue: calls.query_offset(group, queue)
        )

    async def _of_queues(
        self, what: str, topic: str, work: Callable[[MessageQueue], Awaitable[Answer]]
    ) -> Mapping[MessageQueue, Answer]:
        return await ask_each(f"{what} in topic {topic}", await self._topics.queues(topic), work)

    # ---------------------------------------------------------------------------------------------------------- moving

    async def reset(self, group: str, topic: str, to: Place, *, force: bool = True) -> list[OffsetChange]:
        """Move a group to another place in a topic: through its members where some are connected, else by storing it.

        Without `force` a group only goes back, never forward.
        """
        timestamp_ms = _timestamp(to)
        await self._groups.nodes(group)
        nodes = await self._gateway.topic_nodes(topic, reach=Reach.MASTERS)
        queues = await self._topics.queues(topic)

        async def move(node: BrokerNode) -> list[OffsetChange]:
            mine = [queue for queue in queues if queue.broker_name == node.broker_name]
            try:
                return await self._reset_through_members(node, group, topic, timestamp_ms, mine, force=force)
            except ConsumerNotOnline:
                return await self._reset_stored(group, mine, to, force=force)

        return await ask_each_for(
            f"reset group {group} in topic {topic}",
            nodes,
            move,
            lambda found: sorted((change for changes in found.values() for change in changes), key=lambda c: c.queue),
        )

    async def _reset_through_members(
        self, node: BrokerNode, group: str, topic: str, timestamp_ms: int, queues: list[MessageQueue], *, force: bool
    ) -> list[OffsetChange]:
        calls = self._gateway.instance.calls
        before = {queue: await calls.query_offset(group, queue) for queue in queues}
        header = ResetOffsetHeader(topic=topic, group=group, timestamp=timestamp_ms, is_force=force)
        timeout_s = self._gateway.slow_timeout_s
        answer = await self._gateway.ask(node, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout_s=timeout_s)
        return [
            OffsetChange(queue=queue, before=before.get(queue), after=offset, through_members=True)
            for queue, offset in decode_body(ResetOffsets, answer.body).offset_table.items()
        ]

    async def _reset_stored(
        self, group: str, queues: list[MessageQueue], to: Place, *, force: bool
    ) -> list[OffsetChange]:
        calls = self._gateway.instance.calls
        changes: list[OffsetChange] = []
        for queue in queues:
            before = await calls.query_offset(group, queue)
            if to == "earliest":
                after = await calls.min_offset(queue)
            elif to == "latest":
                after = await calls.max_offset(queue)
            else:
                after = await calls.search_offset(queue, ms_of(to))
            if not force and before is not None and before <= after:
                after = before
            await calls.update_offset(group, queue, after, wait_for_answer=True)
            changes.append(OffsetChange(queue=queue, before=before, after=after, through_members=False))
        return changes

    async def set(
        self, group: str, offsets: Mapping[MessageQueue, int], *, even_if_online: bool = False
    ) -> list[OffsetChange]:
        """Store how far a group is in these queues. Refused while members are connected: they would overwrite it."""
        await self._refuse_online(group, even_if_online=even_if_online)
        calls = self._gateway.instance.calls
        for queue in offsets:
            await self._gateway.queue_node(queue)

        async def put(queue: MessageQueue) -> OffsetChange:
            first, last = await calls.min_offset(queue), await calls.max_offset(queue)
            after = offsets[queue]
            if not first <= after <= last:
                raise IllegalArgument(f"the offset {after} is not in queue {queue}, which has {first} to {last}")
            before = await calls.query_offset(group, queue)
            await calls.update_offset(group, queue, after, wait_for_answer=True)
            return OffsetChange(queue=queue, before=before, after=after, through_members=False)

        return await ask_each_for(
            f"set offsets of group {group}", sorted(offsets), put, lambda found: list(found.values())
        )

    async def clone(self, source: str, target: str, topic: str, *, even_if_online: bool = False) -> list[OffsetChange]:
        """Let a group be where another one is in a topic. Refused while members of the target are connected."""
        await self._groups.nodes(source)
        steps = Steps(f"the offsets of group {source}")
        progress = await steps.need(self._groups.progress(source))  # all topics: only those that it has consumed
        offsets = {row.queue: row.consumer_offset for row in progress.queues if row.queue.topic == topic}
        if not offsets:
            raise NotFound(f"group {source} has not consumed topic {topic}: there is nothing to clone")
        return await self.set(target, offsets, even_if_online=even_if_online)

    async def _refuse_online(self, group: str, *, even_if_online: bool) -> None:
        if even_if_online:
            return
        try:
            steps = Steps(f"the members of group {group}")
            members = (await steps.need(self._groups.connections(group))).members
        except NotFound:
            return  # a group that will come
        if members:
            raise ClientError(
                f"group {group} is online ({', '.join(member.client_id for member in members)}) and would overwrite "
                "what is stored: stop its members, or use reset, which goes through them"
            )


def _timestamp(to: Place) -> int:
    if to == "earliest":
        return TO_THE_BEGINNING
    if to == "latest":
        return TO_THE_END
    if isinstance(to, datetime):
        return ms_of(to)
    raise IllegalArgument(f"{to!r} is none of 'earliest', 'latest' and a datetime")
