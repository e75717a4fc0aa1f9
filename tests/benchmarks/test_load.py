"""The load generator against a small server that answers every frame."""

from __future__ import annotations

import os
import socket
import struct

import pytest
from benchmarks.load import BadAnswer, Load, Stream, ask, connect

from tests.benchmarks.answering import Serve

HEADER = b'{"code":0,"flag":1}'
ANSWER = struct.pack(">II", 4 + len(HEADER), len(HEADER)) + HEADER
SIZES = (len(ANSWER) - 4, len(ANSWER) - 4)


def frame(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def test_one_run_sends_the_window_of_every_stream_in_order(serve: Serve, connections: list[socket.socket]) -> None:
    server = serve(lambda _: ANSWER)
    connections += connect(server.address, 1)
    load = Load([Stream(connections[0], [frame(b"a"), frame(b"b"), frame(b"c")])], in_flight=2, answer_bytes=SIZES)

    counts = [load.run_once().count for _ in range(3)]

    assert counts == [2, 2, 2]
    assert server.seen == [b"a", b"b", b"c", b"a", b"b", b"c"]


def test_a_timed_run_keeps_all_connections_busy_and_leaves_nothing_in_flight(
    serve: Serve, connections: list[socket.socket]
) -> None:
    server = serve(lambda _: ANSWER)
    connections += connect(server.address, 3)
    load = Load([Stream(connection, [frame(b"x")]) for connection in connections], in_flight=4, answer_bytes=SIZES)

    outcome = load.run_for(0.2, warm_up_s=0.05, server_pid=os.getpid())

    assert 0.2 <= outcome.seconds < 5
    assert 12 < outcome.count < len(server.seen)  # what came during the warm-up was answered but not counted
    assert ask(connections[0], frame(b"again")) == ANSWER[4:]  # the next answer is to the next request


def test_frames_larger_than_the_sockets_buffers_arrive_whole(serve: Serve, connections: list[socket.socket]) -> None:
    server = serve(lambda content: frame(content[:1] * 2_000_000))
    connections += connect(server.address, 2)
    streams = [
        Stream(connection, [frame(name * 5_000_000)])
        for connection, name in zip(connections, (b"p", b"q"), strict=True)
    ]
    load = Load(streams, in_flight=1, answer_bytes=(2_000_000, 2_000_000))

    assert load.run_once().count == 2
    assert sorted(server.seen) == [b"p" * 5_000_000, b"q" * 5_000_000]


def test_an_answer_of_an_unexpected_size_is_an_error(serve: Serve, connections: list[socket.socket]) -> None:
    server = serve(lambda _: frame(b"sorry, no"))
    connections += connect(server.address, 1)
    load = Load([Stream(connections[0], [frame(b"x")])], in_flight=1, answer_bytes=(10, 20))

    with pytest.raises(BadAnswer, match=r"9 bytes.*sorry, no"):
        load.run_once()


def test_a_server_that_hangs_up_is_an_error(serve: Serve, connections: list[socket.socket]) -> None:
    def hang_up(_: bytes) -> bytes:
        raise OSError("done")

    server = serve(hang_up)
    connections += connect(server.address, 1)
    load = Load([Stream(connections[0], [frame(b"x")])], in_flight=1, answer_bytes=(10, 20))

    with pytest.raises(BadAnswer, match="closed"):
        load.run_once()
