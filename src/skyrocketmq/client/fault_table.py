"""Which brokers a producer had better avoid for a while, learnt from how long they took to answer.

Rule 1: a broker that is not in the table, or whose time has passed, is available.
Rule 2: no clock in here. Who calls says what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FaultTable", "avoidance_ms"]

FAILED_CALL_MS: Final = 30_000  # a call that failed counts as if it had taken so long
AVOIDANCE: Final = (
    # (the call took at least, the broker is avoided for), both ms; the longest first
    (15_000, 600_000),
    (3_000, 180_000),
    (2_000, 120_000),
    (1_000, 60_000),
    (550, 30_000),
)


def avoidance_ms(latency_ms: float) -> int:
    """How long a broker is avoided after a call of this length."""
    return next((pause_ms for at_least_ms, pause_ms in AVOIDANCE if latency_ms >= at_least_ms), 0)


@dataclass(frozen=True, slots=True)
class _Fault:
    latency_ms: float
    available_from_ms: int


class FaultTable:
    """The brokers of one producer, by name, with their last call."""

    def __init__(self, *, turn: int = 0) -> None:
        """`turn` is where the rotation of `take_turn` begins: a random number, so that producers spread."""
        self._faults: dict[str, _Fault] = {}
        self._turn = turn

    def record(self, broker_name: str, *, latency_ms: float, is_failed: bool, now_ms: int) -> None:
        """Note how a call went. A quick refusal is no quick answer: when all are avoided, a slow broker is better."""
        if is_failed:
            latency_ms = max(latency_ms, FAILED_CALL_MS)
        self._faults[broker_name] = _Fault(latency_ms, now_ms + avoidance_ms(latency_ms))

    def is_available(self, broker_name: str, *, now_ms: int) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or now_ms >= fault.available_from_ms

    def forget(self, broker_name: str) -> None:
        self._faults.pop(broker_name, None)

    def take_turn(self, *, now_ms: int) -> str | None:
        """One of the better half of the brokers in the table, in turn: what to use when none is available."""
        if not self._faults:
            return None

        def badness(name: str) -> tuple[bool, float, int]:
            fault = self._faults[name]
            return now_ms < fault.available_from_ms, fault.latency_ms, fault.available_from_ms

        best_first = sorted(self._faults, key=badness)
        half = len(best_first) // 2
        if not half:
            return best_first[0]
        self._turn += 1
        return best_first[self._turn % half]
