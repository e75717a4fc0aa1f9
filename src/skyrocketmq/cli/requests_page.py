"""Writes the tables of docs/formats/requests.md: `python -m skyrocketmq.cli.requests_page docs/formats/requests.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from skyrocketmq.broker.requests import HANDLERS
from skyrocketmq.nameserver.handlers import NameServerHandlers
from skyrocketmq.net import Declaration, declared_by
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["page_with_tables"]

COLUMNS: Final = ("code", "name", "meaning", "header", "body", "answer's header", "answer's body", "needs")
SECTIONS: Final = {**HANDLERS, "Name server": (NameServerHandlers,)}


def page_with_tables(page: str) -> str:
    """The page, with the table under each heading of `SECTIONS` made anew."""
    for heading, classes in SECTIONS.items():
        section, title, rest = page.partition(f"\n## {heading}\n")
        before, table_start, rest = rest.partition("\n| code |")
        assert table_start, f"the page has no heading {heading}, or no table below it"
        after = rest.partition("\n\n")[2]
        page = f"{section}{title}{before}\n{_table(declared_by(*classes).values())}\n{after}"
    return page


def _table(requests: Iterable[Declaration]) -> str:
    rows = [_row(COLUMNS), "|---" * len(COLUMNS) + "|\n", *(_row(_cells(declared)) for declared in requests)]
    return "".join(rows)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _cells(declared: Declaration) -> tuple[str, ...]:
    carried = (declared.header, declared.body, declared.answer, declared.answer_body)
    return (str(int(declared.code)), declared.code.name, declared.meaning, *map(_cell, carried), str(declared.needs))


def _cell(carried: type | str) -> str:
    if isinstance(carried, str):
        return carried
    return "" if carried is NoFields else f"`{carried.__name__}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
