"""From files, environment and command line to one checked configuration.

Later sources win: `tls.properties`, the server's file, the environment, `--set`. What is wrong is treated by where it
stands. A file that starts Apache's servers must start ours, so in a file an unknown key or a value that cannot be read
is a warning, and the value from before stays. In the environment an unknown name (one that begins with `SKYROCKETMQ_`)
is a warning, because another program may own it, and a bad value is an error. After `--set` both are errors.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from skyrocketmq.config.broker import BrokerConfig
from skyrocketmq.config.fields import Key, Section, keys_of, parse_value, value_of, with_values
from skyrocketmq.config.namesrv import NamesrvConfig
from skyrocketmq.config.properties_text import read_property_lines
from skyrocketmq.config.tls import DEFAULT_TLS_FILE, TlsConfig
from skyrocketmq.errors import ConfigError
from skyrocketmq.ports import Disk, LocalDisk

__all__ = ["KeyTable", "Loaded", "Source", "load_broker_config", "load_namesrv_config", "split_assignments"]

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=Section)

ENVIRONMENT_PREFIX = "SKYROCKETMQ_"
SWITCHES = frozenset(
    {"SKYROCKETMQ_COMPILE", "SKYROCKETMQ_PLAIN"}
)  # of the installation and of `hot`: keys of no server
_TLS_FILE_KEY = "tls.config.file"


class Source(StrEnum):
    """Where a value comes from."""

    DEFAULT = "default"
    TLS_FILE = "tls file"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "--set"
    UPDATE = "update"  # a change while the server runs


@dataclass(frozen=True, slots=True)
class Loaded(Generic[C]):
    """A configuration and its history."""

    config: C
    sources: Mapping[str, Source] = field(default_factory=dict)  # by key; what is missing is a default
    warnings: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)  # keys of the file that mean nothing; kept in it
    store_path: Path | None = None  # where changes at run time are written

    def source_of(self, key: Key) -> Source:
        return self.sources.get(key.name, Source.DEFAULT)


class KeyTable:
    """The keys of a configuration class by every name they have."""

    def __init__(self, kind: type[Section]) -> None:
        self.keys = keys_of(kind)
        self.by_name: dict[str, list[Key]] = {}
        self.by_variable: dict[str, Key] = {}
        for key in self.keys:
            for name in key.names:
                self.by_name.setdefault(name, []).append(key)  # a network key may belong to server and client
            for variable in key.environment_names:
                self.by_variable[variable] = key

    def find(self, name: str) -> Sequence[Key]:
        """The keys that a name sets; none if it is unknown."""
        return self.by_name.get(name, ())

    def hint(self, name: str) -> str:
        """`; did you mean "brokerName"?`, or nothing if no key is near."""
        return _did_you_mean(name, self.by_name)


def load_broker_config(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    defaults: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> Loaded[BrokerConfig]:
    """The configuration of a broker. `defaults` replace Apache's where a service has others, such as the embedded one.

    `environ` is the process's own unless given. Raises `ConfigError` for a file that cannot be read, a bad override, or
    settings that contradict each other.
    """
    loaded = _load(BrokerConfig(), file, environ, overrides, defaults=defaults, disk=disk)
    return replace(loaded, store_path=file or loaded.config.store.root_path / "config" / "broker.properties")


def load_namesrv_config(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    defaults: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> Loaded[NamesrvConfig]:
    """The configuration of a name server; `configStorePath` is the file it was read from, if there is one."""
    loaded = _load(NamesrvConfig(), file, environ, overrides, defaults=defaults, disk=disk, path_key="configStorePath")
    return replace(loaded, store_path=loaded.config.config_store_path)


def load_tls_config(environ: Mapping[str, str] | None = None, *, disk: Disk | None = None) -> TlsConfig:
    """The TLS keys alone, from `tls.properties` and the environment: for clients, which have no file of their own."""
    loaded = _load(TlsConfig(), None, environ, None, defaults=None, disk=disk)
    for warning in loaded.warnings:
        logger.warning("look at the TLS keys", extra={"found": warning})
    return loaded.config


def split_assignments(texts: Iterable[str]) -> dict[str, str]:
    """The `key=value` arguments of `--set` as a mapping; `ConfigError` for one without a key or `=`."""
    overrides = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f'--set "{text}": write key=value')
        overrides[key.strip()] = value
    return overrides


class _Assignment(NamedTuple):
    name: str
    text: str
    source: Source
    where: str


def _load(
    base: C,
    file: Path | None,
    environ: Mapping[str, str] | None,
    overrides: Mapping[str, str] | None,
    *,
    defaults: Mapping[str, str] | None,
    disk: Disk | None,
    path_key: str | None = None,
) -> Loaded[C]:
    table = KeyTable(type(base))
    environ = os.environ if environ is None else environ
    reading = _Reading(table, base)
    own_disk = LocalDisk() if disk is None else None
    used_disk = disk or own_disk
    assert used_disk is not None
    try:
        from_file = _from_file(file, Source.FILE, used_disk) if file is not None else []
        if file is not None and path_key is not None:  # whatever the file says, it is itself the place
            from_file.append(_Assignment(path_key, str(file), Source.FILE, str(file)))
        explicit = [
            *from_file,
            *_from_environment(table, environ, reading.warnings),
            *(_Assignment(name, text, Source.COMMAND_LINE, "--set") for name, text in (overrides or {}).items()),
        ]
        from_tls_file = _from_tls_file(explicit, used_disk)
    finally:
        if own_disk is not None:
            own_disk.close()
    by_default = [_Assignment(name, text, Source.DEFAULT, "defaults") for name, text in (defaults or {}).items()]
    for assignment in (*by_default, *_inherited_environment(table, environ), *from_tls_file, *explicit):
        reading.take(assignment)
    return reading.finish()


class _Reading:
    """The configuration while the sources are gone through, the earlier ones first."""

    def __init__(self, table: KeyTable, base: Section) -> None:
        self._table = table
        self._base: Any = base
        self._values: dict[Key, Any] = {}
        self._sources: dict[str, Source] = {}
        self._unknown: dict[str, str] = {}
        self.warnings: list[str] = []

    def take(self, assignment: _Assignment) -> None:
        keys = self._table.find(assignment.name)
        if not keys:
            self._take_unknown(assignment)
        for key in keys:
            self._take_known(key, assignment)

    def finish(self) -> Loaded[Any]:
        config = with_values(self._base, list(self._values.items()))
        self._warn_of_moved_values(config)
        settled, told = config.settled(self._sources)
        return Loaded(settled, self._sources, (*self.warnings, *told), self._unknown)

    def _take_unknown(self, assignment: _Assignment) -> None:
        hint = self._table.hint(assignment.name)
        if assignment.source is not Source.FILE and assignment.source is not Source.TLS_FILE:
            raise ConfigError(f'{assignment.where}: unknown key "{assignment.name}"{hint}')
        self.warnings.append(f'{assignment.where}: unknown key "{assignment.name}" has no effect{hint}')
        if assignment.source is Source.FILE:
            self._unknown[assignment.name] = assignment.text

    def _take_known(self, key: Key, assignment: _Assignment) -> None:
        try:
            value = parse_value(key, assignment.text)
        except ValueError as error:
            shown = "***" if key.declared.secret else assignment.text
            problem = f'{assignment.where}: {assignment.name} = "{shown}" is not {error}'
            if assignment.source is not Source.FILE and assignment.source is not Source.TLS_FILE:
                raise ConfigError(problem) from None
            if key.kind is not bool:
                self._warn_once(f"{problem}; {self._before(key)} stays")
                return
            value = False  # the meaning that Java gives to any word but true
            self._warn_once(f"{problem}; it is read as false, as Apache does")
        self._values[key] = value
        if assignment.source is not Source.DEFAULT:
            self._sources[key.name] = assignment.source

    def _before(self, key: Key) -> str:
        value = self._values.get(key, value_of(self._base, key))
        return "nothing" if value in (None, "", ()) else str(value)

    def _warn_once(self, text: str) -> None:
        """A key of both server and client is one line of a file."""
        if text not in self.warnings:
            self.warnings.append(text)

    def _warn_of_moved_values(self, config: Section) -> None:
        for key, value in self._values.items():
            if (used := value_of(config, key)) != value:
                self._warn_once(f"{key.name} = {value} cannot be used as it is: {used} is used instead")


def _from_file(path: Path, source: Source, disk: Disk) -> list[_Assignment]:
    try:
        lines = list(read_property_lines(disk.read(path)))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path} {error}") from None
    return [_Assignment(name, text, source, f"{path} line {number}") for number, name, text in lines]


def _from_tls_file(explicit: Sequence[_Assignment], disk: Disk) -> list[_Assignment]:
    """The lines of `tls.properties`. The usual file may be missing; one that was asked for may not."""
    chosen = [assignment.text.strip() for assignment in explicit if assignment.name == _TLS_FILE_KEY]
    if chosen and chosen[-1]:
        return _from_file(Path(chosen[-1]), Source.TLS_FILE, disk)
    return _from_file(DEFAULT_TLS_FILE, Source.TLS_FILE, disk) if disk.exists(DEFAULT_TLS_FILE) else []


def _inherited_environment(table: KeyTable, environ: Mapping[str, str]) -> Iterator[_Assignment]:
    """`ROCKETMQ_HOME` and `NAMESRV_ADDR`: at Apache they are the defaults of their keys, so a file overrides them."""
    for key in table.keys:
        for variable in key.declared.environment:
            if environ.get(variable):
                yield _Assignment(key.name, environ[variable], Source.ENVIRONMENT, f"environment {variable}")


def _from_environment(table: KeyTable, environ: Mapping[str, str], warnings: list[str]) -> Iterator[_Assignment]:
    for variable, text in sorted(environ.items()):
        if key := table.by_variable.get(variable):
            yield _Assignment(key.name, text, Source.ENVIRONMENT, f"environment {variable}")
        elif variable.startswith(ENVIRONMENT_PREFIX) and not _belongs_elsewhere(variable):
            hint = _did_you_mean(variable, table.by_variable)
            warnings.append(f"environment: unknown variable {variable} has no effect{hint}")


def _belongs_elsewhere(variable: str) -> bool:
    return variable in SWITCHES or any(variable in KeyTable(kind).by_variable for kind in (BrokerConfig, NamesrvConfig))


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.strip().lower(), by_lower, n=1, cutoff=0.7)
    return f'; did you mean "{by_lower[near[0]]}"?' if near else ""
