"""A disk whose syncs take longer than this machine's: for any program, through a library that is loaded before its own.

`fsync`, `fdatasync` and `msync` first do what they do, and then wait. The library is a few lines of C, compiled when it
is needed; where there is no compiler, whoever asks is told so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["compiler", "slow_syncs"]

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static void wait_a_while(void) {
    const char *text = getenv("SLOW_SYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec span = {us / 1000000, us % 1000000 * 1000};
    if (us > 0) nanosleep(&span, NULL);
}
int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    int result = real(fd);
    wait_a_while();
    return result;
}
int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    int result = real(fd);
    wait_a_while();
    return result;
}
int msync(void *start, size_t length, int flags) {
    int (*real)(void *, size_t, int) = dlsym(RTLD_NEXT, "msync");
    int result = real(start, length, flags);
    wait_a_while();
    return result;
}
"""


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@contextmanager
def slow_syncs(milliseconds: float, directory: Path) -> Iterator[None]:
    """Programs started within the block meet a disk whose every sync takes so much longer."""
    library = directory / "slow_sync.so"
    if not library.exists():
        source = directory / "slow_sync.c"
        source.write_text(SOURCE)
        command = compiler()
        assert command is not None, "ask for a compiler first"
        subprocess.run(
            [command, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"],
            check=True,
            capture_output=True,
            text=True,
        )
    changes = {"LD_PRELOAD": str(library), "SLOW_SYNC_US": str(int(milliseconds * 1000))}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
