"""What a plan begins with: the queues that options choose, what each has, and the offsets that places stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.places import Bounds, Offsets, Places, resolve

__all__ = ["bounds_of", "chosen_queues", "offsets_of"]


def chosen_queues(cluster: Cluster, options: SourceOptions) -> list[MessageQueue]:
    """The queues to read now. A topic or queue that was named and is not there raises; a pattern may match nothing."""
    if options.assigned:
        known = {queue for topic in {queue.topic for queue in options.assigned} for queue in cluster.queues(topic)}
        missing = sorted(set(options.assigned) - known)
        if missing:
            raise IllegalArgument(f"assign names queues that are not there: {', '.join(map(str, missing))}")
        return list(options.assigned)
    topics: Iterable[str] = options.topics
    if options.topic_pattern:
        pattern = re.compile(options.topic_pattern)
        topics = [topic for topic in cluster.topics() if pattern.fullmatch(topic)]
    return [queue for topic in topics for queue in cluster.queues(topic)]


def bounds_of(cluster: Cluster, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Bounds]:
    return {queue: Bounds(cluster.min_offset(queue), cluster.max_offset(queue)) for queue in queues}


def offsets_of(cluster: Cluster, places: Places, bounds: Mapping[MessageQueue, Bounds], *, option: str) -> Offsets:
    """The offset of each queue. Times are looked up at the brokers."""
    places.check(list(bounds), option=option)
    times = {queue: time_ms for queue in bounds if (time_ms := places.time_of(queue)) is not None}
    return resolve(places, bounds, {queue: cluster.offset_at(queue, time_ms) for queue, time_ms in times.items()})
