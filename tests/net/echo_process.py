"""An echo server as a process of its own, so that its memory and its descriptors can be counted from outside.

python -m tests.net.echo_process LOOP IDLE_S WRITE_STALL_S     prints its port; ends when its standard input does
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from skyrocketmq.net import Server, ServerOptions
from tests.net.support import LOOPBACK, EchoService


async def serve(idle_s: float, write_stall_s: float) -> None:
    options = ServerOptions(idle_s=idle_s, write_stall_s=write_stall_s)
    async with await Server.start(LOOPBACK, EchoService().dispatcher, options=options) as server:
        print(server.port, flush=True)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
        await ended.wait()
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


if __name__ == "__main__":
    factory = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[sys.argv[1]]
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(float(sys.argv[2]), float(sys.argv[3])))
