"""What `trace` says: journeys counted by topic and group, and some of them whole."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.spark.jobs.control import JobResult
from skyrocketmq.spark.jobs.outputs import as_table

__all__ = ["Delivery", "GroupTrace", "Journey", "Skew", "TopicTrace", "TraceResult"]


@dataclass(frozen=True, kw_only=True)
class TopicTrace:
    """Messages of a topic (None: of one that no producer told) that are in one state; times are those of sending."""

    topic: str | None
    state: str
    messages: int
    send_p50_ms: int | None
    send_p95_ms: int | None
    send_p99_ms: int | None


@dataclass(frozen=True, kw_only=True)
class GroupTrace:
    """What a group made of a topic's messages. `wait` is from sending to the first call, `call` how long calls took."""

    topic: str | None
    group: str | None
    messages: int
    attempts: int
    failures: int
    without_success: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    wait_p99_ms: int | None
    wait_max_ms: int | None
    call_p50_ms: int | None
    call_p99_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A call of a handler."""

    group: str | None
    client: str | None
    begun_ms: int | None
    ended_ms: int | None
    outcome: str
    retry_times: int | None


@dataclass(frozen=True, kw_only=True)
class Journey:
    """What became of one message."""

    msg_id: str
    topic: str | None
    tags: str | None
    keys: str | None
    state: str
    kind: str | None
    producer: str | None
    store_host: str | None
    sent_ms: int | None
    send_cost_ms: int | None
    stored_ms: int | None
    transaction_state: str | None
    transaction_ms: int | None
    wait_ms: int | None
    done_ms: int | None
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, kw_only=True)
class Skew:
    """The clock of one machine is ahead of another's by at least so much."""

    ahead: str
    behind: str
    ahead_ms: int
    times: int


@dataclass(frozen=True, kw_only=True)
class TraceResult(JobResult):
    """Journeys counted, and some of them."""

    place: str
    trace_topic: str
    messages: int
    states: dict[str, int]
    unreadable: int  # trace messages that hold no records
    topics: tuple[TopicTrace, ...]
    groups: tuple[GroupTrace, ...]
    skews: tuple[Skew, ...]
    waits: dict[int, int]  # messages by the power of two above the time to their first call, ms
    examples: tuple[Journey, ...]

    def text(self) -> str:
        parts = [f"{self.place}, {self.trace_topic}: {self.messages:,} messages"]
        if self.unreadable:
            parts.append(f"{self.unreadable:,} trace messages cannot be read")
        topics = [[one.topic, one.state, one.messages, one.send_p50_ms, one.send_p99_ms] for one in self.topics]
        parts.append(as_table(["topic", "state", "messages", "send p50 ms", "send p99 ms"], topics, texts=2))
        if self.groups:
            names = ["messages", "attempts", "failures", "without_success", "wait_p50_ms", "wait_p99_ms", "call_p99_ms"]
            rows = [[one.topic, one.group, *(getattr(one, name) for name in names)] for one in self.groups]
            parts.append(as_table(["topic", "group", *names], rows, texts=2))
        bad = [one for one in self.examples if one.state not in ("consumed", "rolled back")]
        if bad:
            rows = [[one.msg_id, one.topic, one.keys, one.state, len(one.deliveries)] for one in bad]
            parts.append(as_table(["message", "topic", "keys", "state", "deliveries"], rows, texts=4))
        parts += [
            f"the clock of {one.ahead} is ahead of that of {one.behind} by {one.ahead_ms:,} ms or more"
            for one in self.skews
        ]
        return "\n\n".join(parts)
