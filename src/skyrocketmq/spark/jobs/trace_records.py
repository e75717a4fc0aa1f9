"""Trace messages as rows: one for each record and message id. Tasks decode them with the one decoder there is.

Rule 1: a trace message that cannot be read is a row of kind `unreadable`, so that it is counted and nothing fails.
Rule 2: Apache's clients write one record for a batch, with all ids in it; here each id has its row.
Rule 3: clients send traces at least once: whoever counts takes rows that are equal for one (`trace_records` does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.trace import EndTransaction, Pub, SubAfter, SubBefore, TraceRecord, decode_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["COLUMNS", "RECORD_SCHEMA", "UNREADABLE", "rows_of", "trace_records"]

COLUMNS: Final = ("body", "born_host")  # what is read of trace messages
UNREADABLE: Final = "unreadable"
ID_SEPARATOR: Final = ","

# `client` is the machine that wrote the record; `at_ms` the beginning, of a SubAfter the end; `code` is how a handler
# ended, `state` how a transaction did.
RECORD_SCHEMA: Final = (
    "kind string, msg_id string, client string, client_group string, at_ms long, cost_ms long, is_success boolean, "
    "request_id string, retry_times int, code int, topic string, tags string, keys string, store_host string, "
    "body_bytes long, message_type int, offset_msg_id string, state string, is_from_check boolean"
)
_COLUMN_NAMES: Final = tuple(one.split()[0] for one in RECORD_SCHEMA.split(","))


def trace_records(messages: DataFrame) -> DataFrame:
    """The records of trace messages, each once. `messages` has `COLUMNS`."""
    rows = messages.select(*COLUMNS).rdd.flatMap(_decoded)
    return messages.sparkSession.createDataFrame(rows, RECORD_SCHEMA, verifySchema=False).dropDuplicates()


def _decoded(message: tuple[bytes | None, str | None]) -> list[tuple[Any, ...]]:
    body, born_host = message
    return [tuple(map(row.get, _COLUMN_NAMES)) for row in rows_of(bytes(body or b""), born_host)]


def rows_of(body: bytes, born_host: str | None) -> list[dict[str, Any]]:
    """The rows of one trace message, which came from this address."""
    client = _machine(born_host)
    try:
        records = decode_trace(body)
    except ProtocolError:
        return [{"kind": UNREADABLE, "client": client}]
    return [
        {**_row(record), "kind": type(record).__name__, "msg_id": msg_id, "client": _client_of(record) or client}
        for record in records
        for msg_id in (record.msg_id or "").split(ID_SEPARATOR)
        if msg_id
    ]


def _row(record: TraceRecord) -> dict[str, Any]:
    if isinstance(record, Pub):
        return {
            "client_group": record.group,
            "at_ms": record.start_ms,
            "cost_ms": record.cost_ms,
            "is_success": record.is_success,
            "topic": record.topic,
            "tags": record.tags,
            "keys": record.keys,
            "store_host": record.store_host,
            "body_bytes": record.body_bytes,
            "message_type": int(record.message_type),
            "offset_msg_id": record.offset_msg_id,
        }
    if isinstance(record, SubBefore):
        return {
            "client_group": record.group,
            "at_ms": record.start_ms,
            "request_id": record.request_id,
            "retry_times": record.retry_times,
            "keys": record.keys,
        }
    if isinstance(record, SubAfter):
        return {
            "client_group": record.group,
            "at_ms": record.end_ms or None,
            "cost_ms": record.cost_ms,
            "is_success": record.is_success,
            "request_id": record.request_id,
            "code": int(record.context_code),
            "keys": record.keys,
        }
    assert isinstance(record, EndTransaction)
    return {
        "client_group": record.group,
        "at_ms": record.start_ms,
        "topic": record.topic,
        "tags": record.tags,
        "keys": record.keys,
        "store_host": record.store_host,
        "message_type": int(record.message_type),
        "state": record.state,
        "is_from_check": record.is_from_check,
    }


def _client_of(record: TraceRecord) -> str | None:
    return _machine(record.client_host) if isinstance(record, Pub) else None


def _machine(host: str | None) -> str | None:
    """An address without its port: a machine has one clock."""
    return host.rpartition(":")[0] or host if host else None
