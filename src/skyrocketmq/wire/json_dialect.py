"""Reads the JSON that the family's peers and files contain, which is more than the standard allows.

Java's side uses fastjson. Beyond the standard it writes, and this module reads:

    {0:"a"}                                  integers as keys, without quotation marks
    {{"topic":"T","queueId":0}:5}            objects as keys
    {"$ref":"$.table.a[0]"}                  a second mention of the same object        (see `json_references`)

and it accepts, as fastjson does: unquoted and single-quoted keys and texts, comments, superfluous commas, numbers with
a type letter, the escapes \\v, \\0 to \\7 and \\xHH.

Objects become dicts whose keys are texts (`{0:1}` and `{"0":1}` are the same) or, for objects as keys, `ObjectKey`s;
all else becomes what `json` would give. Standard JSON is read far faster by `msgspec`, so callers try that first and
come here with what it refuses. Whatever the bytes are, the outcome is a value or a `ProtocolError`: depth, number of
values and length of numbers are bounded, and every character is looked at a bounded number of times.

The parser is a plain descent with one short cut: a member or an item that is a simple text, integer or word is taken
with a single regular expression, since nearly all of them are.
"""

from __future__ import annotations

import re
from typing import NoReturn

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.json_references import DEPTH_MAX, VALUES_MAX, ObjectKey, Reference, resolve_references
from skyrocketmq.wire.json_writer import pretty_parts, write, write_pretty

__all__ = ["DEPTH_MAX", "VALUES_MAX", "ObjectKey", "parse", "pretty_parts", "write", "write_pretty"]

_NUMBER_CHARACTERS_MAX = 400  # longer than any double in full; reading a long integer takes quadratic time
_INTEGER_CHARACTERS_MAX = 40  # twice a 64-bit number


def parse(data: bytes, *, values_max: int = VALUES_MAX) -> object:
    """The value that the text holds; `ProtocolError` if it is not in the dialect, too deep or too large."""
    parser = _Parser(data.decode("utf-8", "replace"), values_max)  # what is not UTF-8 becomes U+FFFD, as in Java
    try:
        value = parser.document()
        return resolve_references(value) if parser.has_references else value
    except RecursionError:
        raise ProtocolError("a JSON text was read with too little stack left") from None


# Possessive repetitions (*+): nothing here is ever worth a second try, so no input can make the expressions go back.
_B = r"[ \t\n\r\f\b\v\ufeff]*+"
_NAME = r"[^\s:,{}\[\]\"'/\\]++"
_SIMPLE = r'(?:"([^"\\]*+)"|(-?[0-9]{1,18})(?=[\s,}\]])|(true|false|null)(?=[\s,}\]]))'
_skip_blanks = re.compile(_B).match
_simple_member = re.compile(rf'{_B}(?:"([^"\\]*+)"|({_NAME})){_B}:{_B}{_SIMPLE}{_B}(?:,|(?=}}))').match
_simple_item = re.compile(rf"{_B}{_SIMPLE}{_B}(?:,|(?=\]))").match
_number = re.compile(r"[-+]?(?:[0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][-+]?[0-9]++)?").match
_name = re.compile(_NAME).match
_word = re.compile(r"[A-Za-z]++").match
_escape = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.)|$)", re.DOTALL)

_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}
_ESCAPES = dict(zip("\"'\\/bfFnrtv01234567", "\"'\\/\b\f\f\n\r\t\v\0\1\2\3\4\5\6\7", strict=True))


