"""What several of these tests use: fresh names, and ways to look at what was received."""

from __future__ import annotations

from itertools import count

import pytest

from tests.interop.clusters import ON_APACHES
from tests.interop.driver import PushConsumer, Queue, Received
from tests.interop.processes import wait_until

QUEUES_A_BROKER = 4
COMPRESSED = 0x1  # a bit of a message's system flag

java_client_test = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]
only_apache_has_it = pytest.mark.parametrize("setting", [ON_APACHES], indirect=True)
"""For what our broker does not do yet."""

_numbers = count(1)


def fresh_name(kind: str) -> str:
    return f"{kind}{next(_numbers)}"


def fresh_group() -> str:
    return fresh_name("group-")


def texts(messages: list[Received]) -> list[str]:
    return sorted(found.text for found in messages)


def numbers(upto: int) -> list[str]:
    return sorted(str(number) for number in range(upto))


def count_of(queues: list[Queue], topic: str) -> int:
    return sum(queue.topic == topic for queue in queues)


def consumed(consumer: PushConsumer, topic: str) -> int:
    """How many messages of the topic its group has committed, in all queues that this consumer reads."""
    return sum(consumer.consumed_offset(queue) for queue in consumer.assignment() if queue.topic == topic)


def wait_until_retries_are_read(consumer: PushConsumer, group: str) -> None:
    """A broker makes a group's retry topic when it first hears of the group. A consumer that asked for the route a
    moment before asks again after half a minute only; here it is made to."""

    def reads_retries() -> bool:
        consumer.rebalance()
        return count_of(consumer.assignment(), f"%RETRY%{group}") > 0

    wait_until(reads_retries, timeout_s=20, what="the group's retry topic is read")
