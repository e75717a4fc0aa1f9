"""A failing seed, made small and written down: as text, as a page, and as a plan that can be run again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import yaml

from skyrocketmq.testing.simulation.checks import Violation, check
from skyrocketmq.testing.simulation.forks import Died, run_one
from skyrocketmq.testing.simulation.history import History
from skyrocketmq.testing.simulation.page import render_page
from skyrocketmq.testing.simulation.runner import RUN_TIMEOUT_S, Simulator
from skyrocketmq.testing.simulation.shrinking import Shrinking
from skyrocketmq.testing.simulation.telling import timeline

__all__ = ["Written", "write_story"]


@dataclass(frozen=True, slots=True)
class Written:
    text: str
    page: Path
    plan: Path


def write_story(simulator: Simulator, plan: Any, folder: Path, *, name: str, shrink_s: float) -> Written | None:
    """None if the plan breaks nothing when it is run here."""
    found = _run(simulator, plan)
    if found is None:
        return None
    broken = found[1][0].check
    runs = 0
    if shrink_s > 0:
        end = monotonic() + shrink_s

        def fails(smaller: Any) -> bool:
            again = _run(simulator, smaller)
            return again is not None and any(violation.check == broken for violation in again[1])

        shrinking = Shrinking(fails, is_over=lambda: monotonic() > end, is_fixed=_is_fixed)
        plan = shrinking.shrink(plan)
        runs = shrinking.run_count
        found = _run(simulator, plan)
        assert found is not None, "a smaller plan failed, and the second time it did not: runs are not the same"
    history, violations = found
    violations = sorted(violations, key=lambda violation: violation.check != broken)
    words = yaml.safe_dump(msgspec.to_builtins(plan), sort_keys=False, width=120)
    text = _story(history, violations, words, runs)
    folder.mkdir(parents=True, exist_ok=True)
    written = Written(text, folder / f"{name}.html", folder / f"{name}.plan.json")
    written.page.write_text(render_page(history, violations, plan=words), encoding="utf-8")
    written.plan.write_bytes(msgspec.json.encode(plan))
    (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return written


def _is_fixed(name: str) -> bool:
    """Times stay: whatever comes earlier meets something else, and is another story."""
    return name == "seed" or name.endswith("at_s")


def _run(simulator: Simulator, plan: Any) -> tuple[History, list[Violation]] | None:
    """In a process of its own, as the seed was; None if nothing is broken."""

    def work(plan: Any) -> tuple[bytes, list[Violation]]:
        history = simulator.run(plan)
        return history.encode(), check(history)

    result = run_one(work, plan, timeout_s=RUN_TIMEOUT_S)
    if isinstance(result, Died) or not result[1]:
        return None
    return History.decode(result[0]), result[1]


def _story(history: History, violations: list[Violation], plan: str, runs: int) -> str:
    lines = [f"seed {history.seed}, digest {history.digest()[:16]}, {len(history)} events"]
    lines += [str(violation) for violation in violations]
    lines += ["", f"what is left of the plan after {runs} runs:", plan.rstrip()]
    lines += ["", "what happened:", timeline(history, violations[0])]
    return "\n".join(lines) + "\n"
