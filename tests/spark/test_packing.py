"""Rows that are packed together are the messages that the client would have made of them one by one."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

import pyarrow as pa

from skyrocketmq import Message
from skyrocketmq.client.outgoing import pack_message
from skyrocketmq.model.properties import decode_properties
from skyrocketmq.spark.packing import pack_rows, split_by_size
from skyrocketmq.wire.batches import decode_batch
from skyrocketmq.wire.ids import UniqueIdGenerator

NOW_MS = 1_700_000_000_000
KINDS = {"keys": pa.list_(pa.string()), "tags": pa.string()}


def table(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, KINDS.get(name)) for name, values in columns.items()})


def new_ids() -> UniqueIdGenerator:
    return UniqueIdGenerator(ip=bytes([127, 0, 0, 1]), process_id=7, constant=9)


@pytest.mark.parametrize(
    "columns",
    [
        {"body": [b"one", b"\x00" * 3000, "ünï".encode()]},
        {"body": ["texts", "are", "encödéd"]},
        {"body": [b"a", b"b", b"c"], "tags": ["TagA", None, ""]},
        {"body": [b"a", b"b", b"c"], "tags": ["ä", "with blanks", "x"], "keys": [["k1", "k2"], None, []]},
    ],
)
def test_packed_rows_are_what_the_client_makes_of_them(columns: dict[str, list[Any]]) -> None:
    packed = pack_rows(table(**columns), new_ids(), now_ms=NOW_MS)
    assert packed is not None

    entries = decode_batch(bytes(packed.data[: packed.places[-1]]))
    assert packed.places.tolist()[0] == 0
    assert len(packed) == len(entries) == 3
    ids = new_ids()
    for row, (flag, body, properties) in enumerate(entries):
        given = {name: values[row] for name, values in columns.items()}
        text = given["body"]
        expected = pack_message(
            Message(
                "T",
                text.encode() if isinstance(text, str) else text,
                tags=given.get("tags"),
                keys=given.get("keys") or (),
            ),
            ids=ids,
            now_ms=NOW_MS,
        )
        assert (flag, body) == (0, expected.body)
        assert decode_properties(properties) == decode_properties(expected.properties.encode())


@pytest.mark.parametrize(
    "columns",
    [
        {"body": [b"a", None]},
        {"body": [b"a", b""]},
        {"body": [b"a", bytes(5 << 20)]},
        {"body": [b"a", b"b"], "tags": ["x", " "]},
        {"body": [b"a", b"b"], "tags": ["x", "\u00a0"]},
        {"body": [b"a", b"b"], "tags": ["x", "two\x01parts"]},
        {"body": [b"a", b"b"], "tags": ["x", "y" * 40_000]},
        {"body": [b"a", b"b"], "keys": [["k"], ["with blank"]]},
        {"body": [b"a", b"b"], "keys": [["k"], [None]]},
        {"body": [b"a", b"b"], "keys": [["k"], ["k", ""]]},
    ],
)
def test_rows_that_may_not_be_messages_are_left_to_the_general_way(columns: dict[str, list[Any]]) -> None:
    assert pack_rows(table(**columns), new_ids(), now_ms=NOW_MS) is None


def test_rows_are_split_by_the_size_of_their_bodies() -> None:
    rows = table(body=[b"12345", None, b"1234", b"123456"], tags=["a", "b", "c", "d"])
    small, large = split_by_size(rows, 5)
    assert (small.column("tags").to_pylist(), large.column("tags").to_pylist()) == (["b", "c"], ["a", "d"])
    small, large = split_by_size(rows, 7)
    assert (small.num_rows, large.num_rows) == (4, 0)


def test_every_row_has_an_id_of_its_own() -> None:
    ids = new_ids()
    batches = [pack_rows(table(body=[b"x"] * 5000), ids, now_ms=NOW_MS) for _ in range(3)]
    found = [
        decode_properties(properties)["UNIQ_KEY"]
        for packed in batches
        if packed is not None
        for _, _, properties in decode_batch(bytes(packed.data[: packed.places[-1]]))
    ]
    assert len(set(found)) == len(found) == 15_000
    assert ids.next_id(NOW_MS) not in found
