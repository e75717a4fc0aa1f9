"""The load generator in C against a small server: what it sends, what it counts, what it does not let pass."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from benchmarks.broker_frames import Traffic
from benchmarks.c_programs import NoCompiler, build_program, compiler
from benchmarks.decks import Deck
from benchmarks.generator import Generator, Load
from benchmarks.load import BadAnswer
from benchmarks.send_shapes import Encoding, Properties, SendShape, send_frames

from skyrocketmq.wire.frames import Encoding as WireEncoding
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.benchmarks.answering import Serve

pytestmark = pytest.mark.skipif(compiler() is None, reason="the generator needs a C compiler")

SHAPES = [SendShape(100, encoding, Properties.KEY) for encoding in Encoding]
RECORD = (40).to_bytes(4, "big") + bytes(36)


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return Generator(tmp_path_factory.mktemp("generator"))


def deck(path: Path, shape: SendShape = SHAPES[0], count: int = 64) -> Deck:
    return Deck.write(path / "deck", send_frames(shape, Traffic(), count))


def decode(frame: bytes) -> Frame:
    [decoded] = FrameDecoder().feed(len(frame).to_bytes(4, "big") + frame)
    return decoded


def answer(frame: bytes, *, code: int = 0, body: bytes = b"", flag: int = 1) -> bytes:
    asked = decode(frame)
    return encode_frame(Frame(code, opaque=asked.opaque, flag=flag, body=body, encoding=asked.encoding, ext={"a": "b"}))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.encoding.name)
def test_so_many_messages_are_sent_and_none_has_the_id_of_another(
    shape: SendShape, generator: Generator, serve: Serve, tmp_path: Path
) -> None:
    server = serve(answer)

    turns = [
        generator.run(deck(tmp_path, shape), Load(2, 4), [server.address], [os.getpid()], count=300) for _ in range(2)
    ]

    assert [turn.count for turn in turns] == [300, 300]
    assert all(turn.p50_ms <= turn.p99_ms <= turn.max_ms for turn in turns)
    sends = [decode(frame) for frame in server.seen]
    assert len(sends) == 600
    texts = [(send.ext or {})["i" if send.code == 310 else "properties"] or "" for send in sends]
    named = [dict(part.split("\1") for part in text.strip("\2").split("\2")) for text in texts]
    for name, size in (("UNIQ_KEY", 32), ("KEYS", 22)):
        values = [each[name] for each in named]
        assert len(set(values)) == 600
        assert {len(value) for value in values} == {size}
    born = {int((send.ext or {})["g" if send.code == 310 else "bornTimestamp"] or 0) for send in sends}
    assert all(abs(each - time.time() * 1000) < 60_000 for each in born)


def test_a_timed_run_keeps_the_window_full_and_counts_what_was_measured(
    generator: Generator, serve: Serve, tmp_path: Path
) -> None:
    server = serve(answer)

    turn = generator.run(deck(tmp_path), Load(2, 8), [server.address], [os.getpid()], warm_up=0.1, seconds=0.2)

    assert 0.2 <= turn.seconds < 5
    assert 16 < turn.count < turn.total == len(server.seen)
    assert turn.server_cpu_s > 0


def test_a_given_rate_is_kept(generator: Generator, serve: Serve, tmp_path: Path) -> None:
    server = serve(answer)

    turn = generator.run(deck(tmp_path), Load(2, rate=500), [server.address], [], warm_up=0.1, seconds=1.0)

    assert 400 <= turn.count <= 600


def test_a_stall_counts_for_everything_that_was_due_meanwhile(
    generator: Generator, serve: Serve, tmp_path: Path
) -> None:
    def stalling(frame: bytes) -> bytes:
        if len(server.seen) == 100:
            time.sleep(0.5)
        return answer(frame)

    server = serve(stalling)

    turn = generator.run(deck(tmp_path), Load(1, rate=200), [server.address], [], warm_up=0.0, seconds=1.5)

    assert turn.max_ms >= 400
    assert turn.p99_ms >= 300  # about a hundred of three hundred were due while it slept


@pytest.mark.parametrize(
    ("answering", "said"),
    [
        (lambda frame: answer(frame, code=2), "refused with code 2"),
        (
            lambda frame: encode_frame(Frame(0, opaque=7, flag=1, encoding=WireEncoding.BINARY)),
            "an answer to no request",
        ),
        (lambda frame: answer(frame) * 2, "an answer to no request"),
    ],
)
def test_anything_but_one_good_answer_fails_the_run(
    answering: object, said: str, generator: Generator, serve: Serve, tmp_path: Path
) -> None:
    server = serve(answering)  # type: ignore[arg-type]

    with pytest.raises(BadAnswer, match=said):
        generator.run(deck(tmp_path), Load(1, 1), [server.address], [], count=10)


def test_a_request_of_the_servers_own_is_passed_over(generator: Generator, serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda frame: answer(frame, code=40, flag=0) + answer(frame))

    assert generator.run(deck(tmp_path), Load(1, 1), [server.address], [], count=10).count == 10


@pytest.mark.parametrize("shape", SHAPES[:2], ids=lambda shape: shape.encoding.name)
def test_records_of_answers_are_counted(shape: SendShape, generator: Generator, serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda frame: answer(frame, body=RECORD * 32))
    asked = deck(tmp_path, shape)

    assert generator.run(asked, Load(1, 1, records=32), [server.address], [], count=10).count == 320
    with pytest.raises(BadAnswer, match="32 records in an answer instead of 31"):
        generator.run(asked, Load(1, 1, records=31), [server.address], [], count=10)


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoCompiler, match="install a C compiler"):
        build_program("load", tmp_path)
