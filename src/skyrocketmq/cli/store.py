"""`skyrocketmq store check|repair|dump DIR`: looking into a store that no broker uses, and mending it.

Exit codes: 0 the store is intact, 1 it is damaged (or was not repaired), 2 it could not be looked at.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import ConfigFile, LogLevel, LogLevelOption, Settings, overrides
from skyrocketmq.config import StoreConfig, load_broker_config
from skyrocketmq.errors import MQError, StoreError
from skyrocketmq.ports import FileLock, LocalDisk, SystemClock

if TYPE_CHECKING:
    from skyrocketmq.model import MessageView
    from skyrocketmq.store.inspection import StoreReport

__all__ = ["store"]

PROGRESS_EVERY_S = 2.0
SHOWN_BODY_BYTES = 60
DAMAGED, NOT_CHECKED = 1, 2

store = typer.Typer(
    name="store",
    help="Look into a store that no broker uses, and mend it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Output(StrEnum):
    """For people, or for programs."""

    TABLE = "table"
    JSON = "json"


Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The store's directory: storePathRootDir of its broker.")
]
OutputOption = Annotated[Output, typer.Option("--output", help="How the result is printed.")]


@store.command()
def check(
    directory: Directory,
    config: ConfigFile = None,
    settings: Settings = None,
    output: OutputOption = Output.TABLE,
    log_level: LogLevelOption = LogLevel.ERROR,
) -> None:
    """Say what is intact, what is lost, and why. Nothing is changed."""
    with _tool(directory, config, settings, log_level) as (disk, store_config, lock):
        report = _inspect(disk, store_config, lock)
    _print_report(report, output)
    raise typer.Exit(0 if report.is_intact else DAMAGED)


@store.command()
def repair(
    directory: Directory,
    config: ConfigFile = None,
    settings: Settings = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputOption = Output.TABLE,
    log_level: LogLevelOption = LogLevel.ERROR,
) -> None:
    """Build again what can be built from the log, after showing the plan. The log itself is kept as it is."""
    from skyrocketmq.store.repair import plan_repair
    from skyrocketmq.store.repair import repair as carry_out

    with _tool(directory, config, settings, log_level, writes=True) as (disk, store_config, lock):
        report = _inspect(disk, store_config, lock)
        plan = plan_repair(report)
        if not plan.is_empty:
            _print_report(report, Output.TABLE, to_stderr=True)
            typer.echo("To be done:", err=True)
            for number, step in enumerate(plan.steps(), start=1):
                typer.echo(f"  {number}. {step}", err=True)
            if not yes and not typer.confirm("Go on?", err=True):
                raise typer.Exit(DAMAGED)
            progress = _Progress("built again from")
            asyncio.run(carry_out(plan, store_config, disk=disk, clock=SystemClock(), lock=lock, progress=progress))
            report = _inspect(disk, store_config, lock)
    _print_report(report, output)
    raise typer.Exit(0 if report.is_intact else DAMAGED)


@store.command()
def dump(
    directory: Directory,
    config: ConfigFile = None,
    settings: Settings = None,
    topic: Annotated[str | None, typer.Option("-t", "--topic", help="Only messages of this topic.")] = None,
    queue: Annotated[int | None, typer.Option("-i", "--queue", min=0, help="Only messages of this queue.")] = None,
    start: Annotated[int, typer.Option("--from", min=0, metavar="OFFSET", help="Begin at this log offset.")] = 0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="So many messages at most.")] = None,
    output: OutputOption = Output.TABLE,
    log_level: LogLevelOption = LogLevel.ERROR,
) -> None:
    """Print the messages of the log in their order, one a line; as JSON with the body in Base64."""
    from skyrocketmq.store.dumping import dump as messages_of

    with _tool(directory, config, settings, log_level) as (disk, store_config, _):
        messages = messages_of(disk, store_config, start=start, topic=topic, queue_id=queue)
        for message in islice(messages, count):
            typer.echo(_as_json(message) if output is Output.JSON else _as_line(message))


# ------------------------------------------------------------------------------------------------------------- helpers


class _Tool(NamedTuple):
    disk: LocalDisk
    config: StoreConfig
    lock: FileLock | None  # held; None where there is no file to lock: nothing is made just to look


@contextmanager
def _tool(
    directory: Path, config: Path | None, settings: list[str] | None, level: LogLevel, *, writes: bool = False
) -> Iterator[_Tool]:
    """The disk, and the settings the store was written with, while no broker can have it."""
    from skyrocketmq.store.store_sizes import fitted_config, log_path_of

    with logging_to(None, level=level), ExitStack() as opened:
        try:
            disk = LocalDisk()
            opened.callback(disk.close)
            if not directory.is_dir():
                raise StoreError(f"{directory} is no directory: give the one that storePathRootDir names")
            root = directory.resolve()
            given = overrides(settings)
            loaded = load_broker_config(config, overrides=given).config.store
            # A store that was moved or copied is read where it is, whatever its configuration says.
            placed = replace(loaded, root_path=root, commit_log_path=log_path_of(root, loaded))
            lock = _lock(opened, disk, root)
            if placed.commit_log_path is not None and loaded.root_path.resolve() != root:
                _lock(opened, disk, loaded.root_path)  # a process that writes to that log has locked its own directory
            fitted = fitted_config(
                disk,
                placed,
                knows_log_size=config is not None or "mappedFileSizeCommitLog" in given,
                knows_queue_size=config is not None or "mappedFileSizeConsumeQueue" in given,
                writes=writes,
            )
            yield _Tool(disk, fitted, lock)
        except (MQError, OSError) as error:
            typer.echo(f"skyrocketmq store: {error}", err=True)
            raise typer.Exit(NOT_CHECKED) from error


def _lock(opened: ExitStack, disk: LocalDisk, root: Path) -> FileLock | None:
    if not (root / "lock").exists():
        return None
    lock = disk.lock(root / "lock")
    opened.callback(lock.release)
    return lock


def _inspect(disk: LocalDisk, config: StoreConfig, lock: FileLock | None) -> StoreReport:
    from skyrocketmq.store.inspection import inspect

    mark = b"" if lock is None else lock.read_mark()
    return inspect(disk, config, mark=mark, progress=_Progress("checked"))


class _Progress:
    """A line on standard error every few seconds; on a terminal it stays one line."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._clock = SystemClock()
        self._told_at = self._clock.monotonic()
        self._has_told = False

    def __call__(self, done: int, total: int) -> None:
        now = self._clock.monotonic()
        is_over = done >= total
        if now - self._told_at < PROGRESS_EVERY_S and not (is_over and self._has_told):
            return
        self._told_at, self._has_told = now, True
        text = f"{self._verb} {done >> 20:,} of {total >> 20:,} MiB of the log"
        on_terminal = sys.stderr.isatty()
        print(f"\r{text}" if on_terminal else text, end="" if on_terminal and not is_over else "\n", file=sys.stderr)