class _Parser:
    """A descent over the text; `at` is the next character to read."""

    def __init__(self, text: str, values_max: int) -> None:
        self.text = text
        self.values_max = values_max
        self.at = 0
        self.value_count = 0
        self.has_references = False

    def document(self) -> object:
        value = self.value(0)
        if self.peek():
            self.fail("more text after the end of the value")
        return value

    def peek(self) -> str:
        """The next character that is neither blank nor comment, not yet consumed; empty at the end."""
        text = self.text
        while True:
            self.at = at = _skip_blanks(text, self.at).end()  # type: ignore[union-attr]  # it matches anything
            if text[at : at + 1] != "/":
                return text[at : at + 1]
            self.skip_comment()

    def skip_comment(self) -> None:
        opening = self.text[self.at : self.at + 2]
        closing = {"//": "\n", "/*": "*/"}.get(opening) or self.fail("a slash that starts no comment")
        end = self.text.find(closing, self.at + 2)
        if end >= 0:
            self.at = end + len(closing)
        elif opening == "//":
            self.at = len(self.text)
        else:
            self.fail("a comment without an end")

    def count_value(self) -> None:
        self.value_count += 1
        if self.value_count > self.values_max:
            self.fail(f"more than {self.values_max} values")

    def value(self, depth: int) -> object:
        self.count_value()
        if depth > DEPTH_MAX:
            self.fail(f"more than {DEPTH_MAX} levels")
        first = self.peek()
        if first == "{":
            return self.read_object(depth)
        if first == "[":
            return self.read_array(depth)
        if first in ('"', "'"):
            return self.quoted(first)
        word = _word(self.text, self.at)
        if word is None:
            return self.number()
        if word[0] not in _WORDS:
            self.fail("a word that is no value")
        self.at = word.end()
        return _WORDS[word[0]]

    def read_array(self, depth: int) -> list[object]:
        items: list[object] = []
        self.at += 1
        while True:
            while found := _simple_item(self.text, self.at):
                text, integer, word = found.groups()
                items.append(text if text is not None else int(integer) if integer else _WORDS[word])
                self.at = found.end()
                self.count_value()
            if self.skip_commas() == "]":
                break
            items.append(self.value(depth + 1))  # fastjson does not insist on a comma here, as it does between members
        self.at += 1
        return items

    def read_object(self, depth: int) -> dict[object, object] | Reference:
        members: dict[object, object] = {}
        self.at += 1
        while True:
            while found := _simple_member(self.text, self.at):
                quoted, name, text, integer, word = found.groups()
                value = text if text is not None else int(integer) if integer else _WORDS[word]
                members[name if quoted is None else quoted] = value
                self.at = found.end()
                self.count_value()
            if self.skip_commas() == "}":
                break
            key = self.key(depth + 1)
            if self.peek() != ":":
                self.fail("no colon after a key")
            self.at += 1
            members[key] = self.value(depth + 1)
            if self.peek() not in (",", "}"):
                self.fail("neither a comma nor the end of the object")
        self.at += 1
        path = members.get("$ref")
        if isinstance(path, str) and len(members) == 1:
            self.has_references = True
            return Reference(path)
        return members

    def skip_commas(self) -> str:
        while (first := self.peek()) == ",":
            self.at += 1
        return first

    def key(self, depth: int) -> object:
        first = self.peek()
        if first in ('"', "'"):
            return self.quoted(first)
        if first == "{":
            if depth > DEPTH_MAX:
                self.fail(f"more than {DEPTH_MAX} levels")
            value = self.read_object(depth)
            return value if isinstance(value, Reference) else ObjectKey(value)
        name = _name(self.text, self.at) or self.fail("no key")
        self.at = name.end()
        return name[0]

    def quoted(self, mark: str) -> str:
        text = self.text
        start = self.at + 1
        end = text.find(mark, start)
        while end >= 0 and text[end - 1] == "\\" and _is_escaped(text, start, end):
            end = text.find(mark, end + 1)
        if end < 0:
            self.fail("a text without an end")
        self.at = end + 1
        content = text[start:end]
        return self.unescape(content) if "\\" in content else content

    def unescape(self, content: str) -> str:
        def replacement(found: re.Match[str]) -> str:
            digits = found[1] or found[2]
            if digits:
                return chr(int(digits, 16))
            return _ESCAPES.get(found[3]) or self.fail("an unknown escape")

        result = _escape.sub(replacement, content)
        if result.isascii():
            return result
        # Escapes may have written surrogates: pairs become one character, halves of a pair U+FFFD.
        return result.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def number(self) -> int | float:
        found = _number(self.text, self.at) or self.fail("no value")
        digits = found[0]
        self.at = found.end()
        if self.text[self.at : self.at + 1] in ("L", "S", "B", "F", "D"):  # Java's type letters
            self.at += 1
        is_integer = found[1] is None and found[2] is None and "." not in digits[:2]
        if len(digits) > (_INTEGER_CHARACTERS_MAX if is_integer else _NUMBER_CHARACTERS_MAX):
            self.fail(f"a number of {len(digits)} characters")
        return int(digits) if is_integer else float(digits)

    def fail(self, what: str) -> NoReturn:
        near = self.text[self.at : self.at + 20]
        raise ProtocolError(f"not JSON at character {self.at}: {what}, near {near!r}")


def _is_escaped(text: str, start: int, end: int) -> bool:
    """Whether an odd number of backslashes stands before `end`."""
    at = end
    while at > start and text[at - 1] == "\\":
        at -= 1
    return (end - at) % 2 == 1
