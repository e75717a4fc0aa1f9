"""What tasks of an audit hand over: sums first, single rows only where sums differ.

Each part of the log has a number. Everything that leads into it, from the log itself, from a queue or from the index,
is counted and mixed into one 64-bit digest, whatever the order. Two sides with the same count and digest hold the same
cells or entries; where they do not, a second pass has the rows of these parts alone and compares them one by one.

Digests are those of our own mixing: both sides are made here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skyrocketmq.spark.jobs.audit_reading import AuditPart, Cells, Entries, Found, Read, Rules, Seen, read_part
from skyrocketmq.spark.store_planning import LogPart

__all__ = ["DETAIL_SCHEMA", "SUMMARY_SCHEMA", "Groups", "detail_rows", "digests", "summary_rows"]

Groups: TypeAlias = Sequence[tuple[AuditPart, ...]]
"""The parts that each task reads."""

FOUND_MAX: Final = 1_000  # of one task; what is more is counted

SUMMARY_SCHEMA: Final = (
    "kind string, side string, part int, place string, topic string, queue_id int, first long, last long, "
    "log_offset long, what string, is_damage boolean, amount long, size long, digest long"
)
DETAIL_SCHEMA: Final = (
    "kind string, side string, place string, topic string, queue_id int, queue_offset long, log_offset long, size long,"
    " tags_code long, key_hash long"
)
_SUMMARY_NAMES: Final = tuple(one.split()[0] for one in SUMMARY_SCHEMA.split(","))
_DETAIL_NAMES: Final = tuple(one.split()[0] for one in DETAIL_SCHEMA.split(","))

_MIX_A: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B: Final = np.uint64(0x94D049BB133111EB)
_EXTENDED_BELOW: Final = -(2**31)  # such a tags code is an address in the queue's extension, and says nothing of tags


def digests(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A digest of each row of numbers."""
    mixed = np.full(len(values), 0x9E3779B97F4A7C15, np.uint64)
    for column in range(values.shape[1]):
        mixed = (mixed ^ np.ascontiguousarray(values[:, column]).view(np.uint64)) * _MIX_A
        mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX_B
    mixed ^= mixed >> np.uint64(29)
    return mixed


def summary_rows(
    numbers: Iterable[int], groups: Groups, starts: Sequence[int], rules: Rules
) -> Iterator[tuple[Any, ...]]:
    """The first pass, for the groups of parts whose numbers come in: sums, what was read, what is wrong by itself."""
    for part in _parts(numbers, groups):
        sums: dict[tuple[str, int], tuple[int, int]] = {}
        rows: list[dict[str, Any]] = []
        found: list[dict[str, Any]] = []
        for item in read_part(part, rules):
            if isinstance(item, Cells | Entries):
                _add(sums, item, starts)
            elif not isinstance(item, Found):
                rows.append(_row(item))
            elif len(found) < FOUND_MAX:
                found.append(_row(item))
            else:
                found[-1]["amount"] += item.count
        rows += found
        side = _side_of(part)
        rows += [
            {"kind": kind, "side": side, "part": stripe, "amount": amount, "digest": digest}
            for (kind, stripe), (amount, digest) in sums.items()
        ]
        for row in rows:
            yield tuple(map(row.get, _SUMMARY_NAMES))


def _add(sums: dict[tuple[str, int], tuple[int, int]], item: Cells | Entries, starts: Sequence[int]) -> None:
    kind, values = _numbered(item)
    stripes = np.searchsorted(np.asarray(starts), _log_offsets(item), side="right") - 1
    mixed = digests(values)
    for stripe in np.unique(stripes).tolist():
        of_stripe = mixed[stripes == stripe]
        amount, digest = sums.get((kind, stripe), (0, 0))
        together = int(np.bitwise_xor.reduce(of_stripe).view(np.int64))
        sums[kind, stripe] = (amount + len(of_stripe), digest ^ together)


def _numbered(item: Cells | Entries) -> tuple[str, NDArray[np.int64]]:
    if isinstance(item, Entries):
        return "entries", item.values
    name = hashlib.blake2b(f"{item.topic} {item.queue_id}".encode(), digest_size=8).digest()
    place = np.full((len(item.values), 1), int.from_bytes(name, "big", signed=True), np.int64)
    return "cells", np.concatenate([place, item.values], axis=1)


def _log_offsets(item: Cells | Entries) -> NDArray[np.int64]:
    return item.values[:, 1]


def _side_of(part: AuditPart) -> str:
    return "log" if isinstance(part, LogPart) else "other"


def _row(item: Found | Read | Seen) -> dict[str, Any]:
    if isinstance(item, Found):
        return {
            "kind": "found",
            "side": item.part,
            "place": item.place,
            "topic": item.topic,
            "queue_id": item.queue_id,
            "first": item.offset,
            "last": item.end,
            "log_offset": item.log_offset,
            "what": item.what,
            "is_damage": item.is_damage,
            "amount": item.count,
        }
    if isinstance(item, Read):
        return {
            "kind": "read",
            "side": item.part,
            "place": item.place,
            "topic": item.topic,
            "amount": item.rows,
            "size": item.size,
        }
    return {
        "kind": "seen",
        "side": item.part,
        "topic": item.topic,
        "queue_id": item.queue_id,
        "first": item.first,
        "last": item.last,
        "log_offset": item.log_offset,
    }


def detail_rows(
    numbers: Iterable[int],
    groups: Groups,
    starts: Sequence[int],
    wanted: frozenset[tuple[str, int]],
    rules: Rules,
) -> Iterator[tuple[Any, ...]]:
    """The second pass: every cell and entry that leads into one of the wanted (kind, part of the log)."""
    stripes_of = {
        kind: np.array(sorted(stripe for one, stripe in wanted if one == kind)) for kind in ("cells", "entries")
    }
    for part in _parts(numbers, groups):
        for item in read_part(part, rules):
            if not isinstance(item, Cells | Entries):
                continue
            kind = "cells" if isinstance(item, Cells) else "entries"
            stripes = np.searchsorted(np.asarray(starts), _log_offsets(item), side="right") - 1
            values = item.values[np.isin(stripes, stripes_of[kind])]
            yield from _details(item, values, kind, _side_of(part))


def _details(item: Cells | Entries, values: NDArray[np.int64], kind: str, side: str) -> Iterator[tuple[Any, ...]]:
    fixed: dict[str, Any] = {"kind": kind, "side": side}
    if isinstance(item, Entries):
        fixed["place"] = item.place
        for key_hash, log_offset in values.tolist():
            row = {**fixed, "key_hash": key_hash, "log_offset": log_offset}
            yield tuple(map(row.get, _DETAIL_NAMES))
        return
    fixed |= {"topic": item.topic, "queue_id": item.queue_id}
    for queue_offset, log_offset, size, tags_code in values.tolist():
        row = {**fixed, "queue_offset": queue_offset, "log_offset": log_offset, "size": size}
        if tags_code >= _EXTENDED_BELOW:
            row["tags_code"] = tags_code
        yield tuple(map(row.get, _DETAIL_NAMES))


def _parts(numbers: Iterable[int], groups: Groups) -> Iterator[AuditPart]:
    for number in numbers:
        yield from groups[number]
