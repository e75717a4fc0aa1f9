"""How trace records are put together into messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.client.outgoing import pack_message
from skyrocketmq.client.trace_messages import KEYS_BYTES_MAX, TEXT_CHARACTERS_MAX, pack_traces
from skyrocketmq.wire.ids import UniqueIdGenerator
from skyrocketmq.wire.trace import Pub, SubBefore, decode_trace

IDS = UniqueIdGenerator(ip=bytes(4), process_id=1, constant=1)


def pub(number: int, *, keys: str | None = None, tags: str | None = None) -> Pub:
    return Pub(
        start_ms=0,
        group="g",
        topic="T",
        msg_id=f"{number:032X}",
        tags=tags,
        keys=keys,
        store_host="127.0.0.1:10911",
        body_bytes=1,
        cost_ms=1,
        is_success=True,
    )


def test_a_message_is_found_by_ids_and_keys_each_once() -> None:
    before = SubBefore(start_ms=0, group="g", request_id="R", msg_id=f"{1:032X}", keys="a b")
    [(message, count)] = pack_traces([pub(1, keys="a b"), before, pub(2, keys="b  c")], topic="Traces")
    assert count == 3
    assert message.topic == "Traces"
    assert message.keys == (f"{1:032X}", "a", "b", f"{2:032X}", "c")


def test_no_records_make_no_message() -> None:
    assert list(pack_traces([], topic="Traces")) == []


def test_a_full_message_is_followed_by_another() -> None:
    records = [pub(number, tags="x" * 1000) for number in range(300)]
    packed = list(pack_traces(records, topic="Traces"))
    assert all(len(message.body) <= TEXT_CHARACTERS_MAX for message, _ in packed)
    assert [record for message, _ in packed for record in decode_trace(message.body)] == records
    assert [count for _, count in packed] == [len(decode_trace(message.body)) for message, _ in packed]
    assert len(packed) == 3


def test_short_records_fill_a_message_by_their_keys() -> None:
    records = [SubBefore(start_ms=0, group="g", request_id="R", msg_id=f"{number:032X}") for number in range(2_000)]
    packed = list(pack_traces(records, topic="Traces"))
    assert len(packed) == 3
    for message, _ in packed:
        pack_message(message, ids=IDS, now_ms=0)  # its properties fit
        assert len(message.body) < TEXT_CHARACTERS_MAX


@given(
    records=st.lists(
        st.builds(pub, st.integers(0, 50), keys=st.none() | st.text("ä k", min_size=1, max_size=12_000)), max_size=12
    )
)
def test_whatever_the_keys_are_the_properties_fit_and_each_id_is_a_key(records: list[Pub]) -> None:
    packed = list(pack_traces(records, topic="Traces"))
    assert sum(count for _, count in packed) == len(records)
    for message, _ in packed:
        assert len(" ".join(message.keys).encode()) <= KEYS_BYTES_MAX
        pack_message(message, ids=IDS, now_ms=0)
        assert {record.msg_id for record in decode_trace(message.body)} <= set(message.keys)
