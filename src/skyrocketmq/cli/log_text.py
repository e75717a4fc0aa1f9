"""What strangers say, as it may stand in a log: printable, of limited length, and never a line that looks like ours.

Values, arguments of a message and messages of exceptions may come from strangers. What is long is cut, and what cannot
be printed is written as an escape, so that nobody fills the log, forges a line of it, or sends control characters to
the terminal of its reader. Tracebacks keep their lines, indented: a line of the log begins with its time.
"""

from __future__ import annotations

import json
from typing import Final

__all__ = ["block_text", "line_text", "value_text"]

VALUE_CHARACTERS_MAX: Final = 256
LINE_CHARACTERS_MAX: Final = 1024
BLOCK_LINES_MAX: Final = 400
INDENT: Final = "  "


def value_text(value: object) -> str:
    """A value of `key=value`; one with blanks or quotes in it is quoted."""
    text, cut = _cut(str(value), VALUE_CHARACTERS_MAX)
    if text.isprintable():
        if text and not any(character.isspace() or character in '"=' for character in text):
            return text + cut
        return json.dumps(text, ensure_ascii=False) + cut
    return json.dumps(text).replace("\x7f", "\\u007f") + cut


def line_text(text: str) -> str:
    """A message, or one line of a traceback."""
    text, cut = _cut(text, LINE_CHARACTERS_MAX)
    return (text if text.isprintable() else "".join(map(_escaped, text))) + cut


def block_text(text: str) -> str:
    """A traceback: its lines, of very many the first and the last."""
    lines = text.split("\n")
    if len(lines) > BLOCK_LINES_MAX:
        half = BLOCK_LINES_MAX // 2
        lines = [*lines[:half], f"...({len(lines)} lines)", *lines[-half:]]
    return "\n".join(INDENT + line_text(line) for line in lines)


def _cut(text: str, characters_max: int) -> tuple[str, str]:
    """The text as far as it may go, and what tells of the rest."""
    if len(text) <= characters_max:
        return text, ""
    return text[:characters_max], f"...({len(text)} characters)"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
