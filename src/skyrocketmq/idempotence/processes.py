"""Which process holds something, in words that another process of the machine can check later.

    <host> <boot of the system> <namespace of process ids> <process id> <its start>

A process id alone would not do: it is given to others later, and means somebody else in another container. Where the
system does not tell all this (it is Linux that does) nobody is ever taken for dead.
"""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Final

__all__ = ["has_died", "this_process"]

UNKNOWN: Final = "-"
_START_AT: Final = 19  # in what follows the name of a process in /proc/<id>/stat: its start, in ticks since boot
_ENDED: Final = ("Z", "X")  # states of a process that runs no more but has not been waited for


def this_process() -> str:
    return _described(os.getpid())  # after a fork it is another one


def has_died(process: str) -> bool:
    """Whether a process that called itself so certainly runs no more."""
    host, boot, namespace, process_id, start = process.split(" ")
    here = _place()
    if UNKNOWN in (boot, namespace, start, *here) or host != here[0]:
        return False
    if boot != here[1]:
        return True  # the machine was started anew
    return namespace == here[2] and _start(int(process_id)) != start and not _is_hidden(int(process_id))


@lru_cache(maxsize=1)
def _described(process_id: int) -> str:
    return " ".join([*_place(), str(process_id), _start(process_id) or UNKNOWN])


def _place() -> tuple[str, str, str]:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = namespace = UNKNOWN
    return "".join(platform.node().split()).replace("/", "") or UNKNOWN, boot, namespace


def _is_hidden(process_id: int) -> bool:
    """Whether it runs but is kept from our sight, as a system may do with the processes of other users."""
    if os.path.exists(f"/proc/{process_id}"):
        return False
    try:
        os.kill(process_id, 0)  # only asks; not reached on systems where it would do more
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start(process_id: int) -> str | None:
    """When a process began; None if there is none."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # a name may have blanks and parentheses in it
    return None if fields[0] in _ENDED else fields[_START_AT]
