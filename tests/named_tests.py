"""Tests that a page names as `file::name`, with the file below `tests/`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).parent


def assert_they_exist(named: Iterable[tuple[str, str]]) -> None:
    for path, name in named:
        source = (TESTS / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(async )?def {name}\(", source, re.MULTILINE), f"{path}::{name}"
