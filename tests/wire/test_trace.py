"""Trace records: Apache's examples, and records of other releases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.trace import (
    ConsumeOutcome,
    EndTransaction,
    Pub,
    SubAfter,
    SubBefore,
    TraceMessageType,
    TraceRecord,
    decode_trace,
    encode_trace,
)

PUB = Pub(
    start_ms=1_700_000_000_000,
    region="DefaultRegion",
    group="PG",
    topic="T",
    msg_id="MID",
    keys="k1 k2",
    store_host="1.2.3.4:10911",
    body_bytes=5,
    cost_ms=3,
    offset_msg_id="OID",
    is_success=True,
)
BEFORE = SubBefore(start_ms=1_700_000_000_000, group="PG", request_id="RID", msg_id="MID", keys="k1 k2")
AFTER = SubAfter(
    request_id="RID",
    msg_id="MID",
    cost_ms=3,
    is_success=True,
    keys="k1 k2",
    context_code=ConsumeOutcome.SUCCESS,
    end_ms=1_700_000_000_000,
    group="PG",
)
END = EndTransaction(
    start_ms=1_700_000_000_000,
    group="PG",
    topic="T",
    msg_id="MID",
    keys="k1 k2",
    store_host="1.2.3.4:10911",
    message_type=TraceMessageType.NORMAL,
    transaction_id="TID",
    state="COMMIT_MESSAGE",
    is_from_check=False,
)


def wire(text: str) -> bytes:
    return text.replace("|", "\x01").replace("#", "\x02").encode()


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (PUB, "Pub|1700000000000|DefaultRegion|PG|T|MID|null|k1 k2|1.2.3.4:10911|5|3|0|OID|true#"),
        (BEFORE, "SubBefore|1700000000000|null|PG|RID|MID|0|k1 k2#"),
        (AFTER, "SubAfter|RID|MID|3|true|k1 k2|0|1700000000000|PG#"),
        (
            END,
            "EndTransaction|1700000000000|null|PG|T|MID|null|k1 k2|1.2.3.4:10911|0|TID|COMMIT_MESSAGE|false#",
        ),
    ],
)
def test_records_are_written_as_apache_writes_them(record: TraceRecord, text: str) -> None:
    assert encode_trace([record]) == wire(text)
    assert decode_trace(wire(text)) == [record]


def test_several_records_follow_one_another() -> None:
    records: list[TraceRecord] = [PUB, BEFORE, AFTER, END]
    assert decode_trace(encode_trace(records)) == records


def test_the_cloud_channel_gets_a_shorter_record() -> None:
    assert encode_trace([AFTER], is_cloud=True) == wire("SubAfter|RID|MID|3|true|k1 k2|0|")
    assert encode_trace([PUB], is_cloud=True) == encode_trace([PUB])
    assert decode_trace(wire("SubAfter|RID|MID|3|true|k1 k2|4|")) == [
        SubAfter(request_id="RID", msg_id="MID", cost_ms=3, is_success=True, keys="k1 k2", context_code=4)
    ]


def test_records_of_older_and_newer_releases_are_read() -> None:
    thirteen, newer = decode_trace(
        wire("Pub|1|R|PG|T|MID|null|k|h|5|3|0|true#Pub|1|R|PG|T|MID|null|k|h|5|3|0|OID|true|9.9.9.9|more#")
    )
    assert isinstance(thirteen, Pub)
    assert isinstance(newer, Pub)
    assert (thirteen.offset_msg_id, thirteen.is_success, thirteen.client_host) == (None, True, None)
    assert (newer.offset_msg_id, newer.is_success, newer.client_host) == ("OID", True, "9.9.9.9")
    assert decode_trace(wire("SubAfter|RID|MID|3|true|k#")) == [
        SubAfter(request_id="RID", msg_id="MID", cost_ms=3, is_success=True, keys="k")
    ]


def test_unknown_kinds_are_left_out() -> None:
    assert decode_trace(b"") == []
    assert decode_trace(wire("Recall|1|2##SubBefore|1|null|PG|RID|MID|0|k#noise")) == [
        SubBefore(start_ms=1, group="PG", request_id="RID", msg_id="MID", keys="k")
    ]


def test_a_number_that_is_none_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="start_ms of a SubBefore record is 'soon'"):
        decode_trace(wire("SubBefore|soon|null|PG|RID|MID|0|k#"))
    with pytest.raises(ProtocolError, match="cost_ms"):
        decode_trace(wire("SubAfter|RID|MID|" + "9" * 5000 + "|true|k#"))


@given(
    st.binary(max_size=100) | st.text(alphabet="Pub|SubAfter|SubBefore|EndTransaction|0-1#|#", max_size=80).map(wire)
)
def test_any_bytes_are_trace_data_or_one_error(data: bytes) -> None:
    for body in (data, b"Pub\x01" + data, b"SubAfter\x01" + data):
        try:
            decode_trace(body)
        except ProtocolError:
            pass
