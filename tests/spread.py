"""How the tests are spread over the workers of pytest-xdist: one run, one collection, no worker idle.

Rule 1: what shares something that takes long to start stays together: the tests of a file, those with Spark in two
halves, and in the packages whose tests all run on several clusters those on one of them. So each cluster is
started once, and Spark once a worker. Such a group is a unit.
Rule 2: what takes long starts first, so that no worker is left alone with it at the end.
Rule 3: there is a worker for each core, and others on top that take only units that mostly wait: for a timer, or for a
server to notice something. Two busy units and two waiting ones keep two cores busy without being in each other's way.
Rule 4: tests marked `alone` come last. The other workers have ended by then, with all that they had started.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

CORES: Final = os.cpu_count() or 1
CLUSTERS: Final = re.compile(r"(tests/interop/(?:java_)?client)/.*[\[-]((?:ours|apache|mixed)[^\]-]*)")
SPARK: Final = re.compile(r"tests/spark(/jobs)?(?=/)")
ALSO_SPARK: Final = ("tests/interop/test_spark.py", "tests/interop/test_spark_store.py")
ALONE: Final = " alone"
"""Ends the name of the unit of a test with that mark."""

SECONDS: Final = {
    "tests/spark": 240,
    "tests/spark/jobs": 220,
    "tests/interop/client on ours": 105,
    "tests/simulation/test_seeds.py": 105,
    "tests/interop/test_namesrv_life.py": 105,
    "tests/interop/test_replication.py": 80,
    "tests/interop/test_broker_exchange.py": 65,
    "tests/cli/test_consume.py": 60,
    "tests/examples/test_examples.py": 60,
    "tests/interop/test_filters.py": 50,
    "tests/interop/java_client on ours": 45,
    "tests/interop/client on apache": 40,
    "tests/interop/test_store_exchange.py": 35,
    "tests/interop/test_delay_exchange.py": 30,
    "tests/cli/test_bench.py": 30,
    "tests/cli/test_up.py": 30,
    "tests/client/test_restarts.py": 30,
    "tests/store/test_crashes.py": 30,
    "tests/system/test_delivery_faults.py": 30,
    "tests/client/test_killed_brokers.py": 25,
    "tests/cli/test_up_folder.py": 25,
    "tests/interop/java_client on ours, one broker, binary headers": 20,
    "tests/interop/test_mqadmin.py": 20,
    "tests/interop/test_namesrv.py": 20,
    "tests/system/test_broker_kill.py": 20,
    "tests/ha/test_copying.py": 20,
    "tests/store/test_model.py": 20,
    "tests/store/test_stateful.py": 20,
    "tests/interop/test_transaction_exchange.py": 15,
    "tests/interop/test_acl.py": 15,
    "tests/system/test_full_disk.py": 15,
}
"""About how long the longest take on two cores; of the others those with many tests come first. Each run ends with the
ten that took longest (`unit_times.py`)."""

MOSTLY_WAIT: Final = re.compile(r"tests/(client|net|ha|interop|system)/|tests/cli/test_bench\.py")
"""Units that are on a core for less than half of their time."""


def unit_of(nodeid: str) -> str:
    """What a test is kept together with."""
    if spark := SPARK.match(nodeid):
        return spark[0]
    if nodeid.startswith(ALSO_SPARK):
        return "tests/spark/jobs"
    found = CLUSTERS.match(nodeid)
    return f"{found[1]} on {found[2]}" if found else nodeid.partition("::")[0]


def write_alone(items: list[pytest.Item], path: Path) -> None:
    """Called in each worker: the scheduler, in another process, knows tests by their ids only, not their marks."""
    path.write_text(json.dumps([item.nodeid for item in items if item.get_closest_marker("alone")]), encoding="utf-8")


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Whole units, the longest first. A worker begins a test only when it knows the next one, or that there is none."""

    def __init__(self, config: pytest.Config, log: Any, *, alone_path: Path) -> None:
        super().__init__(config, log)
        self.collection: list[str] | None = None
        self._alone_path = alone_path
        self._alone: frozenset[str] = frozenset()

    def _split_scope(self, nodeid: str) -> str:
        # Those of a file are separate units, but follow one another, so that they share its fixtures all the same.
        return nodeid + ALONE if nodeid in self._alone else unit_of(nodeid)

    def schedule(self) -> None:
        if self.collection is None:
            if not self._check_nodes_have_same_collection():
                return
            collected: list[str] = next(iter(self.registered_collections.values()))
            self.collection = collected
            self._alone = frozenset(json.loads(self._alone_path.read_text(encoding="utf-8")))
            for nodeid in collected:
                self.workqueue.setdefault(self._split_scope(nodeid), {})[nodeid] = False
        for node in self.nodes:
            self._reschedule(node)

    @property
    def tests_finished(self) -> bool:
        """Asked after each event: `True` ends every worker. Each is ended by `_reschedule` instead, in its time."""
        all_told = self.collection is None or all(node.shutting_down for node in self.nodes)
        return all_told and bool(super().tests_finished)

    def remove_node(self, node: WorkerController) -> str | None:
        crashed_in: str | None = super().remove_node(node)
        for other in self.nodes:
            self._reschedule(other)
        return crashed_in

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker its next unit once it has but one test left, or tell it that there is none."""
        if node not in self.registered_collections:
            return  # it takes the place of one that died, and is still collecting
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 1:
            if unit := self._unit_for(node):
                self.workqueue.move_to_end(unit, last=False)
                self._assign_work_unit(node)
            elif self._is_last(node) and self._others(node) and self._has_alone(node):
                return  # called again when the others are gone
            else:
                node.shutdown()

    def _unit_for(self, node: WorkerController) -> str | None:
        together: list[str] = [unit for unit in self.workqueue if not unit.endswith(ALONE)]
        if self.nodes.index(node) >= CORES:  # a worker on top
            together = [unit for unit in together if MOSTLY_WAIT.match(unit)]
        elif any(not MOSTLY_WAIT.match(unit) for unit in together):
            together = [unit for unit in together if not MOSTLY_WAIT.match(unit)]
        if together:
            return max(together, key=lambda unit: (SECONDS.get(unit, 0), len(self.workqueue[unit])))
        if not self._is_last(node) or (self._others(node) and self._has_alone(node)):
            return None
        # With one test left it needs a next one to begin it; that one, marked `alone`, then waits for the others' end.
        waiting: list[str] = list(self.workqueue)
        return waiting[0] if waiting else None

    def _others(self, node: WorkerController) -> list[WorkerController]:
        return [other for other in self.nodes if other is not node]

    def _is_last(self, node: WorkerController) -> bool:
        """Whether no other worker will be given anything more."""
        return all(other.shutting_down for other in self._others(node))

    def _has_alone(self, node: WorkerController) -> bool:
        return any(unit.endswith(ALONE) for unit in self.assigned_work[node])
