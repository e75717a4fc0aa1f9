"""The admin client of Apache RocketMQ 5 on our broker: what it asks beyond that of 4.9."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.apache import TEST_JVM, Apache
from tests.interop.ours import Up, running
from tests.interop.toolchain import JAVA_5_DIR

# `make interop-all` has it: the jars of release 5 take a build of their own.
pytestmark = [pytest.mark.interop, pytest.mark.reference, pytest.mark.timeout(120, func_only=True)]


def test_the_admin_client_of_release_5_reads_topics_groups_and_what_groups_read(
    apache_5: Apache, tmp_path: Path
) -> None:
    with running(Up(tmp_path / "up")) as server:
        program = str(JAVA_5_DIR / "AskAsRelease5.java")
        jvm = (*TEST_JVM, f"-Duser.home={tmp_path}")
        command = apache_5.toolchain.command(program, server.namesrv_address, server.address, jvm=jvm)
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("> ")] == [
        "> topic Orders 3 2 6",
        "> group billing 5 true",
        "> topics true",
        "> subscription null",
    ]
