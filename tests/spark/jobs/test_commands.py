"""Jobs as commands: what they print and how they end; and processes that are stopped and killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.cli import spark_progress
from skyrocketmq.cli.main import main
from skyrocketmq.spark.jobs import archive, mirror
from skyrocketmq.testing import BlockingCluster
from tests.spark.children import wait_for_end_of_session
from tests.spark.conftest import FOR_SPEED, SETTINGS
from tests.spark.jobs.house import by_queue, fill, numbers
from tests.spark.stores import make_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(480)]

WAIT_S = 240.0
QUICK = [word for name in FOR_SPEED for word in ("--conf", f"{name}={SETTINGS[name]}")]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["spark", *arguments])
    return int(ended.value.code or 0)


def test_jobs_are_commands(
    spark: SparkSession,
    cluster: BlockingCluster,
    other_cluster: BlockingCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One after the other: archived, replayed from there and from the topic, mirrored."""
    for topic in ("Commanded", "Commanded-again"):
        cluster.create_topic(topic, queues=2)
    fill(cluster, "Commanded", 10)

    def printed(*arguments: str) -> dict[str, Any]:
        assert run(*arguments, "-n", cluster.namesrv, "--json", "--option", "timeout=20s") == 0
        return dict(json.loads(capsys.readouterr().out))

    path = str(tmp_path / "archive")
    done = printed("archive", path, "--topics", "Commanded")
    assert (done["path"], done["row_count"], done["batch_count"]) == (path, 10, 1)
    again = ("--topics", "Commanded", "--to", "Commanded-again")
    assert printed("replay", "--archive", path, *again, "--tags", "odd")["row_count"] == 5
    assert printed("replay", *again, "--since", "2020-01-01", "--until", "2020-01-02")["row_count"] == 0
    checkpoint = str(tmp_path / "checkpoint")
    made = printed("mirror", "--target", other_cluster.namesrv, "--topics", "Commanded", "--checkpoint", checkpoint)
    assert (made["row_count"], made["created"]) == (10, ["Commanded"])
    assert run("archive", path, "--topics", "Commanded", "-n", cluster.namesrv) == 0
    assert "row count        0\n" in capsys.readouterr().out


