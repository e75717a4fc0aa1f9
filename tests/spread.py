"""How the tests are spread over the workers of pytest-xdist.

Rule 1: what shares something that takes long to start stays together: the tests of a file, those with Spark in two
halves, and in the packages whose tests all run on several clusters those on one of them. So each cluster is
started once, and Spark once a worker.
Rule 2: what takes long starts first, so that no worker is left alone with it at the end.
"""

from __future__ import annotations

import re
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

CLUSTERS: Final = re.compile(r"(tests/interop/(?:java_)?client)/.*[\[-]((?:ours|apache|mixed)[^\]-]*)")
SPARK: Final = re.compile(r"tests/spark(/jobs)?(?=/)")
ALSO_SPARK: Final = "tests/interop/test_spark.py"

SECONDS: Final = {
    "tests/spark/jobs": 250,
    "tests/spark": 240,
    "tests/interop/client on ours": 150,
    "tests/interop/test_namesrv_life.py": 130,
    "tests/interop/client on apache": 100,
    "tests/interop/test_filters.py": 90,
    "tests/interop/java_client on ours": 85,
    "tests/interop/test_replication.py": 80,
    "tests/interop/java_client on ours, binary headers": 70,
    "tests/interop/test_broker_exchange.py": 65,
    "tests/interop/test_mqadmin.py": 60,
    "tests/cli/test_consume.py": 60,
    "tests/examples/test_examples.py": 60,
    "tests/interop/java_client on ours, one broker": 50,
    "tests/interop/test_store_exchange.py": 45,
    "tests/interop/test_delay_exchange.py": 40,
    "tests/interop/test_transaction_exchange.py": 40,
    "tests/interop/java_client on ours, one broker, binary headers": 35,
    "tests/cli/test_bench.py": 30,
    "tests/client/test_killed_brokers.py": 30,
    "tests/system/test_broker_kill.py": 30,
    "tests/system/test_delivery_faults.py": 30,
    "tests/store/test_crashes.py": 30,
    "tests/store/test_model.py": 20,
    "tests/store/test_stateful.py": 20,
    "tests/client/test_restarts.py": 20,
}
"""About how long the longest take on two cores; of the others those with many tests come first."""


def unit_of(nodeid: str) -> str:
    """What a test is kept together with."""
    if spark := SPARK.match(nodeid):
        return spark[0]
    if nodeid.startswith(ALSO_SPARK):
        return "tests/spark/jobs"
    found = CLUSTERS.match(nodeid)
    return f"{found[1]} on {found[2]}" if found else nodeid.partition("::")[0]


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Whole units, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=lambda unit: (SECONDS.get(unit, 0), len(self.workqueue[unit])))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
