"""The generator of the broker benchmark against a small server that answers every frame."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections import Counter

import pytest
from benchmarks.broker_frames import FIRST_OPAQUE, FramePool, SendForm, Traffic
from benchmarks.broker_load import Sender, run_count, run_full, run_paced
from benchmarks.load import BadAnswer, connect

from skyrocketmq.wire.frames import Encoding, Frame, decode_frame, encode_frame
from tests.benchmarks.answering import Serve

ENCODINGS = [False, True]


def good(content: bytes) -> bytes:
    """What a broker answers: success, with the number and in the encoding of the request."""
    return answer(content, code=0)


def answer(content: bytes, *, code: int, encoding: Encoding | None = None) -> bytes:
    (word,) = struct.unpack_from(">I", content)
    header_end = 4 + (word & 0xFF_FFFF)
    asked = decode_frame(content, word, 4, header_end, len(content))
    ext: dict[str, str | None] = {"msgId": "7F000001", "queueId": "1"}
    reply = Frame(code, asked.opaque, flag=1, ext=ext, encoding=asked.encoding if encoding is None else encoding)
    return encode_frame(reply)


@pytest.fixture(params=ENCODINGS, ids=["JSON", "binary"])
def pools(request: pytest.FixtureRequest) -> list[FramePool]:
    return [FramePool(SendForm(20, binary=request.param), Traffic(), chunk_count=1) for _ in range(2)]


def make_senders(address: str, pools: list[FramePool], connections: list[socket.socket]) -> list[Sender]:
    connections += connect(address, len(pools))
    return [Sender(connection, pool) for connection, pool in zip(connections, pools, strict=True)]


def opaque_of(content: bytes) -> int:
    (word,) = struct.unpack_from(">I", content)
    return decode_frame(content, word, 4, 4 + (word & 0xFF_FFFF), len(content)).opaque


def test_a_counted_run_sends_so_many_and_no_more(
    serve: Serve, connections: list[socket.socket], pools: list[FramePool]
) -> None:
    server = serve(good)
    senders = make_senders(server.address, pools, connections)

    outcome = run_count(senders, in_flight=7, count=2 * 1500, server_pid=os.getpid())

    assert outcome.count == len(server.seen) == 3000
    times_sent = Counter(opaque_of(content) for content in server.seen)
    assert set(times_sent) == {FIRST_OPAQUE + number for number in range(1024)}  # a whole pool, and then from the start
    assert times_sent[FIRST_OPAQUE] == 4
    assert len(set(server.seen)) == 3000  # with other ids each time


def test_a_run_at_full_speed_counts_what_was_answered_while_it_was_measured(
    serve: Serve, connections: list[socket.socket], pools: list[FramePool]
) -> None:
    server = serve(good)
    senders = make_senders(server.address, pools, connections)

    outcome = run_full(senders, in_flight=4, seconds=0.2, warm_up_s=0.1, server_pid=os.getpid())

    assert 8 < outcome.count < len(server.seen)
    assert 0.2 <= outcome.seconds < 5
    assert [sender.in_flight for sender in senders] == [0, 0]


def test_refusals_are_counted_by_their_code_and_are_no_acknowledgements(
    serve: Serve, connections: list[socket.socket], pools: list[FramePool]
) -> None:
    numbers = itertools.count()

    def refuse_every_third(content: bytes) -> bytes:
        # Busy brokers answer in JSON, whatever they are asked in.
        return answer(content, code=2, encoding=Encoding.JSON) if next(numbers) % 3 == 0 else good(content)

    server = serve(refuse_every_third)
    senders = make_senders(server.address, pools[:1], connections)

    outcome = run_count(senders, in_flight=10, count=300, server_pid=os.getpid())

    assert (outcome.count, outcome.refused) == (200, {2: 100})
    assert b'"code":2' in senders[0].first_refusal


@pytest.mark.system
@pytest.mark.alone  # keeps to a pace: needs the machine to itself
def test_latencies_count_from_when_a_message_was_due_though_the_server_stalled(
    serve: Serve, connections: list[socket.socket], pools: list[FramePool]
) -> None:
    is_first = True

    def stall_once(content: bytes) -> bytes:
        nonlocal is_first
        if is_first and opaque_of(content) == FIRST_OPAQUE + 100:
            is_first = False
            time.sleep(0.3)
        return good(content)

    server = serve(stall_once)
    senders = make_senders(server.address, pools[:1], connections)

    outcome = run_paced(senders, rate=500, seconds=1.0, warm_up_s=0.0, server_pid=os.getpid())

    assert 490 <= outcome.latency_count <= 501
    # Message 100 waited for 300 ms, and the 150 that were due meanwhile for what was left of them.
    assert outcome.latency_ms(1.0) >= 299
    latencies_s = [latency for each in outcome.slices for latency in each.latencies_s]
    assert 100 <= sum(latency > 0.05 for latency in latencies_s) <= 200
    assert outcome.latency_ms(0.3) < 50


@pytest.mark.system
@pytest.mark.alone  # keeps to a pace: needs the machine to itself
def test_answers_in_another_order_are_given_to_their_messages(
    serve: Serve, connections: list[socket.socket], pools: list[FramePool]
) -> None:
    held: list[bytes] = []

    def swap(content: bytes) -> bytes:
        held.append(content)
        if len(held) < 5 and opaque_of(content) < FIRST_OPAQUE + 490:  # the last ones may be no five
            return b""
        answers = b"".join([good(each) for each in reversed(held)])
        held.clear()
        return answers

    server = serve(swap)
    senders = make_senders(server.address, pools[:1], connections)

    outcome = run_paced(senders, rate=1000, seconds=0.5, warm_up_s=0.0, server_pid=os.getpid())

    # Of five, due a millisecond apart and answered together, the first has waited four milliseconds longest.
    assert outcome.latency_ms(0.0) >= 0
    assert outcome.latency_ms(0.5) > 1
    assert outcome.count == outcome.latency_count


def test_a_server_that_says_nothing_is_an_error(
    serve: Serve, connections: list[socket.socket], pools: list[FramePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.broker_load.STALL_TIMEOUT_S", 0.2)
    server = serve(lambda _: b"")
    senders = make_senders(server.address, pools[:1], connections)

    with pytest.raises(BadAnswer, match="no answer within"):
        run_count(senders, in_flight=2, count=10, server_pid=os.getpid())
