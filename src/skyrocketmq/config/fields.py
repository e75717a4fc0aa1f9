"""How a configuration class is declared, and how its values are read from and written as text.

A class of configuration is a frozen dataclass derived from `Section` whose fields are made by `conf`: the operator's
key (Apache's spelling), the default, what it means, whether it may change while the server runs. The attribute's name
is ours and carries the unit. A field made by `part` holds another section, so that one `BrokerConfig` carries all that
a broker needs; the key space stays flat, as it is in Apache's files.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class StoreConfig(Section, title="store"):
        file_reserved_hours: int = conf("fileReservedTime", default=72, doc="how long a file is kept")

Rule 1: a value in a section is always within its bounds: `Section` clamps, however it was built.
Rule 2: text becomes a value in `parse_value` only, and a value becomes text in `format_value` only.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "Key",
    "Section",
    "conf",
    "format_value",
    "keys_of",
    "parse_value",
    "part",
    "value_of",
    "with_values",
]

T = TypeVar("T")
S = TypeVar("S", bound="Section")

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_METADATA = "skyrocketmq.conf"
_MISSING: Any = dataclasses.MISSING
_UNITS = {"ms": "ms", "s": "s", "hours": "h", "bytes": "bytes", "bits": "bits", "pages": "pages", "percent": "%"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What `conf` was given about one field."""

    key: str
    doc: str
    changeable: bool
    unused: str
    aliases: tuple[str, ...]
    environment: tuple[str, ...]
    default_text: str
    at_least: int | None
    at_most: int | None
    clamp: tuple[int, int] | None
    multiple_of: int
    separator: str
    secret: bool
    reserved: bool


def conf(
    key: str,
    *,
    doc: str,
    default: T = _MISSING,
    factory: Callable[[], T] = _MISSING,
    default_text: str = "",
    changeable: bool = False,
    unused: str = "",
    aliases: tuple[str, ...] = (),
    environment: tuple[str, ...] = (),
    long: bool = False,
    at_least: int | None = None,
    at_most: int | None = None,
    clamp: tuple[int, int] | None = None,
    multiple_of: int = 1,
    separator: str = ";",
    secret: bool = False,
    reserved: bool = False,
) -> T:
    """Declare a field of a `Section`.

    `default_text` describes a default that the machine decides (`factory`). `changeable` keys take effect while the
    server runs. `unused` says why a key of Apache's has no effect here. `aliases` are other spellings of the key,
    `environment` the variables that set its default at Apache. `long` allows 64-bit numbers where Apache does. A number
    outside `at_least`..`at_most` is an error, outside `clamp` it is moved to the nearer end, and it is rounded up to a
    `multiple_of`. A `secret` is never shown. No request changes what is `reserved`: see `Key.is_reserved`.
    """
    declared = Declaration(
        key=key,
        doc=doc,
        changeable=changeable or bool(unused),
        unused=unused,
        aliases=aliases,
        environment=environment,
        default_text=default_text,
        at_least=at_least,
        at_most=at_most if at_most is not None else (_LONG_MAX if long else _INT_MAX),
        clamp=clamp,
        multiple_of=multiple_of,
        separator=separator,
        secret=secret,
        reserved=reserved,
    )
    make_field: Any = dataclasses.field  # its overloads want one of the two defaults, never both
    field: T = make_field(default=default, default_factory=factory, repr=not secret, metadata={_METADATA: declared})
    return field


def part(factory: Callable[[], S]) -> S:
    """Declare a field that holds another section."""
    field: S = dataclasses.field(default_factory=factory)
    return field


