"""Every example runs on a real cluster, and prints what its first lines say it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import dedent
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from skyrocketmq import Message
from skyrocketmq.blocking import LitePullConsumer, Producer
from skyrocketmq.net.listeners import bind
from skyrocketmq.testing import BlockingCluster, LocalCluster

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SERVICES = {"asyncio_service", "fastapi_service"}  # they run until they are stopped
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in SERVICES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    settings = {"enablePropertyFilter": "true", "traceTopicEnable": "true"}
    with LocalCluster(settings=settings) as running:
        yield running


def environment(cluster: BlockingCluster) -> dict[str, str]:
    return {**os.environ, "NAMESRV_ADDR": cluster.namesrv}


def promised_output(example: str) -> str:
    """The indented lines behind "prints:" in the module's first text."""
    text = (EXAMPLES / f"{example}.py").read_text().split('"""')[1]
    _, _, behind = text.partition("prints:\n\n")
    return dedent(behind.split("\n\n")[0]).strip()


@pytest.mark.system
@pytest.mark.parametrize("example", PROGRAMS)
def test_an_example_prints_what_it_says(example: str, cluster: BlockingCluster) -> None:
    promised = promised_output(example)
    assert promised, "say in the module's first text what it prints"
    command = [sys.executable, str(EXAMPLES / f"{example}.py")]
    done = subprocess.run(command, env=environment(cluster), capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == promised
    assert done.stderr == ""


@contextmanager
def started(command: list[str], cluster: BlockingCluster) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, env=environment(cluster), stdout=subprocess.PIPE, text=True, cwd=EXAMPLES.parent
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.system
def test_the_asyncio_service_bills_and_stops_cleanly(cluster: BlockingCluster) -> None:
    with started([sys.executable, "examples/asyncio_service.py"], cluster) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "ready\n"
        with Producer("orders", namesrv=cluster.namesrv) as producer:
            producer.send(Message("ExampleServiceOrders", b"order-1"))
        assert service.stdout.readline() == "billed order-1\n"
        service.send_signal(signal.SIGTERM)
        assert service.stdout.readline() == "stopped\n"
        assert service.wait(20) == 0
    cluster.wait_consumed("example-service-billing", "ExampleServiceOrders")
    with LitePullConsumer("accounting", namesrv=cluster.namesrv, consume_from="first") as accounting:
        accounting.subscribe("ExampleServiceInvoices")
        assert next(iter(accounting)).body == b"invoice of order-1"


@pytest.mark.system
def test_the_web_service_sends_and_shows(cluster: BlockingCluster) -> None:
    pytest.importorskip("fastapi", reason="the web service needs fastapi and uvicorn")
    with closing(bind("127.0.0.1", 0)) as free:
        port = free.port
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "examples.fastapi_service:app",
        "--port",
        str(port),
        "--log-level",
        "error",
    ]
    with started(command, cluster) as service:
        url = f"http://127.0.0.1:{port}/orders/order-1"
        assert ask(Request(url, method="POST")) == {"stored": True}
        assert ask(Request(url)) == {"state": "billed"}
        service.send_signal(signal.SIGTERM)
        service.wait(20)


def ask(request: Request, patience_s: float = 30) -> object:
    """The answer, once the service is there and does not say "not yet"."""
    until = time.monotonic() + patience_s
    while True:
        try:
            with urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (HTTPError, ConnectionError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
