"""References inside a JSON text: fastjson writes an object once and `{"$ref":"$.path"}` wherever it occurs again.

A path is `$` (the whole), `$.name.name`, `$.name[3]`, `..` (the parent of the object that holds the reference) or `@`
(that object itself). A reference to something that contains it would be a value without end: that is a `ProtocolError`,
and so is one to nothing, to a text or a number, or from inside an object that is a key: fastjson writes none of these.
Because references multiply (a list of references to a list of references ...), the size that the value has for a reader
who follows them all is computed, and bounded, while they are resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from skyrocketmq.errors import ProtocolError

__all__ = ["DEPTH_MAX", "VALUES_MAX", "ObjectKey", "Reference", "resolve_references"]

DEPTH_MAX = 64  # the deepest body of the protocol has six levels; Python's own stack ends at about a thousand calls
VALUES_MAX = 1_000_000  # a broker with a hundred thousand queues fits; reading as many takes some seconds

_step = re.compile(r"\.((?:[^.\[\]\\]|\\.)+)|\[(\d{1,9})\]", re.DOTALL).match
_PATH_CHARACTERS_MAX = 1_000
_CHARACTERS_PER_VALUE = 64  # long texts count as several values when sizes are added up


class ObjectKey(Mapping[object, object]):
    """An object that stands where a key belongs: a mapping that does not change, with a hash."""

    __slots__ = ("_members", "_text")

    def __init__(self, members: dict[object, object]) -> None:
        self._members = members
        # The whole content takes part in the hash: keys that differ in one value only must not collide.
        self._text = repr(sorted(members.items(), key=lambda member: repr(member[0])))

    def __getitem__(self, name: object) -> object:
        return self._members[name]

    def __iter__(self) -> Iterator[object]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._text == other._text

    def __repr__(self) -> str:
        return f"ObjectKey({self._text})"


class Reference:
    """A mention of another part of the same text."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


def resolve_references(root: object) -> object:
    """The same value with every `Reference` replaced by what it names; parts mentioned twice are shared, not copied."""
    return _Resolver(root).resolve(root, (), 0)[0]


class _Resolver:
    def __init__(self, root: object) -> None:
        self.root = root
        self.resolved: dict[int, tuple[object, int]] = {}  # by the identity of the container: its value and size
        self.keys: dict[int, ObjectKey] = {}  # the same for objects that references in keys name
        self.open: set[int] = set()  # containers whose parts are being resolved: whoever names one of them is in it

    def resolve(self, value: object, holders: tuple[object, ...], depth: int) -> tuple[object, int]:
        """A value and its size. `holders` are the containers around it, the innermost last."""
        if depth > DEPTH_MAX:
            raise ProtocolError(f"JSON references lead more than {DEPTH_MAX} levels deep")
        if isinstance(value, Reference):
            target, target_holders = self.find(value.path, holders)
            return self.resolve(target, target_holders, depth + 1)
        if not isinstance(value, (dict, list)):
            return value, 1 + len(value) // _CHARACTERS_PER_VALUE if isinstance(value, str) else 1
        known = self.resolved.get(id(value))
        if known is not None:
            return known
        if id(value) in self.open:
            raise ProtocolError("a JSON reference names an object that contains it")
        self.open.add(id(value))
        result = self.resolved[id(value)] = self.resolve_parts(value, (*holders, value), depth + 1)
        self.open.remove(id(value))
        return result

    def resolve_parts(
        self, value: dict[object, object] | list[object], holders: tuple[object, ...], depth: int
    ) -> tuple[object, int]:
        size = 1
        result: dict[object, object] | list[object]
        if isinstance(value, list):
            result = []
            for item in value:
                part, part_size = self.resolve(item, holders, depth)
                result.append(part)
                size += part_size
        else:
            result = {}
            for key, item in value.items():
                part, part_size = self.resolve(item, holders, depth)
                result[self.resolve_key(key)] = part
                size += part_size + 1
        if size > VALUES_MAX:
            raise ProtocolError(f"JSON references multiply to more than {VALUES_MAX} values")
        return result, size

    def resolve_key(self, key: object) -> object:
        """A key may be a reference to an object that was written elsewhere; inside a key there are none."""
        if isinstance(key, str):
            return key
        if isinstance(key, Reference):
            target, _ = self.find(key.path, ())
            if not isinstance(target, dict):
                raise ProtocolError("a JSON reference in a key names no object")
            key = self.keys.get(id(target)) or self.keys.setdefault(id(target), ObjectKey(target))
        if isinstance(key, ObjectKey) and _holds_reference(key):
            raise ProtocolError("a JSON reference stands inside a key")
        return key

    def find(self, path: str, holders: tuple[object, ...]) -> tuple[object, tuple[object, ...]]:
        """What a path names, and the containers around that."""
        if path in ("@", "..") and len(holders) >= (1 if path == "@" else 2):
            steps_up = 1 if path == "@" else 2
            return holders[-steps_up], holders[:-steps_up]
        value, holders = self.root, ()
        at = 1
        if path[:1] != "$" or len(path) > _PATH_CHARACTERS_MAX:
            raise ProtocolError(f"a JSON reference cannot be read: {path[:40]!r}")
        while at < len(path):
            step = _step(path, at)
            part = _part(value, step) if step is not None else None
            if step is None or part is None:
                raise ProtocolError(f"a JSON reference names nothing: {path[:40]!r}")
            holders = (*holders, value)
            value = part
            at = step.end()
        if not isinstance(value, (dict, list)):
            raise ProtocolError(f"a JSON reference names no object: {path[:40]!r}")
        return value, holders


def _holds_reference(value: object) -> bool:
    if isinstance(value, (dict, ObjectKey)):
        return any(_holds_reference(key) or _holds_reference(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_holds_reference, value))
    return isinstance(value, Reference)


def _part(value: object, step: re.Match[str]) -> object:
    if step[2] is not None and isinstance(value, list):
        index = int(step[2])
        return value[index] if index < len(value) else None
    if isinstance(value, dict):
        return value.get(re.sub(r"\\(.)", r"\1", step[1]) if step[1] is not None else step[2])
    return None
