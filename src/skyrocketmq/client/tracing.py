"""Message traces: what happened to each message, sent along to a topic of their own, never in anybody's way.

A `Tracer` belongs to one producer or consumer. `TracedSender` and `TraceHandling` tell it what they see; a client
without a tracer has neither of them, and pays nothing. Records travel many to a message, whose keys are the ids and
keys of all messages in it, so that traces are found by either.

Rule 1: adding a record never waits and never fails. At most `RECORD_COUNT_MAX` wait to be sent; more are dropped, as
        are those that no broker takes. `dropped_count` counts both, and the log says so when it begins.
Rule 2: a message of traces leaves half a second after its first record, or as soon as it is full.
Rule 3: traces are not traced, and neither is any topic whose name begins with theirs.
Rule 4: records may come from any thread; everything else happens on the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Final

from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.outgoing import Compression, compressed, pack_message
from skyrocketmq.client.sending import Sender, SendOptions
from skyrocketmq.client.trace_messages import pack_traces
from skyrocketmq.errors import MQError
from skyrocketmq.model.names import TRACE_TOPIC, check_send_topic, without_namespace
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.wire.trace import TraceRecord

__all__ = ["Tracer", "trace_topic_of"]

logger = logging.getLogger(__name__)

RECORD_COUNT_MAX: Final = 10_000
RECORDS_TOGETHER: Final = 500  # about as many as fill a message: no reason to wait for more
WAIT_S: Final = 0.5
SEND_TIMEOUT_S: Final = 5.0
CLOSE_WAIT_S: Final = 0.5

_numbers = count(1)


def trace_topic_of(trace: bool | str) -> str | None:
    """The topic that the option `trace` means; None for no traces."""
    if isinstance(trace, str):
        check_send_topic(trace)
        return trace
    return TRACE_TOPIC if trace else None


class Tracer:
    """The traces of one client. `kind` is PRODUCE or CONSUME, as Apache's clients name the sender."""

    def __init__(self, instance: ClientInstance, group: str, *, kind: str, topic: str) -> None:
        self.instance = instance
        self.group = without_namespace(group, namespace=instance.settings.namespace)
        self.topic = topic
        self.dropped_count = 0
        self._clock = instance.clock
        self._sender = Sender(instance, f"_INNER_TRACE_PRODUCER-{group}-{kind}-{next(_numbers)}", SendOptions())
        self._records: deque[TraceRecord] = deque()
        self._under_way_count = 0
        self._is_failing = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._many = asyncio.Event()
        self._is_awake = False  # whether the loop knows that there are records, and that there are many
        self._is_hurried = False
        self._tasks = Tasks()
        self._tasks.start(self._run(), name=f"trace {group}")

    @property
    def topics(self) -> Sequence[str]:
        """The topics whose routes are to be kept fresh."""
        return self._sender.topics

    def traces(self, topic: str) -> bool:
        """Whether what happens to messages of a topic is traced."""
        return not topic.startswith(self.topic)

    def add(self, *records: TraceRecord) -> None:
        """Have records sent. From any thread."""
        waiting = self._records
        if self._is_closed or len(waiting) + len(records) > RECORD_COUNT_MAX:
            self._drop(len(records), "the client is closed" if self._is_closed else "too many wait to be sent")
            return
        waiting.extend(records)
        if not self._is_awake:
            self._is_awake = True
            self._tell(self._arrived)
        if not self._is_hurried and len(waiting) >= RECORDS_TOGETHER:
            self._is_hurried = True
            self._tell(self._many)

    def _tell(self, event: asyncio.Event) -> None:
        try:
            self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            pass  # a thread that was given up has outlived the loop

    async def close(self) -> None:
        """Send what is there, within half a second; the rest is dropped. Twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        self._is_awake = self._is_hurried = True
        self._arrived.set()
        self._many.set()
        await self._tasks.finish(clock=self._clock, grace_s=CLOSE_WAIT_S)
        left_count = self._under_way_count + len(self._records)
        if left_count:
            self._drop(left_count, "the client was closed")
            self._records.clear()

    # --------------------------------------------------------------------------------------------------------- sending

    async def _run(self) -> None:
        while self._records or not self._is_closed:
            await self._arrived.wait()
            try:
                async with self._clock.timeout(WAIT_S):
                    await self._many.wait()
            except TimeoutError:
                pass
            if not self._is_closed:
                self._arrived.clear()
                self._many.clear()
                self._is_awake = self._is_hurried = False
            # One by one: a thread may add some meanwhile.
            await self._send([self._records.popleft() for _ in range(len(self._records))])

    async def _send(self, records: Sequence[TraceRecord]) -> None:
        instance = self.instance
        self._under_way_count = len(records)
        for message, record_count in pack_traces(records, topic=self.topic):
            try:
                outgoing = pack_message(message, ids=instance.ids, now_ms=self._clock.now_ms())
                compressed(outgoing, Compression())
                await self._sender.send(outgoing, timeout_s=SEND_TIMEOUT_S, topic=self.topic)
            except MQError as error:
                self._drop(record_count, str(error))
            else:
                self._is_failing = False
            self._under_way_count -= record_count

    def _drop(self, record_count: int, reason: str) -> None:
        self.dropped_count += record_count
        if not self._is_failing:
            self._is_failing = True
            logger.warning("traces dropped", extra={"group": self.group, "topic": self.topic, "reason": reason})
