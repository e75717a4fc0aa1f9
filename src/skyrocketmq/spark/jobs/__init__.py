"""Bulk work on messages, as functions and as `skyrocketmq spark JOB`.

    from skyrocketmq.spark import session
    from skyrocketmq.spark.jobs import archive

    archive(session(), namesrv="localhost:9876", topics=["Orders"], path="archive")

Each job is a module with a function of the same name, which returns a small value that says what was done. `table` has
the list of them for the command line; `control` is how a job says how far it is and hears that it should stop;
`failures` finds the one line that matters in an error of Spark.

`archive`, `replay` and `mirror` remember in files what they have done: `folder` is where these are, `ledger` what they
say, `following` which messages come next and `copying` how a queue is copied in order.

`stats`, `trace`, `deadletters` and `audit` look at messages: `inputs` is where they find them, `outputs` how tables
leave, and the modules that begin with their names are their parts. Pages with plots are made by `spark.reports`.
"""

from __future__ import annotations

from skyrocketmq.spark.jobs.archive import archive
from skyrocketmq.spark.jobs.archive_reading import read_archive
from skyrocketmq.spark.jobs.audit import audit
from skyrocketmq.spark.jobs.control import Control, JobResult, JobStopped
from skyrocketmq.spark.jobs.deadletters import deadletters
from skyrocketmq.spark.jobs.mirror import mirror
from skyrocketmq.spark.jobs.replay import replay
from skyrocketmq.spark.jobs.stats import stats
from skyrocketmq.spark.jobs.trace import trace

__all__ = [
    "Control",
    "JobResult",
    "JobStopped",
    "archive",
    "audit",
    "deadletters",
    "mirror",
    "read_archive",
    "replay",
    "stats",
    "trace",
]
