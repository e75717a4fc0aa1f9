"""Fixtures of the interoperability tests: Apache's programs, and a JVM with Apache's client for all tests."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.interop import toolchain
from tests.interop.apache import Apache
from tests.interop.driver import Driver
from tests.interop.processes import Process


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Apache:
    """Apache's programs. Without a JDK and Maven the test is skipped, and says so; in CI that is a failure."""
    return Apache(prepared(toolchain.JAVA_DIR), tmp_path_factory.mktemp("apache"))


@pytest.fixture(scope="session")
def apache_5(tmp_path_factory: pytest.TempPathFactory) -> Apache:
    """The servers of Apache RocketMQ 5; it has neither driver nor mqadmin, those of 4.9 do."""
    return Apache(prepared(toolchain.JAVA_5_DIR), tmp_path_factory.mktemp("apache-5"))


def prepared(project_dir: Path) -> toolchain.Toolchain:
    try:
        return toolchain.prepare(project_dir)
    except toolchain.Unavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason))
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def java(apache: Apache) -> Iterator[Driver]:
    """Apache's Java client. Shared: a test stops the clients that it starts."""
    with apache.driver() as driver:
        yield driver


@pytest.fixture(scope="session")
def java_with_binary_headers(apache: Apache) -> Iterator[Driver]:
    """The same client, in a JVM that writes the other encoding of headers."""
    with apache.driver(properties={"rocketmq.serialize.type": "ROCKETMQ"}) as driver:
        yield driver


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the last lines of every server that was running."""
    report = yield
    if report.failed:
        for process in Process.running:
            report.sections.append((f"{process.name} (pid {process.pid})", process.tail()))
    return report
