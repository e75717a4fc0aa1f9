"""What a test needs: a whole cluster in this process, and twins of the ports that it controls: time that moves when it
is told to, links and disks that fail on demand.

They ship with the package, so that users can test their own code the same way; `docs/testing.md` shows how. `cluster`
has `LocalCluster`, `kept_ports` the ports of its stopped brokers, and `blocking_cluster` its face for code that blocks.
`clock` has `ManualClock`, `link` has `FaultyLink`, `disk` has `FaultyDisk`; each stands where the real form from
`skyrocketmq.ports` would. `simulation` has whole clusters on virtual time. The fixtures for pytest are in
`skyrocketmq.pytest_plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import DiskCall, FaultyDisk, FaultyFile, PowerLost
from skyrocketmq.testing.link import Direction, FaultyConnection, FaultyLink

if TYPE_CHECKING:
    from skyrocketmq.testing.blocking_cluster import BlockingCluster
    from skyrocketmq.testing.cluster import LocalCluster
    from skyrocketmq.testing.simulation.simulation import Simulation

__all__ = [
    "BlockingCluster",
    "Direction",
    "DiskCall",
    "FaultyConnection",
    "FaultyDisk",
    "FaultyFile",
    "FaultyLink",
    "LocalCluster",
    "ManualClock",
    "PowerLost",
    "Simulation",
]


if not TYPE_CHECKING:  # a checker would believe that the module has every name

    def __getattr__(name: str) -> object:
        """Load the servers when a cluster is asked for: who wants a clock only need not wait for them."""
        if name == "LocalCluster":
            from skyrocketmq.testing.cluster import LocalCluster

            return LocalCluster
        if name == "BlockingCluster":
            from skyrocketmq.testing.blocking_cluster import BlockingCluster

            return BlockingCluster
        if name == "Simulation":
            from skyrocketmq.testing.simulation.simulation import Simulation

            return Simulation
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
