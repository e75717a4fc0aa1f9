"""Every block of code in the README and the documents is executed, or at least read by what it is meant for.

| kind | what is checked |
|---|---|
| python | a page's programs run on a real cluster; `await` may stand outside of functions |
| console | each command exists, with each of its options |
| json, yaml | it is readable as such |
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import sys
from collections.abc import Iterator
from inspect import iscoroutine
from pathlib import Path
from types import CodeType

import pytest
import yaml
from typer.testing import CliRunner

from skyrocketmq.cli.main import app
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.docs_code import PAGES, ROOT, python_programs

NAME_SERVER = "localhost:9876"  # what the documents call it
RUN_ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "admin-api.md": "tests/admin/test_docs.py",
    "spark.md": "tests/spark/test_docs.py",
    "spark-store.md": "tests/spark/test_store_with_spark.py",
    "spark-jobs.md": "tests/spark/jobs/test_docs.py",
}
KINDS = ("python", "console", "json", "yaml", "")


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def pages_with(kind: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, kind)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    settings = {"enablePropertyFilter": "true", "traceTopicEnable": "true"}
    with LocalCluster(settings=settings) as running:
        yield running


@pytest.mark.parametrize("page", [page for page in pages_with("python") if page.name not in RUN_ELSEWHERE], ids=name_of)
def test_the_python_of_a_page_runs(
    page: Path, cluster: BlockingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules[__name__])
    asyncio.run(asyncio.wait_for(run_page(page, cluster.namesrv), 50))


def test_pages_that_are_run_elsewhere_are() -> None:
    for page, test in RUN_ELSEWHERE.items():
        assert page in (ROOT / test).read_text()


async def run_page(page: Path, namesrv: str) -> None:
    for program in python_programs(page):
        text = program.replace(NAME_SERVER, namesrv)
        code: CodeType = compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, {"__name__": "page"})
        if iscoroutine(running):
            await running


@pytest.mark.parametrize("page", pages_with("console"), ids=name_of)
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for block in blocks(page, "console"):
        for line in block.splitlines():
            check_command(line.split("|")[-1].split("#")[0].strip())


def check_command(line: str) -> None:
    words = shlex.split(line)
    if not words or words[0] != "skyrocketmq":
        return
    command: list[str] = []
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "400"})
    for word in words[1:]:
        if word.startswith("-"):
            break
        deeper = CliRunner().invoke(app, [*command, word, "--help"], env={"COLUMNS": "400"})
        if deeper.exit_code:
            break
        command.append(word)
        shown = deeper
        if not re.search(r"\b(COMMAND|JOB)\b", " ".join(deeper.output.splitlines()[:2])):
            break
    assert command, f"{line}: no such command"
    for option in (word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)):
        assert re.search(rf"(^|[\s,|│]){option}\b", shown.output, re.MULTILINE), f"{line}: no option {option}"


@pytest.mark.parametrize("page", pages_with("json"), ids=name_of)
def test_json_is_json(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)


@pytest.mark.parametrize("page", pages_with("yaml"), ids=name_of)
def test_yaml_is_yaml(page: Path) -> None:
    for block in blocks(page, "yaml"):
        assert yaml.safe_load(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_no_other_kinds_of_blocks(page: Path) -> None:
    opened = [line[3:] for line in page.read_text().splitlines() if line.startswith("```")][::2]
    assert set(opened) <= set(KINDS)


def test_the_texts_in_troubleshooting_are_those_of_the_program() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", source)  # texts that go over several lines
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    firsts = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    quoted = [text for first in firsts for text in re.findall(r"`([^`]+)`", first)]
    assert len(quoted) > 20
    assert [text for text in quoted if text not in joined] == []
