"""The Python code in the pages of the documentation.

A block that begins with an import begins a program; those behind it that do not, go on with it. A page may leave out
the imports of what the package itself offers.
"""

from __future__ import annotations

import re
from pathlib import Path

import skyrocketmq

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = ", ".join(name for name in skyrocketmq.__all__ if name != "__version__")


def python_blocks(page: Path) -> list[str]:
    """The blocks of a page that are marked as Python, as they stand."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def python_programs(page: Path) -> list[str]:
    """The programs of a page, complete; each line is where it is in the page, so that a failure tells its place."""
    text = page.read_text(encoding="utf-8")
    programs: list[str] = []
    for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        block, line = found[1], text[: found.start(1)].count("\n")
        begins = re.match(r"(import|from) ", block)
        if begins or not programs:
            programs.append("" if begins else f"from skyrocketmq import {NAMES}")
        programs[-1] += "\n" * (line - programs[-1].count("\n")) + block
    return programs
