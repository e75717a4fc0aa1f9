"""A pace, on a clock that only moves when somebody waits."""

from __future__ import annotations

import pytest

from skyrocketmq.spark.pace import Pace


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("per_second", [0.5, 3, 40, 1000, 12_345.6])
def test_a_pace_is_kept(per_second: float) -> None:
    time = Time()
    pace = Pace(per_second, time)
    count = int(per_second * 10) + 1
    for _ in range(count):
        time.now_s += pace.take()
    assert count / max(time.now_s, 0.001) <= per_second * 1.02 + 0.2
    assert time.now_s <= 10.5


def test_time_that_was_not_used_is_not_made_up_for() -> None:
    time = Time()
    pace = Pace(100, time)
    time.now_s = 1000.0
    for _ in range(200):
        time.now_s += pace.take()
    assert time.now_s >= 1000 + 1.85
