"""Sends that are begun in one turn of the event loop travel together: one request, one answer, one queue.

For producers that have many messages under way and do not care which queue each one goes to (`auto_batch=True`). What a
message costs then is its own bytes, not a request: the client and the broker each have a fraction of the work.

Rule 1: nobody waits for a batch to fill: it leaves at the end of the turn in which its first message came, or once it
        is full. A message that is alone in its turn is sent alone.
Rule 2: a message is in a batch only if that makes no difference to it: no queue, selector, delay or time limit of its
        own, and no body that is to be compressed.
Rule 3: each sender gets the result of its own message. If the batch fails, each gets an error of its own that says why.
        A batch that the broker refuses as illegal is sent again message by message: nobody fails for his neighbours.
Rule 4: a sender that is cancelled takes nothing back: its message may be on its way, as with any send.

Hot: `send` runs for every message.
"""

from __future__ import annotations

import asyncio
from typing import Final

from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.outgoing import Compression, Outgoing, join_packed, pack_message
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.sending import Sender
from skyrocketmq.errors import MessageIllegal, MQError, NetError, ProtocolError, own_copy
from skyrocketmq.model import Message, QueueOffset
from skyrocketmq.model.names import is_retry_topic
from skyrocketmq.wire.batches import ENTRY_BYTES_MIN

__all__ = ["AutoBatch"]

BATCH_BYTES_MAX: Final = 256 * 1024  # of entries: bodies, properties and what is around them
BATCH_COUNT_MAX: Final = 256  # the answer has an id of 32 characters for each, in a header


class _Batch:
    """Messages of one topic that leave together."""

    __slots__ = ("entries_bytes", "futures", "packed", "topic", "wait_for_store")

    def __init__(self, topic: str, wait_for_store: bool) -> None:
        self.topic = topic  # as the user calls it
        self.wait_for_store = wait_for_store
        self.packed: list[Outgoing] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.entries_bytes = 0


class AutoBatch:
    """Collects what one producer sends in a turn of the loop, and sends it."""

    def __init__(
        self,
        instance: ClientInstance,
        sender: Sender,
        *,
        timeout_s: float,
        bytes_max: int,
        compression: Compression,
        namespace: str,
    ) -> None:
        self._instance = instance
        self._sender = sender
        self._timeout_s = timeout_s
        self._bytes_max = bytes_max
        self._batch_bytes_max = min(BATCH_BYTES_MAX, bytes_max // 2)  # what is stored of a message takes some room too
        self._body_bytes_max = min(self._batch_bytes_max, compression.from_bytes - 1)
        self._namespace = namespace
        self._open: dict[tuple[str, bool], _Batch] = {}

    def takes(self, message: Message) -> bool:
        """Whether a batch can carry the message as it is."""
        return not (
            message.delay_level
            or message.system_properties
            or len(message.body) > self._body_bytes_max
            or is_retry_topic(message.topic)
        )

    async def send(self, message: Message) -> SendResult:
        """Send a message that it `takes`, together with what else comes in this turn; the result is its own."""
        instance = self._instance
        packed = pack_message(
            message,
            ids=instance.ids,
            now_ms=instance.clock.now_ms(),
            bytes_max=self._bytes_max,
            namespace=self._namespace,
        )
        key = (message.topic, message.wait_for_store)
        entry_bytes = _entry_bytes(packed)
        batch = self._open.get(key)
        if batch is not None and batch.entries_bytes + entry_bytes > self._batch_bytes_max:
            self._leave(batch)
            batch = self._open[key] = _Batch(*key)
        elif batch is None:
            if not self._open:
                asyncio.get_running_loop().call_soon(self._leave_all)
            batch = self._open[key] = _Batch(*key)
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        batch.packed.append(packed)
        batch.futures.append(future)
        batch.entries_bytes += entry_bytes
        if len(batch.packed) >= BATCH_COUNT_MAX:
            del self._open[key]
            self._leave(batch)
        return await future

    def _leave_all(self) -> None:
        batches, self._open = self._open, {}
        for batch in batches.values():
            self._leave(batch)

    def _leave(self, batch: _Batch) -> None:
        self._instance.tasks.start(self._send(batch), name=f"batch to {batch.topic}")

    async def _send(self, batch: _Batch) -> None:
        clock = self._instance.clock
        deadline = clock.monotonic() + self._timeout_s
        error: MQError = NetError("the client was closed while the message was under way: it may be stored, or not")
        try:
            packed = batch.packed
            outgoing = packed[0] if len(packed) == 1 else join_packed(packed, wait_for_store=batch.wait_for_store)
            try:
                result = await self._sender.send(outgoing, timeout_s=self._timeout_s, topic=batch.topic)
            except MessageIllegal:
                if len(packed) == 1:
                    raise
                await self._send_singly(batch, timeout_s=deadline - clock.monotonic())
            else:
                _hand_out(result, batch)
        except MQError as failure:
            error = failure
        except Exception as failure:
            error = MQError(f"the message may be stored, or not: its batch failed unexpectedly with {failure!r}")
            error.__cause__ = failure
        finally:  # also if the client is closed meanwhile: nobody is left waiting
            for future in batch.futures:
                if not future.done():
                    future.set_exception(own_copy(error))

    async def _send_singly(self, batch: _Batch, *, timeout_s: float) -> None:
        """Send a batch that was refused, so that only those fail that a broker does not take alone either."""

        async def send(packed: Outgoing, future: asyncio.Future[SendResult]) -> None:
            try:
                result = await self._sender.send(packed, timeout_s=timeout_s, topic=batch.topic)
            except MQError as failure:
                if not future.done():
                    future.set_exception(failure)
            else:
                if not future.done():
                    future.set_result(result)

        await asyncio.gather(*map(send, batch.packed, batch.futures))


def _entry_bytes(packed: Outgoing) -> int:
    text = packed.properties
    return ENTRY_BYTES_MIN + len(packed.body) + len(text if text.isascii() else text.encode("utf-8", "replace"))


def _hand_out(result: SendResult, batch: _Batch) -> None:
    """Give every sender its part: messages of a batch lie one after the other."""
    offset_ids = result.offset_msg_id.split(",")
    if len(offset_ids) != len(batch.packed):
        raise ProtocolError(
            f"the message is stored, but nobody knows at which place: the broker {result.queue.broker_name} answered a "
            f"batch of {len(batch.packed)} messages with {len(offset_ids)} ids. Use auto_batch=False with this broker"
        )
    status, queue, first = result.status, result.queue, result.queue_offset
    region_id, trace_on = result.region_id, result.trace_on
    for number, (packed, future, offset_id) in enumerate(zip(batch.packed, batch.futures, offset_ids, strict=True)):
        if not future.done():
            future.set_result(
                SendResult(
                    status, packed.msg_id, offset_id, queue, QueueOffset(first + number), None, region_id, trace_on
                )
            )
