"""Consuming at one's own pace: the client fetches in the background, the application polls.

    async with LitePullConsumer("readers", namesrv="localhost:9876") as consumer:
        consumer.subscribe("TopicTest", "TagA")
        async for message in consumer:
            ...

`subscribe` shares a topic's queues with the other members of the group, `assign` reads queues of one's own choice; a
consumer does one or the other. With `auto_commit` what was handed out is committed every few seconds, once the next
messages are asked for; without it `commit` says when. There is no retry: a message that fails is the application's.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Final, Unpack

from skyrocketmq.client.allocation import AllocationStrategy, average
from skyrocketmq.client.flow_control import FlowLimits
from skyrocketmq.client.life import ClientLife
from skyrocketmq.client.lite_member import LiteMember, LiteParts, QueueListener
from skyrocketmq.client.lite_queues import LiteOptions
from skyrocketmq.client.message_selector import MessageSelector, as_selector
from skyrocketmq.client.settings import Doors, SharedOptions, settings_from
from skyrocketmq.client.start_offsets import ConsumeFrom, start_point_of
from skyrocketmq.client.trace_consuming import trace_polled
from skyrocketmq.client.tracing import Tracer, trace_topic_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue, MessageView, QueueOffset
from skyrocketmq.model.names import check_client_group
from skyrocketmq.ports import Disk, SystemClock

__all__ = ["LitePullConsumer"]

AUTO_COMMIT_S_MIN: Final = 1.0


class LitePullConsumer(ClientLife):
    """Reads for a group. Use it as `async with`, or call `start` and `close`.

    | argument | default | meaning |
    |---|---|---|
    | namesrv | `NAMESRV_ADDR`, else an address server | `host:port`, several with `;` between or as a list |
    | consume_from | "last" | where a group without offsets begins: "last", "first", or a datetime |
    | broadcasting | False | every member gets every message; offsets in a local file |
    | allocation | `average` | how queues are divided among members |
    | auto_commit, auto_commit_interval_s | True, 5 | commit what was handed out, at most so often |
    | poll_timeout_s | 5 | how long a poll waits for messages |
    | pull_batch_size | 10 | messages of a pull, and so of a poll |
    | cache_count_all_max | 10000 | messages fetched and not polled, of all queues |
    | cache_count_max, cache_mib_max, cache_span_max | 1000, 100, 2000 | of one queue |
    | on_queues_changed | none | called with topic, all its queues and this member's, when they change |
    | trace | False | True, or the name of a topic: tell there of each message that is handed out |

    and those of `SharedOptions`. All may be used from one event loop only.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        consume_from: ConsumeFrom = "last",
        broadcasting: bool = False,
        allocation: AllocationStrategy = average,
        auto_commit: bool = True,
        auto_commit_interval_s: float = 5.0,
        poll_timeout_s: float = 5.0,
        pull_batch_size: int = 10,
        hold_s: float = 20.0,
        hold_timeout_s: float = 30.0,
        cache_count_all_max: int = 10_000,
        cache_count_max: int = 1_000,
        cache_mib_max: int = 100,
        cache_span_max: int = 2_000,
        on_queues_changed: QueueListener | None = None,
        trace: bool | str = False,
        offsets_directory: Path | None = None,
        disk: Disk | None = None,
        **shared: Unpack[SharedOptions],
    ) -> None:
        check_client_group(group)
        if auto_commit_interval_s < AUTO_COMMIT_S_MIN:
            raise IllegalArgument(f"auto_commit_interval_s = {auto_commit_interval_s:g} is less than 1")
        if not 1 <= pull_batch_size <= 1024:
            raise IllegalArgument(f"pull_batch_size = {pull_batch_size} is not from 1 to 1024")
        if hold_timeout_s < hold_s:
            raise IllegalArgument(f"hold_timeout_s = {hold_timeout_s:g} is less than hold_s = {hold_s:g}")
        super().__init__(group, kind="consumer")
        self._doors = Doors.of(shared)
        self._on_connection_change = shared.get("on_connection_change")
        self._auto_commit = auto_commit
        self._auto_commit_interval_s = auto_commit_interval_s
        self._commit_due = 0.0
        self._poll_timeout_s = poll_timeout_s
        self._trace_topic = trace_topic_of(trace)
        self._tracer: Tracer | None = None
        self._member = LiteMember(
            group,
            settings_from(namesrv, shared, environ=os.environ),
            start_point=start_point_of(consume_from),
            broadcasting=broadcasting,
            allocation=allocation,
            options=LiteOptions(
                pull_batch_size=pull_batch_size,
                hold_s=hold_s,
                hold_timeout_s=hold_timeout_s,
                cache_count_all_max=cache_count_all_max,
                limits=FlowLimits(
                    queue_count_max=cache_count_max, queue_mib_max=cache_mib_max, span_max=cache_span_max
                ),
            ),
            on_queues_changed=on_queues_changed,
            offsets_directory=offsets_directory,
            disk=disk,
        )
        self._member.commits_finished = auto_commit
        self._names = self._member.names

    async def _open(self, opened: AsyncExitStack) -> None:
        await self._member.open(opened, doors=self._doors, on_connection_change=self._on_connection_change)
        if self._trace_topic is not None:
            instance = self._started().instance
            self._tracer = Tracer(instance, self._member.wire_group, kind="CONSUME", topic=self._trace_topic)
            opened.push_async_callback(self._tracer.close)

    def _closed(self) -> None:
        self._member.parts = self._tracer = None

    @property
    def tracer(self) -> Tracer | None:
        """Who sends its traces, while it is open and if it makes any; says how many were dropped."""
        return self._tracer

    def _started(self) -> LiteParts:
        if self._member.parts is None:
            raise self._not_started()
        return self._member.parts

    @property
    def client_id(self) -> str:
        """Who this consumer is to the brokers; known once it is started."""
        return self._started().instance.client_id

    # ---------------------------------------------------------------------------------------------------- what is read

    def subscribe(self, topic: str, expression: str | MessageSelector = "*", *, sql: str | None = None) -> None:
        """Share the queues of a topic with the other members of the group; before the start or after."""
        if self._member.chosen:
            raise IllegalArgument(f"the consumer {self.group} has assigned queues: it cannot subscribe to topics too")
        clock = self._doors.clock or SystemClock()
        self._member.subscriptions.add(topic, expression, sql=sql, now_ms=clock.now_ms())
        self._member.subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Let a topic be."""
        if self._member.subscriptions.remove(topic):
            self._member.subscriptions_changed()

    def assign(self, queues: Iterable[MessageQueue], expression: str | MessageSelector = "*") -> None:
        """Read these queues and no others, regardless of the group's other members; before the start or after."""
        if self._member.subscriptions.wire_topics:
            raise IllegalArgument(f"the consumer {self.group} subscribes to topics: it cannot assign queues too")
        self._member.chosen = frozenset(self._names.wrap_queue(queue) for queue in queues)
        self._member.chosen_selector = as_selector(expression)
        self._member.read_chosen()

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that are read now."""
        return self._names.unwrap_queues(sorted(self._started().queues.held))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        routes = self._started().instance.routes
        return self._names.unwrap_queues(await routes.get_readable(self._names.wrap(topic)))

    # --------------------------------------------------------------------------------------------------------- reading

    async def poll(self, timeout_s: float | None = None) -> list[MessageView]:
        """The next messages, of one queue; an empty list if none came in time."""
        parts = self._started()
        parts.queues.finish_last()
        now = parts.instance.clock.monotonic()
        if self._auto_commit and now >= self._commit_due:
            self._commit_due = now + self._auto_commit_interval_s
            self._member.note_finished()
        messages = await parts.queues.poll(self._poll_timeout_s if timeout_s is None else timeout_s)
        if self._tracer is not None:
            trace_polled(self._tracer, messages)
        return messages

    async def __aiter__(self) -> AsyncIterator[MessageView]:
        """Messages one by one, for as long as the consumer is open."""
        while self._opened is not None:
            for message in await self.poll():
                yield message

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out nothing of these queues until `resume`."""
        self._started().queues.pause([self._names.wrap_queue(queue) for queue in queues], is_paused=True)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out messages of these queues again."""
        self._started().queues.pause([self._names.wrap_queue(queue) for queue in queues], is_paused=False)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of a queue that is read now; `IllegalArgument` if the queue has no such offset."""
        calls, wire_queue = self._started().instance.calls, self._names.wrap_queue(queue)
        lowest, highest = await calls.min_offset(wire_queue), await calls.max_offset(wire_queue)
        if not lowest <= offset <= highest:
            raise IllegalArgument(f"the queue {queue} has offsets from {lowest} to {highest}, {offset} is none of them")
        self._seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still stored."""
        self._seek(queue, await self._started().instance.calls.min_offset(self._names.wrap_queue(queue)))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what comes from now on."""
        self._seek(queue, await self._started().instance.calls.max_offset(self._names.wrap_queue(queue)))

    async def seek_to_time(self, queue: MessageQueue, moment: datetime) -> None:
        """Go on at what was stored about then."""
        self._seek(queue, await self.offset_at(queue, moment))

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        queues, wire_queue = self._started().queues, self._names.wrap_queue(queue)
        if wire_queue not in queues.held:
            raise IllegalArgument(f"the queue {queue} is not one of those that are read now: see 'assigned'")
        queues.seek(wire_queue, offset)

    # --------------------------------------------------------------------------------------------------------- offsets

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store what was handed out so far, or these offsets; it is stored when this returns.

        Raises what a broker said, or that it could not be asked: then commit once more. `IllegalArgument` for a queue
        that is not read now: it has gone to another member, who has its own offset.
        """
        parts = self._started()
        if offsets is None:
            self._member.note_handed()
        else:
            noted = {self._names.wrap_queue(queue): offset for queue, offset in offsets.items()}
            for queue in noted.keys() - parts.queues.held.keys():
                raise IllegalArgument(f"the queue {queue} is not one of those that are read now: see 'assigned'")
            for queue, offset in noted.items():
                parts.offsets.update(queue, offset)
        await parts.offsets.store(list(parts.queues.held))

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """How far the group is in a queue, as it is stored."""
        return await self._member.find_committed(self._names.wrap_queue(queue))

    async def offset_at(self, queue: MessageQueue, moment: datetime) -> QueueOffset:
        """The message of a queue that was stored nearest to a moment."""
        calls = self._started().instance.calls
        return await calls.search_offset(self._names.wrap_queue(queue), round(moment.timestamp() * 1000))
