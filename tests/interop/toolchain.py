"""A JDK, Maven, and the builds of `java/`, Apache's jars and our driver program, and of `java5/`, its newer servers.

Rule 1: the build happens once for a state of the sources; its directory is named by their hash, and it appears by a
rename, so that what is there is whole. Two test runs at once wait for one another at a lock file.
Rule 2: where no JDK and Maven can be had, `Unavailable` says why; whether that is a skip or a failure is the caller's
business.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

JAVA_DIR = Path(__file__).parent / "java"
JAVA_5_DIR = Path(__file__).parent / "java5"
JAVA_RELEASE_MIN = 17
PACKAGES = ("default-jdk-headless", "maven")
NEEDED = f"the interoperability tests need a JDK ({JAVA_RELEASE_MIN} or newer) and Maven"
INSTALL_TIMEOUT_S = 600
BUILD_TIMEOUT_S = 600
OLD_BUILD_S = 86_400
"""A build of other sources may still be in use by another run; one that is a day old is not."""

# 4.9.7 predates the module system's walls: its store unmaps deleted files and locks memory through these packages.
# Without them a broker starts, but cannot delete a topic, nor start again after it was killed.
MODULE_FLAGS = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)


class Unavailable(Exception):
    """Apache's side cannot be run on this machine; the text says what is missing."""


@dataclass(frozen=True)
class Toolchain:
    """A Java that can run Apache's classes and ours."""

    java: str
    classpath: str

    def command(self, main_class: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        return [self.java, *MODULE_FLAGS, *jvm, "-cp", self.classpath, main_class, *arguments]


def prepare(project_dir: Path = JAVA_DIR) -> Toolchain:
    """Find or install what is needed, and build the project unless that was done before. Raises `Unavailable`."""
    if _find_tools() is None and not _can_install():
        raise Unavailable(f"{NEEDED}; install the packages {' and '.join(PACKAGES)}, or their like")
    target_dir = project_dir / "target"
    target_dir.mkdir(parents=True, exist_ok=True)
    with _locked(target_dir / ".lock"):
        java, maven = _find_tools() or _install_tools()
        build_dir = target_dir / f"build-{_hash_of_sources(project_dir)}"
        if not build_dir.exists():
            _build(maven, project_dir, build_dir)
            _remove_old_builds(keep=build_dir)
    return Toolchain(java=java, classpath=f"{build_dir / 'classes'}{os.pathsep}{build_dir / 'lib'}/*")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _find_tools() -> tuple[str, str] | None:
    java, compiler, maven = (shutil.which(name) for name in ("java", "javac", "mvn"))
    if not (java and compiler and maven):
        return None
    said = subprocess.run([compiler, "-version"], capture_output=True, text=True, timeout=60, check=False)
    release = re.search(r"javac (\d+)", said.stdout + said.stderr)
    if not release or int(release[1]) < JAVA_RELEASE_MIN:
        return None
    return java, maven


def _can_install() -> bool:
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def _install_tools() -> tuple[str, str]:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", "--quiet", *arguments],
            env=environ,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(f"{NEEDED}; apt-get {arguments[0]} failed: {_tail(done.stderr)}")
    tools = _find_tools()
    if tools is None:
        raise Unavailable(f"{NEEDED}; what apt-get installed is too old")
    return tools


def _hash_of_sources(project_dir: Path) -> str:
    digest = hashlib.sha256()
    for path in [project_dir / "pom.xml", *sorted((JAVA_DIR / "src").rglob("*.java"))]:
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(maven: str, project_dir: Path, build_dir: Path) -> None:
    unfinished = build_dir.with_suffix(f".{os.getpid()}")
    goals = [f"-Dinterop.build={unfinished}", "compiler:compile", "dependency:copy-dependencies"]
    # Offline is quick and enough once the local repository has everything; its failure is not news.
    for network in (["--offline"], []):
        shutil.rmtree(unfinished, ignore_errors=True)
        done = subprocess.run(
            [maven, "--quiet", "--batch-mode", *network, *goals],
            cwd=project_dir,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode == 0:
            unfinished.rename(build_dir)
            return
    shutil.rmtree(unfinished, ignore_errors=True)
    raise Unavailable(f"Maven could not build {project_dir.name}/: {_tail(done.stdout + done.stderr)}")


def _remove_old_builds(*, keep: Path) -> None:
    for path in keep.parent.glob("build-*"):
        if path != keep and time.time() - path.stat().st_mtime > OLD_BUILD_S:
            shutil.rmtree(path, ignore_errors=True)


def _tail(text: str, characters: int = 2000) -> str:
    return text.strip()[-characters:]
