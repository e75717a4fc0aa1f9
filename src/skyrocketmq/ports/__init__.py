"""The doors to the outside: time, disk, network, chance and the machine, as protocols, each with its real form.

Code that waits, reads a clock, touches a file, opens a connection, draws a random number or asks who and where it is
takes one of these in its constructor and uses nothing else, so that `skyrocketmq.testing` can put a clock that jumps, a
disk that loses power and a link that is cut in their place, and repeat a whole cluster from one seed. Three rules
follow:

1. Nothing outside this package (and `testing`) calls `time.*`, `open`, `asyncio.sleep` or `asyncio.timeout`, opens a
   socket, starts a thread, or draws from `random` and `uuid`.
2. A call that may block on the device (`File.fdatasync`, `File.allocate`, cold reads, deleting, `Disk.replace`) is made
   inside `await disk.run(...)`; calls into the page cache (`pwrite` at the tail, warm maps) are made in place.
3. What is iterated has an order of its own: a dict, not a set of objects or texts, whose order is another in each
   process.

`clock`, `disk` (with `local_disk`), `link`, `chance` and `machine` hold one door each.
"""

from __future__ import annotations

from skyrocketmq.ports.chance import Chance, SystemChance
from skyrocketmq.ports.clock import Clock, SystemClock, Timer, every, pause, thread_cpu_s
from skyrocketmq.ports.disk import Disk, DiskUsage, File, FileLock
from skyrocketmq.ports.link import Bound, Link, TcpLink, set_buffers, set_no_delay
from skyrocketmq.ports.local_disk import LocalDisk
from skyrocketmq.ports.machine import LocalMachine, Machine

__all__ = [
    "Bound",
    "Chance",
    "Clock",
    "Disk",
    "DiskUsage",
    "File",
    "FileLock",
    "Link",
    "LocalDisk",
    "LocalMachine",
    "Machine",
    "SystemChance",
    "SystemClock",
    "TcpLink",
    "Timer",
    "every",
    "pause",
    "set_buffers",
    "set_no_delay",
    "thread_cpu_s",
]