def test_figures_and_findings_are_printed_as_json_and_damage_is_an_exit_code(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("Counted", queues=1)
    fill(cluster, "Counted", 7)
    assert run("stats", "-t", "Counted", "-n", cluster.namesrv, "--json", "--report", str(tmp_path / "page.html")) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["total"]["messages"], figures["topics"][0]["topic"]) == (7, "Counted")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    root = tmp_path / "store"
    record = next(one for one in make_store(root, count=20) if len(one.body) > 100 and not one.sys_flag)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(record.log_offset + 95)
        file.write(b"\xff\xff\xff")
    assert run("audit", str(root), "--json") == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert found[0]["log_offset"] == record.log_offset


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("archive", "DIR"), "give topics or a pattern for their names, one of the two"),
        (("archive", "DIR", "--topics", "Nobody"), "no route for topic Nobody"),
        (("archive", "DIR", "--topics", "x", "--option", "tsl=true"), "the source has no option 'tsl'"),
        (
            ("replay", "--topics", "x", "--to", "y", "--since", "noon"),
            "--since 'noon' is no time: write 2024-05-01T12:00",
        ),
        (("stats", "--since", "noon"), "--since 'noon' is no time"),
        (("stats", "--window", "long"), "write a number and ms, s, m, h or d"),
        (("deadletters", "--yes"), "to, rate and yes belong to redrive"),
        (("audit", "DIR"), "is no directory: give the one that storePathRootDir names"),
        (("trace", "--trace-topic", "Nobody"), "no route for topic Nobody"),
        (("replay", "--topics", "x", "--to", "TBW102"), "TBW102 is one of the system's own"),
        (
            ("mirror", "--target", "t:1", "--checkpoint", "DIR", "--topics", "TBW102"),
            "TBW102 is one of the system's own",
        ),
    ],
)
def test_a_job_that_cannot_be_done_is_told_in_one_line(
    spark: SparkSession,
    cluster: BlockingCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    words = [str(tmp_path / "dir") if word == "DIR" else word for word in arguments]
    assert run(*words, "-n", cluster.namesrv) == 1
    told = capsys.readouterr().err
    assert told.startswith("skyrocketmq: ")
    assert said in told
    assert told.count("\n") == 1


def commits_of(path: Path) -> int:
    numbers = [int(commit.stem.rpartition("-")[2]) for commit in path.glob("_archive/commit-*.json")]
    return max(numbers, default=0)


@contextmanager
def signalled(number: signal.Signals, *, when: Callable[[], bool]) -> Iterator[None]:
    """This process gets a signal, once something has happened."""

    def watch() -> None:
        while not when():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    yield
    watching.join(WAIT_S)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_job_shows_how_far_it_is_and_when_it_is_interrupted_how_to_go_on(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(spark_progress, "EVERY_S", 0.02)
    cluster.create_topic("Interrupted", queues=1)
    fill(cluster, "Interrupted", 40)

    options = ("--topics", "Interrupted", "-n", cluster.namesrv, "--batch-rows", "1")
    with signalled(signal.SIGINT, when=lambda: commits_of(tmp_path) >= 3):
        assert run("archive", str(tmp_path), *options) == 128 + signal.SIGINT
    shown = terminal.getvalue()
    assert "writing  " in shown
    assert " rows, " in shown
    assert shown.endswith("rows written: start it again, and it goes on there\n")


def test_a_job_without_end_ends_well_when_it_is_stopped(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("Stopped", queues=2)
    fill(cluster, "Stopped", 40)
    options = ("--topics", "Stopped", "-n", cluster.namesrv, "--continuous", "--interval", "60", "--json")
    with signalled(signal.SIGTERM, when=lambda: commits_of(tmp_path) >= 2):
        assert run("archive", str(tmp_path), *options, "--batch-rows", "10") == 0
    done = json.loads(capsys.readouterr().out)
    seen = numbers(spark.read.parquet(str(tmp_path)))
    assert len(seen) == done["row_count"] == 10 * done["batch_count"]
    archive(spark, namesrv=cluster.namesrv, topics=["Stopped"], path=str(tmp_path))
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(40))


# --------------------------------------------------------------------------------------------------- processes


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A job in a process of its own, with a group of its own: whatever it has started ends with it."""
    command = [sys.executable, "-c", "from skyrocketmq.cli.main import main; main()", "spark", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        try:
            yield started
        finally:
            try:
                os.killpg(started.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def wait_until(happened: Callable[[], bool], started: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_mirror_that_is_killed_while_it_copies_goes_on_and_repeats_nothing(
    spark: SparkSession, cluster: BlockingCluster, other_cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Killed", queues=2)
    other_cluster.create_topic("Killed", queues=2)
    fill(cluster, "Killed", 300)
    options = ("--topics", "Killed", "-n", cluster.namesrv, "--target", other_cluster.namesrv, *QUICK)
    with process("mirror", *options, "--checkpoint", str(tmp_path), "--rate", "50") as started:
        wait_until(lambda: len(other_cluster.messages("Killed")) > 20, started)
        os.killpg(started.pid, signal.SIGKILL)  # the driver and its Java; tasks follow
        started.wait(timeout=WAIT_S)
    copied = len(other_cluster.messages("Killed"))
    assert 20 < copied < 300
    wait_for_end_of_session(started.pid)
    mirror(
        spark,
        namesrv=cluster.namesrv,
        target=other_cluster.namesrv,
        topics=["Killed"],
        checkpoint=str(tmp_path),
    )
    assert by_queue(other_cluster.messages("Killed", count=300)) == by_queue(cluster.messages("Killed", count=300))


def test_an_archive_that_is_killed_while_it_writes_goes_on_and_has_each_message_once(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Killed-archive", queues=2)
    fill(cluster, "Killed-archive", 200)
    options = ("--topics", "Killed-archive", "-n", cluster.namesrv, "--batch-rows", "2", "--merge-count", "0", *QUICK)
    with process("archive", str(tmp_path), *options) as started:
        wait_until(lambda: commits_of(tmp_path) >= 2, started)
        os.killpg(started.pid, signal.SIGKILL)  # the driver and its Java; tasks follow
        started.wait(timeout=WAIT_S)
    written = numbers(spark.read.parquet(str(tmp_path)))
    assert 0 < len(written) == len(set(written)) < 200, "it was in the middle"
    done = archive(spark, namesrv=cluster.namesrv, topics=["Killed-archive"], path=str(tmp_path))
    assert done.row_count >= 200 - len(written) - 2, "what was written stays; one batch may have been under way"
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(200))
