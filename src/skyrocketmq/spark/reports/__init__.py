"""Reports for people: one HTML file with figures, plots and tables, and nothing that has to be loaded from elsewhere.

    page      a page, its sections and tables
    plots     lines over time, bars, shares and timelines as inline SVG
    scales    where axes have their ticks, and how numbers are written

Rule: what comes from messages (names of topics, tags, keys) is text, and text is escaped where it becomes `Markup`;
nothing else may be put into a page. There is no script.
"""

from __future__ import annotations

from skyrocketmq.spark.reports.page import Figure, Section, note, render, table, write_report
from skyrocketmq.spark.reports.plots import Bar, Lane, Line, Share, Span, bars, lines, shares, timeline

__all__ = [
    "Bar",
    "Figure",
    "Lane",
    "Line",
    "Section",
    "Share",
    "Span",
    "bars",
    "lines",
    "note",
    "render",
    "shares",
    "table",
    "timeline",
    "write_report",
]
