"""What is kept together when the tests are spread over several workers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spread import ALSO_SPARK, CORES, SECONDS, Spread, unit_of
from tests.unit_times import UnitTimes

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/wire/test_frames.py::TestDecoder::test_a_frame[ours-1]", "tests/wire/test_frames.py"),
        ("tests/spark/test_sink.py::test_rows_are_sent", "tests/spark"),
        ("tests/spark/jobs/test_copy.py::test_it_copies[1]", "tests/spark/jobs"),
        ("tests/interop/test_spark.py::test_apaches_broker_is_read", "tests/spark/jobs"),
        ("tests/interop/client/test_sending.py::test_it[apache-json headers]", "tests/interop/client on apache"),
        ("tests/interop/client/test_sending.py::test_it[lz4-ours]", "tests/interop/client on ours"),
        (
            "tests/interop/java_client/test_life.py::test_it[ours, one broker, binary headers]",
            "tests/interop/java_client on ours, one broker, binary headers",
        ),
        ("tests/interop/client/test_sending.py::test_without_a_cluster", "tests/interop/client/test_sending.py"),
        ("tests/interop/test_acl.py::test_accounts[ours]", "tests/interop/test_acl.py"),
    ],
)
def test_tests_that_share_something_are_one_unit(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_what_is_known_to_take_long_exists() -> None:
    for unit in SECONDS:
        assert (ROOT / unit.partition(" on ")[0]).exists(), unit
    for path in ALSO_SPARK:
        assert (ROOT / path).exists(), path


class Worker:
    """Does what a worker of pytest-xdist does: begins a test once it knows the next one, or that there is none."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="one of several")
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def running(self) -> int | None:
        return self.given[0] if len(self.given) > 1 or (self.given and self.shutting_down) else None


class Run:
    """A run of tests on workers of which each turn a random one ends its test."""

    def __init__(self, tests: list[str], *, directory: Path, workers: int, seed: int = 0) -> None:
        self.tests = tests
        self.random = random.Random(seed)
        alone_path = directory / "alone.json"
        alone_path.write_text(json.dumps(ALONE_TESTS))
        config: Any = SimpleNamespace(getvalue=lambda name: [f"{workers}*popen"])
        self.spread = Spread(config, None, alone_path=alone_path)
        self.workers = [Worker() for _ in range(workers)]
        self.done: list[str] = []
        for worker in self.workers:
            self.spread.add_node(worker)
        for worker in self.workers:
            self.spread.add_node_collection(worker, tests)
        self.spread.schedule()

    @property
    def running(self) -> list[str]:
        return [self.tests[worker.running] for worker in self.workers if worker.running is not None]

    def go_on(self) -> bool:
        """One event of one worker; `False` when all have ended."""
        assert not (self.spread.tests_finished and self.spread.workqueue)
        for worker in self.random.sample(self.workers, len(self.workers)):
            if worker.running is not None:
                index = worker.given.pop(0)
                self.done.append(self.tests[index])
                self.spread.mark_test_complete(worker, index)
                return True
            if worker.shutting_down:
                self.workers.remove(worker)
                self.spread.remove_node(worker)
                return True
        assert not self.workers, "nobody goes on, and not all have ended"
        return False


TESTS = [
    *(f"tests/store/test_{file}.py::test_{number}" for file in "abcdef" for number in range(3)),
    *(f"tests/client/test_{file}.py::test_{number}" for file in "abc" for number in range(2)),
]
ALONE_TESTS = [f"tests/net/test_pace.py::test_{number}" for number in range(3)]


@pytest.mark.parametrize("alone_count", range(4))
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_test_runs_once_and_those_marked_alone_run_last_and_alone(
    workers: int, alone_count: int, tmp_path: Path
) -> None:
    tests = [*ALONE_TESTS[:alone_count], *TESTS]
    for seed in range(20):
        run = Run(tests, directory=tmp_path, workers=workers, seed=seed)
        is_going_on = True
        while is_going_on:
            assert len(run.running) <= 1 or not set(ALONE_TESTS) & set(run.running)
            is_going_on = run.go_on()
        assert run.done[len(TESTS) :] == ALONE_TESTS[:alone_count]
        assert sorted(run.done) == sorted(tests)


def test_workers_on_top_of_the_cores_take_only_what_waits(tmp_path: Path) -> None:
    run = Run(TESTS, directory=tmp_path, workers=CORES + 2)

    assert {test.split("/")[1] for test in run.running[:CORES]} == {"store"}
    assert {test.split("/")[1] for test in run.running[CORES:]} == {"client"}


def test_the_work_of_a_worker_that_dies_is_done_by_others(tmp_path: Path) -> None:
    run = Run([*TESTS, *ALONE_TESTS], directory=tmp_path, workers=2)
    dead = run.workers.pop()
    assert run.spread.remove_node(dead) == run.tests[dead.given[0]]

    while run.go_on():
        pass

    assert set(run.done) == {*TESTS, *ALONE_TESTS}


def test_the_units_that_took_longest_are_listed() -> None:
    times = UnitTimes()
    for nodeid, seconds in [
        ("tests/a/test_x.py::test_1", 4.0),
        ("tests/a/test_x.py::test_2", 3.5),
        ("tests/b.py::t", 6),
    ]:
        times.pytest_runtest_logreport(
            pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, "call", duration=seconds)
        )

    assert times.lines() == ["    7.5 s     2 tests  tests/a/test_x.py", "    6.0 s     1 tests  tests/b.py"]
