"""What happened in a simulated run: the one thing that the checks read.

Rule 1: append-only. `History.add` gives each event its virtual time and its number, in the true order of the run (which
no node knows); nothing is changed or taken back afterwards.
Rule 2: events say what was seen, not what it means. Whether a message should have been kept is the checks' affair.
Rule 3: events are plain values, equal in every process: two runs of a seed have the same `digest`.

A message of the workload has a name that is given once in a run. Its body is made by `make_body` and begins with the
name; of its properties those in `OWN_PROPERTIES` or with the prefix `OWN_PREFIX` are the workload's. `content_of` makes
one short text of both, so that "arrived as it was sent" is one comparison.

Queues are those of the log that holds them: a retry or a dead letter has the topic `%RETRY%group` or `%DLQ%group`, and
`broker` is always the broker's name (which a master and its slaves share), where `node` is one machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import force_setattr

OWN_PREFIX = "sim"
OWN_PROPERTIES = frozenset({"KEYS", "TAGS"})
_NAMEventKindEND = b"|"

SendKind = Literal["plain", "one-way", "batch", "delayed", "transactional"]
Decision = Literal["commit", "rollback", "unknown"]
ConsumerKind = Literal["concurrent", "orderly", "broadcast", "lite", "pull"]
# "retry": the handler asked for the message again; "error": it raised; "cut off": it never ended, its node died.
Outcome = Literal["done", "retry", "error", "cut off"]
Ending = Literal["stopped", "killed", "power cut", "lost"]


class QueueId(NamedTuple):
    topic: str
    broker: str
    queue: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue}"


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`node` is the machine that did or saw it; `at` and `order` are given by the history."""

    node: str
    at: float = 0.0  # virtual seconds since the start of the run
    order: int = -1


# --------------------------------------------------------------------------------------------------- the cluster


class BrokerStarted(Event, frozen=True):
    """A broker serves, in this role, from here to its `BrokerEnded`. A slave promoted starts again with the id 0."""

    broker: str
    broker_id: int
    role: str  # ASYNC_MASTER, SYNC_MASTER or SLAVE
    flush: str  # ASYNC_FLUSH or SYNC_FLUSH
    recovered_to: int = 0  # the end of its log after the start


class BrokerEnded(Event, frozen=True):
    """`power cut` takes what was not synced; `lost` means that this disk is never seen again."""

    broker: str
    how: Ending


class TopicMade(Event, frozen=True):
    topic: str
    brokers: tuple[str, ...]
    queue_count: int


class ConsumerStarted(Event, frozen=True):
    """A member of a group. Checks expect all members of a group to be alike, and to read from the first message."""

    group: str
    kind: ConsumerKind
    topics: tuple[str, ...]
    tags: tuple[str, ...] = ()  # empty: all
    attempts_max: int = 16  # deliveries again before the message becomes a dead letter
    session: str = ""  # broadcast: members that share stored progress, from life to life


class ConsumerEnded(Event, frozen=True):
    group: str
    how: Ending


class FaultBegan(Event, frozen=True):
    """`number` is the fault's place in the plan; `node` is whom it befalls."""

    number: int
    fault: str  # the kind, such as "power cut", "partition", "failed sync", "disk full", "clock jump"
    detail: str = ""


class FaultHealed(Event, frozen=True):
    number: int
    fault: str


class ClockMoved(Event, frozen=True):
    """From now on the node's wall clock is this far from true time."""

    skew_ms: int


# ------------------------------------------------------------------------------------------------------- sending


class SendBegun(Event, frozen=True):
    message: str
    topic: str
    kind: SendKind
    content: str
    key: str = ""  # messages of one key and one sender are sent one after the other, to one queue: they stay in order
    tag: str = ""
    delay_s: float = 0.0  # never delivered earlier than this after it is stored
    wait: bool = True  # False: the sender does not want the answer to wait for disk and slave
    batch: str = ""  # names the batch it travels in


class SendAnswered(Event, frozen=True):
    """For a transaction: the half message is stored; `queue` is the one it was meant for, its offset unknown (-1)."""

    message: str
    status: str  # SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVEventKindTIMEOUT, SLAVEventKindNOT_AVAILABLE
    queue: QueueId
    offset: int
    message_id: str = ""


class SendFailed(Event, frozen=True):
    """Nobody knows whether it is stored."""

    message: str
    error: str


class TransactionDecided(Event, frozen=True):
    """What the sender said about its half message: after the send, or asked by a broker."""

    message: str
    decision: Decision
    asked: bool = False  # the answer to a check-back
    heard: bool = False  # the broker has confirmed the end


# ------------------------------------------------------------------------------------------------------ consuming


class HandlerBegan(Event, frozen=True):
    """A message is shown to a group. `call` is the number of the call; messages handled together share it."""

    group: str
    kind: ConsumerKind
    queue: QueueId
    offset: int
    message: str
    content: str
    attempt: int  # 0 the first time
    call: int
    stored_by: str = ""  # the node that gave it this number, as the message itself says


class HandlerEnded(Event, frozen=True):
    group: str
    call: int
    outcome: Outcome
    delay_s: float = 0.0  # "retry": not again before this


class QueueLocked(Event, frozen=True):
    """A member believes to own a queue, as orderly consumption demands."""

    group: str
    queue: QueueId


class QueueUnlocked(Event, frozen=True):
    group: str
    queue: QueueId


class OffsetSeen(Event, frozen=True):
    """A group's committed offset as its broker told it, at `node`."""

    group: str
    queue: QueueId
    offset: int


class OffsetReset(Event, frozen=True):
    """An operator moved the group; from the begin of the command to its end anything goes."""

    group: str
    topic: str
    done: bool = False


# ---------------------------------------------------------------------------------------------- the logs, as read


class StoredSeen(Event, frozen=True):
    """A message as a broker shows it to a reader of its queue. `final`: read after all has healed."""

    queue: QueueId
    offset: int
    message: str
    content: str
    final: bool = True


class QueueEnds(Event, frozen=True):
    """The offsets that a queue holds, as its broker tells it: [first, end)."""

    queue: QueueId
    first: int
    end: int
    final: bool = True


class LogDigested(Event, frozen=True):
    """The bytes [start, end) of a broker's commit log. Taken of a master and of its slaves over the same range."""

    broker: str
    role: str
    start: int
    end: int
    digest: str


class RunEnded(Event, frozen=True):
    """All faults were healed, and everybody had time to finish; what is missing now is missing for ever."""

    settled: bool
    why: str = ""


AnyEvent = (
    BrokerStarted
    | BrokerEnded
    | TopicMade
    | ConsumerStarted
    | ConsumerEnded
    | FaultBegan
    | FaultHealed
    | ClockMoved
    | SendBegun
    | SendAnswered
    | SendFailed
    | TransactionDecided
    | HandlerBegan
    | HandlerEnded
    | QueueLocked
    | QueueUnlocked
    | OffsetSeen
    | OffsetReset
    | StoredSeen
    | QueueEnds
    | LogDigested
    | RunEnded
)
EventKind = TypeVar("EventKind", bound=Event)


class History:
    """The events of one run. `now` tells virtual seconds since its start."""

    def __init__(self, seed: int, now: Callable[[], float]) -> None:
        self.seed = seed
        self.events: list[AnyEvent] = []
        self._now = now

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[AnyEvent]:
        return iter(self.events)

    def add(self, event: AnyEvent) -> None:
        """Note it, now. The event must be new: it is stamped in place, before anybody else sees it."""
        assert event.order < 0, f"noted twice: {event}"
        force_setattr(event, "at", round(self._now(), 6))
        force_setattr(event, "order", len(self.events))
        self.events.append(event)

    def of(self, kind: type[EventKind]) -> Iterator[EventKind]:
        """The events of a kind, in order."""
        return (event for event in self.events if type(event) is kind)

    def digest(self) -> str:
        """Equal for equal runs, in any process."""
        return hashlib.sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        return msgspec.msgpack.encode((self.seed, self.events))

    @classmethod
    def decode(cls, data: bytes) -> History:
        """As it was written by `encode`, to be read: `add` continues at the time of the last event."""
        seed, events = msgspec.msgpack.decode(data, type=tuple[int, list[AnyEvent]])
        history = cls(seed, lambda: events[-1].at if events else 0.0)
        history.events = events
        return history


# ------------------------------------------------------------------------------------------------ what messages are


def make_body(message: str, filling: bytes = b"") -> bytes:
    return message.encode() + _NAMEventKindEND + filling


def name_of(body: bytes) -> str:
    """The message whose body this is; of a body that no workload made, its beginning, which is then nobody's name."""
    name, end, _ = body.partition(_NAMEventKindEND)
    return name.decode(errors="replace") if end else repr(body[:24])


def content_of(body: bytes, properties: Mapping[str, str]) -> str:
    """One short text for a body and the workload's own properties: equal if and only if both are."""
    own = sorted((k, v) for k, v in properties.items() if k in OWN_PROPERTIES or k.startswith(OWN_PREFIX))
    return hashlib.sha256(msgspec.msgpack.encode((body, own))).hexdigest()[:16]
