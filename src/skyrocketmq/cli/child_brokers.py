"""Brokers as child processes: started, watched, and stopped with the command that started them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from skyrocketmq.errors import ConfigError

__all__ = ["child_broker"]


@asynccontextmanager
async def child_broker(
    name: str, path: Path, settings: Mapping[str, str], stop: asyncio.Event, dead: list[str]
) -> AsyncIterator[str]:
    """A broker in a process of its own, with this configuration file; gives its ready line.

    If it dies, its name is added to `dead` and all stop: else nobody would notice.
    """
    assignments = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skyrocketmq", "broker", "--stop-with-stdin", "-c", str(path), *assignments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which stops the others in order
    )
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    line = (await process.stdout.readline()).decode().strip()
    if not line:
        code = await process.wait()
        raise ConfigError(f"{name} did not start (exit code {code}): see its line above")
    watching = asyncio.get_running_loop().create_task(_watch(process, name, stop, dead))
    try:
        yield line
    finally:
        watching.cancel()
        process.stdin.close()
        await process.wait()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(process: asyncio.subprocess.Process, name: str, stop: asyncio.Event, dead: list[str]) -> None:
    code = await process.wait()
    if not stop.is_set():
        dead.append(name)
        print(f"skyrocketmq: {name} ended with exit code {code}: stopping the others", file=sys.stderr, flush=True)
        stop.set()
