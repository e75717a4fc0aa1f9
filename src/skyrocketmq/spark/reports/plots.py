"""Plots as inline SVG: lines over time, bars, shares of bars, timelines. Axes have ticks, labels and units.

Colours are those of the page, by number or by name. What a mark stands for is told by its `<title>`, which browsers
show to who points at it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from skyrocketmq.spark.reports.page import Markup
from skyrocketmq.spark.reports.scales import Format, count, duration, linear_ticks, moment, size, size_ticks, time_ticks

__all__ = ["Bar", "Lane", "Line", "Share", "Span", "bars", "lines", "shares", "timeline"]

WIDTH: Final = 960
LEFT: Final = 74
RIGHT: Final = 18
TOP: Final = 24
PLOT_HEIGHT: Final = 200
BELOW: Final = 40
LANE_HEIGHT: Final = 24
LANE_LEFT: Final = 270
COLOURS: Final = 6
DOTS_MAX: Final = 150  # with more points the dots would hide the line
NAME_CHARACTERS: Final = 34


@dataclass(frozen=True)
class Line:
    """Values over time: (ms since 1970, value), in order; None where there is none, and the line is broken."""

    name: str
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram."""

    name: str
    value: float
    detail: str = ""


@dataclass(frozen=True)
class Share:
    """One bar that is divided up: (name, amount, colour)."""

    name: str
    parts: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True)
class Span:
    """Something that took a while; with no length it is a mark."""

    begin_ms: float
    end_ms: float
    colour: str
    detail: str


@dataclass(frozen=True)
class Lane:
    """What happened one after the other, under a name."""

    name: str
    spans: tuple[Span, ...]


def lines(
    drawn: Sequence[Line],
    *,
    y_label: str,
    y_format: Format = count,
    ticks: Sequence[float] | None = None,
    x_label: str = "time, UTC",
) -> Markup:
    """Lines over one time axis. `ticks`, if given, are those of the values."""
    times = [time_ms for line in drawn for time_ms, _ in line.points]
    values = [value for line in drawn for _, value in line.points if value is not None]
    if not values:
        return _nothing()
    begin, end = min(times), max(times)
    if begin == end:  # one window: the point stands in the middle
        begin, end = begin - 500, end + 500
    steps = list(ticks or linear_ticks(max(values)))
    across = _Across(begin, end, LEFT, WIDTH - RIGHT)
    height = TOP + PLOT_HEIGHT + BELOW
    parts = [_values_axis(steps, y_label, y_format)]
    for time_ms, text in time_ticks(begin, end):
        x = across.at(time_ms)
        parts.append(_tick_below(x, text, TOP + PLOT_HEIGHT))
    parts.append(_below(x_label, height))
    for number, line in enumerate(drawn):
        parts.append(_line(line, f"var(--c{number % COLOURS})", across, steps[-1], y_format))
    legend = [(line.name, f"var(--c{number % COLOURS})") for number, line in enumerate(drawn)]
    return _figure("".join(parts), height, legend)


def _line(line: Line, colour: str, across: _Across, highest: float, y_format: Format) -> str:
    points = [(across.at(time_ms), value, time_ms) for time_ms, value in line.points]
    path: list[str] = []
    pen = "M"
    for x, value, _ in points:
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{x:.1f} {_height(value, highest):.1f}")
        pen = "L"
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{_height(value, highest):.1f}" r="2.6" fill="{colour}"><title>'
        f"{escape(line.name)}, {moment(time_ms)}: {escape(y_format(value))}</title></circle>"
        for x, value, time_ms in points
        if value is not None
    )
    drawn = f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>'
    return drawn + (dots if len(points) <= DOTS_MAX else "")


def bars(drawn: Sequence[Bar], *, x_label: str, y_label: str, y_format: Format = count, colour: str = "c0") -> Markup:
    """How many of each: bars side by side, with their names under them."""
    if not any(bar.value for bar in drawn):
        return _nothing()
    steps = linear_ticks(max(bar.value for bar in drawn), least_step=1)
    room = (WIDTH - LEFT - RIGHT) / len(drawn)
    every = max(round(64 / room + 0.49), 1)  # names that would run into each other are left out
    base = TOP + PLOT_HEIGHT
    parts = [_values_axis(steps, y_label, y_format)]
    for number, bar in enumerate(drawn):
        x, top = LEFT + number * room, _height(bar.value, steps[-1])
        text = f"{bar.name}: {y_format(bar.value)}{', ' + bar.detail if bar.detail else ''}"
        parts.append(
            f'<rect x="{x + room * 0.08:.1f}" y="{top:.1f}" width="{room * 0.84:.1f}" height="{base - top:.1f}" '
            f'rx="2" fill="var(--{colour})"><title>{escape(text)}</title></rect>'
        )
        if number % every == 0:
            parts.append(_tick_below(x + room / 2, bar.name, base, has_mark=False))
    parts.append(_below(x_label, base + BELOW))
    return _figure("".join(parts), base + BELOW, ())


