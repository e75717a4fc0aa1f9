"""What a simulated node has beside its clock, its disk and its link: an address, a process id, no threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

__all__ = ["SimMachine"]

MEMORY_BYTES: Final = 8 << 30


class SimMachine:
    """A `Machine`. What would run in threads runs on the loop."""

    def __init__(self, address: str, process_id: int) -> None:
        self._address = address
        self.process_id = process_id

    def address(self, toward: tuple[str, ...] = ()) -> str:
        return self._address

    def memory_bytes(self) -> int:
        return MEMORY_BYTES

    def start_thread(self, work: Callable[[], object], *, name: str) -> bool:
        return False

    def executor(self, count_max: int, *, name: str) -> Executor | None:
        return None
