"""The frame of jobs, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from skyrocketmq.spark.jobs import Control, JobResult, JobStopped
from skyrocketmq.spark.jobs.failures import cause_of


@dataclass(frozen=True, kw_only=True)
class Counted(JobResult):
    row_count: int
    seconds: float = 0.5
    topics: tuple[str, ...] = ("a", "b")
    is_whole: bool = True


def test_a_result_is_a_line_a_field() -> None:
    lines = Counted(row_count=12345).text().splitlines()
    assert lines == ["row count  12,345", "seconds    0.500", "topics     a, b", "is whole   yes"]
    assert Counted(row_count=1).exit_code == 0


def test_a_job_that_should_stop_does_so_when_it_begins_something() -> None:
    control = Control()
    control.begin("reading")
    control.add_rows(3)
    control.add_rows(4)
    assert (control.phase, control.row_count, control.wait(0)) == ("reading", 7, False)
    control.stop()
    assert control.wait(60)
    with pytest.raises(JobStopped):
        control.begin("writing")


def test_a_job_in_steps_ends_by_itself() -> None:
    control = Control()
    with control.in_steps():
        control.stop()
        control.begin("the rest of this step")
        assert control.is_stopping
        assert control.is_in_steps
    with pytest.raises(JobStopped):
        control.check()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[PYTHON] x\nTraceback (most recent call last):\nskyrocketmq.errors.NoRoute: no route for A\n",
            "no route for A",
        ),
        ("skyrocketmq.errors.NetError: x\n\nskyrocketmq.spark.sending.WriteFailed: not written: x\n", "not written: x"),
        ("Job aborted\n  org.apache.Wrong: x\nskyrocketmq.spark.pulling.DataLost: gone: y\n\tat a.b", "gone: y"),
        ("An error occurred while calling o1.x\n: java.io.FileNotFoundException: no file /x", "no file /x"),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03",
            "Path does not exist: file:/x. SQLSTATE: 42K03",
        ),
    ],
)
def test_the_line_that_matters_is_found_in_an_error_of_spark(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause
