"""`replay`: messages of an archive, or of a time of a topic, once more into a topic; each queue in its order.

    replay(spark, namesrv="localhost:9876", path="archive", topics=["Orders"], to="Orders-again", rate=500)

With a checkpoint (a directory) it is done in steps, and a run that was killed is followed by one that goes on where it
was and leaves out what is there already. Without one everything is sent, at least once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.jobs.arguments import moment_ms, names_of
from skyrocketmq.spark.jobs.control import Control, JobResult, JobStopped
from skyrocketmq.spark.jobs.copying import (
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
from skyrocketmq.spark.jobs.ledger import Ledger
from skyrocketmq.spark.jobs.replay_plan import ReplayPlan, Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyrocketmq.spark.jobs.replay_source import ReplaySource

__all__ = ["Replayed", "replay"]

STEP_ROWS: Final = 100_000
CONTROL: Final = "_replay"


@dataclass(frozen=True, kw_only=True)
class Replayed(JobResult):
    """What a run has done."""

    to: str
    row_count: int
    step_count: int  # done by this run
    is_whole: bool  # whether everything that was chosen is there now
    empty_left_out: int = 0  # messages without a body: no client could send them


def replay(
    spark: SparkSession,
    *,
    namesrv: str,
    to: str,
    topics: Sequence[str],
    path: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    tags: Sequence[str] = (),
    keys: Sequence[str] = (),
    rate: float | None = None,
    checkpoint: str | None = None,
    step_rows: int = STEP_ROWS,
    origin: bool = False,
    source: str | None = None,
    connection: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> Replayed:
    """Send what was chosen to the topic `to`: messages of `topics` in the archive at `path`, or else in the cluster.

    Chosen are those that were stored from `since_ms` on and before `until_ms`, have one of the `tags` and one of the
    `keys`, as far as these are given. `rate` is messages a second, of all tasks together. `source` names the name
    servers to read from, if they are others.
    """
    from skyrocketmq.spark.jobs.replay_source import ReplaySource

    check_target(to)
    selection = Selection(
        tuple(topics), path=path, since_ms=since_ms, until_ms=until_ms, tags=tuple(tags), keys=tuple(keys)
    )
    selection.check()
    if step_rows < 1 or (rate is not None and rate <= 0):
        raise IllegalArgument("step_rows has to be 1 or more, and rate above 0")
    control = control or Control()
    writing = {"namesrv": namesrv} | dict(connection or {})
    reading = writing | ({"namesrv": source} if source else {})
    with ExitStack() as opened:
        ledger: Ledger | None = None
        if checkpoint is not None:
            opened.enter_context(control.in_steps())
            folder = opened.enter_context(open_folder(spark, checkpoint, control_name=CONTROL))
            ledger = Ledger(folder, CONTROL, kind="replay")
        control.begin("looking for messages")
        origins = ReplaySource(spark, selection, reading)
        said = None if ledger is None else ledger.latest()
        if said is None:
            counts = origins.counts()
            plan = ReplayPlan.make(
                selection,
                to,
                counts,
                name=os.urandom(8).hex(),
                targets=_targets(to, writing),
                step_rows=None if ledger is None else step_rows_of(step_rows, rate),
            )
            if ledger is not None:
                ledger.commit(plan.to_json())
        else:
            plan = ReplayPlan.from_json(said)
            plan.check(selection, to)
        run = _Run(spark, origins, Target(to, writing, rate), control, is_once=ledger is not None, origin=origin)
        begun = plan.steps_done
        while not plan.is_done and not control.is_stopping:
            run.step(plan)
            plan = plan.next()
            if ledger is not None:
                ledger.commit(plan.to_json())
        if not plan.is_done:
            more = "start it again, and it goes on there" if ledger is not None else "the rest was not sent"
            raise JobStopped(f"stopped with {run.copied.row_count} messages sent: {more}")
        return Replayed(
            to=to,
            row_count=run.copied.row_count,
            step_count=plan.steps_done - begun,
            is_whole=plan.is_done,
            empty_left_out=run.copied.empty_count,
        )


class _Run:
    """One run: what it has sent."""

    def __init__(
        self,
        spark: SparkSession,
        source: ReplaySource,
        target: Target,
        control: Control,
        *,
        is_once: bool,
        origin: bool,
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._control = control
        self._is_once = is_once
        self._origin = origin
        self.copied = Copied()

    def step(self, plan: ReplayPlan) -> None:
        """Send the messages of the step that is next."""
        self._control.begin(f"sending, step {plan.steps_done + 1} of {plan.step_count}")
        span = plan.span()
        queues = [queue for queue, end in span.ends.items() if end > span.starts[queue]]
        if not queues:
            return  # few messages in many queues: their shares are rounded
        slots = self._spark.sparkContext.defaultParallelism
        tasks = task_count(self._target.rate, queue_count=len(queues), parallelism=slots)
        sink = {"sinkId": plan.name, "sinkEpoch": str(plan.steps_done)} if self._is_once else {}
        sent = copy_rows(
            self._source.load(span, tasks),
            self._target,
            plan.routes,
            tasks=tasks,
            sink=sink,
            marks=ORIGIN if self._origin else {},
        )
        self._control.add_rows(sent.row_count)
        self.copied += sent


def _targets(topic: str, options: Mapping[str, str]) -> Routes:
    """The queues that messages can go to. Raises `NoRoute`, and `IllegalArgument` for options that cannot be."""
    from skyrocketmq.spark.cluster import Cluster
    from skyrocketmq.spark.options import SinkOptions

    parsed = SinkOptions.parse({**options, "topic": topic})
    with Cluster(parsed.name_servers, parsed.link) as cluster:
        queues = cluster.writable_queues(topic)
    if not queues:
        raise IllegalArgument(f"topic {topic} has no queue that can be written to now")
    return Routes([f"{queue.broker_name}:{queue.queue_id}" for queue in queues])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="TOPIC", help="where messages go")
    parser.add_argument("--topics", required=True, metavar="NAME[,NAME]", help="whose messages are replayed")
    parser.add_argument("--archive", metavar="PATH", help="take them from this archive; else from the cluster")
    parser.add_argument("--source", metavar="ADDRESS[;ADDRESS]", help="name servers to read from, if others")
    parser.add_argument("--since", metavar="TIME", help="stored then or later: 2024-05-01T12:00 (UTC), or milliseconds")
    parser.add_argument("--until", metavar="TIME", help="stored before that")
    parser.add_argument("--tags", metavar="TAG[,TAG]", help="those with one of these tags")
    parser.add_argument("--keys", metavar="KEY[,KEY]", help="those with one of these keys")
    parser.add_argument("--rate", type=float, metavar="N", help="at most so many messages a second")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="go on where a run before this one was, and send nothing twice"
    )
    parser.add_argument(
        "--step-rows",
        type=int,
        default=STEP_ROWS,
        metavar="N",
        help="messages of one step, with a checkpoint (default: %(default)s)",
    )
    parser.add_argument("--origin", action="store_true", help="say in properties where each message comes from")


def run(spark: SparkSession, arguments: argparse.Namespace) -> Replayed:
    return replay(
        spark,
        namesrv=arguments.namesrv,
        to=arguments.to,
        topics=names_of(arguments.topics),
        path=arguments.archive,
        since_ms=moment_ms(arguments.since, option="--since"),
        until_ms=moment_ms(arguments.until, option="--until"),
        tags=names_of(arguments.tags),
        keys=names_of(arguments.keys),
        rate=arguments.rate,
        checkpoint=arguments.checkpoint,
        step_rows=arguments.step_rows,
        origin=arguments.origin,
        source=arguments.source,
        connection=arguments.connection,
        control=arguments.control,
    )