def _print_report(report: StoreReport, output: Output, *, to_stderr: bool = False) -> None:
    if output is Output.JSON:
        table: dict[str, Any] = asdict(report) | {"root": str(report.root), "is_intact": report.is_intact}
        typer.echo(json.dumps(table, indent=2))
        return
    log_bytes = report.log_end - report.log_begin
    files = f"{report.log_files} files of {report.log_file_bytes:,}"
    lines = [
        f"store        {report.root}",
        f"last stop    {'in order' if report.was_clean else 'a crash, or a broker is still running'}",
        f"log          {files}, {log_bytes:,} bytes from {report.log_begin} to {report.log_end}",
        f"messages     {report.records:,} good, {report.lost_records:,} lost",
        f"queues       {report.queues:,} with {report.cells:,} places",
        f"index        {report.index_files} files with {report.index_entries:,} entries",
    ]
    for finding in report.findings:
        kind = "damage" if finding.is_damage else "note"
        help_text = " (repair keeps them)" if finding.part == "log" else " (repair builds it again)"
        help_text = help_text if finding.can_repair else ""
        lines.append(f"{kind:<12} {finding.part} {finding.where}: {finding.what}{help_text}")
    lines.append("result       " + ("intact" if report.is_intact else "damaged"))
    typer.echo("\n".join(lines), err=to_stderr)


def _as_line(message: MessageView) -> str:
    body = message.body[:SHOWN_BODY_BYTES].decode("utf-8", "backslashreplace").replace("\n", "\\n")
    more = "..." if len(message.body) > SHOWN_BODY_BYTES else ""
    place = f"{message.queue.topic}-{message.queue.queue_id}@{message.queue_offset}"
    return f"{message.log_offset} {place} {message.store_timestamp} {len(message.body)} B {body}{more}"


def _as_json(message: MessageView) -> str:
    import base64

    return json.dumps(
        {
            "logOffset": message.log_offset,
            "topic": message.queue.topic,
            "queueId": message.queue.queue_id,
            "queueOffset": message.queue_offset,
            "storeTimestamp": message.store_timestamp,
            "bornTimestamp": message.born_timestamp,
            "sysFlag": message.sys_flag,
            "flag": message.flag,
            "reconsumeTimes": message.reconsume_times,
            "properties": message.properties,
            "body": base64.b64encode(message.body).decode(),
        },
        ensure_ascii=False,
    )
