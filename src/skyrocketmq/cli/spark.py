"""`skyrocketmq spark JOB`: the jobs of the pipeline, on this machine or on a Spark cluster.

Jobs describe their options themselves, with argparse: they are part of the package `spark`, which knows no commands.
What is here is what they share: where the cluster is, which Spark, how a result is printed and how a job is stopped.

Exit codes: 0 done, or a job without an end was stopped; 1 something failed and one line says what, or the result is bad
news; 2 wrong usage; 128 and the signal's number: stopped before its end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import typer

from skyrocketmq.cli.client_options import namesrv_or_default, split_pairs
from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import LogLevel
from skyrocketmq.cli.run import SIGNALS
from skyrocketmq.cli.spark_progress import shown_progress
from skyrocketmq.errors import ConfigError, MQError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyrocketmq.spark.jobs import Control, JobResult

__all__ = ["spark"]

# A command has no use for a page of its own, and its log is ours; `--conf` has the last word.
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def spark(context: typer.Context) -> None:
    """Run a job of the pipeline on Spark: copy, check and look at messages in bulk."""
    arguments = _parser().parse_args(context.args)
    raise typer.Exit(_run(arguments))


# -------------------------------------------------------------------------------------------------------- options


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help that begins as that of the other commands."""

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)


def _parser() -> argparse.ArgumentParser:
    from skyrocketmq.spark.jobs.table import JOBS, get_job

    parser = argparse.ArgumentParser(
        prog="skyrocketmq spark",
        description="Run a job of the pipeline on Spark. Each has its own --help.",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, purpose in JOBS.items():
        job = jobs.add_parser(name, help=purpose, description=f"{purpose}.", formatter_class=_Help, allow_abbrev=False)
        get_job(name).add_arguments(job)
        _add_shared(job)
    return parser


def _add_shared(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("the cluster")
    cluster.add_argument("-n", "--namesrv", metavar="ADDRESS[;ADDRESS]", help="the name servers; else NAMESRV_ADDR")
    cluster.add_argument("--access-key", metavar="KEY", help="sign requests; else that of ROCKETMQ_ACCESS_KEY")
    cluster.add_argument("--secret-key", metavar="KEY", help="what they are signed with; else ROCKETMQ_SECRET_KEY")
    cluster.add_argument("--tls", action="store_true", help="talk through TLS; certificates as tls.properties says")
    cluster.add_argument(
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="an option of the format rocketmq for connections, as timeout, retries or tlsTrustPath; several times",
    )
    cluster.add_argument("--option-file", metavar="FILE", help="a file with such options, NAME=VALUE in each line")
    engine = parser.add_argument_group("Spark")
    engine.add_argument("--master", default="local[*]", metavar="URL", help="where tasks run (default: %(default)s)")
    engine.add_argument("--conf", action="append", metavar="KEY=VALUE", help="a setting of Spark; several times")
    output = parser.add_argument_group("output")
    output.add_argument("--output", choices=["text", "json"], default="text", help="how the result is printed")
    output.add_argument("--json", action="store_const", const="json", dest="output", help="the same as --output json")
    output.add_argument("-q", "--quiet", action="store_true", help="no progress on the terminal")
    levels = [level.value for level in LogLevel]
    output.add_argument("--log-level", choices=levels, default="warning", help="the least severe messages logged")


def _connection(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The options of the formats that let us in."""
    from skyrocketmq.spark.jobs.arguments import connection_of

    keys = {"accessKey": arguments.access_key, "secretKey": arguments.secret_key}
    given = {name: key for name, key in keys.items() if key} | split_pairs(arguments.option, option="--option")
    options = _tls() if arguments.tls else {}
    return options | connection_of(given, file=arguments.option_file, environ=environ, variables="ROCKETMQ")


def _tls() -> dict[str, str]:
    from skyrocketmq.config import load_tls_config
    from skyrocketmq.net.configured import client_tls

    tls = client_tls(load_tls_config())
    paths: dict[str, Path | str | None] = {
        "tlsTrustPath": tls.trust_path,
        "tlsCertificatePath": tls.certificate_path,
        "tlsKeyPath": tls.key_path,
        "tlsKeyPassword": tls.key_password,
    }
    given = {name: str(value) for name, value in paths.items() if value is not None}
    checks = {"tlsVerify": str(tls.verify).lower(), "tlsCheckHostname": str(tls.check_hostname).lower()}
    return {"tls": "true"} | checks | given


# ----------------------------------------------------------------------------------------------------- running


def _run(arguments: argparse.Namespace) -> int:
    from skyrocketmq.spark.jobs import Control, JobStopped
    from skyrocketmq.spark.jobs.failures import cause_of
    from skyrocketmq.spark.jobs.table import get_job

    arguments.namesrv = namesrv_or_default(arguments.namesrv)
    arguments.connection = _connection(arguments)
    arguments.control = control = Control()
    settings = SETTINGS | split_pairs(arguments.conf, option="--conf")
    with logging_to(None, level=LogLevel(arguments.log_level)), _stopped_by_signals(control) as signals:
        running, is_ours = _session(arguments.job, arguments.master, settings)
        try:
            signals.take()  # Spark has set a handler of its own
            control.check()
            with _cancelled_when_stopping(running, control), shown_progress(running, control, quiet=arguments.quiet):
                result = get_job(arguments.job).run(running, arguments)
        except (MQError, OSError) as error:
            if isinstance(error, JobStopped):
                return _stopped(str(error), signals)
            raise
        except Exception as error:  # Spark's are of many kinds, and carry the one that matters as text
            if control.is_stopping:
                return _stopped("stopped before the end", signals)
            if not type(error).__module__.startswith(("pyspark", "py4j")):
                raise
            raise MQError(cause_of(error)) from error
        finally:
            if is_ours:
                running.stop()
    _print(result, arguments.output)
    return result.exit_code


def _session(job: str, master: str, settings: Mapping[str, str]) -> tuple[SparkSession, bool]:
    """A session, and whether it was made for this job: this process may have had one."""
    try:
        from pyspark.sql import SparkSession

        from skyrocketmq.spark import session

        is_ours = SparkSession.getActiveSession() is None
        return session(f"skyrocketmq {job}", master=master, config=settings), is_ours
    except ImportError as error:
        raise ConfigError(f"jobs need Spark ({error}): pip install 'skyrocketmq[spark]'") from error
    except MQError:
        raise
    except Exception as error:
        from skyrocketmq.spark.jobs.failures import cause_of

        raise ConfigError(f"Spark does not start with --master {master}: {cause_of(error)}") from error


def _stopped(reason: str, signals: _Signals) -> int:
    print(f"skyrocketmq: {reason}", file=sys.stderr)
    return 128 + (signals.received or signal.SIGINT)


def _print(result: JobResult, output: str) -> None:
    if output == "json":
        typer.echo(json.dumps(asdict(result), default=str, ensure_ascii=False))
    else:
        typer.echo(result.text())


# ------------------------------------------------------------------------------------------------------ stopping


class _Signals:
    """The first signal asks the job to stop; a second one ends the process at once, and Spark with it."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.received: signal.Signals | None = None

    def take(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = signal.Signals(number)
        self._control.stop()


@contextmanager
def _stopped_by_signals(control: Control) -> Iterator[_Signals]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signals = _Signals(control)
    signals.take()
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _cancelled_when_stopping(running: SparkSession, control: Control) -> Iterator[None]:
    """A thread of its own cancels Spark's work: the main one waits for it, and a signal does not end its wait."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if control.wait(0.5) and not over.wait(0.1) and not control.is_in_steps:
                running.sparkContext.cancelAllJobs()

    watcher = threading.Thread(target=watch, name="cancels jobs", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(timeout=5)
