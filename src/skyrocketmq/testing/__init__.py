"""Twins of the ports that a test controls: time that moves when it is told to, links and disks that fail on demand.

They ship with the package, so that users can test their own code the same way. `clock` has `ManualClock`, `link` has
`FaultyLink`, `disk` has `FaultyDisk`; each stands where the real form from `skyrocketmq.ports` would.
"""

from __future__ import annotations

from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import DiskCall, FaultyDisk, FaultyFile, PowerLost
from skyrocketmq.testing.link import Direction, FaultyConnection, FaultyLink

__all__ = [
    "Direction",
    "DiskCall",
    "FaultyConnection",
    "FaultyDisk",
    "FaultyFile",
    "FaultyLink",
    "ManualClock",
    "PowerLost",
]
