"""How the broker benchmark pulls: answers are stepped over, however they arrive."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from benchmarks.broker_pulls import Puller, _check_pulled
from benchmarks.load import BadAnswer

from skyrocketmq.wire.frames import Frame, encode_frame

ANSWER = encode_frame(Frame(0, opaque=1, flag=1, body=b"r" * 500))
OTHER = encode_frame(Frame(0, opaque=1, flag=1, body=b"r" * 510))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def received(puller: Puller, server: socket.socket, data: bytes, *, step: int) -> list[int]:
    counts = []
    for at in range(0, len(data), step):
        server.sendall(data[at : at + step])
        counts.append(puller.receive())
    return counts


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 333, len(ANSWER), len(ANSWER) + 2, 100_000])
def test_answers_are_counted_once_whole_whatever_the_pieces(
    ends: tuple[socket.socket, socket.socket], step: int
) -> None:
    puller = Puller(ends[0], [b"pull"], first=0, answer_bytes=len(ANSWER) - 4)
    puller.issue(4)
    data = (ANSWER + OTHER) * 2

    counts = received(puller, ends[1], data, step=step)

    assert sum(counts) == puller.answered == 4
    assert puller.in_flight == 0
    seen = 0
    for number, count in enumerate(counts, start=1):
        seen += count
        arrived = min(number * step, len(data))
        pair, rest = divmod(arrived, len(ANSWER + OTHER))
        assert seen == 2 * pair + (rest >= len(ANSWER))


def test_pulls_go_out_in_turn_and_begin_again(ends: tuple[socket.socket, socket.socket]) -> None:
    puller = Puller(ends[0], [b"a", b"b", b"c"], first=2, answer_bytes=100)

    puller.issue(2)
    puller.issue(3)

    assert ends[1].recv(100) == b"cabca"


def test_an_answer_of_an_unexpected_size_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    puller = Puller(ends[0], [b"a"], first=0, answer_bytes=len(ANSWER) + 500)
    ends[1].sendall(ANSWER)

    with pytest.raises(BadAnswer, match=f"an answer of {len(ANSWER) - 4} bytes"):
        puller.receive()


@pytest.mark.parametrize(("code", "count"), [(19, 32), (0, 31), (0, 33)])
def test_only_a_good_answer_with_32_records_will_do(code: int, count: int) -> None:
    record = struct.pack(">I", 40) + bytes(36)
    _check_pulled(encode_frame(Frame(0, opaque=1, flag=1, body=record * 32))[4:])

    with pytest.raises(BadAnswer, match="not 32 messages"):
        _check_pulled(encode_frame(Frame(code, opaque=1, flag=1, body=record * count))[4:])
