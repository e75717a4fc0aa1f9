"""What runs for every message, compiled to C where that was possible when the package was installed.

Read `layout` first: where everything stands in records, cells, entries and frames. Then, each in two forms:

    binary_headers  headers of frames as JSON
    cells           what a pull takes of a queue
    conditions      what an SQL92 filter asks of records
    hashes          Java's hash of tags and keys
    index_entries   keys into an index file
    records         records of a pull's answer, for a consumer
    sends           requests that send a message, and their answers, for a producer

`x.py` is the plain form, and the specification: short, and any Python runs it. `_x.py` with `_x.pxd` says the same in
typed loops, which Cython compiles. Both offer the names in `__all__` of `x.py`. The rest of the program imports those
names from here, and gets the compiled ones if they are there, current, and not forbidden by `SKYROCKETMQ_PLAIN=1`:
`form` decides, `is_compiled` and `why_plain` tell.

Functions and small classes over bytes and numbers. No file, clock, socket or callback a message, and nothing that a
client could fill.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from skyrocketmq.hot import binary_headers, cells, conditions, hashes, index_entries, records, sends
from skyrocketmq.hot.binary_headers import as_json
from skyrocketmq.hot.cells import CellLimits, CellScan, TagCodes
from skyrocketmq.hot.conditions import Asked, Compared, IsIn, IsMissing, Junction, Negation, PropertyReader
from skyrocketmq.hot.form import NothingCompiled, Unusable, load_compiled
from skyrocketmq.hot.hashes import key_hash, text_hash
from skyrocketmq.hot.index_entries import pack_key, put_keys, take_back_keys
from skyrocketmq.hot.records import read_pulled, split_records
from skyrocketmq.hot.sends import encode_send, read_send_answers

__all__ = [
    "Asked",
    "CellLimits",
    "CellScan",
    "Compared",
    "IsIn",
    "IsMissing",
    "Junction",
    "Negation",
    "PropertyReader",
    "TagCodes",
    "as_json",
    "description",
    "encode_send",
    "is_compiled",
    "key_hash",
    "pack_key",
    "put_keys",
    "read_pulled",
    "read_send_answers",
    "split_records",
    "take_back_keys",
    "text_hash",
    "why_plain",
]

logger = logging.getLogger(__name__)

PLAIN_MODULES: Final = {
    "binary_headers": binary_headers,
    "cells": cells,
    "conditions": conditions,
    "hashes": hashes,
    "index_entries": index_entries,
    "records": records,
    "sends": sends,
}

is_compiled: bool
why_plain: str  # empty if compiled modules run
try:
    for _name, _module in load_compiled(Path(__file__).parent).items():
        for _each in PLAIN_MODULES[_name].__all__:
            globals()[_each] = getattr(_module, _each)
    is_compiled, why_plain = True, ""
except Unusable as _error:
    is_compiled, why_plain = False, str(_error)
    if not isinstance(_error, NothingCompiled):
        logger.warning("compiled modules are not used", extra={"reason": why_plain})


def description() -> str:
    """Which form runs, for people."""
    return "compiled" if is_compiled else f"plain Python: {why_plain}"
