"""What a running process costs, from /proc: memory of its own, and CPU time."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

KIB = 1024
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def rss_anon_bytes(pid: int) -> int:
    """Resident memory that belongs to the process alone: heap and stacks, without mapped files."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None, "the kernel does not tell RssAnon"
    return int(found[1]) * KIB


def cpu_s(pid: int) -> float:
    """CPU time used so far by all threads of the process, in user and kernel mode."""
    # The command's name is in parentheses and may hold blanks; the fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def children(pid: int) -> list[int]:
    """The processes that it started and that still run."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in listed for child in file.read_text().split()]


def busy_s() -> float:
    """CPU time used so far by everything on this machine, the kernel and what the hypervisor took away included."""
    # cpu | user | nice | system | idle | waiting for disks | interrupts | soft interrupts | stolen | ...
    fields = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS_A_SECOND


def machine() -> dict[str, str]:
    """On what it was measured."""
    cpu = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(memory[1]) * KIB / 2**30:.0f} GiB" if memory else "unknown",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
