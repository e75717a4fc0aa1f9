"""Run mutants over the target modules: `python -m tests.mutation --help`."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.mutation.covering import covered
from tests.mutation.explained import EXPLAINED
from tests.mutation.judging import KILLS, Judge, Trial, Verdict, trial_of, with_tests
from tests.mutation.mutants import mutants
from tests.mutation.results import Results
from tests.mutation.targets import all_modules, path_of, rule_modules

ROOT = Path(__file__).parents[2]


def main() -> int:
    arguments = _arguments()
    arguments.state.mkdir(exist_ok=True)
    modules = _modules(arguments.modules)
    sources = {module: path_of(module).read_text() for module in modules}
    recorded = covered(ROOT, arguments.state)
    trials = [
        trial_of(module, mutant, recorded, seconds_max=arguments.tests_seconds)
        for module in modules
        for mutant in mutants(sources[module])
    ]
    results = Results(arguments.state / "results.json", ROOT)
    verdicts = {trial: found for trial in trials if (found := results.find(trial, sources[trial.module]))}
    open_trials = [trial for trial in trials if trial not in verdicts]
    print(f"{len(trials)} mutants, {len(open_trials)} to be judged", flush=True)
    deadline = time.monotonic() + arguments.seconds

    def in_time() -> Iterator[Trial]:
        for trial in open_trials:
            if time.monotonic() > deadline:
                return
            yield trial

    def use(items: Mapping[str, pytest.Item]) -> None:
        for module in modules:  # the children find everything imported
            importlib.import_module(f"skyrocketmq.{module}")
        by_name = {_name(trial): trial for trial in open_trials}
        for ended, verdict in Judge(items, arguments.jobs).judge(in_time()):
            trial = by_name[_name(ended)]
            verdicts[trial] = verdict
            if verdict is not Verdict.NOT_JUDGED:
                results.put(trial, sources[trial.module], verdict)
            if verdict not in KILLS:
                print(_line(trial, verdict), flush=True)

    if open_trials:
        with_tests(sorted({name.partition("::")[0] for trial in open_trials for name in trial.tests}), use)
    return _tell(trials, verdicts)


def _modules(wanted: str) -> list[str]:
    if not wanted:
        return rule_modules()
    return all_modules() if wanted == "all" else wanted.split(",")


def _name(trial: Trial) -> str:
    assert trial.mutant is not None
    return f"{trial.module}:{trial.mutant.name}"


def _line(trial: Trial, verdict: Verdict) -> str:
    assert trial.mutant is not None
    return f"{_name(trial)}  line {trial.mutant.line}  {trial.mutant.what}  ({verdict.value})"


def _tell(trials: list[Trial], verdicts: Mapping[Trial, Verdict]) -> int:
    """The table, and what nobody has killed or explained yet."""
    print(f"\n{'module':28} mutants  killed  survived  explained")
    rows: dict[str, Counter[str]] = {}
    unexplained = []
    for trial in trials:
        verdict = verdicts.get(trial)
        rows.setdefault(trial.module, Counter())["mutants"] += 1
        if verdict in KILLS:
            rows[trial.module]["killed"] += 1
        elif verdict is not None and verdict is not Verdict.NOT_APPLICABLE:
            is_explained = _name(trial) in EXPLAINED
            rows[trial.module]["explained" if is_explained else "survived"] += 1
            if not is_explained:
                unexplained.append(_line(trial, verdict))
    total: Counter[str] = sum(rows.values(), Counter())
    for name, row in [*rows.items(), ("all", total)]:
        print(f"{name:28} {row['mutants']:7}  {row['killed']:6}  {row['survived']:8}  {row['explained']:9}")
    not_applicable = sum(verdict is Verdict.NOT_APPLICABLE for verdict in verdicts.values())
    print(f"{len(trials) - len(verdicts)} were not tried yet; {not_applicable} could not be put into a running process")
    print("\n".join(["survivors without an explanation:", *unexplained] if unexplained else []))
    stale = EXPLAINED.keys() - {_name(trial) for trial in trials}
    for name in sorted(name for name in stale if name.partition(":")[0] in rows):
        print(f"explained, but not there: {name}")
    return 1 if unexplained else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make mutate", description="Break rules one by one and see which tests notice."
    )
    parser.add_argument("--modules", default="", help="such as ha.rules,store.flushing; or all; without it, the rules")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long; the next run goes on")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests-seconds", type=float, default=8, help="of tests that are asked about one mutant")
    parser.add_argument("--state", type=Path, default=ROOT / ".mutation")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
