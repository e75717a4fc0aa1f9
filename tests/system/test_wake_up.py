"""How long a message takes to a consumer that waits for it: sent by one process, stored by another, received here."""

from __future__ import annotations

import asyncio
import re
import signal
import statistics
from pathlib import Path

import pytest

from tests.broker.house import Peer
from tests.broker.requests import TOPIC, properties_text, pull_frame, send_frame, unique_id
from tests.cli.processes import BIN, running
from tests.own_time import OwnTime
from tests.store.reader import read_records

ROUNDS = 200
PAUSE_S = 0.005  # between two messages: each finds the consumer waiting
MEDIAN_MS_MAX = 10.0


async def measure(address: str, pid: int) -> list[float]:
    """Milliseconds from writing a send to having its message, one after the other."""
    host, _, port = address.rpartition(":")
    producer, consumer = [Peer(*await asyncio.open_connection(host, int(port))) for _ in range(2)]
    await producer.ok(send_frame(queue_id=1))
    spent_ms = []
    for number in range(ROUNDS):
        await consumer.write(pull_frame(offset=number, hold_ms=15_000))
        await asyncio.sleep(PAUSE_S)
        text = properties_text([("UNIQ_KEY", unique_id(number)), ("TAGS", "TagA")])
        timer = OwnTime(pid)
        await producer.write(send_frame(TOPIC, opaque=number, body=b"%d" % number, properties=text))
        answer = await consumer.next()
        spent_ms.append(timer.seconds() * 1000)
        assert [record.body for record in read_records(answer.body)] == [b"%d" % number]
        assert (await producer.next()).code == 0
    await producer.close()
    await consumer.close()
    return spent_ms


@pytest.mark.system
@pytest.mark.alone
def test_a_message_reaches_a_waiting_consumer_within_ten_milliseconds_at_the_median(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command: list[str | Path] = [BIN / "skyrocketmq", "up", "--data", tmp_path / "data", "--no-dashboard"]
    with running([*command, "--namesrv-port", "0", "--broker-port", "0"], home=tmp_path) as process:
        process.line()
        match = re.fullmatch(r"broker broker-a ready on (\S+)", process.line())
        assert match is not None, process.errors
        spent_ms = asyncio.run(measure(match[1], process.popen.pid))
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    median, p99 = statistics.median(spent_ms), statistics.quantiles(spent_ms, n=100)[98]
    with capsys.disabled():
        print(
            f"\na waiting consumer has a message after {median:.2f} ms at the median, {p99:.2f} ms in 99 of 100 cases"
        )
    assert median < MEDIAN_MS_MAX
