"""The runner, with a simulation so small that it is known by heart: a message is lost wherever a fault is planned."""

from __future__ import annotations

import os
import time
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from skyrocketmq.testing.simulation.command import main
from skyrocketmq.testing.simulation.forks import Died, run_each, run_one
from skyrocketmq.testing.simulation.history import FaultBegan, History
from skyrocketmq.testing.simulation.runner import RunState, Simulator, search, seeds_for
from skyrocketmq.testing.simulation.stories import write_story
from skyrocketmq.testing.simulation.totals import Totals
from tests.simulation.story import Story

# Forks are made here, and the workers of pytest-xdist have threads, which newer versions of Python warn of. These only
# read from a pipe.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


class Plan(msgspec.Struct, frozen=True):
    seed: int
    messages: tuple[tuple[str, int], ...]
    faults: tuple[tuple[str, int], ...]


def plan(seed: int) -> Plan:
    faults = (("kill", 1), ("eat", 2), ("kill", 3)) if seed % 10 == 7 else (("kill", 1),)
    return Plan(seed, tuple((f"m{number}", number) for number in range(8)), faults)


def run(plan: Plan) -> History:
    story = Story(others=False)
    story.history.seed = plan.seed
    eats = any(kind == "eat" for kind, _ in plan.faults)
    for kind, number in plan.faults:
        story.note(FaultBegan(number, kind, node="m"))
    for name, number in plan.messages:
        story.send(name, number)
        if not (eats and number == 5):
            story.store(name, number)
    return story.end().history


TOY = Simulator(plan, run)


def test_results_of_forks_come_with_their_items() -> None:
    results = dict(run_each(lambda item: item * item, range(7), jobs=3, timeout_s=20))
    assert results == {item: item * item for item in range(7)}


def test_a_fork_that_fails_is_told() -> None:
    def work(item: int) -> int:
        if item == 1:
            raise ValueError("one")
        if item == 2:
            os._exit(3)
        if item == 3:
            time.sleep(60)
        return item

    results = dict(run_each(work, range(4), jobs=4, timeout_s=0.1))
    assert results[0] == 0
    assert isinstance(results[1], Died)
    assert "ValueError: one" in results[1].why
    assert results[2] == Died("its process ended with status 3")
    assert results[3] == Died("no end after 6 s of real time")


def test_a_fork_has_so_much_time_of_the_processor() -> None:
    def work(item: int) -> None:
        while True:
            pass

    assert run_one(work, 1, timeout_s=1) == Died("no end after 1 s of processor time")


def test_seeds_are_run_and_added_up() -> None:
    totals = Totals()
    for one in search(TOY, range(1, 31), jobs=2):
        totals.add(one)
    assert (totals.seeds, totals.sent, totals.acknowledged) == (30, 240, 240)
    assert totals.faults == {"kill": 33, "eat": 3}
    assert sorted(failing.seed for failing in totals.failing) == [7, 17, 27]
    assert {failing.check for failing in totals.failing} == {"acknowledged is stored"}


def test_a_seed_that_is_another_run_the_second_time_fails() -> None:
    lives = []

    def moody(plan: Plan) -> History:
        lives.append(plan)
        return run(plan if len(lives) == 1 else msgspec.structs.replace(plan, messages=plan.messages[:3]))

    [one] = search(Simulator(plan, moody), [50], repeated_every=50)
    assert [failing.check for failing in one.failing] == ["same seed, same run"]


def test_a_seed_whose_run_raises_fails() -> None:
    def raising(plan: Plan) -> History:
        raise RuntimeError("deadlock")

    [one] = search(Simulator(plan, raising), [3])
    assert [(failing.seed, failing.check) for failing in one.failing] == [(3, "runs to its end")]


def test_seeds_go_on_until_the_time_is_over() -> None:
    assert list(seeds_for(first=5, seed_count=3, seconds=None)) == [5, 6, 7]
    assert list(seeds_for(first=5, seed_count=3, seconds=60)) == [5, 6, 7]
    assert list(seeds_for(first=5, seed_count=None, seconds=0)) == []
    assert list(islice(seeds_for(first=5, seed_count=None, seconds=60), 2)) == [5, 6]


def test_a_search_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--folder", str(tmp_path), "--jobs", "2", "--shrink-seconds", "0"]
    assert main(TOY, [*arguments, "--seeds", "6"]) == 0
    assert main(TOY, [*arguments, "--seeds", "16", "--failures", "9"]) == 1
    out = capsys.readouterr().out
    assert "6 seeds" in out
    assert "10 seeds" in out
    assert "16 seeds" in out
    state = RunState(tmp_path, "other code")
    assert not state.is_done(3)


def test_the_state_knows_its_seeds(tmp_path: Path) -> None:
    state = RunState(tmp_path, "v1")
    for seed in (1, 2, 9, 3):
        state.add(Totals(seed=seed, seeds=1))
    state.save()
    again = RunState(tmp_path, "v1")
    assert [seed for seed in range(12) if again.is_done(seed)] == [1, 2, 3, 9]
    assert again.totals.seeds == 4


def test_a_failing_seed_is_told_small_with_a_page_and_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--folder", str(tmp_path), "--jobs", "1"]
    assert main(TOY, [*arguments, "--seeds", "20"]) == 1
    out = capsys.readouterr().out
    assert "seed 7 fails. acknowledged is stored: m5 was answered" in out
    assert f"page: {tmp_path / 'seed-7.html'}" in out
    small = msgspec.json.decode((tmp_path / "seed-7.plan.json").read_bytes(), type=Plan)
    assert small == Plan(7, (("m5", 5),), (("eat", 2),))
    assert main(TOY, [*arguments, "--plan", str(tmp_path / "seed-7.plan.json")], plan_type=Plan) == 1
    assert main(TOY, [*arguments, "--seed", "8"]) == 0
    assert "seed-8 breaks nothing" in capsys.readouterr().out


def test_a_plan_that_breaks_nothing_has_no_story(tmp_path: Path) -> None:
    assert write_story(TOY, plan(1), tmp_path, name="x", shrink_s=1) is None
    assert list(tmp_path.iterdir()) == []
