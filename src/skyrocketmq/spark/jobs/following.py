"""Which messages come next: a job remembers how far it is in each queue, and goes on from there.

Rule 1: what is read lies between two places that are known before anything is read, so a step that is repeated has the
same messages.
Rule 2: a queue that is met for the first time is read from where the job was told to begin; one that a known topic has
got since, from its oldest message.
Rule 3: messages that were cleaned away before they were read are an error, unless the job was told to go on without.
Rule 4: a slave that stands in for its master may lack what its master has: that is no loss, the master is waited for.
Rule 5: whoever reads to the end says what it could not see: queues that are known, and whose broker is away.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyrocketmq.errors import IllegalArgument, NetError, NoRoute
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.names import is_system_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skyrocketmq.spark.cluster import Cluster
    from skyrocketmq.spark.options import SourceOptions
    from skyrocketmq.spark.places import Bounds, Offsets

__all__ = ["Following", "Span", "choice_of", "matching_topics"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Span:
    """Messages of several queues: from `starts` up to but not including `ends`. Both name the same queues."""

    starts: Mapping[MessageQueue, int]
    ends: Mapping[MessageQueue, int]

    @property
    def count(self) -> int:
        return sum(end - self.starts[queue] for queue, end in self.ends.items())

    @property
    def topics(self) -> list[str]:
        """Those that have something in it."""
        return sorted({queue.topic for queue, end in self.ends.items() if end > self.starts[queue]})

    def of(self, topic: str) -> Span:
        queues = [queue for queue in self.ends if queue.topic == topic]
        return Span({queue: self.starts[queue] for queue in queues}, {queue: self.ends[queue] for queue in queues})

    def to_json(self) -> dict[str, object]:
        from skyrocketmq.spark.places import offsets_to_json

        return {"starts": offsets_to_json(self.starts), "ends": offsets_to_json(self.ends)}

    @classmethod
    def from_json(cls, tree: Mapping[str, object]) -> Span:
        from skyrocketmq.spark.places import offsets_from_json

        return cls(offsets_from_json(tree["starts"]), offsets_from_json(tree["ends"]))

    def load(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        """Its messages. `options` say where the cluster is, and how to be let in."""
        from skyrocketmq.spark.places import offsets_to_json

        queues = sorted(queue for queue, end in self.ends.items() if end > self.starts[queue])
        assigned: dict[str, list[str]] = {}
        for queue in queues:
            assigned.setdefault(queue.topic, []).append(f"{queue.broker_name}:{queue.queue_id}")
        reading = spark.read.format("rocketmq").options(**dict(options), assign=json.dumps(assigned))
        return reading.options(
            startingOffsets=json.dumps(offsets_to_json({queue: self.starts[queue] for queue in queues})),
            endingOffsets=json.dumps(offsets_to_json({queue: self.ends[queue] for queue in queues})),
        ).load()


def choice_of(topics: Sequence[str], pattern: str | None) -> dict[str, str]:
    """The option of the source that names the topics."""
    if isinstance(topics, str):
        raise IllegalArgument(f"topics is the text {topics!r}: give a list of names")
    if bool(topics) == bool(pattern):
        raise IllegalArgument("give topics or a pattern for their names, one of the two")
    return {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(topics)}


def matching_topics(pattern: str, topics: Sequence[str]) -> list[str]:
    """Those that a pattern means: never a system topic, and what belongs to a group only if the pattern begins so."""
    whole = re.compile(pattern)
    return [
        topic
        for topic in topics
        if whole.fullmatch(topic) and not is_system_topic(topic) and (pattern.startswith("%") or topic[0] != "%")
    ]


class Following:
    """A job's way through the queues of its topics."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._is_blind = False  # the last look came to nothing

    def look(self, *, is_patient: bool) -> dict[MessageQueue, Bounds]:
        """What the queues have now. A run without an end is patient with a cluster that is away; another one fails."""
        self._is_blind = False
        try:
            return self.bounds(is_patient=is_patient)
        except (NetError, NoRoute) as error:
            if not is_patient:
                raise
            self._is_blind = True
            logger.warning("the cluster cannot be seen now", extra={"reason": str(error)})
            return {}

    def bounds(self, *, is_patient: bool = False) -> dict[MessageQueue, Bounds]:
        """What the queues have now. Raises `NetError`, and `NoRoute` for a topic that was named and is not there.

        One that is patient goes on with the other topics, and finds that one when it is there again.
        """
        from skyrocketmq.spark.finding import bounds_of, chosen_queues, visible_queues

        if not self._options.topic_pattern:
            find = visible_queues if is_patient else chosen_queues
            return bounds_of(self._cluster, find(self._cluster, self._options))
        topics = matching_topics(self._options.topic_pattern, self._cluster.topics())
        own = [topic for topic in topics if not self._cluster.is_of_servers(topic)]
        return bounds_of(self._cluster, [queue for topic in own for queue in self._cluster.queues(topic)])

    def left_out(self, known: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, Bounds]) -> list[MessageQueue]:
        """The queues that a job was in before, and of which it saw nothing now, or less than it had read.

        A queue that is gone while its broker is there was taken away by somebody, and is not missed; but if the last
        look came to nothing, all are. Where data loss is allowed there is a warning, and that is all.
        """
        unseen = {queue for queue in known if queue not in bounds and self._is_chosen(queue.topic)}
        try:
            there = self._cluster.broker_names() if unseen and not self._is_blind else frozenset()
        except NetError:
            there = frozenset()  # nobody says who is there
        away = {queue for queue in unseen if queue.broker_name not in there}
        behind = {queue for queue, has in bounds.items() if self._is_behind(queue, known, has)}
        for queue in sorted(away):
            logger.warning("queue left out: its broker is away", extra={"queue": str(queue)})
        return sorted(away | behind) if self._options.pull.fail_on_data_loss else []

    def _is_chosen(self, topic: str) -> bool:
        pattern = self._options.topic_pattern
        return bool(matching_topics(pattern, [topic])) if pattern else topic in self._options.topics

    def next(self, known: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, Bounds], rows_max: int) -> Span:
        """What follows the places that are known, up to what the queues had, and at most so many messages of it."""
        from skyrocketmq.spark.planning import limit_count

        bounds = {queue: has for queue, has in bounds.items() if not self._is_behind(queue, known, has)}
        starts = self._starts(known, bounds)
        ends = {queue: max(has.highest, starts[queue]) for queue, has in bounds.items()}
        return Span(starts, limit_count(starts, ends, rows_max))

    def _is_behind(self, queue: MessageQueue, known: Mapping[MessageQueue, int], has: Bounds) -> bool:
        """Whether a slave stands in, and does not reach up to where the job is."""
        if has.lowest <= known.get(queue, has.lowest) <= has.highest or not self._cluster.is_replica(queue.broker_name):
            return False
        logger.warning("the master is away, and its slave is behind", extra={"queue": str(queue)})
        return True

    def _starts(self, known: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, Bounds]) -> Offsets:
        from skyrocketmq.spark.finding import offsets_of
        from skyrocketmq.spark.pulling import DataLost

        topics = {queue.topic for queue in known}
        unknown = {queue: has for queue, has in bounds.items() if queue.topic not in topics}
        starts = offsets_of(self._cluster, self._options.starting, unknown, option="startingOffsets")
        for queue, has in bounds.items():
            if queue in unknown:
                continue
            at = known.get(queue, has.lowest)
            if not has.lowest <= at <= has.highest:
                if self._options.pull.fail_on_data_loss:
                    raise DataLost(
                        f"{queue} is at {at}, and the queue has [{has.lowest}, {has.highest}) now: messages were "
                        f"cleaned away before they were read, or the topic was made anew. To go on with what is "
                        f"there allow data loss"
                    )
                at = has.lowest
            starts[queue] = at
        return starts
