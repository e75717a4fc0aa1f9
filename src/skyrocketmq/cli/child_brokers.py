"""Brokers as child processes: started, watched, and stopped with the command that started them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from skyrocketmq.config import BrokerConfig
from skyrocketmq.config.loading import KeyTable
from skyrocketmq.errors import ConfigError

__all__ = ["child_broker", "split_secrets"]


@asynccontextmanager
async def child_broker(
    name: str, path: Path, settings: Mapping[str, str], stop: asyncio.Event, dead: list[str]
) -> AsyncIterator[str]:
    """A broker in a process of its own, with this configuration file; gives its ready line.

    If it dies, its name is added to `dead` and all stop: else nobody would notice.
    """
    environ, shown = split_secrets(settings)
    assignments = [argument for key, value in shown.items() for argument in ("--set", f"{key}={value}")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skyrocketmq", "broker", "--stop-with-stdin", "-c", str(path), *assignments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environ},
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


def split_secrets(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What a child gets in its environment, and what on its command line, which every user of a machine can read."""
    table = KeyTable(BrokerConfig)
    secret = {name: keys[0] for name in settings if (keys := table.find(name)) and keys[0].declared.secret}
    by_variable = {key.environment_names[0]: settings[name] for name, key in secret.items()}
    return by_variable, {name: value for name, value in settings.items() if name not in secret}


async def _watch(process: asyncio.subprocess.Process, name: str, stop: asyncio.Event, dead: list[str]) -> None:
    code = await process.wait()
    if not stop.is_set():
        dead.append(name)
        print(f"skyrocketmq: {name} ended with exit code {code}: stopping the others", file=sys.stderr, flush=True)
        stop.set()
