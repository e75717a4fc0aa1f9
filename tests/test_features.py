"""The list of features names a test, or says that the feature is to come; the tests it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", (TESTS.parent / "docs" / "features.md").read_text(), re.MULTILINE)


def test_the_list_has_all_rows() -> None:
    numbers = [int(number) for number, _, _ in ROWS]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 42


@pytest.mark.parametrize(("number", "feature", "shown_by"), ROWS, ids=[row[0] for row in ROWS])
def test_a_feature_is_shown_by_tests_that_exist_or_is_to_come(number: str, feature: str, shown_by: str) -> None:
    named = re.findall(r"`([^`]+)`", shown_by)
    assert named or "*to come*" in shown_by, f"feature {number} ({feature}) names no test"
    assert [name for name in named if not (TESTS / name).is_file()] == []
