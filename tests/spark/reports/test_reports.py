"""Reports: ticks and numbers as people read them, plots that stay inside their frame, and text that stays text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.reports import (
    Bar,
    Figure,
    Lane,
    Line,
    Section,
    Share,
    Span,
    bars,
    lines,
    note,
    render,
    shares,
    table,
    timeline,
    write_report,
)
from skyrocketmq.spark.reports.plots import WIDTH
from skyrocketmq.spark.reports.scales import count, duration, linear_ticks, moment, rate, size, size_ticks, time_ticks

HOSTILE = "\"><script>alert('x')</script>&amp;\x00"
START_MS = 1_700_000_000_000


class TestScales:
    @pytest.mark.parametrize(
        ("highest", "ticks"),
        [(10, [0, 2, 4, 6, 8, 10]), (7, [0, 2, 4, 6, 8]), (0.9, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0, [0, 1])],
    )
    def test_ticks_are_round_and_reach_the_highest_value(self, highest: float, ticks: list[float]) -> None:
        assert linear_ticks(highest) == pytest.approx(ticks)

    def test_things_are_counted_in_whole_numbers(self) -> None:
        assert linear_ticks(2, least_step=1) == [0, 1, 2]

    def test_ticks_of_bytes_are_round_in_their_unit(self) -> None:
        assert [size(tick) for tick in size_ticks(3 << 20)] == ["0 B", "1 MiB", "2 MiB", "3 MiB"]

    def test_ticks_of_times_are_round_times_in_utc(self) -> None:
        assert [text for _, text in time_ticks(START_MS, START_MS + 60_000)][:2] == ["22:13:20", "22:13:30"]
        assert time_ticks(START_MS, START_MS + 3 * 86_400_000)[0][1] == "11-15 00:00"
        assert [text for _, text in time_ticks(START_MS, START_MS + 300)][1] == "22:13:20.050"
        assert moment(START_MS) == "2023-11-14 22:13:20"

    def test_numbers_are_written_with_the_unit_that_fits(self) -> None:
        assert [count(number) for number in (0, 950, 12_300, 42_000_000, 0.125)] == [
            *("0", "950", "12,300", "42 million", "0.125")
        ]
        assert [size(number) for number in (0, 1023, 1024, 5 << 30)] == ["0 B", "1,023 B", "1 KiB", "5 GiB"]
        assert [duration(number) for number in (0, 999, 1500, 90_000, 7_200_000, 172_800_000)] == [
            *("0 ms", "999 ms", "1.5 s", "1.5 min", "2 h", "2 d")
        ]
        assert rate(1234.5) == "1,234/s"


PLOTS = {
    "lines": lines(
        [Line(HOSTILE, ((START_MS, 1.0), (START_MS + 1000, None), (START_MS + 2000, 3.0)))], y_label=HOSTILE
    ),
    "one point": lines([Line("a", ((START_MS, 1.0),))], y_label="y"),
    "bars": bars([Bar(HOSTILE, 3), Bar("b", 0)], x_label=HOSTILE, y_label="y"),
    "shares": shares([Share(HOSTILE, ((HOSTILE, 3.0, "c0"), ("b", 0.0, "bad")))], x_label="x"),
    "timeline": timeline(
        [Lane(HOSTILE, (Span(START_MS, START_MS + 50, "c0", HOSTILE), Span(START_MS + 90, START_MS + 90, "bad", "x")))],
        x_label="time",
        names=[(HOSTILE, "c0")],
    ),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS.keys())
def test_a_plot_is_well_formed_has_labels_and_stays_in_its_frame(plot: str) -> None:
    figure = ElementTree.fromstring(plot.replace("\x00", ""))
    assert "<script" not in plot
    drawing = next(one for one in figure if one.tag.endswith("svg"))
    assert [one for one in drawing.iter() if one.tag.endswith("text") and one.text]
    for one in drawing.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(one.get(name, 0)) <= WIDTH
        assert float(one.get("x", 0)) + float(one.get("width", 0)) <= WIDTH


def test_where_there_is_nothing_a_plot_says_so() -> None:
    for plot in (lines([], y_label="y"), bars([], x_label="x", y_label="y"), timeline([], x_label="x", names=[])):
        assert "nothing to draw" in plot
    assert "nothing to draw" in shares([], x_label="x")


def test_everything_from_outside_is_escaped_and_nothing_is_loaded() -> None:
    page = render(
        HOSTILE,
        lead=HOSTILE,
        figures=[Figure(HOSTILE, HOSTILE, HOSTILE, is_bad=True)],
        sections=[Section(HOSTILE, (note(HOSTILE), table([HOSTILE], [[HOSTILE], [None]]), *PLOTS.values()), HOSTILE)],
        foot=HOSTILE,
    )
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "prefers-color-scheme: dark" in page


def test_long_tables_are_cut_and_say_so() -> None:
    made = table(["n"], [[number] for number in range(600)])
    assert made.count("<tr>") == 501
    assert "and 100 more" in made


def test_a_report_is_written_whole_over_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    write_report(path, "new \ud800")
    assert path.read_text() == "new ?"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(IllegalArgument, match="is no directory"):
        write_report(tmp_path / "nothing" / "page.html", "new")
