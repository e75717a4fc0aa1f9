"""Compressing bodies where it does not hold up the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Final

from skyrocketmq.client.outgoing import Compression, Outgoing, compressed
from skyrocketmq.ports import LocalMachine, Machine

__all__ = ["Compressor"]

IN_THREAD_FROM_BYTES: Final = 64 * 1024  # about 2 ms of work, which the loop should not do
THREAD_COUNT: Final = 2


class Compressor:
    """Compresses what one producer sends; its threads come with the first large body."""

    def __init__(self, compression: Compression, machine: Machine | None = None) -> None:
        self.compression = compression
        self.from_bytes = compression.from_bytes
        self._machine = machine or LocalMachine()
        self._threads: Executor | None = None

    async def compress(self, outgoing: Outgoing) -> None:
        """Compress the body, unless it is small."""
        if len(outgoing.body) < IN_THREAD_FROM_BYTES:
            compressed(outgoing, self.compression)
            return
        if self._threads is None:
            self._threads = self._machine.executor(THREAD_COUNT, name="compress")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, compressed, outgoing, self.compression)

    def close(self) -> None:
        """End the threads without waiting for them. Closing twice is harmless."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
