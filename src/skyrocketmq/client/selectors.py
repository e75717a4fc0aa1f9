"""Which queue a message goes to, when its sender says so.

A selector is any callable `(queues, message, arg) -> queue`: it gets the queues that can be written now, in order, and
what the caller passed along, an order number say. Equal arguments give the same queue as long as the queues stay;
`select_by_hash` gives the one that a Java producer would take, so that both keep each other's order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import Protocol
from uuid import UUID

from skyrocketmq.client.allocation import machine_room_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.model.numbers import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from skyrocketmq.ports import SystemChance
from skyrocketmq.wire.java import string_hash

__all__ = ["QueueSelector", "java_hash", "select_by_hash", "select_by_machine_room", "select_random"]

_chance = SystemChance()


class QueueSelector(Protocol):
    """Picks one of the queues for a message."""

    def __call__(self, queues: Sequence[MessageQueue], message: Message, arg: object, /) -> MessageQueue: ...


def select_by_hash(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
    """Messages with equal arguments into one queue: what keeps the order of, say, one customer's events."""
    return queues[abs(java_hash(arg)) % len(queues)]  # the absolute value of Java's signed remainder


def select_random(
    queues: Sequence[MessageQueue],
    message: Message,
    arg: object,
    *,
    pick: Callable[[Sequence[MessageQueue]], MessageQueue] = _chance.choice,
) -> MessageQueue:
    return pick(queues)


def select_by_machine_room(rooms: Collection[str]) -> QueueSelector:
    """A selector that takes turns among the queues of brokers in these rooms (`room@name`), and among all if
    there are none."""
    turns = count()
    known = frozenset(rooms)

    def select(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
        near = [queue for queue in queues if machine_room_of(queue.broker_name) in known] or queues
        return near[next(turns) % len(near)]

    return select


def java_hash(value: object) -> int:
    """`hashCode` of the value as Java has it, a signed 32-bit number.

    A whole number counts as Java's `Integer` where it fits, else as a `Long`. `IllegalArgument` for a type whose hash
    is not the same everywhere: Python's own differs from process to process.
    """
    if isinstance(value, str):
        return string_hash(value)
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        if INT32_MIN <= value <= INT32_MAX:
            return value
        if INT64_MIN <= value <= INT64_MAX:
            return _fold(value)
        raise IllegalArgument(f"the selector's argument {value} does not fit 64 bits: pass it as a text")
    if isinstance(value, float):
        # Java knows one NaN only.
        return _fold(int.from_bytes(struct.pack(">d", value if value == value else float("nan")), "big"))
    if isinstance(value, UUID):
        return _fold((value.int >> 64) ^ value.int)
    raise IllegalArgument(
        f"the selector's argument {value!r} is of type {type(value).__name__}: pass a text, a number or a UUID"
    )


def _fold(bits: int) -> int:
    """A 64-bit number as Java folds it into a signed 32-bit one."""
    folded = (bits ^ (bits >> 32)) & 0xFFFFFFFF
    return folded - 2**32 if folded & 0x8000_0000 else folded
