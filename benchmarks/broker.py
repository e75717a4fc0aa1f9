"""The broker's promptness: how soon it is ready, and how soon a message reaches a consumer that waits for it."""

from __future__ import annotations

import argparse
import socket
import time
from statistics import median

from benchmarks.broker_frames import GET_MAX_OFFSET, one_send
from benchmarks.broker_servers import Target
from benchmarks.frames import SUCCESS, answer_code, answer_fields, encode_frame
from benchmarks.load import BadAnswer, ask, connect, receive
from benchmarks.pull_decks import EVERYTHING, pull_frame, subscribed
from benchmarks.report import Better, Report
from benchmarks.stage import Stage

NAME = "broker"
GOAL_READY = 0.2
DELIVERY_LIMIT_MS = 10.0
DELIVERIES = 300
GROUP, TOPIC = "benchmark-waiting", "WaitedTopic"
PAUSE_S = 0.004  # between a pull and the message for it: by then the pull is held


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME)
    _measure_ready(stage, report)
    with stage.targets(topics={TOPIC: 1}) as targets:
        for target in stage.turns(targets):
            taken_ms = [taken_s * 1000 for taken_s in deliveries(target, 10 if arguments.quick else DELIVERIES)]
            row = report.row("delivery to a waiting consumer", "ms", Better.LESS, limit=DELIVERY_LIMIT_MS)
            row.add(target.name, median(taken_ms))
            print(f"    {target.name}: median {median(taken_ms):.2f}, most {max(taken_ms):.2f} ms", flush=True)
    return report


def _measure_ready(stage: Stage, report: Report) -> None:
    servers = stage.starter()
    starts = 1 if stage.timing.turns == 1 else stage.timing.turns + 1
    for number in range(starts):
        for name in stage.servers:
            taken_ms = servers.ready_ms(name)
            print(f"    {name} ready: {taken_ms:,.0f} ms", flush=True)
            if number or starts == 1:  # the first start read programs from the disk and compiled ours
                report.row("time until ready", "ms", Better.LESS, GOAL_READY).add(name, taken_ms)


def deliveries(target: Target, count: int) -> list[float]:
    """A consumer waits, one message comes, again and again: seconds from its sending to the consumer's receiving it."""
    taken: list[float] = []
    [producer] = connect(target.address, 1)
    with producer, subscribed(target, GROUP, TOPIC, EVERYTHING) as consumer:
        offset = end_of_queue(producer, TOPIC)
        for number in range(count):
            consumer.sendall(pull_frame(GROUP, TOPIC, offset, may_suspend=True))
            message = one_send(TOPIC, 0, bytes(100), number=number)
            time.sleep(PAUSE_S)
            start = time.perf_counter()
            producer.sendall(message)
            if answer_code(receive(consumer)) != SUCCESS:
                raise BadAnswer("a waiting pull was answered without its message")
            taken.append(time.perf_counter() - start)
            if answer_code(receive(producer)) != SUCCESS:
                raise BadAnswer("a message was refused")
            offset += 1
    return taken


def end_of_queue(connection: socket.socket, topic: str) -> int:
    """Of its first queue."""
    return int(answer_fields(ask(connection, encode_frame(GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})))["offset"])
