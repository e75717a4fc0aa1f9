"""The README's promises: its example runs, its links lead somewhere, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
TOP_PAGES = [ROOT / name for name in ("README.md", "README.zh-CN.md", "CHANGELOG.md", "examples/README.md")]
PAGES = [*TOP_PAGES, *sorted((ROOT / "docs").rglob("*.md"))]


def code_of(readme: str) -> str:
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    return str(example)


def without_comments(text: str) -> list[str]:
    return [line.split("  #")[0].rstrip() for line in text.splitlines()]


def test_both_readmes_show_the_same_example_commands_and_pages() -> None:
    assert without_comments(code_of(CHINESE)) == without_comments(code_of(README))
    for pattern in (r"^skyrocketmq \w+", r"^make [a-z-]+", r"\]\((docs/[^)]+)\)"):
        assert set(re.findall(pattern, CHINESE, re.MULTILINE)) == set(re.findall(pattern, README, re.MULTILINE))


def test_the_first_example_prints_what_the_readme_says() -> None:
    example = code_of(README)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=15, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "TopicTest TagA b'hello'"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_every_make_target_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_make_targets_named_first_are_run_and_test() -> None:
    first_block = README.split("```")[1]
    assert [line.split()[1] for line in first_block.strip().splitlines()] == ["run", "test"]
