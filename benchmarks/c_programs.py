"""The parts of the benchmarks that are C: compiled where they run, when they are first needed.

`load` is the load generator, `null_server` the floor that any server stands on, `slow_sync` a library that makes the
syncs of a disk take longer. Each is one file in `benchmarks/c`, and needs a compiler and nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "c"


class NoCompiler(Exception):
    """This machine has no C compiler."""


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build_program(name: str, directory: Path) -> Path:
    """The program, compiled into the directory unless it is there already. Raises `NoCompiler`."""
    return _build(name, directory / name, ["-O2"])


def build_library(name: str, directory: Path) -> Path:
    """The same for a library that other programs load."""
    return _build(name, directory / f"{name}.so", ["-O1", "-shared", "-fPIC"])


def _build(name: str, target: Path, flags: list[str]) -> Path:
    if target.exists():
        return target
    command = compiler()
    if command is None:
        raise NoCompiler(f"{name}.c has to be compiled: install a C compiler (cc, gcc or clang; on Debian, gcc)")
    source = SOURCES / f"{name}.c"
    done = subprocess.run(
        [command, *flags, "-o", str(target), str(source), "-ldl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{source.name} does not compile:\n{done.stderr}"
    return target
