"""Log lines carry their fields, go to standard error, and to a file for each part if asked."""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from skyrocketmq.cli.logging_setup import KeyValueFormatter, logging_to
from skyrocketmq.errors import ConfigError


def line(message: str, *arguments: object, extra: dict[str, object] | None = None) -> str:
    logger = logging.getLogger("skyrocketmq.nameserver.server")
    record = logger.makeRecord(logger.name, logging.WARNING, "file", 1, message, arguments, None, extra=extra)
    return KeyValueFormatter().format(record)


def test_a_line_has_time_level_part_phrase_and_fields() -> None:
    text = line("broker expired", extra={"address": "10.0.0.1:10911", "silent_s": 120.0})
    pattern = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING nameserver\.server broker expired address=10\.0\.0\.1:10911 "
    )
    assert re.fullmatch(pattern + "silent_s=120.0", text)


def test_values_that_would_be_misread_are_quoted() -> None:
    text = line("x", extra={"a": "two words", "b": "", "c": 'say "hi"', "d": "k=v", "e": "über", "f": None})
    assert text.endswith(r'x a="two words" b="" c="say \"hi\"" d="k=v" e=über f=None')


def test_a_long_value_is_cut() -> None:
    text = line("access refused", extra={"account": "x" * 8_000_000, "peer": "10.0.0.1:1"})
    assert text.endswith(" account=" + "x" * 256 + "...(8000000 characters) peer=10.0.0.1:1")


@pytest.mark.parametrize("character", list("\x1b\x07\x08\x7f\x9b\u202e\u2028\n\r\ud800"))
def test_what_cannot_be_printed_is_written_as_an_escape(character: str) -> None:
    text = line("x", extra={"a": f"so{character}[2J"})
    assert text.isprintable()
    assert character not in text
    assert re.search(r'a="so\\(u[0-9a-f]{4}|[bnr])\[2J"$', text)


def test_a_line_stays_one_line() -> None:
    assert "\n" not in line("x", extra={"text": "one\ntwo"})


def test_arguments_of_the_message_are_filled_in() -> None:
    assert line("%s of %d", "3", 4, extra={"k": 1}).endswith("3 of 4 k=1")


def block(error: Exception) -> list[str]:
    """The lines of an exception in the log."""
    logger = logging.getLogger("skyrocketmq.x")
    try:
        raise error
    except type(error):
        record = logger.makeRecord(logger.name, logging.ERROR, "file", 1, "failed", (), sys.exc_info(), extra={"k": 1})
    logging.Formatter().format(record)  # which keeps the exception as it is for all others
    first, *rest = KeyValueFormatter().format(record).split("\n")
    assert first.endswith("failed k=1")
    return rest


def test_an_exception_follows_the_line() -> None:
    first, *between, last = block(ValueError("broken"))
    assert first == "  Traceback (most recent call last):"
    assert any("raise error" in line for line in between)
    assert last == "  ValueError: broken"


@pytest.mark.parametrize("character", list("\x1b\x07\x08\x7f\x9b\u202e\u2028\r\ud800"))
def test_an_exception_and_an_argument_send_nothing_to_a_terminal(character: str) -> None:
    said = f"so{character}[2J"
    lines = [line("message %s", said), *block(ValueError(said))]
    assert all(each.isprintable() for each in lines)
    assert [bool(re.search(r"so\\[xu]?[0-9a-fr]+\[2J$", each)) for each in (lines[0], lines[-1])] == [True, True]


def test_neither_an_exception_nor_an_argument_forges_a_line() -> None:
    forged = "x\n2026-01-01 00:00:00.000 INFO broker.server all is well"
    assert "\n" not in line("message %s", forged)
    assert not [each for each in block(ValueError(forged)) if each[:1] != " "]


def test_long_exceptions_and_arguments_are_cut() -> None:
    assert line("message %s", "x" * 8_000_000, extra={"k": 1}).endswith("xxx...(8000008 characters) k=1")
    assert block(ValueError("x" * 5000))[-1] == "  " + ("ValueError: " + "x" * 5000)[:1024] + "...(5012 characters)"
    lines = block(ValueError("x\n" * 100_000 + "end"))
    assert len(lines) < 500
    assert (lines[0], lines[-1]) == ("  Traceback (most recent call last):", "  end")


def test_the_log_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to():
        logging.getLogger("skyrocketmq.broker").info("hello", extra={"k": 1})
        logging.getLogger("skyrocketmq.broker").debug("too fine")
    logging.getLogger("skyrocketmq.broker").info("later")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("INFO broker hello k=1\n")
    assert captured.err.count("\n") == 1


def test_the_level_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(level="debug"):
        logging.getLogger("skyrocketmq.net").debug("fine")
    with logging_to(level="error"):
        logging.getLogger("skyrocketmq.net").warning("unwanted")
    captured = capsys.readouterr().err
    assert "fine" in captured
    assert "unwanted" not in captured


@pytest.mark.parametrize(
    ("logger", "file"),
    [
        ("skyrocketmq.nameserver.server", "namesrv.log"),
        ("skyrocketmq.broker.router", "broker.log"),
        ("skyrocketmq.store", "store.log"),
        ("skyrocketmq.net.connection", "remoting.log"),
        ("skyrocketmq.config.holder", "skyrocketmq.log"),
        ("skyrocketmq.networks", "skyrocketmq.log"),
        ("asyncio", "skyrocketmq.log"),
    ],
)
def test_each_part_has_its_file(tmp_path: Path, logger: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(tmp_path / "logs"):
        logging.getLogger(logger).warning("hello")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [file]
    assert (tmp_path / "logs" / file).read_text().endswith(" hello\n")
    assert "hello" in capsys.readouterr().err


def test_files_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyrocketmq.cli.logging_setup.FILE_BYTES_MAX", 1000)
    monkeypatch.setattr("skyrocketmq.cli.logging_setup.OLD_FILES_MAX", 2)
    with logging_to(tmp_path):
        for number in range(200):
            logging.getLogger("skyrocketmq.store").warning("message", extra={"number": number})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.log", "store.log.1", "store.log.2"]
    assert "number=199" in (tmp_path / "store.log").read_text()


def test_files_are_for_their_owner_and_his_group_also_after_a_rotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyrocketmq.cli.logging_setup.FILE_BYTES_MAX", 200)
    before = os.umask(0o022)
    try:
        with logging_to(tmp_path / "all" / "logs"):
            for number in range(9):
                logging.getLogger("skyrocketmq.store").warning("message", extra={"number": number})
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "all").rglob("*")}
    assert modes.pop("logs") == "0o750"
    assert {"store.log", "store.log.1"} <= set(modes)
    assert set(modes.values()) == {"0o640"}
    assert stat.S_IMODE((tmp_path / "all").stat().st_mode) == 0o750


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--log-dir .* cannot be used"), logging_to(tmp_path / "file" / "logs"):
        pass