class Section:
    """The base of every class of configuration; keeps its numbers within the bounds they were declared with."""

    __slots__ = ()
    title: ClassVar[str]

    def __init_subclass__(cls, *, title: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if title:  # `slots=True` makes the class a second time, then without the arguments
            cls.title = title

    def settled(self: S, given: Collection[str]) -> tuple[S, tuple[str, ...]]:
        """The configuration with the rules between its keys applied, and what an operator should know about it.

        `given` names the keys that were set somewhere; the others may follow from them. Raises `ConfigError` for what
        cannot work.
        """
        return self, ()

    def __post_init__(self) -> None:
        for key in keys_of(type(self)):
            if not key.path and key.has_bounds:
                bounded = key.bounded(getattr(self, key.attribute))
                object.__setattr__(self, key.attribute, bounded)


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key of a configuration class: where its value is kept, its type, and what was declared about it."""

    path: tuple[str, ...]  # the fields that lead from the outer section to the one that has the attribute
    attribute: str
    kind: type
    optional: bool
    section: type[Section]
    declared: Declaration

    @property
    def name(self) -> str:
        return self.declared.key

    @property
    def names(self) -> tuple[str, ...]:
        return (self.declared.key, *self.declared.aliases)

    @property
    def unit(self) -> str:
        """What the number counts, as the attribute's name says."""
        return next((_UNITS[word] for word in self.attribute.split("_") if word in _UNITS), "")

    @property
    def environment_names(self) -> tuple[str, ...]:
        """The variables that set this key: `SKYROCKETMQ_LISTEN_PORT`, and for Java's system properties `TLS_ENABLE`."""
        system = tuple(upper_snake(name) for name in self.names if "." in name)
        return (*("SKYROCKETMQ_" + upper_snake(name) for name in self.names), *system)

    @property
    def is_reserved(self) -> bool:
        """Whether only the machine's operator may change it: what is declared so, and by its nature every path, every
        secret and every system property of Apache's (a key with dots), unless it takes effect while running."""
        declared = self.declared
        by_nature = self.kind is Path or declared.secret or "." in declared.key
        return declared.reserved or (by_nature and not declared.changeable)

    @property
    def has_bounds(self) -> bool:
        return self.declared.clamp is not None or self.declared.multiple_of != 1

    def bounded(self, number: int) -> int:
        """The number moved into its bounds."""
        if self.declared.clamp is not None:
            low, high = self.declared.clamp
            number = min(max(number, low), high)
        return -(-number // self.declared.multiple_of) * self.declared.multiple_of


def keys_of(section: type[Section]) -> tuple[Key, ...]:
    """All keys of a class and of the sections inside it, in the order they are declared."""
    if section not in _known_keys:
        _known_keys[section] = tuple(_walk(section, ()))
    return _known_keys[section]


_known_keys: dict[type[Section], tuple[Key, ...]] = {}


def value_of(config: Section, key: Key) -> Any:
    """The value of a key in a configuration."""
    holder: Any = config
    for step in key.path:
        holder = getattr(holder, step)
    return getattr(holder, key.attribute)


def with_values(config: S, values: Sequence[tuple[Key, Any]]) -> S:
    """A copy of a configuration in which some keys have other values; the bounds are kept."""
    return _with_values(config, values, depth=0)


def _with_values(config: S, values: Sequence[tuple[Key, Any]], *, depth: int) -> S:
    changed = {key.attribute: value for key, value in values if len(key.path) == depth}
    for name in {key.path[depth] for key, _ in values if len(key.path) > depth}:
        inner = [(key, value) for key, value in values if len(key.path) > depth and key.path[depth] == name]
        changed[name] = _with_values(getattr(config, name), inner, depth=depth + 1)
    replace: Any = dataclasses.replace  # every section is a dataclass
    replaced: S = replace(config, **changed)
    return replaced


def upper_snake(name: str) -> str:
    """`brokerIP1` as `BROKER_IP1`, `tls.server.keyPath` as `TLS_SERVER_KEY_PATH`."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name))
    return re.sub(r"[^A-Za-z0-9]", "_", spaced).upper()


def parse_value(key: Key, text: str) -> Any:
    """The value that a text means; `ValueError` says what is expected instead."""
    text = text.strip()
    if not text and key.optional:
        return None
    if key.kind is bool:
        return _parse_bool(text)
    if key.kind is int:
        return _parse_int(key, text)
    if key.kind is float:
        return _parse_float(text)
    if key.kind is tuple:
        return tuple(stripped for piece in text.split(key.declared.separator) if (stripped := piece.strip()))
    if key.kind is Path:
        if not text:
            raise ValueError("a path")
        return Path(text)
    if issubclass(key.kind, StrEnum):
        return _parse_choice(key.kind, text)
    assert key.kind is str, f"no way to read {key.kind} from text"
    return text


def format_value(key: Key, value: Any) -> str | None:
    """The text that stands for a value in a file; `None` where the key is not set, and its line left out."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return key.declared.separator.join(value)
    return str(value)


def _walk(section: type[Section], path: tuple[str, ...]) -> Iterator[Key]:
    hints = get_type_hints(section)
    fields: Any = dataclasses.fields(section)  # type: ignore[arg-type]  # every section is a dataclass
    for field in fields:
        hint = hints[field.name]
        if isinstance(hint, type) and issubclass(hint, Section):
            yield from _walk(hint, (*path, field.name))
            continue
        members = [member for member in get_args(hint) if member is not NoneType]
        optional = NoneType in get_args(hint)
        kind = members[0] if optional else tuple if members else hint
        yield Key(path, field.name, kind, optional, section, field.metadata[_METADATA])


def _parse_bool(text: str) -> bool:
    if (lowered := text.lower()) in ("true", "false"):
        return lowered == "true"
    raise ValueError("true or false")


def _parse_int(key: Key, text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or len(text) > 40:
        raise ValueError("a whole number")
    number = int(text)
    low, high = key.declared.at_least, key.declared.at_most
    if low is not None and number < low:
        raise ValueError(f"a whole number of at least {low}")
    if high is not None and not -high - 1 <= number <= high:
        raise ValueError(f"a whole number of at most {high}")
    return number


def _parse_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("a number") from None
    if not number - number == 0:  # infinity and not-a-number differ from themselves
        raise ValueError("a number")
    return number


def _parse_choice(kind: type[StrEnum], text: str) -> StrEnum:
    try:
        return kind(text)
    except ValueError:
        raise ValueError("one of " + ", ".join(kind)) from None
