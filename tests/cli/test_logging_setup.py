"""Log lines carry their fields, go to standard error, and to a file for each part if asked."""

from __future__ import annotations

import logging
import re
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
    text = line("broker expired", extra={"address": "10.0.0.1:10911", "silent_ms": 120000})
    pattern = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING nameserver\.server broker expired address=10\.0\.0\.1:10911 "
    )
    assert re.fullmatch(pattern + "silent_ms=120000", text)


def test_values_that_would_be_misread_are_quoted() -> None:
    text = line("x", extra={"a": "two words", "b": "", "c": 'say "hi"', "d": "k=v", "e": "über", "f": None})
    assert text.endswith(r'x a="two words" b="" c="say \"hi\"" d="k=v" e=über f=None')


def test_a_line_stays_one_line() -> None:
    assert "\n" not in line("x", extra={"text": "one\ntwo"})


def test_arguments_of_the_message_are_filled_in() -> None:
    assert line("%s of %d", "3", 4, extra={"k": 1}).endswith("3 of 4 k=1")


def test_an_exception_follows_the_line() -> None:
    logger = logging.getLogger("skyrocketmq.x")
    try:
        raise ValueError("broken")
    except ValueError:
        record = logger.makeRecord(logger.name, logging.ERROR, "file", 1, "failed", (), sys.exc_info(), extra={"k": 1})
    first, *rest = KeyValueFormatter().format(record).splitlines()
    assert first.endswith("failed k=1")
    assert rest[-1] == "ValueError: broken"


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
        ("skyrocketmq.broker.send", "broker.log"),
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


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--log-dir .* cannot be used"), logging_to(tmp_path / "file" / "logs"):
        pass
