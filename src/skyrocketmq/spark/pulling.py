"""A range of a queue as Arrow batches: several pulls under way, answers joined until a batch is worth its overhead.

A hot module. Pulls are sent before the answer to the one before has come, so each asks for just as many messages as
its answer will have: the next one begins behind them. How many that is, a broker's limits say, of messages (Apache's
32) and of bytes. It is found out by asking for more with one pull, and for fewer after an answer that was cut short
(`Share`); what was asked for behind such an answer is dropped.

Rule 1: a range is read completely and in order, or not: whatever is missing raises, unless data loss was allowed.
Rule 2: memory is bounded, whatever the range: the answers to the pulls under way (256 KiB each unless one message is
larger), the answers and joined bytes of one batch, and its columns, in which compressed bodies have their own limit.
Rule 3: a broker that goes away is tried again, from where the range was, until the retries are used up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skyrocketmq.errors import MQError, NetError, broker_error
from skyrocketmq.model.flags import PULL_SUBSCRIPTION
from skyrocketmq.ports import pause
from skyrocketmq.spark.columns import batches_of
from skyrocketmq.spark.link import NOTHING, BlockingLink
from skyrocketmq.spark.patience import RETRY_PAUSE_S
from skyrocketmq.spark.record_places import places_in_answer
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header, encode_header
from skyrocketmq.wire.headers_pull import PullMessageAnswer, PullMessageHeader
from skyrocketmq.wire.records import queue_offset_of

__all__ = ["DataLost", "PullOptions", "QueueRange", "Share", "read_range"]

PULLS_IN_FLIGHT: Final = 16
ASK_AGAIN_AT: Final = (
    8  # with so few left new ones are sent, together: a call and a wake-up of the broker for each is dear
)
PULL_COUNT: Final = 1024  # the most that is asked for
FIRST_COUNT: Final = 256
FULL_COUNT: Final = 64  # after so many full answers the limit may be higher than it was
BATCH_ROWS: Final = 4096
BATCH_BYTES: Final = 2 << 20

_REMOVED: Final = "MESSAGE_WAS_REMOVING"  # the remark of brokers, Apache's too, to messages that their log has no more


class DataLost(MQError):
    """Messages of the range are no longer there, or never were."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Messages of one queue, from the offset `start` up to but not including `end`."""

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic} {self.broker}:{self.queue_id} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How ranges are read."""

    group: str = "skyrocketmq-spark"
    expression: str = "*"
    is_sql: bool = False
    fail_on_data_loss: bool = True
    retry_count_max: int = 10

    @property
    def is_filtered(self) -> bool:
        return self.is_sql or self.expression != "*"


def read_range(
    connect: Callable[[], BlockingLink],
    wanted: QueueRange,
    options: PullOptions,
    columns: Sequence[str],
    *,
    sleep: Callable[[float], None] = pause,
) -> Iterator[pa.RecordBatch]:
    """The messages of a range. `connect` is called at the beginning and after each failure of the network."""
    at = wanted.start
    failures = 0
    while at < wanted.end:
        reading: _Reading | None = None
        try:
            with connect() as link:
                reading = _Reading(link, replace(wanted, start=at), options)
                for data, starts in reading.joined():
                    yield from batches_of(
                        data,
                        starts,
                        broker=wanted.broker,
                        columns=columns,
                        fail_on_data_loss=options.fail_on_data_loss,
                    )
                    at, failures = reading.safe_at, 0
                at = wanted.end
        except NetError as error:
            if reading is not None and reading.safe_at > at:  # nothing matched up to there
                at, failures = reading.safe_at, 0
            failures += 1
            if failures > options.retry_count_max:
                raise NetError(f"{wanted} was read up to {at}, then {failures} attempts failed: {error}") from error
            sleep(RETRY_PAUSE_S)


class Share:
    """How many messages a pull asks for, learnt from the answers."""

    def __init__(self) -> None:
        self.count = FIRST_COUNT
        self.is_sure = False  # an answer has had so many; until then one pull at a time is enough
        self._was_short = False
        self._good_count = self._full_count = 0

    def learn(self, asked: int, given: int) -> None:
        """An answer to a pull for `asked` messages had `given`."""
        if given < asked:
            # A limit of messages is met exactly from now on. Of one of bytes the next answers may have fewer still.
            is_exact = not self._was_short or given == self._good_count
            self.count = max(given if is_exact else given * 7 // 8, 1)
            self._was_short, self.is_sure, self._full_count = True, False, 0
        elif asked >= self.count:  # not the end of the range
            self.is_sure, self._good_count = True, asked
            self._full_count += 1
            if self.count < PULL_COUNT and self._full_count >= (FULL_COUNT if self._was_short else 1):
                self.count = min(self.count + max(self.count // (8 if self._was_short else 1), 1), PULL_COUNT)
                self.is_sure, self._full_count = False, 0


class _Reading:
    """One connection's way through a range."""

    def __init__(self, link: BlockingLink, wanted: QueueRange, options: PullOptions) -> None:
        self._link = link
        self._wanted = wanted
        self._options = options
        self._asked: deque[tuple[int, int, int]] = deque()  # (request number, offset, count) of the pulls under way
        self._answers: dict[int, tuple[Frame, memoryview]] = {}  # of later requests than the one that is waited for
        self._next_ask = wanted.start
        self._share = Share()
        self._at = wanted.start  # what has been received, in order
        self.safe_at = wanted.start  # what has been handed out

    def joined(self) -> Iterator[tuple[bytes, NDArray[np.int64]]]:
        """Bytes of records and where each begins, as much as makes a batch."""
        parts: list[memoryview] = []
        places: list[NDArray[np.int64]] = []
        size = count = 0

        def taken() -> tuple[bytes, NDArray[np.int64]]:
            nonlocal size, count
            joined = b"".join(parts), np.concatenate(places)
            parts.clear()
            places.clear()
            size = count = 0
            return joined

        while self._at < self._wanted.end:
            before = self._at
            try:
                body = self._next_answer()
            except NetError:  # what is there already need not be read again
                self.safe_at = self._at
                if count:
                    yield taken()
                raise
            kept = self._within(body, before)
            if len(kept):
                parts.append(body)
                places.append(kept + size)
                size += len(body)
                count += len(kept)
            if count >= BATCH_ROWS or size >= BATCH_BYTES:
                self.safe_at = self._at
                yield taken()
        self.safe_at = self._at
        if count:
            yield taken()

    def _within(self, body: memoryview, before: int) -> NDArray[np.int64]:
        """Where the records of an answer begin that belong to the range; they are all from `before` on."""
        places = places_in_answer(body)
        if not self._options.is_filtered and len(places) < self._at - before:
            # A broker steps over what its log no longer has, and says nothing.
            self._refuse_loss(before, f"of the {self._at - before} messages that follow the broker gave {len(places)}")
        while len(places) and _queue_offset(body, int(places[-1])) >= self._wanted.end:
            places = places[:-1]
        return places

    def _next_answer(self) -> memoryview:
        """The records from `_at` on; none if there are none for us there. Moves on behind them."""
        self._ask()
        number, offset, count = self._asked.popleft()
        answer, body = self._take(number)
        has_messages = self._follow(offset, answer)
        if has_messages and not self._options.is_filtered:
            self._share.learn(count, self._at - offset)
        return body if has_messages else NOTHING

    def _ask(self) -> None:
        """Have as many pulls under way as make sense. What a filter lets through cannot be guessed."""
        if not self._asked or self._asked[0][1] != self._at:
            self._asked.clear()  # their answers are dropped when they come
            self._answers.clear()
            self._next_ask = self._at
        elif len(self._asked) > ASK_AGAIN_AT:
            return
        is_filtered, share = self._options.is_filtered, self._share
        window = PULLS_IN_FLIGHT if share.is_sure and not is_filtered else 1
        pulls: list[tuple[int, int]] = []
        while len(self._asked) + len(pulls) < window and self._next_ask < self._wanted.end:
            count = PULL_COUNT if is_filtered else min(share.count, self._wanted.end - self._next_ask)
            pulls.append((self._next_ask, count))
            self._next_ask += count
        if pulls:
            last = self._link.send(*(self._pull(offset, count) for offset, count in pulls))
            numbers = range(last - len(pulls) + 1, last + 1)
            self._asked += [(number, *pull) for number, pull in zip(numbers, pulls, strict=True)]

    def _take(self, number: int) -> tuple[Frame, memoryview]:
        """The answer to the oldest pull under way. Answers to older ones still come, and nobody wants them."""
        if number in self._answers:
            return self._answers.pop(number)
        while True:
            answer, body = self._link.receive_view()
            if answer.opaque == number and answer.is_response:
                return answer, body
            if answer.opaque > number and answer.is_response:
                self._answers[answer.opaque] = answer, body

    def _follow(self, offset: int, answer: Frame) -> bool:
        """Move on as an answer says; whether it has messages for us."""
        if answer.code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            raise broker_error(answer.code, answer.remark, address=self._link.address)
        header = decode_header(PullMessageAnswer, answer.ext)
        next_offset = header.next_begin_offset if header.next_begin_offset is not None else offset
        if answer.code == ResponseCode.SUCCESS and next_offset > offset:
            self._at = next_offset
            return True
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and next_offset > offset:
            self._at = next_offset  # all of these were filtered out, or are not messages any more
            if answer.remark == _REMOVED:
                self._refuse_loss(offset, f"the broker goes on at {next_offset}: its log has them no more")
            return False
        self._lose(offset, header)
        return False

    def _lose(self, offset: int, header: PullMessageAnswer) -> None:
        """The queue does not have what the range promises."""
        lowest, highest = header.min_offset or 0, header.max_offset or 0
        if self._link.is_replica:
            slave = f"{self._link.address} has [{lowest}, {highest})"
            raise NetError(f"the master of {self._wanted.broker} is away, and its slave {slave}")
        if offset < lowest:
            reason, self._at = f"its oldest message is {lowest} now", min(lowest, self._wanted.end)
        else:
            reason, self._at = f"it ends at {highest}", self._wanted.end
        self._refuse_loss(offset, reason)

    def _refuse_loss(self, offset: int, reason: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"messages of {self._wanted} are gone: the queue was read up to {offset}, and {reason}. They may have "
                f"been cleaned away, or the topic was made anew; to go on without them set failOnDataLoss=false"
            )

    def _pull(self, offset: int, count: int) -> Frame:
        places: dict[str, str | None] = {"queueOffset": str(offset), "maxMsgNums": str(count)}
        return Frame(RequestCode.PULL_MESSAGE, ext=self._fields | places)

    @cached_property
    def _fields(self) -> dict[str, str | None]:
        """What all pulls have in common."""
        options, wanted = self._options, self._wanted
        header = PullMessageHeader(
            consumer_group=options.group,
            topic=wanted.topic,
            queue_id=wanted.queue_id,
            queue_offset=0,
            max_msg_nums=PULL_COUNT,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription=options.expression,
            sub_version=0,
            expression_type="SQL92" if options.is_sql else "TAG",
        )
        return encode_header(header)


def _queue_offset(data: memoryview, start: int) -> int:
    return queue_offset_of(data, start)
