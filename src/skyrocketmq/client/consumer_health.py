"""How a push consumer is doing, as values that a health check or a dashboard can read.

    health = consumer.health()
    if not health.is_ok:
        print(health.troubles)

Rule: everything is known here already. Nothing is asked of a broker, so that the answer comes at once and also when
the brokers are gone; what was not learnt yet is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.client.flow_control import PullGate
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.push_member import PushMember
from skyrocketmq.model import MessageQueue

__all__ = ["BrokerHealth", "ConsumerHealth", "QueueHealth", "consumer_health"]


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """A broker that this consumer knows of."""

    address: str
    is_connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """A queue that is this consumer's now. `state` says why nothing is fetched of it, where that is so."""

    queue: MessageQueue
    state: PullGate
    error: str | None  # of the last request, until the next one a second later is under way
    next_offset: int  # what is fetched next
    committed_offset: int | None  # what is consumed, as will be committed
    lag: int | None  # messages that are stored and not consumed, as of the last answer
    cached_count: int
    cached_bytes: int
    last_pull_ms: int
    last_consume_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHealth:
    """A consumer at one moment; times are milliseconds since 1970."""

    group: str
    client_id: str
    at_ms: int
    is_paused: bool
    name_servers: tuple[str, ...]
    brokers: tuple[BrokerHealth, ...]
    queues: tuple[QueueHealth, ...]

    @property
    def lag(self) -> int | None:
        """Messages of all queues together that wait; None while one of them is not known."""
        total = 0
        for queue in self.queues:
            if queue.lag is None:
                return None
            total += queue.lag
        return total

    @property
    def troubles(self) -> list[str]:
        """What an operator should look at, as sentences. Neither a pause that was asked for nor a full cache counts."""
        found = [f"no connection to the broker {broker.address}" for broker in self.brokers if not broker.is_connected]
        if not self.brokers:
            found.append("no broker is known: the name servers do not answer, or do not know the topics")
        found += [
            f"{one.queue}: {one.error or one.state.text}"
            for one in self.queues
            if one.error or one.state in (PullGate.NOT_LOCKED, PullGate.NO_SUBSCRIPTION)
        ]
        return found

    @property
    def is_ok(self) -> bool:
        return not self.troubles


def consumer_health(member: PushMember, *, group: str) -> ConsumerHealth:
    """What is known of a running consumer now."""
    instance = member.instance
    masters = instance.routes.known_addresses(masters_only=True)
    return ConsumerHealth(
        group=group,
        client_id=member.client_id,
        at_ms=instance.clock.now_ms(),
        is_paused=member.is_paused,
        name_servers=tuple(instance.name_servers.addresses),
        brokers=tuple(BrokerHealth(address, instance.net.find(address) is not None) for address in sorted(masters)),
        queues=tuple(_queue_health(member, held) for _, held in sorted(member.held.items())),
    )


def _queue_health(member: PushMember, held: HeldQueue) -> QueueHealth:
    cache, committed = held.cache, member.offsets.find(held.queue)
    unfinished = held.next_offset if cache.first_offset is None else int(cache.first_offset)
    consumed = unfinished if committed is None else committed
    return QueueHealth(
        queue=held.queue,
        state=member.state_of(held),
        error=None if held.error is None else str(held.error),
        next_offset=held.next_offset,
        committed_offset=committed,
        lag=None if held.queue_end is None else max(0, held.queue_end - consumed),
        cached_count=cache.count,
        cached_bytes=cache.body_bytes,
        last_pull_ms=cache.pulled_at.wall_ms,
        last_consume_ms=cache.last_consume_ms,
    )
