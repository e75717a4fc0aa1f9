"""The table of limits in docs/connections.md is the one in the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from skyrocketmq.net import ClientOptions, ServerOptions

PAGE = Path(__file__).parents[2] / "docs" / "connections.md"


def rows() -> dict[str, list[str]]:
    """The cells of the table of limits, by option."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells
    return found


def test_every_option_stands_in_the_table_with_its_default() -> None:
    documented = {name: cells[1] for name, cells in rows().items()}
    server, client = ServerOptions(), ClientOptions()
    expected: dict[str, str] = {}
    for options in (client, server):
        for option in fields(options):
            expected[option.name] = str(getattr(options, option.name))
    expected["grace_s"] = f"{server.grace_s} (client {client.grace_s})"
    assert documented == expected


def test_the_keys_in_the_table_are_keys_of_the_configuration() -> None:
    named = {key.strip("` ") for cells in rows().values() for key in cells[4].split(",") if key}
    configuration = (PAGE.parent / "configuration.md").read_text()
    assert len(named) > 10
    assert [key for key in named if f"| `{key}` |" not in configuration] == []
