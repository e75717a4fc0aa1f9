"""Delayed messages: how fast a broker delivers 100,000 that are due, and how late it is while so many wait.

Burst: 100,000 messages of one level are stored, the broker is stopped until all are due, and started again. Counted are
deliveries a second, without the first fifth, which warms it up. Steady: 100,000 wait for an hour; beside them messages
of another level are sent evenly, and it is measured how much later than due they are there for their readers.

A message is late by the store time of its copy, less the time at which it was sent, less its delay: it is stored a
little after it is sent, so this is too much rather than too little. Both brokers have the same table of levels.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interop.processes import wait_until

from benchmarks.broker_frames import BROKER, GET_MAX_OFFSET, PULL_COUNT, PULL_MESSAGE, SEND_MESSAGE_V2
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.frames import SUCCESS, answer_body, answer_code, answer_fields, encode_frame
from benchmarks.load import Load, Stream, ask, connect
from benchmarks.report import Better, Report
from benchmarks.stage import Stage

NAME = "delay"
PENDING = 100_000
SHORT_S, BURST_S = 2, 20
SHORT_LEVEL, BURST_LEVEL, HOUR_LEVEL = 1, 2, 3
LEVELS = f"{SHORT_S}s {BURST_S}s 1h"
QUEUES = 4
BURST_TOPIC, STEADY_TOPIC, WAITING_TOPIC = "BurstTopic", "SteadyTopic", "WaitingTopic"
BODY_BYTES = 128
IN_FLIGHT = 500
STEADY_RATE = 2_000
GOAL_RATE = 1.5
GOAL_LATENESS = 1.0
DELIVERED_TIMEOUT_S = 60.0
LOOK_S = 0.02  # often enough for a burst of a second, and no load
SENT_AT = struct.Struct(">q")  # whole milliseconds, as store times are
STORE_TIME_AT = 56  # in a record with addresses of IPv4
STORE_TIME = struct.Struct(">q")
BODY_AT = 88
LENGTH = struct.Struct(">I")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("delay")
    group.add_argument("--pending", type=int, default=PENDING, help="delayed messages that wait (100,000)")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    rounds = 1 if arguments.quick else arguments.rounds
    pending = 2_000 if arguments.quick else arguments.pending
    seconds = 1.0 if arguments.quick else 5.0
    report = Report(
        NAME, {"rounds": str(rounds), "pending": f"{pending:,}", "sent evenly": f"{STEADY_RATE:,} a second"}
    )
    frames = {
        topic: [_send_frame(topic, number, level) for number in range(pending)]
        for topic, level in ((BURST_TOPIC, BURST_LEVEL), (WAITING_TOPIC, HOUR_LEVEL))
    }
    servers = stage.starter()
    for number in range(rounds):
        for name in stage.servers:
            print(f"  round {number + 1} of {rounds}: {name}", flush=True)
            store = stage.directory / f"delayed-{name}-{number}"
            store.mkdir()
            _measure(report, servers, name, store, frames, seconds=seconds)
            shutil.rmtree(store)
    return report


def _measure(
    report: Report, servers: Servers, name: str, store: Path, frames: dict[str, list[bytes]], *, seconds: float
) -> None:
    settings = {"messageDelayLevel": LEVELS}
    with servers.started(name, settings=settings, store=store) as target:
        create_topics(target, dict.fromkeys((BURST_TOPIC, STEADY_TOPIC, WAITING_TOPIC), QUEUES))
        _fill(target, frames[WAITING_TOPIC])
        _fill(target, frames[BURST_TOPIC])
        due_at = time.time() + BURST_S
    time.sleep(max(0.0, due_at - time.time()) + 0.5)
    with servers.started(name, settings=settings, store=store) as target:
        rate = _burst_rate(target, len(frames[BURST_TOPIC]))
        report.row("deliveries of a burst that is due", "1/s", Better.MORE, GOAL_RATE).add(name, rate)
        late_ms = sorted(_steady_lateness_ms(target, seconds))
        for quantile, label in ((0.5, "p50"), (0.99, "p99")):
            value = max(late_ms[min(int(len(late_ms) * quantile), len(late_ms) - 1)], 0.1)
            report.row(f"lateness, {label}", "ms", Better.LESS, GOAL_LATENESS).add(name, value)
        early = sum(late < 0 for late in late_ms)
        report.row("early", "messages", Better.LESS, is_detail=True).add(name, float(early))
        print(
            f"    {name}: {rate:,.0f} a second; late by {late_ms[len(late_ms) // 2]:.0f} ms, {early} early", flush=True
        )


# -------------------------------------------------------------------------------------------------------------- sending


def _send_frame(topic: str, number: int, level: int, body: bytes = bytes(BODY_BYTES)) -> bytes:
    properties = f"UNIQ_KEY\1{hash(topic) & 0xFFFF:04X}{number:028X}\2WAIT\1true\2DELAY\1{level}\2TAGS\1TagA"
    now = str(int(time.time() * 1000))
    queue_id = str(number % QUEUES)
    values = ["benchmark-producer", topic, "TBW102", "4", queue_id, "0", now, "0", properties, "0", "false"]
    ext = dict(zip("abcdefghijk", values, strict=True)) | {"m": "false", "n": BROKER}
    return encode_frame(SEND_MESSAGE_V2, ext, body)


def _fill(target: Target, frames: Sequence[bytes]) -> None:
    """Send all of them, as fast as the broker takes them."""
    [connection] = connect(target.address, 1)
    with connection:
        load = Load([Stream(connection, frames)], in_flight=IN_FLIGHT, answer_bytes=(150, 500))
        for _ in range(len(frames) // IN_FLIGHT):
            load.run_once()


def _steady_lateness_ms(target: Target, seconds: float) -> list[float]:
    """Send evenly for a while; how late the messages were, once all have been delivered."""
    count = round(STEADY_RATE * seconds)
    [connection] = connect(target.address, 1)
    with connection:
        started = time.time()
        for number in range(count):
            wait_s = started + number / STEADY_RATE - time.time()
            if wait_s > 0.001:
                time.sleep(wait_s)
            body = SENT_AT.pack(int(time.time() * 1000)) + bytes(BODY_BYTES - SENT_AT.size)
            answer = ask(connection, _send_frame(STEADY_TOPIC, number, SHORT_LEVEL, body))
            assert answer_code(answer) == SUCCESS, answer
        wait_until(
            lambda: _delivered(connection, STEADY_TOPIC) >= count,
            timeout_s=DELIVERED_TIMEOUT_S,
            what="all messages are delivered",
        )
        return [late for queue_id in range(QUEUES) for late in _lateness_of(target, queue_id)]


# ------------------------------------------------------------------------------------------------------------ delivered


def _burst_rate(target: Target, count: int) -> float:
    """Deliveries a second of what is due: from when a fifth is delivered until all is."""
    begun_at: float | None = None
    begun_count = 0
    deadline = time.monotonic() + DELIVERED_TIMEOUT_S
    [connection] = connect(target.address, 1)
    with connection:
        while (delivered := _delivered(connection, BURST_TOPIC)) < count:
            assert time.monotonic() < deadline, f"{delivered} of {count} delivered"
            if begun_at is None and delivered >= count // 5:
                begun_at, begun_count = time.perf_counter(), delivered
            time.sleep(LOOK_S)
    if begun_at is None:  # all at once: nothing is measured but the looking
        return 0.0
    return (count - begun_count) / (time.perf_counter() - begun_at)


def _delivered(connection: socket.socket, topic: str) -> int:
    """So many messages are in the queues of the topic."""
    asked = [encode_frame(GET_MAX_OFFSET, {"topic": topic, "queueId": str(number)}) for number in range(QUEUES)]
    return sum(int(answer_fields(ask(connection, frame))["offset"]) for frame in asked)


def _lateness_of(target: Target, queue_id: int) -> Iterator[float]:
    offset = 0
    [connection] = connect(target.address, 1)
    with connection:
        while True:
            answer = ask(connection, _pull_frame(queue_id, offset))
            if answer_code(answer) != SUCCESS:
                return
            records, at = answer_body(answer), 0
            while at < len(records):
                (sent_ms,) = SENT_AT.unpack_from(records, at + BODY_AT)
                (stored_ms,) = STORE_TIME.unpack_from(records, at + STORE_TIME_AT)
                yield stored_ms - sent_ms - SHORT_S * 1000
                at += LENGTH.unpack_from(records, at)[0]
                offset += 1


def _pull_frame(queue_id: int, offset: int) -> bytes:
    """As a pull consumer asks: with its subscription, so that no heartbeat is needed."""
    ext = {
        "queueId": str(queue_id),
        "maxMsgNums": str(PULL_COUNT),
        "sysFlag": "4",
        "suspendTimeoutMillis": "0",
        "commitOffset": "0",
        "bname": BROKER,
        "topic": STEADY_TOPIC,
        "queueOffset": str(offset),
        "subscription": "*",
        "expressionType": "TAG",
        "subVersion": "0",
        "consumerGroup": "benchmark-readers",
    }
    return encode_frame(PULL_MESSAGE, ext)
