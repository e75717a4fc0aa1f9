"""Where a replay takes its messages from: an archive, or the queues of the cluster.

Rule: `load` gives each queue's messages in their order, and all of a queue in one partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skyrocketmq.errors import NotFound
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.finding import bounds_of, chosen_queues, offsets_of
from skyrocketmq.spark.jobs.archive_reading import read_archive
from skyrocketmq.spark.jobs.following import Span
from skyrocketmq.spark.jobs.replay_plan import QueueCount, Selection
from skyrocketmq.spark.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ReplaySource"]


class ReplaySource:
    """The chosen messages."""

    def __init__(self, spark: SparkSession, selection: Selection, options: Mapping[str, str]) -> None:
        """`options` say where the cluster is, and how to be let in."""
        self._spark = spark
        self._selection = selection
        self._options = dict(options)
        if selection.tags and selection.path is None:
            self._options["tags"] = " || ".join(selection.tags)

    def counts(self) -> dict[MessageQueue, QueueCount]:
        """What each queue has of them. Raises `NotFound` or `NoRoute` for a topic that is not there."""
        if self._selection.path is None:
            return self._counts_of_cluster()
        from pyspark.sql.functions import count, lit, max, min

        self._check_topics()
        queues = self._archived.groupBy("topic", "broker", "queue_id")
        rows = queues.agg(min("queue_offset").alias("low"), max("queue_offset").alias("high"), count(lit(1)).alias("n"))
        return {
            MessageQueue(row["topic"], row["broker"], row["queue_id"]): QueueCount(
                row["low"], row["high"] + 1, row["n"]
            )
            for row in rows.collect()
        }

    def load(self, span: Span, tasks: int) -> DataFrame:
        """Those of a span, in so many partitions at most."""
        if self._selection.path is not None:
            return self._archived_of(span, tasks)
        frame = span.load(self._spark, self._options)
        if self._selection.keys:
            frame = frame.where(_has_key(self._selection))
        return frame.coalesce(tasks)  # whole queues come together: each stays in order

    # ---------------------------------------------------------------------------------------------- the cluster

    def _counts_of_cluster(self) -> dict[MessageQueue, QueueCount]:
        selection = self._selection
        times = {"startingTimestamp": selection.since_ms, "endingTimestamp": selection.until_ms}
        given = {name: str(time_ms) for name, time_ms in times.items() if time_ms is not None}
        asked = self._options | {"subscribe": ",".join(selection.topics)} | given
        options = SourceOptions.parse(asked, is_stream=False)
        with Cluster(options.name_servers, options.link) as cluster:
            bounds = bounds_of(cluster, chosen_queues(cluster, options))
            starts = offsets_of(cluster, options.starting, bounds, option="startingTimestamp")
            ends = offsets_of(cluster, options.ending, bounds, option="endingTimestamp")
        return {
            queue: QueueCount(starts[queue], ends[queue], ends[queue] - starts[queue])
            for queue in bounds
            if starts[queue] < ends[queue]
        }

    # ---------------------------------------------------------------------------------------------- the archive

    @property
    def _archived(self) -> DataFrame:
        """The chosen ones. Looked up anew for each step: files that were merged are deleted after a while."""
        from pyspark.sql.functions import col, expr

        selection = self._selection
        assert selection.path is not None
        frame = read_archive(self._spark, selection.path).where(col("topic").isin(*selection.topics))
        if selection.since_ms is not None:
            frame = frame.where(col("store_timestamp") >= expr(f"timestamp_millis({selection.since_ms})"))
        if selection.until_ms is not None:
            frame = frame.where(col("store_timestamp") < expr(f"timestamp_millis({selection.until_ms})"))
        if selection.tags:
            frame = frame.where(col("tags").isin(*selection.tags))
        if selection.keys:
            frame = frame.where(_has_key(selection))
        return frame

    def _archived_of(self, span: Span, tasks: int) -> DataFrame:
        from pyspark.sql.functions import col, create_map, lit

        queues = sorted(queue for queue, end in span.ends.items() if end > span.starts[queue])
        here = self._archived.where(_is_within(span, queues))
        # Neighbours go to different tasks, so that those of one broker are shared out.
        words = [lit(word) for number, queue in enumerate(queues) for word in (_label(queue), number % tasks)]
        label = _label_column()
        placed = here.withColumn("task", create_map(*words)[label])
        return placed.repartitionById(tasks, col("task")).sortWithinPartitions("queue_offset", "broker", "queue_id")

    def _check_topics(self) -> None:
        from pyspark.sql.functions import col

        assert self._selection.path is not None
        there = read_archive(self._spark, self._selection.path)
        found = {
            row["topic"]
            for row in there.where(col("topic").isin(*self._selection.topics)).select("topic").distinct().collect()
        }
        missing = sorted(set(self._selection.topics) - found)
        if missing:
            raise NotFound(f"the archive at {self._selection.path} has no topic {', '.join(missing)}")


def _is_within(span: Span, queues: list[MessageQueue]) -> Column:
    """Whether a row lies in the span. By queue, as files are sorted: whole parts of them are left out."""
    from functools import reduce

    from pyspark.sql.functions import col

    return reduce(
        lambda one, other: one | other,
        (
            (col("topic") == queue.topic)
            & (col("broker") == queue.broker_name)
            & (col("queue_id") == queue.queue_id)
            & col("queue_offset").between(span.starts[queue], span.ends[queue] - 1)
            for queue in queues
        ),
    )


def _has_key(selection: Selection) -> Column:
    from pyspark.sql.functions import array, arrays_overlap, col, lit

    return arrays_overlap(col("keys"), array(*(lit(key) for key in selection.keys)))


def _label(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id}"


def _label_column() -> Column:
    from pyspark.sql.functions import col, concat, lit

    return concat(col("topic"), lit(" "), col("broker"), lit(":"), col("queue_id").cast("string"))
