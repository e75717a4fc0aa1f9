"""The page of the client commands names every option, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from skyrocketmq.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "client-commands.md"
HELP = {"-h", "--help"}


def options_of(*path: str) -> set[str]:
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return {option for option in options if option.startswith("-")} - HELP


def section(title: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def options_in(text: str) -> set[str]:
    rows = [line for line in text.splitlines() if line.startswith("| `-")]
    return {option for row in rows for option in re.findall(r"`(-[\w-]+)`", row.split("|")[1])}


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_the_page_has_every_option_of_a_command(command: str) -> None:
    assert options_in(section(command)) == options_of(command)


def test_the_page_has_every_option_of_the_benchmarks() -> None:
    assert options_in(section("bench")) == options_of("bench", "producer") | options_of("bench", "consumer")
