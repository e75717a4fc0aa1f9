"""Fixtures of the benchmarks' tests: a small server that answers every frame, connections, Apache's programs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.benchmarks.answering import Answer, AnsweringServer, Serve
from tests.interop import toolchain


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers; they end with the test."""
    servers: list[AnsweringServer] = []

    def start(answer: Answer) -> AnsweringServer:
        servers.append(AnsweringServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def connections() -> Iterator[list[socket.socket]]:
    """Those put in here are closed at the end of the test."""
    opened: list[socket.socket] = []
    yield opened
    for connection in opened:
        connection.close()


@pytest.fixture
def java_tools() -> None:
    """Without a JDK and Maven the test is skipped, and says so; in CI that is a failure."""
    try:
        toolchain.prepare()
    except toolchain.Unavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason))
        pytest.skip(str(reason))
