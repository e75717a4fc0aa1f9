"""The configuration of a running server: one frozen snapshot at a time, swapped when an operator changes keys.

Rule 1: a change is all or nothing. It is checked whole, written to the file, and only then seen by anybody.
Rule 2: readers take `holder.current` each time they need a value, and keep it no longer than one request.
Rule 3: a key that takes effect at a start only is taken too: it goes to the file, `current` keeps what is in effect,
and `pending` tells of it until the next start.
Rule 4: no request changes a reserved key (`Key.is_reserved`): who is let in, which certificates are trusted, where
files are and which ports are open is for the machine's operator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from skyrocketmq.config.fields import Key, Section, format_value, keys_of, parse_value, value_of, with_values
from skyrocketmq.config.loading import KeyTable, Loaded, Source
from skyrocketmq.config.properties_text import write_properties
from skyrocketmq.config.secret_names import has_secret_name
from skyrocketmq.errors import ConfigError
from skyrocketmq.ports import Clock, Disk

__all__ = ["ConfigChange", "ConfigHolder", "ConfigVersion", "as_properties"]

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=Section)

UNKNOWN_TOLD_MAX: Final = 10  # of one change: to look for the key that was meant takes a while


class ConfigVersion(NamedTuple):
    """When the configuration was last changed, and how often; the pair that GET_BROKER_CONFIG answers with."""

    timestamp_ms: int
    counter: int


class ConfigChange(NamedTuple, Generic[C]):
    """What listeners get after a change."""

    before: C
    after: C
    keys: frozenset[str]


def as_properties(config: Section) -> dict[str, str]:
    """Every effective key as text. Passwords and keys without a value are left out."""
    texts = {}
    for key in keys_of(type(config)):
        text = format_value(key, value_of(config, key))
        if text is not None and not key.declared.secret:
            texts[key.name] = text
    return texts


class ConfigHolder(Generic[C]):
    """Holds the snapshot, takes changes, keeps them in the file. Used on the loop's thread only."""

    def __init__(self, loaded: Loaded[C], *, disk: Disk, clock: Clock) -> None:
        self._loaded = loaded
        self._planned = loaded  # what the next start will find; the same, but for the keys that wait for it
        self._disk = disk
        self._clock = clock
        self._table = KeyTable(type(loaded.config))
        self._listeners: list[Callable[[ConfigChange[C]], object]] = []
        self._version = ConfigVersion(clock.now_ms(), 0)
        self._updating = asyncio.Lock()  # guards the way from checking a change to swapping it in, file included

    @classmethod
    def of(cls, config: C, *, disk: Disk, clock: Clock) -> ConfigHolder[C]:
        """Hold a configuration that comes from no file; changes stay in memory."""
        return cls(Loaded(config), disk=disk, clock=clock)

    @property
    def current(self) -> C:
        return self._loaded.config

    @property
    def path(self) -> Path | None:
        """The file that changes are written to; None if they stay in memory."""
        return self._loaded.store_path

    @property
    def version(self) -> ConfigVersion:
        return self._version

    @property
    def pending(self) -> frozenset[str]:
        """The keys whose values in the file count from the next start."""
        return self._differing(self._planned.config, self.current)

    def pending_text(self) -> str | None:
        """The same for people; None if nothing waits."""
        return f"these keys count from the next start: {', '.join(sorted(self.pending))}" if self.pending else None

    def as_properties(self) -> dict[str, str]:
        """What GET_BROKER_CONFIG and GET_NAMESRV_CONFIG show: all keys, and the file's unknown ones, but no secrets.

        A changed key shows its new value, as with Apache's servers, even if that waits for the next start.
        """
        unknown = {name: text for name, text in self._planned.unknown.items() if not has_secret_name(name)}
        return {**unknown, **as_properties(self._planned.config)}

    def subscribe(self, listener: Callable[[ConfigChange[C]], object]) -> Callable[[], None]:
        """Call `listener` after every change; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def update(self, changes: Mapping[str, str]) -> frozenset[str]:
        """Change keys as an operator's request asks; returns those whose value is another now, or will be (`pending`).

        Unknown keys are passed over, as Apache does. Raises `ConfigError`, with nothing changed, if a value cannot be
        read, does not fit the others, or is not for requests to change; `OSError` if the file cannot be written.
        """
        async with self._updating:
            values = self._parsed(changes)
            self._check_reserved(values)
            planned = _with_updates(self._planned, values)
            loaded = _with_updates(self._loaded, [(key, value) for key, value in values if key.declared.changeable])
            changed = self._differing(planned.config, self._planned.config)
            self._warn_of_overrides(changed)
            if planned.store_path is not None:
                await self._disk.run(self._write, planned)
            before, self._loaded, self._planned = self.current, loaded, planned
            self._version = ConfigVersion(self._clock.now_ms(), self._version.counter + 1)
        if waiting := changed & self.pending:
            logger.warning("these keys count from the next start", extra={"keys": sorted(waiting)})
        self._tell(ConfigChange(before, self.current, self._differing(before, self.current)))
        return changed

    def _parsed(self, changes: Mapping[str, str]) -> list[tuple[Key, Any]]:
        values: list[tuple[Key, Any]] = []
        unknown_count = 0
        for name, text in changes.items():
            keys = self._table.find(name)
            if not keys:
                unknown_count += 1
                if unknown_count <= UNKNOWN_TOLD_MAX:
                    logger.warning("unknown configuration key", extra={"key": name, "hint": self._table.hint(name)})
            for key in keys:
                try:
                    values.append((key, parse_value(key, text)))
                except ValueError as error:
                    raise ConfigError(f'{key.name} = "{text}" is not {error}') from None
        if unknown_count > UNKNOWN_TOLD_MAX:
            logger.warning("more unknown configuration keys", extra={"count": unknown_count - UNKNOWN_TOLD_MAX})
        return values

    def _check_reserved(self, values: list[tuple[Key, Any]]) -> None:
        for key, value in values:
            if key.is_reserved and value != value_of(self._planned.config, key):
                raise ConfigError(f"{key.name} is not changed by a request: set it in the file, and start again")

    def _differing(self, one: C, other: C) -> frozenset[str]:
        return frozenset(key.name for key in self._table.keys if value_of(one, key) != value_of(other, key))

    def _warn_of_overrides(self, changed: frozenset[str]) -> None:
        """The environment and `--set` win over the file, so at the next start they would undo the change."""
        for name in sorted(changed):
            if (source := self._planned.sources.get(name)) in (Source.ENVIRONMENT, Source.COMMAND_LINE):
                logger.warning("the next start will undo this change", extra={"key": name, "set_by": str(source)})

    def _write(self, loaded: Loaded[C]) -> None:
        assert loaded.store_path is not None
        self._disk.make_directories(loaded.store_path.parent)
        self._disk.replace(loaded.store_path, write_properties(_file_content(loaded)), keep_backup=True, is_secret=True)

    def _tell(self, change: ConfigChange[C]) -> None:
        for listener in list(self._listeners):
            try:
                listener(change)
            except Exception:
                logger.exception("a listener failed on a change of configuration", extra={"keys": sorted(change.keys)})


def _with_updates(loaded: Loaded[C], values: list[tuple[Key, Any]]) -> Loaded[C]:
    sources = {**loaded.sources, **{key.name: Source.UPDATE for key, _ in values}}
    config, _ = with_values(loaded.config, values).settled(sources)
    return replace(loaded, config=config, sources=sources)


def _file_content(loaded: Loaded[Any]) -> dict[str, str]:
    """Apache's keys whole, as Apache writes them; system properties and secrets only where the file or an operator
    set them.

    So a password from `tls.properties` or the environment is not copied into a file that others may read.
    """
    content = dict(loaded.unknown)
    for key in keys_of(type(loaded.config)):
        text = format_value(key, value_of(loaded.config, key))
        is_own = "." not in key.name and not key.declared.secret
        if text is not None and (is_own or loaded.source_of(key) in (Source.FILE, Source.UPDATE)):
            content[key.name] = text
    return content
