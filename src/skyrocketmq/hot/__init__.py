"""What runs for every message, compiled to C where that was possible when the package was installed.

Read `layout` first: where everything stands in records, cells, entries and frames. Then, each in two forms:

    batches         messages of a batch request
    binary_headers  headers of frames as JSON
    cells           what a pull takes of a queue
    conditions      what an SQL92 filter asks of records
    hashes          Java's hash of tags and keys
    index_entries   keys into an index file
    record_batch    messages into records, cells and keys: what is stored for them
    log_records     records of the log, and what queues and index keep of them
    records         records of a pull's answer, for a consumer
    send_reader     ordinary sends out of received bytes into a batch, for a broker
    send_answers    the answers to them
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

from skyrocketmq.hot import (
    batches,
    binary_headers,
    cells,
    conditions,
    hashes,
    index_entries,
    log_records,
    record_batch,
    records,
    send_answers,
    send_reader,
    sends,
)
from skyrocketmq.hot.batches import decode_batch
from skyrocketmq.hot.binary_headers import as_json
from skyrocketmq.hot.cells import CellLimits, CellScan, TagCodes
from skyrocketmq.hot.conditions import Asked, Compared, IsIn, IsMissing, Junction, Negation, PropertyReader
from skyrocketmq.hot.form import NothingCompiled, Unusable, load_compiled
from skyrocketmq.hot.hashes import key_hash, text_hash
from skyrocketmq.hot.index_entries import pack_key, put_keys, take_back_keys
from skyrocketmq.hot.log_records import check_records, derive_entries, scan_record
from skyrocketmq.hot.record_batch import (
    FULL,
    KEYS_MAX,
    LONG_PROPERTIES,
    MANY_KEYS,
    NEVER,
    QueueTail,
    RecordBatch,
)
from skyrocketmq.hot.records import read_pulled, split_records
from skyrocketmq.hot.send_answers import SendAnswers
from skyrocketmq.hot.send_reader import SendReader, SendTopic
from skyrocketmq.hot.sends import encode_send, read_send_answers

__all__ = [
    "FULL",
    "KEYS_MAX",
    "LONG_PROPERTIES",
    "MANY_KEYS",
    "NEVER",
    "Asked",
    "CellLimits",
    "CellScan",
    "Compared",
    "IsIn",
    "IsMissing",
    "Junction",
    "Negation",
    "PropertyReader",
    "QueueTail",
    "RecordBatch",
    "SendAnswers",
    "SendReader",
    "SendTopic",
    "TagCodes",
    "as_json",
    "check_records",
    "decode_batch",
    "derive_entries",
    "description",
    "encode_send",
    "is_compiled",
    "key_hash",
    "pack_key",
    "put_keys",
    "read_pulled",
    "read_send_answers",
    "scan_record",
    "split_records",
    "take_back_keys",
    "text_hash",
    "why_plain",
]

logger = logging.getLogger(__name__)

PLAIN_MODULES: Final = {
    "batches": batches,
    "binary_headers": binary_headers,
    "cells": cells,
    "conditions": conditions,
    "hashes": hashes,
    "index_entries": index_entries,
    "record_batch": record_batch,
    "log_records": log_records,
    "records": records,
    "send_answers": send_answers,
    "send_reader": send_reader,
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