def shares(drawn: Sequence[Share], *, x_label: str) -> Markup:
    """Bars under each other, divided up; their length is their whole amount, in bytes."""
    highest = max((sum(amount for _, amount, _ in share.parts) for share in drawn), default=0)
    if not highest:
        return _nothing()
    steps = size_ticks(highest)
    across = _Across(0, steps[-1], LANE_LEFT, WIDTH - RIGHT - 20)
    parts: list[str] = []
    colours: dict[str, str] = {}
    for number, share in enumerate(drawn):
        y = 4 + number * LANE_HEIGHT
        parts.append(_name(share.name, y))
        reached = 0.0
        for name, amount, colour in share.parts:
            colours.setdefault(name, f"var(--{colour})")
            x, end = across.at(reached), across.at(reached + amount)
            reached += amount
            if amount:
                # A stretch of a few bytes has to be seen too.
                parts.append(
                    f'<rect x="{x:.1f}" y="{y + 4}" width="{max(end - x, 2.5):.1f}" height="{LANE_HEIGHT - 8}" '
                    f'fill="var(--{colour})"><title>{escape(f"{share.name}, {name}: {size(amount)}")}</title></rect>'
                )
    height = 4 + len(drawn) * LANE_HEIGHT + BELOW
    parts += [_tick_below(across.at(tick), size(tick), height - BELOW) for tick in steps]
    parts.append(_below(x_label, height))
    return _figure("".join(parts), height, list(colours.items()))


def timeline(drawn: Sequence[Lane], *, x_label: str, names: Sequence[tuple[str, str]]) -> Markup:
    """Lanes under each other, each beginning at its own time 0. `names` says what colours stand for."""
    if not drawn:
        return _nothing()
    starts = [min(span.begin_ms for span in lane.spans) for lane in drawn]
    longest = max(span.end_ms - start for lane, start in zip(drawn, starts, strict=True) for span in lane.spans)
    steps = _duration_ticks(max(longest, 1.0))
    across = _Across(0, steps[-1], LANE_LEFT, WIDTH - RIGHT - 20)
    height = 4 + len(drawn) * LANE_HEIGHT + BELOW
    parts: list[str] = []
    for tick in steps:
        x = across.at(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{height - BELOW}"/>')
        parts.append(_tick_below(x, duration(tick), height - BELOW))
    for number, (lane, start) in enumerate(zip(drawn, starts, strict=True)):
        y = 4 + number * LANE_HEIGHT
        parts.append(_name(lane.name, y))
        for span in lane.spans:
            x, end = across.at(span.begin_ms - start), across.at(span.end_ms - start)
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 5}" width="{max(end - x, 3):.1f}" height="{LANE_HEIGHT - 10}" rx="2" '
                f'fill="var(--{span.colour})"><title>{escape(span.detail)}</title></rect>'
            )
    parts.append(_below(x_label, height))
    return _figure("".join(parts), height, [(name, f"var(--{colour})") for name, colour in names])


# ------------------------------------------------------------------------------------------------------------- helpers


class _Across:
    """A linear scale from left to right."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self._low = low
        self._left = left
        self._factor = (right - left) / ((high - low) or 1)

    def at(self, value: float) -> float:
        return self._left + (value - self._low) * self._factor


def _duration_ticks(highest_ms: float) -> list[float]:
    """Round durations in the unit in which they will be written."""
    unit = next(unit for limit, unit in _UNITS_MS if highest_ms < limit)
    return [tick * unit for tick in linear_ticks(highest_ms / unit)]


_UNITS_MS: Final = ((2_000.0, 1.0), (120_000.0, 1000.0), (7.2e6, 60_000.0), (1.728e8, 3.6e6), (float("inf"), 8.64e7))


def _height(value: float, highest: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - value / highest)


def _values_axis(steps: Sequence[float], label: str, y_format: Format) -> str:
    parts = [f'<text x="8" y="12">{escape(label)}</text>']
    for step in steps:
        y = _height(step, steps[-1])
        kind = "grid" if step else "axis"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(y_format(step))}</text>')
    return "".join(parts)


def _tick_below(x: float, text: str, base: float, *, has_mark: bool = True) -> str:
    mark = f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}"/>' if has_mark else ""
    anchor = "end" if x > WIDTH - RIGHT - 20 else "middle"
    return f'{mark}<text x="{x:.1f}" y="{base + 17}" text-anchor="{anchor}">{escape(text)}</text>'


def _below(label: str, height: float) -> str:
    return f'<text x="{WIDTH - RIGHT}" y="{height - 5}" text-anchor="end">{escape(label)}</text>'


def _name(name: str, y: float) -> str:
    shown = name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}\u2026"
    return (
        f'<text class="name" x="{LANE_LEFT - 10}" y="{y + LANE_HEIGHT / 2 + 4}" text-anchor="end">{escape(shown)}'
        f"<title>{escape(name)}</title></text>"
    )


def _figure(drawing: str, height: float, legend: Sequence[tuple[str, str]]) -> Markup:
    entries = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in legend)
    named = f'<div class="legend">{entries}</div>' if entries else ""
    return Markup(
        f'<figure>{named}<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"{drawing}</svg></figure>"
    )


def _nothing() -> Markup:
    return Markup('<p class="lead">There is nothing to draw.</p>')
