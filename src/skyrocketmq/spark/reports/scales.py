"""Where axes have their ticks, and how numbers, sizes, durations and times are written for people. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["Format", "count", "duration", "linear_ticks", "moment", "rate", "size", "size_ticks", "time_ticks"]

Format = Callable[[float], str]

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 7, 14, 28, 91, 182, 364)),
)
_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def linear_ticks(highest: float, *, about: int = 5, least_step: float = 0.0) -> list[float]:
    """Round numbers from 0 to the first that is not below the highest value."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = max(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999), least_step)
    return [number * step for number in range(math.ceil(highest / step - 1e-9) + 1)]


def size_ticks(highest: float, *, about: int = 5) -> list[float]:
    """The same for bytes: round in the unit that fits."""
    unit = 1024.0 ** _unit_of(highest)
    return [tick * unit for tick in linear_ticks(highest / unit, about=about)]


def time_ticks(begin_ms: float, end_ms: float, *, about: int = 7) -> list[tuple[float, str]]:
    """Round times between two, with what is written there, in UTC."""
    raw = max(end_ms - begin_ms, 1) / about
    step = next((step for step in _TIME_STEPS if step >= raw), _TIME_STEPS[-1])
    pattern = "%Y-%m-%d" if step >= _DAY else "%H:%M" if step >= _MINUTE else "%H:%M:%S"
    if _HOUR <= step < _DAY or (step < _DAY and end_ms - begin_ms > _DAY):
        pattern = "%m-%d %H:%M"
    first = math.ceil(begin_ms / step)
    ticks = [number * step for number in range(first, math.floor(end_ms / step) + 1)]
    return [(float(tick), _written(tick, pattern, with_ms=step < _SECOND)) for tick in ticks]


def _written(time_ms: float, pattern: str, *, with_ms: bool) -> str:
    text = _utc(time_ms).strftime(pattern)
    return f"{text}.{int(time_ms) % 1000:03d}" if with_ms else text


def moment(time_ms: float) -> str:
    """A time, to the second, in UTC."""
    return _utc(time_ms).strftime("%Y-%m-%d %H:%M:%S")


def _utc(time_ms: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)


def count(number: float) -> str:
    """A number of things: 950, 12,300, 4.2 million."""
    if abs(number) >= 1e9:
        return f"{number / 1e9:,.4g} billion"
    if abs(number) >= 1e7:
        return f"{number / 1e6:,.4g} million"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.3g}"


def rate(number: float) -> str:
    """So much a second."""
    return f"{count(number if number < 100 else round(number))}/s"


def size(number: float) -> str:
    """Bytes, in the unit that fits."""
    unit = _unit_of(number)
    value = number / 1024.0**unit
    return f"{value:,.0f} B" if not unit else f"{value:,.4g} {_SIZE_UNITS[unit]}"


def _unit_of(number: float) -> int:
    return min(int(math.log(max(abs(number), 1), 1024) + 1e-9), len(_SIZE_UNITS) - 1)


def duration(milliseconds: float) -> str:
    """A time span, in the unit that fits."""
    for limit, unit, name in ((_SECOND, 1, "ms"), (_MINUTE, _SECOND, "s"), (_HOUR, _MINUTE, "min"), (_DAY, _HOUR, "h")):
        if abs(milliseconds) < limit:
            return f"{milliseconds / unit:.4g} {name}"
    return f"{milliseconds / _DAY:.4g} d"
