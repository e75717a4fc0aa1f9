"""The floor: ours beside a server that reads frames and answers each with a constant.

What the null server costs is loopback, the kernel and copying; no broker costs less. Binary headers, as it reads no
others.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.ports import free_port

from benchmarks.broker_frames import PULL_COUNT
from benchmarks.broker_servers import Target, create_topics
from benchmarks.c_programs import build_program
from benchmarks.generator import Load
from benchmarks.pull_decks import LOAD as PULLS
from benchmarks.pull_decks import QUEUE_MESSAGES, Layout, fill, pulls, traffic_of
from benchmarks.report import OURS, Report
from benchmarks.send_shapes import SIZES, Encoding, SendShape, size_name
from benchmarks.stage import ALONE, PIPELINED, Stage, add_turn

NAME = "floor"
NULL = "null server"
RECORD_BYTES = 192  # what a record has besides its body


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = replace(stage.report(NAME), others=NULL)
    for size in SIZES:
        shape = SendShape(size, Encoding.BINARY)
        for name, load in (("2 x 128 in flight", PIPELINED), ("64 x 1 in flight", ALONE)):
            _measure_sends(stage, report, f"send {shape.name}, {name}", shape, load)
        _measure_pulls(stage, report, size, 1_024 if arguments.quick else QUEUE_MESSAGES)
    return report


def _measure_sends(stage: Stage, report: Report, row: str, shape: SendShape, load: Load) -> None:
    print(f"  {row}", flush=True)
    with _ours(stage) as ours, _null_server(stage) as null:
        for target in stage.turns([null, ours]):
            turn = stage.run(target, stage.decks.deck(shape), load)
            add_turn(report, row, target, turn, goal=None, beside=NULL)


def _measure_pulls(stage: Stage, report: Report, size: int, queue_messages: int) -> None:
    row = f"pull 32 x {size_name(size)}, {Layout.CONTIGUOUS.value}, binary"
    print(f"  {row}", flush=True)
    traffic = traffic_of(Layout.CONTIGUOUS, size)
    body_bytes = PULL_COUNT * (size + RECORD_BYTES)
    with _ours(stage) as ours, _null_server(stage, body_bytes=body_bytes, records=PULL_COUNT) as null:
        create_topics(ours, {traffic.topics[0]: 1})
        filled = fill(stage, ours, traffic, SendShape(size, Encoding.BINARY), queue_messages)
        with pulls(ours, filled, stage.directory / "floor-pulls.deck", binary=True) as deck:
            for target in stage.turns([null, ours]):
                add_turn(report, row, target, stage.run(target, deck, PULLS), goal=None, beside=NULL)


@contextmanager
def _ours(stage: Stage) -> Iterator[Target]:
    with stage.starter().started(OURS) as target:
        create_topics(target, stage.decks.topics)
        yield target


@contextmanager
def _null_server(stage: Stage, *, body_bytes: int = 0, records: int = 1) -> Iterator[Target]:
    program, port = build_program("null_server", stage.directory), free_port()
    command = [str(program), str(port), str(body_bytes), str(records)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n", "the null server did not start"
            yield Target(NULL, "", f"127.0.0.1:{port}", server.pid, stage.directory)
        finally:
            server.kill()
