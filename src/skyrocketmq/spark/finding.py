"""What a plan begins with: the queues that options choose, what each has, and the offsets that places stand for."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from skyrocketmq.errors import IllegalArgument, NoRoute
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.names import is_system_topic
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.places import Bounds, Offsets, Places, resolve

__all__ = ["bounds_of", "chosen_queues", "is_chosen", "offsets_of", "visible_queues"]

logger = logging.getLogger(__name__)


def chosen_queues(cluster: Cluster, options: SourceOptions) -> list[MessageQueue]:
    """The queues to read now. A topic or queue that was named and is not there raises; a pattern may match nothing."""
    if options.assigned:
        known = {queue for topic in {queue.topic for queue in options.assigned} for queue in cluster.queues(topic)}
        missing = sorted(set(options.assigned) - known)
        if missing:
            raise IllegalArgument(f"assign names queues that are not there: {', '.join(map(str, missing))}")
        return list(options.assigned)
    return [queue for topic in _topics(cluster, options) for queue in cluster.queues(topic)]


def visible_queues(cluster: Cluster, options: SourceOptions) -> list[MessageQueue]:
    """Those of them that can be seen now: a topic or a queue whose brokers are away is left out."""
    found: list[MessageQueue] = []
    for topic in _topics(cluster, options):
        try:
            found += cluster.queues(topic)
        except NoRoute as error:
            logger.warning("topic cannot be seen now", extra={"topic": topic, "reason": str(error)})
    return [queue for queue in found if not options.assigned or queue in options.assigned]


def is_chosen(options: SourceOptions, queue: MessageQueue) -> bool:
    """Whether options choose a queue, wherever it is now."""
    if options.topic_pattern:
        return _matches(options.topic_pattern, queue.topic)
    return queue in options.assigned or queue.topic in options.topics


def _topics(cluster: Cluster, options: SourceOptions) -> Iterable[str]:
    if options.assigned:
        return sorted({queue.topic for queue in options.assigned})
    if not options.topic_pattern:
        return options.topics
    return [topic for topic in cluster.topics() if _matches(options.topic_pattern, topic)]


def _matches(pattern: str, topic: str) -> bool:
    """Half messages and delayed ones are the brokers' own business: only their names mean them, no pattern does."""
    return re.fullmatch(pattern, topic) is not None and not is_system_topic(topic)


def bounds_of(cluster: Cluster, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Bounds]:
    return {queue: Bounds(cluster.min_offset(queue), cluster.max_offset(queue)) for queue in queues}


def offsets_of(cluster: Cluster, places: Places, bounds: Mapping[MessageQueue, Bounds], *, option: str) -> Offsets:
    """The offset of each queue. Times are looked up at the brokers."""
    places.check(list(bounds), option=option.replace("Offsets", "Timestamp") if places.time_ms_by_queue else option)
    times = {queue: time_ms for queue in bounds if (time_ms := places.time_of(queue)) is not None}
    return resolve(places, bounds, {queue: cluster.offset_at(queue, time_ms) for queue, time_ms in times.items()})
