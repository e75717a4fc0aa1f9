"""Messages from one topic to another, each queue in its order: what `replay` and `mirror` have in common.

Rule 1: all messages of a queue go to one queue, which is chosen once (`Routes`), and the same task sends them one after
the other. So they are in the same order there.
Rule 2: a copy has body, tags, keys and the properties that are the user's own. Id, times and hosts are new; who wants
to know those of the original asks for `origin`, and finds them in properties.
Rule 3: messages without a body are left out, and counted. Brokers store them, but no producer sends one, and Apache's
consumers fail on it: a copy would only spread the trouble.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.names import check_send_topic, is_system_topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "ID_COLUMNS",
    "MIRRORED_FROM",
    "ORIGIN",
    "Copied",
    "Routes",
    "Target",
    "check_target",
    "copy_rows",
    "has_body",
    "step_rows_of",
    "task_count",
]

logger = logging.getLogger(__name__)

ID_COLUMNS: Final = ("topic", "broker", "queue_id", "queue_offset")
# Names of properties that tell where a copy comes from.
ORIGIN: Final = {
    "ORIGIN_MSG_ID": "msg_id",
    "ORIGIN_QUEUE": "concat(topic, ' ', broker, ':', queue_id)",
    "ORIGIN_OFFSET": "cast(queue_offset as string)",
    "ORIGIN_BORN_MS": "cast(unix_millis(born_timestamp) as string)",
    "ORIGIN_STORE_MS": "cast(unix_millis(store_timestamp) as string)",
}
MIRRORED_FROM: Final = "MIRRORED_FROM"  # the property that every copy of a mirror has: the broker that it comes from
_STEP_S: Final = 30.0
_RATE_OF_A_TASK: Final = 5000.0  # messages a second that one task surely sends


@dataclass(frozen=True)
class Routes:
    """The queue that each queue's messages go to, both as `broker:number`, the first with its topic before it."""

    targets: Sequence[str]
    chosen: Mapping[str, str] = field(default_factory=dict)

    def with_queues(self, queues: Sequence[MessageQueue]) -> Routes:
        """With a route for each of these; those that have one keep it."""
        chosen = dict(self.chosen)
        for queue in sorted(queues):
            chosen.setdefault(_name(queue), self.targets[len(chosen) % len(self.targets)])
        return Routes(self.targets, chosen)

    def column(self) -> Column:
        """The target of a row."""
        from pyspark.sql.functions import col, concat, create_map, lit

        words = [lit(word) for pair in sorted(self.chosen.items()) for word in pair]
        key = concat(col("topic"), lit(" "), col("broker"), lit(":"), col("queue_id").cast("string"))
        return create_map(*words)[key]


@dataclass(frozen=True)
class Target:
    """Where copies go."""

    topic: str
    options: Mapping[str, str]  # of the sink: where the cluster is, and how to be let in
    rate: float | None = None  # messages a second, of all tasks together


@dataclass(frozen=True)
class Copied:
    """How many messages were sent, and how many were left out because they have no body."""

    row_count: int = 0
    empty_count: int = 0

    def __add__(self, other: Copied) -> Copied:
        return Copied(self.row_count + other.row_count, self.empty_count + other.empty_count)


def check_target(topic: str) -> None:
    """Raises `IllegalArgument` for a topic that is not for users' messages."""
    check_send_topic(topic)
    if is_system_topic(topic):
        raise IllegalArgument(f"the topic {topic} is one of the system's own: give a topic of yours")


def step_rows_of(rows_max: int, rate: float | None) -> int:
    """How many messages a step has: with a rate so few that a job which should stop does so within half a minute."""
    return rows_max if rate is None else min(rows_max, max(round(rate * _STEP_S), 1))


def task_count(rate: float | None, *, queue_count: int, parallelism: int) -> int:
    """How many tasks send. With a rate only as many as it needs: each has an equal share of it, and keeps it."""
    most = max(min(queue_count, parallelism), 1)
    return most if rate is None else min(most, max(round(rate / _RATE_OF_A_TASK), 1))


def copy_rows(
    frame: DataFrame,
    target: Target,
    routes: Routes,
    *,
    tasks: int,
    sink: Mapping[str, str],
    marks: Mapping[str, str] = MappingProxyType({}),
) -> Copied:
    """Write messages that are in order within each of so many partitions.

    `sink` says under which name and number this is done once, or is empty. `marks` are properties that copies get,
    with expressions for their values.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import count_if

    counted = Observation()
    rows = frame.observe(counted, count_if(has_body()).alias("rows"), count_if(~has_body()).alias("empty"))
    rows = rows.where(has_body())
    options = {"topic": target.topic} | dict(target.options)
    if sink:
        options |= {"mode": "effectively-once", "idColumns": ",".join(ID_COLUMNS)} | dict(sink)
    if target.rate is not None:
        options["ratePerTask"] = f"{target.rate / tasks:.6f}"
    properties = _with(marks) if marks else "properties"
    chosen = rows.selectExpr("body", "tags", "keys", f"{properties} as properties", *ID_COLUMNS)
    chosen.withColumn("target_queue", routes.column()).write.format("rocketmq").options(**options).mode("append").save()
    copied = Copied(int(counted.get["rows"]), int(counted.get["empty"]))
    if copied.empty_count:
        logger.warning("messages without a body are left out", extra={"to": target.topic, "count": copied.empty_count})
    return copied


def has_body() -> Column:
    """Whether a row can be copied at all."""
    from pyspark.sql.functions import coalesce, length, lit

    return coalesce(length("body"), lit(0)) > 0


def _with(marks: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{name}', {value}" for name, value in marks.items())
    own = f"map_filter(properties, (name, value) -> name not in ({', '.join(repr(name) for name in marks)}))"
    return f"map_concat({own}, map({pairs}))"


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
