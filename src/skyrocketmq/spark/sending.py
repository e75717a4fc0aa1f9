"""What a writing task does: messages to batches, and a window of requests under way on blocking connections.

Rule 1: a message counts as written once a broker has said so; `finish` returns only then.
Rule 2: messages with a sharding key, or for a queue that is named, keep their order: they have their queue, and one
request is under way to it.
Rule 3: after a failure of the network what was under way is sent again, elsewhere if it has no queue of its own. It may
have been stored the first time: at least once. Who wants it once gives `stored`, which is asked before: until the
broker can say what it has, nothing is sent again, neither there nor elsewhere.
Rule 4: memory is bounded: one batch for each queue that is chosen, two for each topic, and the window.
Rule 5: a body from the size on that is compressed travels alone, since a batch says of none of its messages that it is
compressed; so does a message with a delay. Those of its queue that came before it are sent before it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from skyrocketmq.client.outgoing import Outgoing, SendRequests, compressed, join_packed, pack_message
from skyrocketmq.client.send_result import read_send_result
from skyrocketmq.client.sending import FAILED_CODES
from skyrocketmq.errors import BrokerError, FrameTooLarge, MQError, NetError
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.model.hosts import pack_host
from skyrocketmq.model.names import AUTO_CREATE_TOPIC
from skyrocketmq.model.properties import WAIT
from skyrocketmq.net import parse_address
from skyrocketmq.ports import LocalMachine, SystemClock, pause
from skyrocketmq.spark.choosing import QueueChoice, WriteFailed
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.link import BlockingLink
from skyrocketmq.spark.options import SinkOptions
from skyrocketmq.spark.pace import Pace
from skyrocketmq.spark.packing import pack_rows, split_by_size
from skyrocketmq.spark.patience import RETRY_PAUSE_S
from skyrocketmq.wire.batches import ENTRY_BYTES_MIN
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.compression import INFLATED_BYTES_MAX
from skyrocketmq.wire.ids import UniqueIdGenerator

__all__ = ["Sending", "WriteFailed"]

BODY_BYTES_MAX: Final = INFLATED_BYTES_MAX  # as it was given; how large it may be compressed the brokers say

Stored: TypeAlias = Callable[[AbstractSet[MessageQueue], AbstractSet[str]], AbstractSet[str]]
"""Which of the messages with these ids the queues have."""


@dataclass(slots=True)
class _Batch:
    """Messages that will travel together; `queue` is theirs for good if they have keys."""

    topic: str
    queue: MessageQueue | None
    packed: list[Outgoing] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class _Entries:
    """The same, of rows that were packed together."""

    parts: list[memoryview] = field(default_factory=list)
    size: int = 0
    count: int = 0


@dataclass(slots=True)
class _Request:
    """A request under way. It keeps its messages apart only where they may have to be looked for."""

    outgoing: Outgoing
    queue: MessageQueue
    is_ordered: bool
    message_count: int
    parts: Sequence[Outgoing] = ()
    failure_count: int = 0
    is_uncertain: bool = False  # it was sent, and nothing came back


class Sending:
    """One task's way to the brokers. Use it in `with`, and call `finish` at the end."""

    def __init__(self, cluster: Cluster, options: SinkOptions, *, stored: Stored | None = None) -> None:
        self._cluster = cluster
        self._stored = stored
        self._options = options
        self._clock = SystemClock()
        chance = random.SystemRandom()
        hosts = tuple(parse_address(address).host for address in options.name_servers)
        own_ip = pack_host(LocalMachine().address(hosts), 0)[:-4]
        self._ids = UniqueIdGenerator(ip=own_ip, process_id=os.getpid(), constant=chance.getrandbits(32))
        self._requests = SendRequests(options.group, template=AUTO_CREATE_TOPIC, template_queue_nums=4, unit_mode=False)
        self._choice = QueueChoice(cluster)
        # From how many bytes on a body is compressed; without compression none is as large.
        self._large_bytes = BODY_BYTES_MAX + 1 if options.compression is None else options.compression.from_bytes
        self._batches: dict[MessageQueue | str, _Batch] = {}
        self._entries: dict[str, _Entries] = {}  # by topic
        self._links: dict[str, BlockingLink] = {}
        self._under_way: dict[tuple[str, int], _Request] = {}  # by broker and number, the oldest first
        self._pace = None if options.rate_per_task is None else Pace(options.rate_per_task, self._clock.monotonic)
        self.written_count = 0

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    def add(self, message: Message, sharding_key: str | None, target_queue: str | None = None) -> None:
        """Take a message; it is sent when a batch is full, or at the end."""
        if self._pace is not None:
            self._keep_pace(self._pace)
        if len(message.body) > BODY_BYTES_MAX:
            raise WriteFailed(
                f"a row cannot be a message (topic {message.topic!r}, keys {message.keys!r}): its body has "
                f"{len(message.body)} bytes, and {BODY_BYTES_MAX} is the most that consumers take, compressed or not"
            )
        queue = self._choice.fixed(message, sharding_key, target_queue)
        packed = pack_message(message, ids=self._ids, now_ms=self._clock.now_ms(), bytes_max=BODY_BYTES_MAX)
        if message.delay_level or len(message.body) >= self._large_bytes:  # no batch takes it
            if queue is not None:
                self._flush(queue)
            self._send([self._smaller(packed)], queue, message.topic)
            return
        place = queue or message.topic
        size = ENTRY_BYTES_MIN + len(packed.body) + 4 * len(packed.properties)
        batch = self._batches.get(place)
        if batch is not None and batch.size + size > self._options.batch_bytes:
            self._flush(place)
            batch = None
        if batch is None:
            batch = self._batches[place] = _Batch(message.topic, queue)
        batch.packed.append(packed)
        batch.size += size

    def _smaller(self, packed: Outgoing) -> Outgoing:
        """The message compressed, if it is to be, and if that makes it smaller: limits count what is sent."""
        if self._options.compression is None:
            return packed
        other = compressed(msgspec.structs.replace(packed), self._options.compression)
        return other if len(other.body) < len(packed.body) else packed

    def add_rows(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Take rows of a topic that need no queue of their own, all at once; what it returns has to go one by one."""
        small, large = split_by_size(rows, self._large_bytes)
        packed = pack_rows(small, self._ids, now_ms=self._clock.now_ms())
        if packed is None:
            return rows
        places, at = packed.places, 0
        while at < len(packed):
            entries = self._entries.setdefault(topic, _Entries())
            room = self._options.batch_bytes - entries.size
            end = int(np.searchsorted(places, places[at] + room, side="right")) - 1
            if end <= at and entries.count:
                self._flush_entries(topic)
                continue
            end = max(end, at + 1)  # one that is larger than a batch goes alone
            entries.parts.append(packed.data[int(places[at]) : int(places[end])])
            entries.size += int(places[end] - places[at])
            entries.count += end - at
            at = end
        return large

    def finish(self) -> None:
        """Send what is left, and wait until everything is stored."""
        for place in list(self._batches):
            self._flush(place)
        for topic in list(self._entries):
            self._flush_entries(topic)
        while self._under_way:
            self._receive()

    def _keep_pace(self, pace: Pace) -> None:
        """Wait until one more may be sent; what was taken before does not wait for it."""
        wait_s = pace.take()
        if wait_s:
            self.finish()
            pause(wait_s)

    # ---------------------------------------------------------------------------------------------- requests

    def _flush(self, place: MessageQueue | str) -> None:
        batch = self._batches.pop(place, None)
        if batch is not None:
            self._send(batch.packed, batch.queue, batch.topic)

    def _flush_entries(self, topic: str) -> None:
        entries = self._entries.pop(topic)
        outgoing = Outgoing(
            code=RequestCode.SEND_BATCH_MESSAGE,
            topic=topic,
            body=b"".join(entries.parts),
            properties=f"{WAIT}\x01true",
            msg_id="",
            is_batch=True,
        )
        self._put_on_way(_Request(outgoing, self._choice.next(topic), False, entries.count))

    def _send(self, packed: Sequence[Outgoing], queue: MessageQueue | None, topic: str) -> None:
        request = _Request(_joined(packed), queue or self._choice.next(topic), queue is not None, len(packed))
        if self._stored is not None:
            request.parts = packed
        self._put_on_way(request)

    def _put_on_way(self, request: _Request) -> None:
        """Start a request as soon as the window, and its order, allow it."""
        while len(self._under_way) >= self._options.window or (request.is_ordered and self._is_busy(request.queue)):
            self._receive()
        self._start(request)

    def _is_busy(self, queue: MessageQueue) -> bool:
        return any(request.queue == queue for request in self._under_way.values())

    def _start(self, request: _Request) -> None:
        """Put a request on its way, or another connection after that failed, until the retries are used up."""
        while True:
            broker = request.queue.broker_name
            try:
                link = self._links.get(broker)
                if link is None:
                    link = self._links[broker] = self._cluster.connect(broker, request.queue.topic, to_write=True)
                request.is_uncertain = True
                sent = self._requests.request(request.outgoing, request.queue, born_ms=self._clock.now_ms())
                number = link.send(sent.frame())
            except FrameTooLarge as error:
                raise self._failed(request, error) from error
            except NetError as error:
                self._lose(broker, error)
                self._move(request, error)
                self._settle(request)
                if not request.message_count:
                    return
                continue
            self._under_way[broker, number] = request
            return

    def _receive(self) -> None:
        """Wait for an answer from the broker that was asked first."""
        broker, _ = next(iter(self._under_way))
        try:
            answer = self._links[broker].receive()
        except NetError as error:
            self._lose(broker, error)
            return
        request = self._under_way.pop((broker, answer.opaque), None) if answer.is_response else None
        if request is None:
            return  # not an answer, or one to a request that was given up
        try:
            read_send_result(answer, request.queue, topic=request.queue.topic, msg_id="", address=broker)
        except BrokerError as error:
            if error.code not in FAILED_CODES:
                raise self._failed(request, error) from error
            request.is_uncertain = False
            pause(RETRY_PAUSE_S)
            self._move(request, error)
            self._start(request)
            return
        self.written_count += request.message_count

    def _lose(self, broker: str, error: NetError) -> None:
        """A connection ended: what was under way on it is sent again."""
        link = self._links.pop(broker, None)
        if link is not None:
            link.close()
        self._choice.avoid(broker)
        lost = [place for place in self._under_way if place[0] == broker]
        requests = [self._under_way.pop(place) for place in lost]
        pause(RETRY_PAUSE_S)
        for request in requests:
            self._move(request, error)
            self._settle(request)
            if request.message_count:
                self._start(request)

    def _settle(self, request: _Request) -> None:
        """Take out of a request what the broker has stored without saying so, if that matters."""
        if self._stored is None or not request.is_uncertain:
            return
        wanted = {part.msg_id for part in request.parts}
        try:
            there = self._stored({request.queue}, wanted)
        except NetError as error:
            raise self._failed(request, error) from error
        left = [part for part in request.parts if part.msg_id not in there]
        self.written_count += request.message_count - len(left)
        request.message_count, request.parts, request.is_uncertain = len(left), left, False
        if left:
            request.outgoing = _joined(left)

    def _move(self, request: _Request, error: MQError) -> None:
        """Count a failure, and find another broker for what has no queue of its own."""
        request.failure_count += 1
        if request.failure_count > self._options.retry_count_max:
            raise self._failed(request, error) from error
        if request.is_ordered or (request.is_uncertain and self._stored is not None):
            return
        request.queue = self._choice.instead_of(request.queue)

    def _failed(self, request: _Request, error: MQError) -> WriteFailed:
        return WriteFailed(
            f"{request.message_count} messages for {request.queue} could not be written, "
            f"attempts: {max(request.failure_count, 1)}: {error}. "
            f"{self.written_count} messages of this task were written before and stay there"
        )


def _joined(packed: Sequence[Outgoing]) -> Outgoing:
    return packed[0] if len(packed) == 1 else join_packed(packed, wait_for_store=True)
