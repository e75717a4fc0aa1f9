"""SQL92 filters: what it costs a broker to look at the properties of a message before it gives it out.

One queue with messages of 1 KB that have three properties of their own. Consumers go through it as in the broker's
benchmark, 32 messages a pull: without filter; with an expression that every message matches; and with one that a
quarter matches, so that four are examined for one that is given out. The cost of a filter is what an examined message
takes of the server's CPU time, less what a message takes where all are given out unfiltered.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.interop import toolchain
from tests.interop.apache import Apache

from benchmarks.broker_frames import BROKER, HEART_BEAT, PULL_COUNT, PULL_MESSAGE, SEND_MESSAGE_V2
from benchmarks.broker_pulls import Filled, run_pulls
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.frames import encode_frame, json_bytes
from benchmarks.load import Load, Stream, ask, connect
from benchmarks.report import APACHE, Better, Report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "sql"
TOPIC = "FilteredTopic"
BODY_BYTES = 1024
QUEUE_MESSAGES = 32_768
JVM_WARM_UP_S = 5.0
SQL_VERSION = 1
GOAL_RATE = 1.0
GOAL_COST = 1.0
FILL_IN_FLIGHT = 512


@dataclass(frozen=True)
class Way:
    """A subscription, and how many messages are examined for one that is given out."""

    name: str
    expression: str | None
    examined: int = 1

    @property
    def group(self) -> str:
        return "benchmark-" + self.name.replace(" ", "-").replace(",", "")


PLAIN = Way("no filter", None)
FILTERS = (
    Way("SQL92, all match", "number >= 0 AND region IN ('north', 'east_', 'south', 'west_') AND price IS NOT NULL"),
    Way("SQL92, a quarter matches", "number BETWEEN 0 AND 1000000 AND region = 'north' AND price > 0.5", examined=4),
)
REGIONS = ("north", "west_", "east_", "south")  # of one length, so that all records have one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    quick = arguments.quick
    rounds = 1 if quick else arguments.rounds
    seconds = 0.5 if quick else arguments.seconds
    count = 2_048 if quick else QUEUE_MESSAGES
    report = Report(
        NAME, {"rounds": str(rounds), "seconds a load": f"{seconds:g}", "messages in the queue": str(count)}
    )
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=arguments.directory) as directory, ExitStack() as opened:
        apache = Apache(toolchain.prepare(), Path(directory) / "apache") if APACHE in arguments.servers else None
        servers = Servers(Path(directory), apache)
        settings = {"enablePropertyFilter": "true"}
        targets = [opened.enter_context(servers.started(name, settings=settings)) for name in arguments.servers]
        for target in targets:
            create_topics(target, {TOPIC: 1})
            _fill(target, count)
            for way in (PLAIN, *FILTERS):
                _pull(target, way, count, seconds=0.1, warm_up_s=0.2 if quick else JVM_WARM_UP_S)
        for number in range(rounds):
            for target in targets if number % 2 == 0 else targets[::-1]:
                _measure(report, target, count, seconds=seconds, warm_up_s=0.2 if quick else arguments.warm_up)
    return report


def _measure(report: Report, target: Target, count: int, *, seconds: float, warm_up_s: float) -> None:
    costs = {}
    for way in (PLAIN, *FILTERS):
        rate, cpu_us = _pull(target, way, count, seconds=seconds, warm_up_s=warm_up_s)
        costs[way] = cpu_us / way.examined
        goal = GOAL_RATE if way.expression else None
        report.row(f"pull 32 x 1 KB, {way.name}", "1/s", Better.MORE, goal).add(target.name, rate)
        print(f"    {target.name}, {way.name}: {rate:,.0f} a second, {cpu_us:.2f} us of CPU each", flush=True)
    for way in FILTERS:
        row = report.row(f"CPU time of {way.name}, an examined message", "us", Better.LESS, GOAL_COST)
        # Where a quarter is given out, only a quarter of the cost of giving out is in it.
        row.add(target.name, max(costs[way] - costs[PLAIN] / way.examined, 0.01))


def _pull(target: Target, way: Way, count: int, *, seconds: float, warm_up_s: float) -> tuple[float, float]:
    # What is pulled begins where so many matching messages follow as a pull asks for.
    places = count // way.examined * 9 // 10 // PULL_COUNT * PULL_COUNT if way.examined > 1 else count
    outcome = run_pulls(
        target.address,
        Filled(TOPIC, places),
        seconds=seconds,
        warm_up_s=warm_up_s,
        server_pid=target.pid,
        pull=lambda group, topic, queue_id, offset: _pull_frame(way, group, topic, queue_id, offset),
        heartbeat=lambda client_id, group, topics: _heartbeat_frame(way, client_id, group, topics),
        group=way.group,
    )
    return outcome.rate, outcome.server_cpu_us


def _pull_frame(way: Way, group: str, topic: str, queue_id: int, offset: int) -> bytes:
    ext = {
        "queueId": str(queue_id),
        "maxMsgNums": str(PULL_COUNT),
        "sysFlag": "0",
        "suspendTimeoutMillis": "15000",
        "commitOffset": "0",
        "bname": BROKER,
        "topic": topic,
        "queueOffset": str(offset),
        "expressionType": "SQL92" if way.expression else "TAG",
        "subVersion": str(SQL_VERSION),
        "consumerGroup": group,
    }
    return encode_frame(PULL_MESSAGE, ext)


def _heartbeat_frame(way: Way, client_id: str, group: str, topics: list[str]) -> bytes:
    subscriptions: list[dict[str, object]] = [
        {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "SQL92" if way.expression else "TAG",
            "subString": way.expression or "*",
            "subVersion": SQL_VERSION,
            "tagsSet": [],
            "topic": topic,
        }
        for topic in topics
    ]
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    body = json_bytes({"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []})
    return encode_frame(HEART_BEAT, {}, body)


def _fill(target: Target, count: int) -> None:
    chance = random.Random(7)
    frames = [_send_frame(number, chance) for number in range(count)]
    [connection] = connect(target.address, 1)
    with connection:
        size = len(ask(connection, _send_frame(0, chance)))
        load = Load([Stream(connection, frames)], in_flight=FILL_IN_FLIGHT, answer_bytes=(size - 40, size + 40))
        for _ in range(count // FILL_IN_FLIGHT):
            load.run_once()


def _send_frame(number: int, chance: random.Random) -> bytes:
    """Numbers of one length, so that all records have one; every fourth message is of the first region."""
    properties = (
        f"UNIQ_KEY\1{number:032X}\2WAIT\1true\2number\1{100_000 + number}"
        f"\2region\1{REGIONS[number % 4]}\2price\1{chance.randrange(1_000, 10_000) / 1000:.3f}"
    )
    values = ["benchmark-producer", TOPIC, "TBW102", "4", "0", "0", "1700000000000", "0", properties, "0", "false"]
    ext = dict(zip("abcdefghijk", values, strict=True)) | {"m": "false", "n": BROKER}
    return encode_frame(SEND_MESSAGE_V2, ext, chance.randbytes(BODY_BYTES))
