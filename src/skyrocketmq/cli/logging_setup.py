"""Where the log of a server process goes: to standard error, and with `--log-dir` to a file for each part as well.

A line is the time, the level, the part, a fixed phrase, and the values as `key=value`, so that lines group and grep:

    2024-05-01 12:00:00.123 WARNING nameserver.server broker expired address=10.0.0.1:10911 silent_s=120.0

Values, arguments and exceptions come from strangers too: `log_text` makes them fit to be read, and nobody else does.
Files are for their owner and his group, as all that servers write (docs/security.md).

The library itself only uses `logging`; nothing but a command calls this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from skyrocketmq.cli.log_text import block_text, line_text, value_text
from skyrocketmq.errors import ConfigError
from skyrocketmq.ports import LocalDisk

__all__ = ["KeyValueFormatter", "logging_to"]

PACKAGE = "skyrocketmq"
# The part of each package, named as Apache names its log files; what belongs to none goes to skyrocketmq.log.
PARTS = {
    "nameserver": "namesrv",
    "broker": "broker",
    "store": "store",
    "net": "remoting",
    "client": "client",
    "admin": "admin",
    "dashboard": "dashboard",
    "spark": "spark",
}
FILE_BYTES_MAX = 100 * 1024 * 1024
OLD_FILES_MAX = 10
FILE_MODE = 0o640

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyValueFormatter(logging.Formatter):
    """Appends the fields given as `extra`."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(part)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{name}={value_text(value)}" for name, value in vars(record).items() if name not in _PLAIN]
        record = logging.makeLogRecord(vars(record))  # others may format it too
        record.msg, record.args = " ".join([line_text(record.getMessage()), *fields]), None
        record.exc_text = None  # of another formatter, as the exception says it
        record.part = record.name.removeprefix(PACKAGE + ".")
        return super().format(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's name
        return block_text(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802  # logging's name
        return block_text(super().formatStack(stack_info))


class PartFile(RotatingFileHandler):
    """A file that is opened with its first line, so that parts that say nothing leave none."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=FILE_BYTES_MAX, backupCount=OLD_FILES_MAX, encoding="utf-8", delay=True)

    def _open(self) -> TextIOWrapper:
        """Also after each rotation. A file that is there keeps its mode."""
        return open(self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=_open_for_group)


@contextmanager
def logging_to(directory: Path | None = None, *, level: str = "info") -> Iterator[None]:
    """Log to standard error, and to files in `directory` if there is one, while the block runs."""
    handlers: list[tuple[logging.Logger, logging.Handler]] = [(logging.getLogger(), logging.StreamHandler())]
    if directory is not None:
        handlers += _file_handlers(directory)
    formatter = KeyValueFormatter()
    package, level_before = logging.getLogger(PACKAGE), logging.getLogger(PACKAGE).level
    package.setLevel(level.upper())
    for logger, handler in handlers:
        handler.setFormatter(formatter)
        logger.addHandler(handler)
    try:
        yield
    finally:
        package.setLevel(level_before)
        for logger, handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def _file_handlers(directory: Path) -> Iterator[tuple[logging.Logger, logging.Handler]]:
    try:
        with closing(LocalDisk(threads=1)) as disk:
            disk.make_directories(directory)
    except OSError as error:
        raise ConfigError(f"--log-dir {directory} cannot be used: {error.strerror}") from error
    for package, part in PARTS.items():
        yield logging.getLogger(f"{PACKAGE}.{package}"), PartFile(directory / f"{part}.log")
    rest = PartFile(directory / f"{PACKAGE}.log")
    rest.addFilter(_belongs_to_no_part)
    yield logging.getLogger(), rest


def _open_for_group(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _belongs_to_no_part(record: logging.LogRecord) -> bool:
    package, *rest = record.name.split(".")
    return package != PACKAGE or not rest or rest[0] not in PARTS
