from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.net import ClientOptions
from skyrocketmq.net.options import backoff_s

OPTIONS = ClientOptions(backoff_first_s=0.1, backoff_factor=2.0, backoff_max_s=5.0, backoff_jitter=0.5)


def test_the_wait_doubles_up_to_its_limit() -> None:
    waits = [backoff_s(count, chance=0.0, options=OPTIONS) for count in range(9)]
    assert waits == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


@given(count=st.integers(1, 10**9), chance=st.floats(0, 1, exclude_max=True))
def test_chance_takes_off_at_most_the_jitter_and_never_adds(count: int, chance: float) -> None:
    whole = backoff_s(count, chance=0.0, options=OPTIONS)
    assert whole / 2 <= backoff_s(count, chance=chance, options=OPTIONS) <= whole <= OPTIONS.backoff_max_s
