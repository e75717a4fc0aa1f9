"""The life of a client: `start`, `close`, and `async with` around both."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from skyrocketmq.client.uninterrupted import uninterrupted
from skyrocketmq.errors import ClientError

__all__ = ["ClientLife"]


class ClientLife:
    """What opens last closes first: `_open` puts whatever has to be undone on the stack that it is given.

    A start that fails, or that is overtaken by `close`, has undone everything. Closing is finished even if it is
    cancelled, and twice is harmless: each caller waits until everything is undone. Only a handler does not, for
    closing waits for the handlers: its call begins the end, and returns.
    """

    def __init__(self, group: str, *, kind: str) -> None:
        self.group = group
        self._kind = kind
        self._opened: AsyncExitStack | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def _open(self, opened: AsyncExitStack) -> None:
        raise NotImplementedError

    def _closing_begins(self) -> None:
        """Called before anything is undone."""

    def _closed(self) -> None:
        """Called after everything is undone."""

    @property
    def is_in_handler(self) -> bool:
        """Whether the caller is one of this client's handlers."""
        return False

    async def start(self) -> None:
        """Open the client: what `async with` does at its beginning."""
        if self._opened is not None:
            raise ClientError(f"the {self._kind} {self.group} is started already")
        if self._closing is not None:
            raise ClientError(f"the {self._kind} {self.group} is being closed: await close() first")
        opened = self._opened = AsyncExitStack()
        opening = self._opening = asyncio.get_running_loop().create_task(self._open(opened), name=f"start {self.group}")
        try:
            await opening
        except BaseException as error:
            if self._opened is not opened and isinstance(error, asyncio.CancelledError) and not _is_cancelled():
                raise self._closed_while_starting() from None
            await self.close()
            raise
        finally:
            self._opening = None
        if self._opened is not opened:
            raise self._closed_while_starting()

    async def close(self) -> None:
        """Leave the group and let go of everything: what `async with` does at its end."""
        closing = self._begin_closing()
        if closing is not None and not self.is_in_handler:
            await uninterrupted(closing)

    def _begin_closing(self) -> asyncio.Task[None] | None:
        """The task that closes the client; None if there is nothing to close."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._closing_begins()
            self._closing = asyncio.get_running_loop().create_task(self._close(opened), name=f"close {self.group}")
        return self._closing

    async def _close(self, opened: AsyncExitStack) -> None:
        opening = self._opening
        try:
            if opening is not None:
                opening.cancel()
                await asyncio.wait([opening])
            await opened.aclose()
        finally:
            self._closing = None
            self._closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _closed_while_starting(self) -> ClientError:
        return ClientError(f"the {self._kind} {self.group} was closed while it was being started")

    def _not_started(self) -> ClientError:
        return ClientError(
            f"the {self._kind} {self.group} is not started: use it inside 'async with', or call start() first"
        )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
