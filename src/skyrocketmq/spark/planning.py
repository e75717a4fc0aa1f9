"""Which ranges are read, by how many tasks, and how much of it now. Pure: values in, values out.

Rule 1: the ranges of a plan are exactly what lies between start and end: nothing twice, nothing left out.
Rule 2: the same start and end give the same plan; a batch that is repeated has the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.places import Bounds, Offsets
from skyrocketmq.spark.pulling import DataLost, QueueRange

__all__ = ["clip", "is_due", "limit_bytes", "limit_count", "ranges_between", "split"]


def ranges_between(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> list[QueueRange]:
    """The ranges that hold something, in the order of the queues. Both name the same queues."""
    return [
        QueueRange(queue.topic, queue.broker_name, queue.queue_id, starts[queue], ends[queue])
        for queue in sorted(ends)
        if starts[queue] < ends[queue]
    ]


def clip(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, Bounds],
    *,
    fail_on_data_loss: bool,
) -> tuple[Offsets, Offsets]:
    """Starts and ends within what the queues have. What lies outside is `DataLost`, or left out if that is allowed."""
    if fail_on_data_loss:
        for queue, end in sorted(ends.items()):
            start, has = starts[queue], bounds[queue]
            if start < min(has.lowest, end) or max(start, end) > has.highest:
                raise DataLost(
                    f"[{start}, {end}) of {queue} is not all there: the queue has [{has.lowest}, {has.highest}). "
                    f"Messages may have been cleaned away, the topic may have been made anew, or the offsets are "
                    f"wrong; to read what is there set failOnDataLoss=false"
                )
    within = {queue: (has.lowest, has.highest) for queue, has in bounds.items()}
    return (
        {queue: min(max(start, within[queue][0]), within[queue][1]) for queue, start in starts.items()},
        {queue: min(max(end, within[queue][0]), within[queue][1]) for queue, end in ends.items()},
    )


def split(ranges: Sequence[QueueRange], partitions_min: int | None) -> list[tuple[QueueRange, ...]]:
    """The ranges of each task: one task a range, or with a number that many tasks with equal shares.

    For equal shares all ranges are laid end to end and cut: long ones fall into pieces, short ones come together.
    """
    if partitions_min is None:
        return [(one,) for one in ranges]
    total = sum(one.count for one in ranges)
    count = min(partitions_min, total)
    cuts = [total * number // count for number in range(count + 1)] if count else []
    return [tuple(_between(ranges, begin, end)) for begin, end in pairwise(cuts)]


def _between(ranges: Sequence[QueueRange], begin: int, end: int) -> Iterable[QueueRange]:
    at = 0
    for one in ranges:
        start, stop = max(begin, at), min(end, at + one.count)
        if start < stop:
            yield QueueRange(one.topic, one.broker, one.queue_id, one.start + start - at, one.start + stop - at)
        at += one.count


def limit_count(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], count_max: int) -> Offsets:
    """Nearer ends, so that at most so many messages lie before them: each queue has a share by what it has."""
    waiting = {queue: end - starts[queue] for queue, end in ends.items() if end > starts[queue]}
    total = sum(waiting.values())
    if total <= count_max:
        return dict(ends)
    longest = sorted(waiting, key=lambda queue: (-waiting[queue], queue))
    # One message each first, so that no queue starves beside longer ones; the rest by what they have.
    shares = dict.fromkeys(longest[:count_max], 1)
    rest, rest_total = count_max - len(shares), total - len(waiting)
    if rest:
        shares = {queue: 1 + (waiting[queue] - 1) * rest // rest_total for queue in longest}
        left = count_max - sum(shares.values())
        for queue in [queue for queue in longest if shares[queue] < waiting[queue]][:left]:
            shares[queue] += 1
    return {queue: starts[queue] + shares.get(queue, 0) if queue in waiting else end for queue, end in ends.items()}


def limit_bytes(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    bytes_max: int,
    message_bytes: Mapping[MessageQueue, float],
) -> Offsets:
    """Nearer ends, so that about so many bytes lie before them, by the mean size of each queue's next messages.

    At least one message is let through: a limit below the size of a message must not stop the query.
    """
    waiting = {queue: max(end - starts[queue], 0) for queue, end in ends.items()}
    total_bytes = sum(count * message_bytes[queue] for queue, count in waiting.items() if count)
    if total_bytes <= bytes_max:
        return dict(ends)
    count_max = int(sum(waiting.values()) * (bytes_max / total_bytes))
    return limit_count(starts, ends, max(count_max, 1))


def is_due(count: int, *, count_min: int | None, waited_s: float, wait_max_s: float) -> bool:
    """Whether a batch is begun now: there is enough to read, or what there is has waited long enough."""
    return count_min is None or count >= count_min or (count > 0 and waited_s >= wait_max_s)
