from __future__ import annotations

from dataclasses import dataclass

import msgspec

from skyrocketmq.testing.simulation.shrinking import Shrinking, pieces_of


class Fault(msgspec.Struct, frozen=True):
    kind: str
    at_s: float
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    operations: tuple[tuple[str, int], ...]
    message_count: int = 100


@dataclass(frozen=True)
class Plan:
    seed: int
    duration_s: float
    workload: Workload
    faults: tuple[Fault, ...]
    is_strict: bool = True


PLAN = Plan(
    seed=7,
    duration_s=60.0,
    workload=Workload(tuple(("send", number) for number in range(40))),
    faults=tuple(Fault(kind, at_s, ("m",)) for at_s, kind in enumerate(["cut", "kill", "power", "full", "kill"])),
)


def breaks(plan: Plan) -> bool:
    """A power cut after the send of 17, in a run of 20 s and more, with 10 messages and more."""
    return (
        ("send", 17) in plan.workload.operations
        and any(fault.kind == "power" for fault in plan.faults)
        and plan.duration_s >= 20
        and plan.workload.message_count >= 10
    )


def test_only_what_the_failure_needs_is_left() -> None:
    small = Shrinking(breaks).shrink(PLAN)
    assert small.workload.operations == (("send", 17),)
    assert [fault.kind for fault in small.faults] == ["power"]
    assert 20 <= small.duration_s < 30
    assert 10 <= small.workload.message_count < 20
    assert (small.seed, small.is_strict) == (7, True)


def test_what_belongs_together_is_kept_together() -> None:
    def breaks_in_pairs(plan: Plan) -> bool:
        numbers = {number for _, number in plan.workload.operations}
        return {3, 30} <= numbers

    small = Shrinking(breaks_in_pairs).shrink(PLAN)
    assert [number for _, number in small.workload.operations] == [3, 30]
    assert small.faults == ()


def test_a_plan_that_cannot_be_run_is_no_smaller_failure() -> None:
    def run(plan: Plan) -> bool:
        if not plan.faults:
            raise ValueError("no faults: no cluster to hurt")
        return True

    assert len(Shrinking(run).shrink(PLAN).faults) == 1


def test_the_search_ends_when_it_is_told_to() -> None:
    shrinking = Shrinking(breaks, runs_max=5)
    shrinking.shrink(PLAN)
    assert shrinking.run_count <= 5
    assert Shrinking(breaks, is_over=lambda: True).shrink(PLAN) == PLAN


def test_what_is_named_stays_as_it_is() -> None:
    small = Shrinking(breaks, is_fixed=lambda name: name in {"faults", "duration_s"}).shrink(PLAN)
    assert (len(small.faults), small.duration_s) == (5, 60.0)
    assert small.workload.operations == (("send", 17),)


def test_names_of_nodes_are_no_list_to_shorten() -> None:
    assert [path for path, _ in pieces_of(PLAN)] == [("workload", "operations"), ("faults",)]


def test_parts_of_what_was_left_out_are_not_looked_for() -> None:
    parts = tuple((f"n{number}", number) for number in range(6))
    rounds = tuple(Workload(parts) for _ in range(6))
    small = Shrinking[tuple[Workload, ...]](bool).shrink(rounds)
    assert [each.operations for each in small] == [()]
