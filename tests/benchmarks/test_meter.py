from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.meter import Meter, Outcome, Slice, slice_ends


def cut(
    others_cpu_s: float, count: int, *, refused: Counter[int] | None = None, latencies_s: Sequence[float] = ()
) -> Slice:
    return Slice(count, 0.5, 0.2, 0.1, others_cpu_s, refused or Counter(), list(latencies_s))


def test_an_outcome_is_the_sum_of_its_slices() -> None:
    outcome = Outcome(
        [cut(0.1, 100, refused=Counter({2: 3}), latencies_s=[0.003, 0.001]), cut(0.0, 300, latencies_s=[0.002])]
    )

    assert (outcome.count, outcome.rate, outcome.refused) == (400, 400.0, {2: 3})
    assert outcome.server_cpu_us == 0.4e6 / 400
    assert (outcome.server_share, outcome.generator_share, outcome.others_share) == (0.4, 0.2, 0.1)
    assert [outcome.latency_ms(quantile) for quantile in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]
    assert str(outcome).endswith("REFUSED {2: 3}")


def test_the_calmest_are_those_in_which_others_did_least_however_the_server_did() -> None:
    outcome = Outcome([cut(0.4, 900), cut(0.0, 10), cut(0.2, 500), cut(0.1, 20)])

    assert [each.count for each in outcome.calmest(1.0).slices] == [10, 20]
    assert [each.count for each in outcome.calmest(0.0).slices] == [10]
    assert outcome.calmest(60.0).count == outcome.count


def test_slices_share_the_time_evenly() -> None:
    assert slice_ends(10.0, 2.0) == [10.5, 11.0, 11.5, 12.0]
    assert slice_ends(0.0, 0.2) == [0.2]


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
