"""The life of a client: `start`, `close`, and `async with` around both."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from skyrocketmq.client.uninterrupted import uninterrupted
from skyrocketmq.errors import ClientError

__all__ = ["ClientLife"]


class ClientLife:
    """What opens last closes first: `_open` puts whatever has to be undone on the stack that it is given.

    A start that fails has undone everything. Closing is finished even if it is cancelled, and twice is harmless.
    """

    def __init__(self, group: str, *, kind: str) -> None:
        self.group = group
        self._kind = kind
        self._opened: AsyncExitStack | None = None

    async def _open(self, opened: AsyncExitStack) -> None:
        raise NotImplementedError

    def _closed(self) -> None:
        """Called after everything is undone."""

    async def start(self) -> None:
        """Open the client: what `async with` does at its beginning."""
        if self._opened is not None:
            raise ClientError(f"the {self._kind} {self.group} is started already")
        self._opened = AsyncExitStack()
        try:
            await self._open(self._opened)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Leave the group and let go of everything: what `async with` does at its end."""
        opened, self._opened = self._opened, None
        if opened is not None:
            try:
                await uninterrupted(opened.aclose())
            finally:
                self._closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _not_started(self) -> ClientError:
        return ClientError(
            f"the {self._kind} {self.group} is not started: use it inside 'async with', or call start() first"
        )
