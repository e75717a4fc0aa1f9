"""Fixtures for pytest: a cluster for the session, a fresh topic for each test. Loaded by pytest itself.

    def test_an_order_is_sent(rocketmq, rocketmq_topic): ...                 # blocking
    async def test_an_order_is_sent(rocketmq_async, rocketmq_topic): ...     # with pytest-asyncio, anyio, ...

| ini option | default | meaning |
|---|---|---|
| rocketmq_brokers | 1 | how many brokers the cluster has |
| rocketmq_queues | 4 | queues of a fresh topic, on each broker |
| rocketmq_settings | none | Apache's keys for the brokers, a line `key=value` for each |

Rule: this module is loaded by every run of pytest where the package is installed, so it imports nothing: the cluster
comes with the first test that asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from skyrocketmq.testing import BlockingCluster, LocalCluster

__all__ = ["rocketmq", "rocketmq_async", "rocketmq_topic"]

TOPIC_NAME_MAX: Final = 60  # of the test's name: the protocol's limit is 127, and groups may be named after topics

_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("rocketmq_brokers", "how many brokers the cluster of the rocketmq fixture has", default="1")
    parser.addini("rocketmq_queues", "queues of a topic of the rocketmq_topic fixture, on each broker", default="4")
    parser.addini("rocketmq_settings", "Apache's keys for the brokers: key=value, one a line", type="linelist")


@pytest.fixture(scope="session")
def rocketmq(pytestconfig: pytest.Config) -> Iterator[BlockingCluster]:
    """A cluster for all tests of the session; `rocketmq.namesrv` is its address."""
    from skyrocketmq.testing import LocalCluster

    with LocalCluster(brokers=_number(pytestconfig, "rocketmq_brokers"), settings=_settings(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def rocketmq_async(rocketmq: BlockingCluster) -> LocalCluster:
    """The same cluster for tests that are coroutines: what it offers is awaited."""
    return rocketmq.awaitable


@pytest.fixture
def rocketmq_topic(rocketmq: BlockingCluster, request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> str:
    """The name of a topic that nobody has used before, on every broker."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:TOPIC_NAME_MAX]
    topic = f"{name}-{next(_numbers)}"
    rocketmq.create_topic(topic, queues=_number(pytestconfig, "rocketmq_queues"))
    return topic


def _number(config: pytest.Config, name: str) -> int:
    text = str(config.getini(name))
    if not text.isdigit() or int(text) < 1:
        raise pytest.UsageError(f"{name} = {text!r} is not a number above 0")
    return int(text)


def _settings(config: pytest.Config) -> dict[str, str]:
    settings: dict[str, str] = {}
    for line in config.getini("rocketmq_settings"):
        key, equals, value = str(line).partition("=")
        if not equals:
            raise pytest.UsageError(f"rocketmq_settings: the line {line!r} is not key=value")
        settings[key.strip()] = value.strip()
    return settings
