"""Transactions a second: a half message, its acknowledgement, a commit, its acknowledgement.

Two connections keep so many transactions under way each. The generator does for each what a producer does: it reads
from the answer where the half message lies, and ends it there; both brokers are asked for an answer to the end, so that
what counts is known to be committed. Afterwards the queues must hold as many messages as were counted. Promised is 1.5
times Apache's rate.
"""

from __future__ import annotations

import argparse
import re
import select
import socket
import struct
import time

from benchmarks.broker_frames import GET_MAX_OFFSET, SEND_MESSAGE_V2
from benchmarks.broker_servers import Target
from benchmarks.frames import encode_frame
from benchmarks.load import BadAnswer, ask, connect
from benchmarks.meter import Meter
from benchmarks.report import Better, Report
from benchmarks.send_shapes import SIZES, size_name
from benchmarks.stage import Stage

NAME = "transactions"
GOAL = 1.5
END_TRANSACTION = 37
TOPIC, GROUP, QUEUES = "BenchmarkTransactions", "payers", 8
CONNECTIONS, IN_FLIGHT = 2, 128
BODIES = SIZES
STALL_S = 20.0
MSG_ID = re.compile(rb'"msgId":"([0-9A-F]+)"')
QUEUE_OFFSET = re.compile(rb'"queueOffset":"?(\d+)')
OPAQUE = re.compile(rb'"opaque":(\d+)')
CODE = re.compile(rb'"code":(\d+)')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, under_way=f"{CONNECTIONS} x {IN_FLIGHT}")
    with stage.targets(topics={TOPIC: QUEUES}) as targets:
        for target in targets:
            _measure(None, target, BODIES[0], 0.1, stage.timing.jvm_warm_up_s / 6)
        for body_bytes in BODIES:
            for target in stage.turns(targets):
                _measure(report, target, body_bytes, stage.timing.seconds, stage.timing.warm_up_s)
    return report


def _measure(report: Report | None, target: Target, body_bytes: int, seconds: float, warm_up_s: float) -> None:
    """Without a report, to warm up."""
    before = _stored(target)
    producers = [Producer(each, number, body_bytes) for number, each in enumerate(connect(target.address, CONNECTIONS))]
    try:
        for producer in producers:
            producer.begin(IN_FLIGHT)
        _turn(producers, time.perf_counter() + warm_up_s)
        warm = sum(producer.committed for producer in producers)
        meter = Meter(target.pid)
        meter.start()
        started = time.perf_counter()
        count = 0
        while not count:  # on a busy machine nothing at all may come in a short time
            _turn(producers, time.perf_counter() + seconds)
            count = sum(producer.committed for producer in producers) - warm
        took_s = time.perf_counter() - started
        used = meter.cut(count)
        for producer in producers:
            producer.is_ending = True
        _turn(producers, time.perf_counter() + STALL_S)
    finally:
        for producer in producers:
            producer.connection.close()
    stored, counted = _stored(target) - before, sum(producer.committed for producer in producers)
    if stored != counted:
        raise BadAnswer(f"{counted} transactions were committed, the queues hold {stored} messages")
    if report is None:
        return
    name, cpu_us = size_name(body_bytes), used.server_cpu_s * 1e6 / max(count, 1)
    share = used.generator_cpu_s / used.seconds
    report.row(f"transactions, {name}", "1/s", Better.MORE, GOAL).add(target.name, count / took_s)
    report.row(f"server's CPU time for each, {name}", "us", Better.LESS).add(target.name, cpu_us)
    detail = report.row(f"generator's share of a core, {name}", "%", Better.LESS, is_detail=True)
    detail.add(target.name, share * 100)
    print(f"    {target.name}, {name}: {count / took_s:,.0f}/s, {cpu_us:.1f} us; generator {share:.2f}", flush=True)


def _turn(producers: list[Producer], until: float) -> None:
    """Let everything go on until a time, or until nothing is under way any more."""
    sockets = {producer.connection: producer for producer in producers}
    while (now := time.perf_counter()) < until:
        busy = [each for each, producer in sockets.items() if producer.under_way]
        if not busy:
            return
        ready, _, _ = select.select(busy, [], [], min(STALL_S, until - now))
        for connection in ready:
            sockets[connection].go_on()


def _stored(target: Target) -> int:
    (connection,) = connect(target.address, 1)
    with connection:
        answers = [
            ask(connection, encode_frame(GET_MAX_OFFSET, {"topic": TOPIC, "queueId": str(number)}))
            for number in range(QUEUES)
        ]
    found = [re.search(rb'"offset":"?(\d+)', answer) for answer in answers]
    return sum(int(each[1]) for each in found if each is not None)


class Producer:
    """One connection: answers to half messages become ends, answers to ends become new half messages."""

    def __init__(self, connection: socket.socket, number: int, body_bytes: int) -> None:
        self.connection = connection
        self.committed = 0
        self.under_way = 0
        self.is_ending = False
        self._body = bytes(body_bytes)
        self._ids = f"7F000001{number:04X}18B4AAC2{int(time.time()) & 0xFFFFFFFF:08X}"
        self._sent = 0
        self._kept = b""

    def begin(self, count: int) -> None:
        self.under_way += count
        self.connection.sendall(b"".join([self._half() for _ in range(count)]))

    def go_on(self) -> None:
        """Read what is there, and answer all of it with one write."""
        data = self._kept + self.connection.recv(1 << 20)
        if len(data) == len(self._kept):
            raise BadAnswer("the server closed the connection")
        at, frames = 0, []
        while at + 4 <= len(data) and at + 4 + (size := struct.unpack_from(">I", data, at)[0]) <= len(data):
            frames.append(self._next(data[at + 8 : at + 4 + size]))
            at += 4 + size
        self._kept = data[at:]
        self.connection.sendall(b"".join(frames))

    def _next(self, answer: bytes) -> bytes:
        code, place = CODE.search(answer), MSG_ID.search(answer)
        if code is None or code[1] != b"0":
            raise BadAnswer(f"refused: {answer!r}")
        if place is not None:
            offset = QUEUE_OFFSET.search(answer)
            assert offset is not None, "where a half message lies is said twice"
            return _end(int(place[1][-16:], 16), int(offset[1]))
        self.committed += 1
        if self.is_ending:
            self.under_way -= 1
            return b""
        return self._half()

    def _half(self) -> bytes:
        self._sent += 1
        unique_id = (
            f"{self._ids}{self._sent & 0xFFFF:04X}" if self._sent < 65536 else f"{self._ids[:-4]}{self._sent:08X}"
        )
        ext = {
            "a": GROUP,
            "b": TOPIC,
            "c": "TBW102",
            "d": "4",
            "e": str(self._sent % QUEUES),
            "f": "4",
            "g": str(int(time.time() * 1000)),
            "h": "0",
            "i": f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{unique_id}\x02WAIT\x01true\x02PGROUP\x01{GROUP}\x02TAGS\x01TagA",
            "j": "0",
            "k": "false",
            "m": "false",
        }
        return encode_frame(SEND_MESSAGE_V2, ext, self._body)


def _end(log_offset: int, half_offset: int) -> bytes:
    ext = {
        "producerGroup": GROUP,
        "tranStateTableOffset": str(half_offset),
        "commitLogOffset": str(log_offset),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "7F000001000018B4AAC2000000000000",
        "transactionId": "7F000001000018B4AAC2000000000000",
    }
    return encode_frame(END_TRANSACTION, ext)
