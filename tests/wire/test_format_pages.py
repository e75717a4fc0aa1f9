"""The worked examples of docs/formats are read and computed again, so that they cannot grow old."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyrocketmq.model import properties as property_names
from skyrocketmq.model.hosts import pack_address
from skyrocketmq.model.properties import RESERVED
from skyrocketmq.wire import batches, records
from skyrocketmq.wire.batches import decode_batch, encode_batch
from skyrocketmq.wire.ids import UniqueIdGenerator, decode_unique_id, encode_offset_id
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.properties import decode_properties, encode_properties
from skyrocketmq.wire.records import HEADS, decode_record, encode_record
from skyrocketmq.wire.signing import is_signed_by, sign_request, signed_content

PAGES = Path(__file__).parents[2] / "docs" / "formats"


def rows(page: str, heading: str) -> list[dict[str, str]]:
    """The first table under a heading, a dict a row, without the marks of code."""
    text = (PAGES / page).read_text(encoding="utf-8").split(f"\n## {heading}\n" if heading else "\n\n", 1)[1]
    lines = re.search(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)
    assert lines is not None
    table = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines.group().splitlines()]
    return [dict(zip(table[0], row, strict=True)) for row in table[2:]]


def pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(", "))


def hex_of(table: list[dict[str, str]]) -> bytes:
    return bytes.fromhex("".join(row["bytes"] for row in table))


def test_the_record_of_the_page_is_what_the_code_writes() -> None:
    table = rows("message-record.md", "Worked example")
    value = {row["field"]: row["value"] for row in table}
    written = encode_record(
        topic=value["topic"].encode(),
        body=value["body"].encode(),
        properties=encode_properties(pairs(value["properties"])),
        queue_id=int(value["queue id"]),
        queue_offset=int(value["queue offset"]),
        log_offset=int(value["log offset"]),
        born_timestamp=int(value["born time"]),
        born_host=pack_address(value["born host"]),
        store_timestamp=int(value["store time"]),
        store_host=pack_address(value["store host"]),
        flag=int(value["flag"]),
        sys_flag=int(value["system flag"]),
        reconsume_times=int(value["reconsume times"]),
        prepared_transaction_offset=int(value["prepared transaction offset"]),
    )
    assert written == hex_of(table)
    assert len(written) == int(value["total size"])
    assert body_crc(value["body"].encode()) == int(value["body crc"])
    assert int(value["body length"]) == len(value["body"])
    assert int(value["topic length"]) == len(value["topic"])
    assert int(value["properties length"]) == len(encode_properties(pairs(value["properties"])))
    assert decode_record(written).properties == pairs(value["properties"])


def test_the_fields_of_the_record_page_are_those_of_the_example() -> None:
    fields = rows("message-record.md", "")
    example = rows("message-record.md", "Worked example")
    assert [row["field"] for row in fields] == [row["field"] for row in example]
    fixed = [int(row["bytes"].split(" ")[0]) for row in fields if row["bytes"]]
    assert sum(fixed) == records.RECORD_BYTES_MIN == HEADS[0].size + 3
    text = (PAGES / "message-record.md").read_text(encoding="utf-8")
    assert f"`{records.MESSAGE_MAGIC:x}`" in text
    assert f"`{records.BLANK_MAGIC:x}`" in text


def test_the_batch_of_the_page_is_what_the_code_writes() -> None:
    table = rows("batch.md", "Worked example")
    entries = []
    for number in ("1", "2"):
        value = {row["field"]: row["value"] for row in table if row["entry"] == number}
        entries.append((int(value["flag"]), value["body"].encode(), encode_properties(pairs(value["properties"]))))
        assert int(value["total"]) == len(hex_of([row for row in table if row["entry"] == number]))
    assert encode_batch(entries) == hex_of(table)
    assert decode_batch(hex_of(table)) == entries
    assert f"{batches.ENTRY_BYTES_MIN} bytes" in (PAGES / "batch.md").read_text(encoding="utf-8")


def test_the_properties_of_the_page_are_what_the_code_writes() -> None:
    table = rows("properties.md", "Worked example")
    expected = {row["name"]: row["value"] for row in table}
    assert encode_properties(expected) == hex_of(table)
    assert decode_properties(hex_of(table)) == expected


def test_the_page_names_exactly_the_properties_the_code_knows() -> None:
    table = rows("properties.md", "Names with a meaning")
    assert {row["name"] for row in table if row["reserved"] == "yes"} == RESERVED
    not_names = {"KEY_SEPARATOR", "REPLY_MESSAGE_TYPE", "RESERVED"}
    known = {value for name, value in vars(property_names).items() if name.isupper() and name not in not_names}
    assert {row["name"] for row in table} == known | RESERVED


def test_the_ids_of_the_page_are_what_the_code_writes() -> None:
    table = rows("ids.md", "Worked example")
    text = {kind: "".join(row["digits"] for row in table if row["id"] == kind) for kind in ("offset", "unique")}
    value = {(row["id"], row["part"]): row["value"] for row in table}
    broker = pack_address(f"{value['offset', 'IP']}:{value['offset', 'port']}")
    assert encode_offset_id(broker, int(value["offset", "log offset"])) == text["offset"]

    producer = pack_address(f"{value['unique', 'IP']}:0")[:4]
    generator = UniqueIdGenerator(
        ip=producer, process_id=int(value["unique", "process"]), constant=int(value["unique", "constant"])
    )
    november_ms = 1_698_796_800_000
    now_ms = november_ms + int(value["unique", "ms of the month"])
    made = [generator.next_id(now_ms) for _ in range(int(value["unique", "counter"]) + 1)]
    assert made[-1] == text["unique"]
    assert decode_unique_id(text["unique"]).counter == int(value["unique", "counter"])


def test_the_signature_of_the_page_is_what_the_code_makes() -> None:
    page = (PAGES / "signing.md").read_text(encoding="utf-8")
    value = {row["field"]: row["value"] for row in rows("signing.md", "Worked example")}
    secret = re.search(r"the secret `(\w+)`", page)
    assert secret is not None
    body = value["body"].encode()
    fields = sign_request({"topic": value["topic"]}, body, access_key=value["AccessKey"], secret_key=secret.group(1))
    assert fields["Signature"] == value["Signature"]
    assert signed_content(fields, body) == value["content"].encode()
    assert is_signed_by(fields, body, secret_key=secret.group(1))


@pytest.mark.parametrize("page", ["message-record.md", "batch.md", "properties.md", "ids.md", "signing.md"])
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (PAGES / page).read_text(encoding="utf-8")):
        assert (PAGES / target).exists(), target
