"""`python -m skyrocketmq.testing.simulation`: see `command`."""

from __future__ import annotations

import sys

from skyrocketmq.testing.simulation.command import main
from skyrocketmq.testing.simulation.drawing import plan
from skyrocketmq.testing.simulation.plan import Plan
from skyrocketmq.testing.simulation.runner import Simulator
from skyrocketmq.testing.simulation.running import run

SIMULATOR = Simulator(plan, run)

if __name__ == "__main__":
    sys.exit(main(SIMULATOR, plan_type=Plan))
