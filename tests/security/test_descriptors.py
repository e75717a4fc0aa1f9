"""Connections that use up a process's descriptors: the broker goes on storing for those it has."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from skyrocketmq.wire.frames import FrameDecoder, encode_frame
from tests.broker.requests import send_frame
from tests.security.attacked import PROBE_TOPIC, WAIT_S, Target, started_broker

pytestmark = pytest.mark.system

DESCRIPTORS = 256


def test_a_broker_keeps_descriptors_for_its_files(tmp_path: Path) -> None:
    with started_broker(tmp_path / "broker", descriptors=DESCRIPTORS) as ready, ExitStack() as opened:
        target = ready()
        client = opened.enter_context(connect(target))
        idle = [opened.enter_context(connect(target)) for _ in range(DESCRIPTORS)]
        for queue_id in range(4):  # each queue's first message makes files
            assert send(client, queue_id) == 0
        # Half of the descriptors are for connections where there are so few.
        until(lambda: sum(map(is_closed, idle)) > DESCRIPTORS // 3)
        assert sum(map(is_closed, idle)) < DESCRIPTORS * 2 // 3
        for one in idle:
            one.close()
        until(lambda: is_served(target))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.02)


def is_served(target: Target) -> bool:
    try:
        with connect(target) as other:
            return send(other, 0) == 0
    except (ConnectionError, EOFError):
        return False


def connect(target: Target) -> socket.socket:
    host, _, port = target.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=WAIT_S)


def send(client: socket.socket, queue_id: int) -> int:
    client.sendall(encode_frame(send_frame(PROBE_TOPIC, queue_id)))
    decoder = FrameDecoder()
    while not (frames := decoder.feed(received := client.recv(65_536))):
        if not received:
            raise EOFError
    return frames[0].code


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
