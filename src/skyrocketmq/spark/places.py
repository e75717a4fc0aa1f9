"""Places in queues: as people and checkpoints write them, and as numbers. Pure.

Offsets are written as JSON, the same in options, in checkpoints and in the progress of a query:

    {"Orders": {"broker-a:0": 23, "broker-a:1": -2}}

-2 stands for the earliest message, -1 for the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue

__all__ = [
    "EARLIEST",
    "LATEST",
    "Bounds",
    "Offsets",
    "Places",
    "check_order",
    "offsets_from_json",
    "offsets_to_json",
    "resolve",
]

EARLIEST: Final = -2
LATEST: Final = -1

Offsets: TypeAlias = dict[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a queue has: from its oldest message up to but not including the next one."""

    lowest: int
    highest: int


@dataclass(frozen=True)
class Places:
    """Where reading begins or ends: the same everywhere, or said for each queue; by offset or by time of storing."""

    everywhere: int | None = None
    by_queue: Mapping[MessageQueue, int] = field(default_factory=dict)
    time_ms: int | None = None
    time_ms_by_queue: Mapping[MessageQueue, int] = field(default_factory=dict)

    def check(self, queues: Sequence[MessageQueue], *, option: str) -> None:
        """A place for each queue has to name all of them, and no other."""
        named = self.by_queue or self.time_ms_by_queue
        if not named:
            return
        missing = sorted(set(queues) - set(named))
        unknown = sorted(set(named) - set(queues))
        if missing or unknown:
            what, which = ("lacks", missing) if missing else ("names unknown", unknown)
            raise IllegalArgument(
                f"{option} {what} queues {', '.join(map(str, which))}: it has to name exactly the queues that are read"
            )

    def time_of(self, queue: MessageQueue) -> int | None:
        return self.time_ms_by_queue.get(queue, self.time_ms)

    def offset_of(self, queue: MessageQueue) -> int:
        if queue in self.by_queue:
            return self.by_queue[queue]
        assert self.everywhere is not None, "a place by time is looked up first"
        return self.everywhere


def check_order(starting: Places, ending: Places) -> None:
    """Raises `IllegalArgument` where an end that was written lies before the beginning that was written.

    Only what can be compared as it stands: what the words mean, and so what is left of a range, depends on what the
    queues have. A range that is empty because of that is no mistake.
    """
    if starting.time_ms is not None and ending.time_ms is not None:
        _check_pair(starting.time_ms, ending.time_ms, "Timestamp")
    if starting.everywhere is not None and ending.everywhere is not None:
        _check_pair(starting.everywhere, ending.everywhere, "Offsets")
    for queue in sorted({*starting.time_ms_by_queue, *ending.time_ms_by_queue}):
        _check_pair(starting.time_of(queue), ending.time_of(queue), "Timestamp", queue)
    for queue in sorted({*starting.by_queue, *ending.by_queue}):
        begin, end = (places.by_queue.get(queue, places.everywhere) for places in (starting, ending))
        _check_pair(begin, end, "Offsets", queue)


def _check_pair(begin: int | None, end: int | None, what: str, queue: MessageQueue | None = None) -> None:
    if begin is None or end is None or begin <= end:
        return
    if end >= 0 or (begin, end) == (LATEST, EARLIEST):
        place = "" if queue is None else f" of {queue}"
        raise IllegalArgument(
            f"nothing can be read{place}: starting{what} {_word(begin)} comes after ending{what} {_word(end)}"
        )


def _word(offset: int) -> str:
    return {EARLIEST: "earliest", LATEST: "latest"}.get(offset, str(offset))


def resolve(places: Places, bounds: Mapping[MessageQueue, Bounds], found: Mapping[MessageQueue, int]) -> Offsets:
    """The offset of each queue; `found` has the offsets that belong to times."""
    offsets: Offsets = {}
    for queue, has in bounds.items():
        if places.time_of(queue) is not None:
            offsets[queue] = found[queue]
            continue
        offset = places.offset_of(queue)
        offsets[queue] = {EARLIEST: has.lowest, LATEST: has.highest}.get(offset, offset)
    return offsets


def offsets_to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, int]]:
    """As checkpoints hold them."""
    tree: dict[str, dict[str, int]] = {}
    for queue in sorted(offsets):
        tree.setdefault(queue.topic, {})[f"{queue.broker_name}:{queue.queue_id}"] = offsets[queue]
    return tree


def offsets_from_json(tree: Any, *, smallest: int = EARLIEST) -> Offsets:
    """The way back. Raises `ValueError`."""
    offsets: Offsets = {}
    for topic, queues in _items(tree):
        for name, offset in _items(queues):
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < smallest:
                raise ValueError(f"{name} of {topic} has {json.dumps(offset)}: a number from {smallest} on is expected")
            offsets[_queue(topic, name)] = offset
    if not offsets:
        raise ValueError("it names no queue")
    return offsets


def queues_from_json(text: str) -> tuple[MessageQueue, ...]:
    """The queues of the option `assign`. Raises `ValueError`."""
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise ValueError(f'JSON such as {{"Orders": ["broker-a:0"]}} is expected ({error})') from error
    queues = [_queue(topic, name) for topic, names in _items(tree) for name in _list(names)]
    if not queues:
        raise ValueError("it names no queue")
    return tuple(sorted(set(queues)))


def _queue(topic: str, name: Any) -> MessageQueue:
    broker, _, number = str(name).rpartition(":")
    if not broker or not number.isdecimal():
        raise ValueError(f"{name!r} is no queue: write broker:number, as broker-a:0")
    return MessageQueue(topic, broker, int(number))


def _items(tree: Any) -> list[tuple[str, Any]]:
    if not isinstance(tree, dict):
        raise ValueError(f'{json.dumps(tree)} is found where an object such as {{"Orders": ...}} is expected')
    return list(tree.items())


def _list(tree: Any) -> list[Any]:
    if not isinstance(tree, list):
        raise ValueError(f"{json.dumps(tree)} is found where a list of queues is expected")
    return tree
