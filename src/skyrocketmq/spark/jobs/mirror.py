"""`mirror`: topics of one cluster copied to another, each queue in its order, from where the last run ended.

    mirror(spark, namesrv="here:9876", target="there:9876", topics=["Orders"], checkpoint="mirror-orders")

The checkpoint is a directory. Before messages are copied, it is written down which; a run that was killed is followed
by one that begins with the same ones, and leaves out what is there already (`mode=effectively-once` of the sink).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.jobs.arguments import add_following_arguments, connection_of, names_of, pairs_of
from skyrocketmq.spark.jobs.control import Control, JobResult, JobStopped
from skyrocketmq.spark.jobs.copying import (
    MIRRORED_FROM,
    ORIGIN,
    Copied,
    Routes,
    Target,
    check_target,
    copy_rows,
    step_rows_of,
    task_count,
)
from skyrocketmq.spark.jobs.folder import open_folder
from skyrocketmq.spark.jobs.following import Following, Span, choice_of
from skyrocketmq.spark.jobs.ledger import Ledger
from skyrocketmq.spark.jobs.mirror_progress import MirrorProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyrocketmq.spark.jobs.mirror_targets import MirrorTargets
    from skyrocketmq.spark.places import Bounds

__all__ = ["Mirrored", "mirror"]

BATCH_ROWS: Final = 100_000
CONTROL: Final = "_mirror"


@dataclass(frozen=True, kw_only=True)
class Mirrored(JobResult):
    """What a run has done."""

    row_count: int
    batch_count: int
    topics: tuple[str, ...]
    created: tuple[str, ...]  # topics that the target lacked
    empty_left_out: int = 0  # messages without a body: no client could send them
    queues_left_out: tuple[str, ...] = ()  # whose brokers were away at the end

    @property
    def exit_code(self) -> int:
        """Not all that is wanted is there: whoever relies on it has to know."""
        return 1 if self.queues_left_out else 0


def mirror(
    spark: SparkSession,
    *,
    namesrv: str,
    target: str,
    checkpoint: str,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    starting: str = "earliest",
    continuous: bool = False,
    interval_s: float = 5.0,
    batch_rows: int = BATCH_ROWS,
    rate: float | None = None,
    create: bool = True,
    origin: bool = False,
    skip_copies: bool = False,
    allow_data_loss: bool = False,
    connection: Mapping[str, str] | None = None,
    target_connection: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> Mirrored:
    """Copy what the topics have and the target has not; with `continuous`, look for more until it is stopped.

    Topics keep their names. One that the target lacks is made there with as many queues, or with `create` off is an
    error. `starting` (earliest, latest, or milliseconds since 1970) is where a topic begins that is new to it.
    `skip_copies` leaves out what a mirror has copied here, so that two clusters can mirror a topic in both directions.
    """
    from skyrocketmq.spark.cluster import Cluster
    from skyrocketmq.spark.jobs.mirror_targets import MirrorTargets
    from skyrocketmq.spark.options import SinkOptions, SourceOptions

    if interval_s < 0 or batch_rows < 1 or (rate is not None and rate <= 0):
        raise IllegalArgument("interval_s has to be 0 or more, batch_rows 1 or more, and rate above 0")
    control = control or Control()
    for topic in topics:
        check_target(topic)
    reaching = {"namesrv": namesrv} | dict(connection or {})
    writing = {"namesrv": target} | dict(target_connection or {})
    place = "startingTimestamp" if starting.isdecimal() else "startingOffsets"
    choice = choice_of(topics, pattern) | {place: starting, "failOnDataLoss": str(not allow_data_loss).lower()}
    options = SourceOptions.parse(reaching | choice, is_stream=True)
    sink = SinkOptions.parse(writing | {"topic": "any"})
    reading = reaching | {"failOnDataLoss": choice["failOnDataLoss"]}
    with (
        control.in_steps(),
        open_folder(spark, checkpoint, control_name=CONTROL) as folder,
        Cluster(options.name_servers, options.link) as here,
        Cluster(sink.name_servers, sink.link) as there,
    ):
        ledger = Ledger(folder, CONTROL, kind="mirror")
        said = ledger.latest()
        progress = MirrorProgress(os.urandom(8).hex()) if said is None else MirrorProgress.from_json(said)
        targets = MirrorTargets(here, there, writing, create=create)
        run = _Run(
            spark, ledger, progress, targets, reading, control, rate=rate, origin=origin, skip_copies=skip_copies
        )
        following = Following(here, options)
        rows_max = step_rows_of(batch_rows, rate)
        while True:
            control.begin("looking for messages")
            bounds = following.look(is_patient=continuous and run.has_begun)
            for topic in {queue.topic for queue in bounds}:
                check_target(topic)
            run.copy_all(following, bounds, rows_max)
            control.begin("waiting for messages")
            if not continuous or control.wait(interval_s):
                break
        if control.is_stopping and not continuous:
            raise JobStopped(
                f"stopped with {run.copied.row_count} messages copied: start it again, and it goes on there"
            )
        left_out = following.left_out(run.progress.offsets, bounds)
        return Mirrored(
            row_count=run.copied.row_count,
            batch_count=run.batch_count,
            topics=tuple(sorted(run.progress.routes)),
            created=tuple(targets.created),
            empty_left_out=run.copied.empty_count,
            queues_left_out=tuple(str(queue) for queue in left_out),
        )


class _Run:
    """One run: what it has done so far, and what the checkpoint says."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        progress: MirrorProgress,
        targets: MirrorTargets,
        reading: Mapping[str, str],
        control: Control,
        *,
        rate: float | None,
        origin: bool,
        skip_copies: bool,
    ) -> None:
        self._spark = spark
        self._ledger = ledger
        self._targets = targets
        self._reading = reading
        self._control = control
        self._rate = rate
        self._origin = origin
        self._skip_copies = skip_copies
        self.progress = progress
        self.copied = Copied()
        self.batch_count = 0

    @property
    def has_begun(self) -> bool:
        return bool(self.progress.offsets)

    def copy_all(self, following: Following, bounds: Mapping[MessageQueue, Bounds], batch_rows: int) -> None:
        """What was interrupted first; then all that lies before these bounds, in batches."""
        if self.progress.pending is not None:
            self._copy(self.progress.pending)
        while not self._control.is_stopping:
            span = following.next(self.progress.offsets, bounds, batch_rows)
            if span.ends.keys() - self.progress.offsets.keys():  # also where there is nothing yet to copy
                self._note(span)
            if not span.count:
                return
            self._commit(replace(self.progress, pending=span))
            self._copy(span)

    def _note(self, span: Span) -> None:
        """Choose where queues that are new go, and remember where they begin."""
        routes = dict(self.progress.routes)
        for topic in {queue.topic for queue in span.ends}:
            known = routes.get(topic) or Routes(self._targets.queues(topic))
            routes[topic] = known.with_queues([queue for queue in span.ends if queue.topic == topic])
        self._commit(replace(self.progress, offsets=dict(self.progress.offsets) | dict(span.starts), routes=routes))

    def _copy(self, span: Span) -> None:
        self._control.begin("copying")
        epochs = dict(self.progress.epochs)
        for topic in span.topics:
            part = span.of(topic)
            queue_count = sum(end > part.starts[queue] for queue, end in part.ends.items())
            slots = self._spark.sparkContext.defaultParallelism
            tasks = task_count(self._rate, queue_count=queue_count, parallelism=slots)
            frame = part.load(self._spark, self._reading)
            if self._skip_copies:
                frame = frame.where(f"not coalesce(map_contains_key(properties, '{MIRRORED_FROM}'), false)")
            if tasks < queue_count:
                frame = frame.coalesce(tasks)  # whole queues come together: each stays in order
            copied = copy_rows(
                frame,
                Target(topic, self._targets.options, self._rate),
                self.progress.routes[topic],
                tasks=tasks,
                marks={MIRRORED_FROM: "broker"} | (ORIGIN if self._origin else {}),
                sink={"sinkId": f"{self.progress.name} {topic}", "sinkEpoch": str(epochs.get(topic, 0))},
            )
            epochs[topic] = epochs.get(topic, 0) + 1
            self._control.add_rows(copied.row_count)
            self.copied += copied
        self.batch_count += 1
        offsets = dict(self.progress.offsets) | dict(span.ends)
        self._commit(replace(self.progress, offsets=offsets, pending=None, epochs=epochs))

    def _commit(self, progress: MirrorProgress) -> None:
        self._ledger.commit(progress.to_json())
        self.progress = progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", required=True, metavar="ADDRESS[;ADDRESS]", help="the name servers of the target")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="where it is written down how far it is")
    add_following_arguments(parser, new_to="here", interval_s=5.0, batch_rows=BATCH_ROWS)
    parser.add_argument("--rate", type=float, metavar="N", help="at most so many messages a second")
    parser.add_argument("--no-create", action="store_true", help="a topic that the target lacks is an error")
    parser.add_argument("--origin", action="store_true", help="say in properties where each message comes from")
    parser.add_argument(
        "--skip-copies",
        action="store_true",
        help="leave out what a mirror has copied here: for clusters that mirror a topic in both directions",
    )
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="go on where messages were cleaned away before they were read"
    )
    parser.add_argument(
        "--target-option",
        action="append",
        metavar="NAME=VALUE",
        help="an option of the format rocketmq for connections to the target, as timeout or tls; several times",
    )
    parser.add_argument(
        "--target-option-file",
        metavar="FILE",
        help="a file with such options, NAME=VALUE in each line; keys also come from ROCKETMQ_TARGET_ACCESS_KEY, "
        "ROCKETMQ_TARGET_SECRET_KEY and ROCKETMQ_TARGET_SECURITY_TOKEN",
    )


def run(spark: SparkSession, arguments: argparse.Namespace) -> Mirrored:
    return mirror(
        spark,
        namesrv=arguments.namesrv,
        target=arguments.target,
        checkpoint=arguments.checkpoint,
        topics=names_of(arguments.topics),
        pattern=arguments.pattern,
        starting=arguments.starting,
        continuous=arguments.continuous,
        interval_s=arguments.interval,
        batch_rows=arguments.batch_rows,
        rate=arguments.rate,
        create=not arguments.no_create,
        origin=arguments.origin,
        skip_copies=arguments.skip_copies,
        allow_data_loss=arguments.allow_data_loss,
        connection=arguments.connection,
        target_connection=connection_of(
            pairs_of(arguments.target_option, option="--target-option"),
            file=arguments.target_option_file,
            environ=os.environ,
            variables="ROCKETMQ_TARGET",
        ),
        control=arguments.control,
    )
