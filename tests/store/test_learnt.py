"""Tables of learnt things stay within their bytes, whatever is sent."""

from __future__ import annotations

from skyrocketmq.store.learnt import ENTRY_BYTES, TEXT_BYTES_MAX, Learnt


def test_what_was_learnt_is_found() -> None:
    table: Learnt[bytes, int] = Learnt()
    assert table.learn(b"one", 1, text_bytes=3)
    assert table.get(b"one") == 1


def test_long_texts_are_not_kept() -> None:
    table: Learnt[bytes, int] = Learnt()
    assert not table.learn(b"long", 1, text_bytes=TEXT_BYTES_MAX + 1)
    assert table == {}


def test_a_full_table_begins_anew_with_what_came_last() -> None:
    table: Learnt[int, int] = Learnt(10 * (ENTRY_BYTES + 100))
    for number in range(1000):
        assert table.learn(number, number, text_bytes=100)
        assert len(table) <= 10
        assert table[number] == number
