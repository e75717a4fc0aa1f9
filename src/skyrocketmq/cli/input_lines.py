"""The lines of a file, a pipe or a terminal, for a program on an event loop.

A terminal may keep a reader waiting for ever, and a plain file cannot be watched by the loop: a thread reads, a few
pieces ahead, and does not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["InputLines"]

PIECE_BYTES: Final = 65_536
PIECES_AHEAD_MAX: Final = 4


class InputLines:
    """Lines without their ends, as bytes. Iterate once; an input that cannot be read is an `OSError`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(PIECES_AHEAD_MAX)
        self._is_ended = False
        self._failure: OSError | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="standard input", daemon=True).start()
        begun: list[bytes] = []  # the pieces of a line whose end has not come yet
        while piece := await self._pieces.get():
            self._room.release()
            *lines, rest = piece.split(b"\n")
            for line in lines:
                if self._is_ended:
                    return
                yield b"".join([*begun, line]).removesuffix(b"\r")
                begun.clear()
            if rest:
                begun.append(rest)
        if self._is_ended:
            return
        if self._failure is not None:
            raise self._failure
        if begun:
            yield b"".join(begun)

    def end(self) -> None:
        """Give no more lines."""
        self._is_ended = True
        self._pieces.put_nowait(b"")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        piece = b"more"
        while piece:
            self._room.acquire()
            # Not through `sys.stdin`: its lock, held here while the process ends, would be a fatal error.
            try:
                piece = os.read(self._descriptor, PIECE_BYTES)
            except OSError as error:
                self._failure = error
                piece = b""
            try:
                loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
            except RuntimeError:
                return  # the loop is gone: nobody wants the rest
