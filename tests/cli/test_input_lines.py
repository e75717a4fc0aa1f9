"""Lines of a pipe or a file, on an event loop."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from skyrocketmq.cli.input_lines import PIECE_BYTES, InputLines


async def lines_of(data: bytes, tmp_path: Path) -> list[bytes]:
    path = tmp_path / "input"
    await asyncio.to_thread(path.write_bytes, data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return [line async for line in InputLines(descriptor)]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\nb\rc\r\n", [b"a", b"b\rc"]),
        (b"\n", [b""]),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
async def test_lines_come_without_their_ends(data: bytes, lines: list[bytes], tmp_path: Path) -> None:
    assert await lines_of(data, tmp_path) == lines


async def test_lines_that_are_longer_than_a_piece_stay_whole(tmp_path: Path) -> None:
    lines = [b"a" * (3 * PIECE_BYTES), b"b", b"c" * PIECE_BYTES]
    assert await lines_of(b"\n".join(lines), tmp_path) == lines


async def test_a_line_comes_while_the_pipe_is_still_open() -> None:
    reading, writing = os.pipe()
    lines = aiter(InputLines(reading))
    os.write(writing, b"one\ntw")
    assert await anext(lines) == b"one"
    os.close(writing)
    assert [line async for line in lines] == [b"tw"]
    os.close(reading)


async def test_after_the_end_nothing_comes_though_more_was_written_and_the_pipe_is_open() -> None:
    reading, writing = os.pipe()
    source = InputLines(reading)
    lines = aiter(source)
    os.write(writing, b"one\ntwo\nthree")
    assert await anext(lines) == b"one"
    source.end()
    assert [line async for line in lines] == []
    os.close(writing)  # lets the reading thread end
    os.close(reading)


async def test_an_input_that_cannot_be_read_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(OSError, match="Bad file descriptor"):
        [line async for line in InputLines(reading)]
    os.close(writing)
