"""What a stretch of load cost whom."""

from __future__ import annotations

import os
import time

from benchmarks.meter import Meter


def test_a_meter_tells_what_this_process_used_since_the_last_cut() -> None:
    meter = Meter(os.getpid(), generator_pid=os.getpid())
    meter.start()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass

    busy, idle = meter.cut(10), meter.cut(0)

    assert 0.2 <= busy.server_cpu_s <= 0.4
    assert busy.seconds >= 0.29
    assert idle.server_cpu_s <= 0.02
