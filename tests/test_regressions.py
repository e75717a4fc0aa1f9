"""The page of regressions: every number has its row, every row its test or the reason why it has none."""

from __future__ import annotations

import re

from tests.named_tests import TESTS, assert_they_exist

PAGE = (TESTS.parent / "docs" / "regressions.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
APACHE = {
    *(285, 1155, 1400, 1434, 1456, 1589, 1600, 3015, 3210, 3503),
    *(3613, 4463, 5574, 6919, 7355, 7729, 7923, 8007, 10108),
}
ALIBABA = {28, 331, 350, 459}


def test_every_test_that_is_named_exists() -> None:
    assert len(NAMED) > 40
    assert_they_exist(NAMED)


def test_every_report_has_its_row_with_a_test_or_the_reason_why_there_is_none() -> None:
    rows = {number: row for row in ROWS for number in re.findall(r"\w+/rocketmq#\d+", row[0])}
    assert rows.keys() == {f"apache/rocketmq#{n}" for n in APACHE} | {f"alibaba/rocketmq#{n}" for n in ALIBABA}
    for number, row in rows.items():
        assert len(row) == 4, row
        assert "::" in row[3] or row[3].startswith("none: "), number


def test_every_defect_of_our_own_has_a_test() -> None:
    own = [row for row in ROWS if len(row) == 2 and row[0] != "what went wrong"]
    assert len(own) > 20
    for row in own:
        assert "::" in row[1], row


def test_every_test_with_a_number_in_its_name_is_on_the_page() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (TESTS / "regressions").glob("test_*.py")]
    shown = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}
    assert shown <= {name for _, name in NAMED}
