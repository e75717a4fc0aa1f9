"""What is sent to whom: pure rules."""

from __future__ import annotations

import pytest

from skyrocketmq.ha.rules import SlaveRefused, check_report, first_offset, next_pieces

LOG = {"min_offset": 2000, "max_offset": 5500, "file_bytes": 1000}


@pytest.mark.parametrize(("reported", "expected"), [(0, 2000), (2000, 2000), (3333, 3333), (5500, 5500)])
def test_a_slave_gets_the_log_from_where_its_own_ends_and_an_empty_one_gets_all(reported: int, expected: int) -> None:
    assert first_offset(reported, **LOG, newest_file_only=False) == expected


def test_an_empty_slave_gets_the_newest_file_alone_where_that_is_wanted() -> None:
    assert first_offset(0, **LOG, newest_file_only=True) == 5000
    assert first_offset(4000, **LOG, newest_file_only=True) == 4000


@pytest.mark.parametrize(("reported", "text"), [(5501, "another log"), (1999, "kept nothing before 2000")])
def test_a_slave_of_another_log_is_refused_and_told_what_to_do(reported: int, text: str) -> None:
    with pytest.raises(SlaveRefused, match=text) as refused:
        first_offset(reported, **LOG, newest_file_only=False)
    assert "empty" in str(refused.value)


def test_a_slave_cannot_have_what_its_master_never_had() -> None:
    check_report(5500, max_offset=5500)
    with pytest.raises(SlaveRefused):
        check_report(5501, max_offset=5500)


@pytest.mark.parametrize("reported", [0, 2999, 3000])
def test_a_slave_may_have_everything_that_it_was_sent(reported: int) -> None:
    check_report(reported, max_offset=5500, sent=3000)


@pytest.mark.parametrize(
    ("reported", "text"), [(3001, "was sent no more than 3000"), (5500, "was sent"), (5501, "another")]
)
def test_a_report_of_what_was_never_sent_is_refused_and_says_why(reported: int, text: str) -> None:
    """Rule 3: else a slave, or somebody who pretends to be one, could acknowledge messages that nobody has."""
    with pytest.raises(SlaveRefused, match=text):
        check_report(reported, max_offset=5500, sent=3000)


def test_pieces_are_short_and_lie_within_one_file() -> None:
    pieces = next_pieces(2100, 5500, file_bytes=1000, piece_bytes_max=400, bytes_max=2000)
    assert pieces == [(2100, 400), (2500, 400), (2900, 100), (3000, 400), (3400, 400), (3800, 200), (4000, 100)]
    assert next_pieces(5500, 5500, file_bytes=1000, piece_bytes_max=400, bytes_max=2000) == []
