"""A report's page: head, figures, sections with plots and tables. Markup in, markup out; texts are escaped here.

Colours follow the reader's setting, light or dark, and print in black; wide tables scroll by themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, NewType

from skyrocketmq.errors import IllegalArgument

__all__ = ["Figure", "Markup", "Section", "note", "render", "table", "write_report"]

Markup = NewType("Markup", str)
"""Text in which everything that came from outside is escaped."""

ROWS_MAX: Final = 500  # of a table; what is more is counted under it


@dataclass(frozen=True)
class Figure:
    """A number to be seen first. `is_bad` paints it."""

    label: str
    value: str
    detail: str = ""
    is_bad: bool = False


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Markup, ...]
    lead: str = ""


def note(text: str, *, is_bad: bool = False) -> Markup:
    """A sentence in a frame."""
    return Markup(f'<p class="note{" bad" if is_bad else ""}">{escape(text)}</p>')


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> Markup:
    """A table whose first columns, as many as `texts` says, hold texts and the others numbers. Nothing is a dash."""
    shown = list(rows)
    head = "".join(f"<th{_kind(number, texts)}>{escape(heading)}</th>" for number, heading in enumerate(headings))
    body = "".join(
        "<tr>" + "".join(f"<td{_kind(number, texts)}>{_cell(value)}</td>" for number, value in enumerate(row)) + "</tr>"
        for row in shown[:ROWS_MAX]
    )
    left = len(shown) - ROWS_MAX
    more = f'<p class="more">and {left:,} more</p>' if left > 0 else ""
    if not shown:
        body = f'<tr><td class="text" colspan="{len(headings)}">nothing</td></tr>'
    return Markup(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}')


def _kind(number: int, texts: int) -> str:
    return ' class="text"' if number < texts else ""


def _cell(value: object) -> str:
    return "\u2013" if value is None else escape(str(value))


def render(title: str, *, lead: str, figures: Sequence[Figure], sections: Sequence[Section], foot: str = "") -> str:
    """The whole page."""
    tiles = "".join(
        f'<div class="figure{" bad" if figure.is_bad else ""}"><div class="label">{escape(figure.label)}</div>'
        f'<div class="value">{escape(figure.value)}</div><div class="detail">{escape(figure.detail)}</div></div>'
        for figure in figures
    )
    parts = "".join(
        f"<section><h2>{escape(section.title)}</h2>"
        + (f'<p class="lead">{escape(section.lead)}</p>' if section.lead else "")
        + "".join(section.blocks)
        + "</section>"
        for section in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>'
        f'<div class="figures">{tiles}</div>{parts}<footer>{escape(foot)}</footer></main></body></html>\n'
    )


def write_report(path: Path, page: str) -> None:
    """Put a page into its file, whole or not at all. Raises `IllegalArgument` if there is no place for it."""
    if not path.parent.is_dir():
        raise IllegalArgument(f"the report cannot be written: {path.parent} is no directory")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(page, encoding="utf-8", errors="replace")
    temporary.replace(path)


_STYLE: Final = """
:root { color-scheme: light dark; --back: #f6f7f9; --card: #fff; --ink: #1b2330; --soft: #5d6878; --rule: #dfe3e9;
  --grid: #e8ebf0; --bad: #c62f3b; --good: #1e8a5a; --c0: #2567d3; --c1: #d9730d; --c2: #1e8a5a; --c3: #8a4bd1;
  --c4: #b5348b; --c5: #6b7686; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --card: #1a2029; --ink: #e4e9f0; --soft: #97a3b4;
  --rule: #2c3542; --grid: #262e3a; --bad: #ff6b74; --good: #45c28b; --c0: #6aa2ff; --c1: #f5a04c; --c2: #45c28b;
  --c3: #b58cf0; --c4: #ee7fc6; --c5: #98a3b3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto,
  "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 4px; overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 18px 0 4px; font-weight: 600; overflow-wrap: anywhere; }
.lead { color: var(--soft); margin: 0 0 12px; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 22px 0; }
.figure { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 12px 14px; }
.figure .label { color: var(--soft); font-size: 13px; }
.figure .value { font-size: 22px; font-weight: 650; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.figure .detail { color: var(--soft); font-size: 12.5px; min-height: 1.2em; overflow-wrap: anywhere; }
.figure.bad .value { color: var(--bad); }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 18px 20px 20px;
  margin: 0 0 16px; }
.wide { overflow-x: auto; margin-top: 12px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--rule); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; }
th.text, td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 7.2em; }
tbody tr:last-child td { border-bottom: 0; }
.more { color: var(--soft); margin: 6px 10px 0; font-size: 13px; }
.note { border-left: 3px solid var(--c0); padding: 6px 12px; margin: 10px 0; background: var(--back);
  overflow-wrap: anywhere; }
.note.bad { border-color: var(--bad); }
figure { margin: 10px 0 0; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
svg .name { fill: var(--ink); }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; color: var(--soft); margin: 0 0 8px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; }
.legend span { overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: 13px; margin-top: 22px; }
@media print { body { background: #fff; } section, .figure { break-inside: avoid; } }
"""
