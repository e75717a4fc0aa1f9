"""What `-p` prints, and the tables of keys in docs/configuration.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from skyrocketmq.config.fields import Key, Section, format_value, keys_of, value_of
from skyrocketmq.config.loading import Loaded
from skyrocketmq.config.secret_names import has_secret_name

__all__ = ["format_config", "key_tables"]

_HIDDEN = "***"


def format_config(loaded: Loaded[Any]) -> str:
    """All keys with their values, by section, and where each value comes from; the unused ones at the end with why."""
    keys = keys_of(type(loaded.config))
    used = [key for key in keys if not key.declared.unused]
    unused = [key for key in keys if key.declared.unused]
    blocks = [_block(key_title, rows, loaded) for key_title, rows in _by_section(used)]
    blocks.append(_block("unused here", unused, loaded))
    if loaded.unknown:
        lines = [f"  {name} = {_HIDDEN if has_secret_name(name) else text}" for name, text in loaded.unknown.items()]
        blocks.append("\n".join(["unknown keys of the file, without effect", *lines]))
    return "\n\n".join(blocks)


def key_tables(kinds: Iterable[type[Section]]) -> str:
    """Markdown tables of every key of the given classes, one a section; a section that two share comes once."""
    seen: set[type[Section]] = set()
    parts = []
    for kind in kinds:
        for section, keys in groupby(keys_of(kind), key=lambda key: key.section):
            if section not in seen:
                parts.append(_table(section.title, list(keys)))
                seen.add(section)
    return "\n".join(parts)


def default_text(key: Key) -> str:
    """The default of a key as people read it."""
    if key.declared.default_text:
        return key.declared.default_text
    value = value_of(key.section(), Key((), key.attribute, key.kind, key.optional, key.section, key.declared))
    return format_value(key, value) or ""


def _by_section(keys: Sequence[Key]) -> Iterator[tuple[str, list[Key]]]:
    for section, group in groupby(keys, key=lambda key: key.section):
        yield section.title, list(group)


def _block(title: str, keys: Sequence[Key], loaded: Loaded[Any]) -> str:
    width = max(len(key.name) for key in keys)
    return "\n".join([title, *(f"  {key.name:<{width}} = {_shown(key, loaded)}" for key in keys)])


def _shown(key: Key, loaded: Loaded[Any]) -> str:
    text = format_value(key, value_of(loaded.config, key)) or ""
    if text and key.declared.secret:
        text = _HIDDEN
    remarks = [str(loaded.source_of(key)), key.declared.unused]
    return f"{text}  ({'; '.join(filter(None, remarks))})"


def _table(title: str, keys: Sequence[Key]) -> str:
    lines = [
        f"### {title[0].upper()}{title[1:]}",
        "",
        "| key | default | unit | at run time | meaning |",
        "|" + "---|" * 5,
    ]
    for key in keys:
        names = " or ".join(f"`{name}`" for name in key.names)
        when = (
            "unused"
            if key.declared.unused
            else "file only"
            if key.is_reserved
            else "yes"
            if key.declared.changeable
            else ""
        )
        meaning = f"{key.declared.doc}; {key.declared.unused}" if key.declared.unused else key.declared.doc
        cells = [names, default_text(key), key.unit, when, meaning]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])
