"""Java's properties text: the format of `broker.conf`, `namesrv.conf`, `tls.properties` and of the config requests.

Rule 1: whatever `java.util.Properties` reads, this reads to the same keys and values: `=`, `:` or blanks between key
and value, `#` and `!` comments, lines continued by a backslash, escapes; the last of equal keys wins.
Rule 2: what `write_properties` writes is plain ASCII, one `key=value` a line, and is read back unchanged by both.

Bytes are taken as UTF-8, and as Latin-1 where they are not: Java reads Latin-1 only, so an old file with `é` in it
still means `é`, while a file written by any editor of today is understood too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from skyrocketmq.errors import ConfigError

__all__ = ["PropertyLine", "read_properties", "read_property_lines", "read_requested_properties", "write_properties"]

REQUEST_BYTES_MAX: Final = 64 * 1024

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")  # not str.splitlines, which also breaks at characters Java keeps
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


class PropertyLine(NamedTuple):
    """One assignment and the number of the line it begins on, counted from 1."""

    line: int
    key: str
    value: str


def read_properties(text: bytes | str) -> dict[str, str]:
    """All keys with their values. Raises `ConfigError` for a broken `\\u` escape, as Java refuses it."""
    return {key: value for _, key, value in read_property_lines(text)}


def read_requested_properties(body: bytes) -> dict[str, str]:
    """The same of a request: all keys there are, with their values, have a few thousand bytes; more is refused."""
    if len(body) > REQUEST_BYTES_MAX:
        raise ConfigError(f"{len(body)} bytes of keys and values, at most {REQUEST_BYTES_MAX} may be")
    return read_properties(body)


def read_property_lines(text: bytes | str) -> Iterator[PropertyLine]:
    """The assignments in their order, equal keys as often as they come."""
    for number, line in _logical_lines(text if isinstance(text, str) else _decoded(text)):
        key = _KEY.match(line)
        assert key is not None  # the pattern matches the empty text too
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        yield PropertyLine(number, _unescaped(key.group(), number), _unescaped(line[separator.end() :], number))


def write_properties(properties: Mapping[str, str]) -> bytes:
    """One `key=value` line each, in the order given."""
    lines = [f"{_escaped(key, special=' =:#!')}={_escaped(value, special='')}\n" for key, value in properties.items()]
    return "".join(lines).encode("ascii")


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and leading blanks, continued ones joined, each with the number it begins at."""
    begun_at = 0
    joined = ""
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not begun_at:
            if not line or line[0] in "#!":
                continue
            begun_at = number
        if _is_continued(line):
            joined += line[:-1]
            continue
        if joined or line:
            yield begun_at, joined + line
        begun_at, joined = 0, ""
    if joined:  # the text ends with a backslash, which then means nothing
        yield begun_at, joined


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "u":
            raise ConfigError(f"line {line}: \\u wants four hexadecimal digits; write \\\\ for a backslash")
        return _ESCAPED.get(code, code)

    return _joined_surrogates(_ESCAPE.sub(replacement, text))


def _joined_surrogates(text: str) -> str:
    """Java writes characters beyond the first 65,536 as two escapes; together they are one character here."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(text: str, *, special: str) -> str:
    """Text as it stands in a line; leading blanks, which a reader would skip, are marked."""
    parts = []
    for at, character in enumerate(text):
        if character in _WRITTEN:
            parts.append(_WRITTEN[character])
        elif character in special or (at == 0 and character == " "):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
    return "".join(parts)
