"""Work in the disk's threads that must not be left alone.

A cancelled caller stops waiting, but the thread goes on: it syncs, reads or creates files that the caller would then
close or delete under it. Rule: whoever lends a file to a thread waits for its return, cancelled or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from skyrocketmq.ports import Disk

__all__ = ["run_to_end"]

P = ParamSpec("P")
T = TypeVar("T")


async def run_to_end(disk: Disk, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`disk.run`, which has really ended when this returns or raises, `CancelledError` too."""
    work = asyncio.get_running_loop().create_task(disk.run(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                continue
        if not work.cancelled():
            work.exception()  # seen: nobody else will ask for it
        raise
