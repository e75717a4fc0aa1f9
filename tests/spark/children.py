"""The processes below a process, as Linux shows them: which of them are Spark's Python workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import PATIENCE_S, wait_until

_PROC = Path("/proc")


def descendants(pid: int) -> Iterator[int]:
    """All processes that this one has started, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            yield child
            waiting.append(child)


def task_workers(pid: int) -> list[int]:
    """The Python workers that run tasks of a Spark below this process: the children of its daemon."""
    below = list(descendants(pid))
    daemons = {one for one in below if _is_daemon(one)}
    return [one for one in below if _is_daemon(one) and _parent(one) in daemons]


def wait_for_end_of_session(session: int, *, timeout_s: float = PATIENCE_S) -> None:
    """Until every process of a session has ended. A Python worker whose Spark was killed has rows in its hands, and
    finds out only when it wants more."""
    wait_until(lambda: not _members(session), timeout_s=timeout_s, what=f"the end of session {session}")


def kill_all(pids: list[int]) -> list[int]:
    """Kill these; those that were still there."""
    killed: list[int] = []
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed.append(pid)
    return killed


def _members(session: int) -> list[int]:
    """Its processes, without those that have ended and wait for their parents to look."""
    members: list[int] = []
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            try:
                state, _, _, of_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue  # it has ended
            if int(of_session) == session and state != "Z":
                members.append(int(entry.name))
    return members


def _is_daemon(pid: int) -> bool:
    """A worker is a fork of the daemon, and has its command line."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"pyspark.daemon" in words and b"pyspark.worker" in words


def _parent(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
