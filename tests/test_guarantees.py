"""The page of guarantees: every cell is written, and every test it names is there."""

from __future__ import annotations

import re

from tests.named_tests import TESTS, assert_they_exist

PAGE = (TESTS.parent / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^(\d+)\. `([^`:]+)::(\w+)`$", PAGE, re.MULTILINE)
CELLS = 5


def test_every_test_that_is_named_exists() -> None:
    assert [int(number) for number, _, _ in NAMED] == list(range(1, len(NAMED) + 1))
    assert_they_exist((path, name) for _, path, name in NAMED)


def test_every_cell_says_what_is_promised_and_what_shows_it() -> None:
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if re.match(r"\| `A?SYNC_FLUSH`", line)]
    assert len(rows) == 6, "two ways to flush, three kinds of slaves"
    for row in rows:
        cells = [cell.strip() for cell in row[2:]]
        assert len(cells) == CELLS
        for cell in cells:
            assert cell == "lost" or re.search(r"\[\d+\]", cell), cell
    numbers = {int(number) for number in re.findall(r"\[(\d+)\]", PAGE)}
    assert numbers == {int(number) for number, _, _ in NAMED}
