"""The page of `stats`: throughput, latency and sizes as plots, topics, tags and keys as tables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from skyrocketmq.spark.reports import Bar, Figure, Line, Section, bars, lines, note, render, table
from skyrocketmq.spark.reports.page import Markup
from skyrocketmq.spark.reports.scales import count, duration, moment, rate, size, size_ticks

if TYPE_CHECKING:
    from skyrocketmq.spark.jobs.stats_values import Bucket, StatsResult, TopValue, Traffic

__all__ = ["stats_page"]

TOPICS_DRAWN: Final = 5  # with their own line; the others together
POINTS_MAX: Final = 400  # of a line: more windows are drawn as the highest of several


def stats_page(result: StatsResult) -> str:
    total = result.total
    if total is None:
        return render("Messages", lead=result.place, figures=[Figure("messages", "0")], sections=[])
    lead = f"{result.place}, {moment(total.first_ms)} to {moment(total.last_ms)} UTC, windows of "
    figures = [
        Figure("messages", count(total.messages), f"{rate(total.messages_per_s)} on average"),
        Figure("bodies", size(total.bytes), f"{size(total.bytes_per_s)}/s on average"),
        Figure("size", size(total.size_p50), f"median; largest {size(total.size_max)}"),
        Figure("born to stored", duration(total.latency_p50_ms), f"median; 99 %: {duration(total.latency_p99_ms)}"),
        Figure("topics", count(len(result.topics)), f"{count(total.again)} messages came back"),
    ]
    return render(
        "Messages",
        lead=lead + duration(result.window_ms),
        figures=figures,
        sections=[section for section in _sections(result, total) if section is not None],
        foot="Times are UTC. Sizes are those of bodies, as consumers get them.",
    )


def _sections(result: StatsResult, total: Traffic) -> list[Section | None]:
    return [
        Section("Throughput", (_by_topic(result, lambda row: row.messages_per_s, "messages a second", rate),)),
        Section(
            "Bytes",
            (_by_topic(result, lambda row: row.bytes_per_s, "bytes a second", lambda value: f"{size(value)}/s", True),),
        ),
        Section("Latency: born to stored", tuple(_latency(result, total)), lead=_LATENCY_LEAD),
        _deliveries(result),
        Section(
            "Sizes",
            (bars(_histogram(result.histogram, "size", size), x_label="size of the body", y_label="messages"),),
        ),
        Section("Topics", (_topics(result.topics),)),
        Section("Tags", (_values(result.tags, "tag", total.messages),)) if result.tags else None,
        Section("Keys", (_values(result.keys, "key", total.messages),)) if result.keys else None,
    ]


_LATENCY_LEAD: Final = (
    "From the producer's clock to the broker's. Messages that were delayed or stored again count from their birth."
)


def _by_topic(
    result: StatsResult,
    measure: Callable[[Traffic], float],
    label: str,
    shown: Callable[[float], str],
    is_size: bool = False,
) -> Markup:
    largest = sorted(result.topics, key=lambda row: -row.messages)[:TOPICS_DRAWN]
    names = {row.topic for row in largest}
    drawn = [
        (str(row.topic), {one.begin_ms: measure(one) for one in result.windows_by_topic if one.topic == row.topic})
        for row in largest
    ]
    if len(result.topics) > len(largest):
        others: dict[int | None, float] = {}
        for one in result.windows_by_topic:
            if one.topic not in names:
                others[one.begin_ms] = others.get(one.begin_ms, 0.0) + measure(one)
        drawn.append((f"{len(result.topics) - len(largest)} other topics", others))
    times = _times(result)
    # A window without messages is a 0 and no gap.
    made = [Line(name, _thinned([(time, values.get(time, 0.0)) for time in times])) for name, values in drawn]
    highest = max((value or 0 for line in made for _, value in line.points), default=0)
    return lines(made, y_label=label, y_format=shown, ticks=size_ticks(highest) if is_size and highest else None)


def _times(result: StatsResult) -> list[int]:
    begins = [row.begin_ms for row in result.windows if row.begin_ms is not None]
    all_of_them = range(begins[0], begins[-1] + 1, result.window_ms)
    return list(all_of_them) if len(all_of_them) <= 100_000 else begins


def _thinned(points: Sequence[tuple[float, float | None]]) -> tuple[tuple[float, float | None], ...]:
    """As many points as a plot has room for: of several neighbours the highest."""
    step = -(-len(points) // POINTS_MAX)
    groups = [points[at : at + step] for at in range(0, len(points), step)]
    return tuple((group[0][0], max((v for _, v in group if v is not None), default=None)) for group in groups)


def _latency(result: StatsResult, total: Traffic) -> list[Markup]:
    known = {row.begin_ms: row for row in result.windows}
    times = _times(result)

    def line(name: str, measure: Callable[[Traffic], int]) -> Line:
        return Line(name, _thinned([(time, measure(known[time]) if time in known else None) for time in times]))

    drawn = [
        line("median", lambda row: max(row.latency_p50_ms, 0)),
        line("95 %", lambda row: max(row.latency_p95_ms, 0)),
        line("99 %", lambda row: max(row.latency_p99_ms, 0)),
    ]
    blocks = [lines(drawn, y_label="latency", y_format=duration)]
    if total.skewed:
        blocks.append(
            note(
                f"{count(total.skewed)} messages were stored before they were born: the clocks of producers and "
                f"brokers differ, and latencies with them.",
                is_bad=True,
            )
        )
    drawn_bars = _histogram(result.histogram, "latency", duration)
    blocks.append(bars(drawn_bars, x_label="latency, born to stored", y_label="messages"))
    return blocks


def _deliveries(result: StatsResult) -> Section | None:
    groups = [row for row in result.deliveries if row.begin_ms is None and row.group is not None]
    if not groups:
        return None
    drawn = [
        Line(
            f"{group.group}, 95 %",
            _thinned(
                [
                    (row.begin_ms, max(row.wait_p95_ms, 0))
                    for row in result.deliveries
                    if row.group == group.group and row.begin_ms is not None
                ]
            ),
        )
        for group in sorted(groups, key=lambda row: -row.messages)[:TOPICS_DRAWN]
    ]
    headings = ["group", "messages", "calls", "median", "95 %", "99 %", "longest", "before birth"]
    rows = [
        (
            row.group,
            count(row.messages),
            count(row.calls),
            *map(duration, (row.wait_p50_ms, row.wait_p95_ms, row.wait_p99_ms, row.wait_max_ms)),
            count(row.skewed),
        )
        for row in groups
    ]
    blocks = (lines(drawn, y_label="latency", y_format=duration), table(headings, rows))
    return Section("Latency: born to the consumer", blocks, lead="Up to the first call of a handler, by traces.")


def _histogram(buckets: Sequence[Bucket], what: str, shown: Callable[[float], str]) -> list[Bar]:
    found = {bucket.low: bucket for bucket in buckets if bucket.what == what}
    made: list[Bar] = []
    if found:
        lows = [0, *(2**power for power in range(max(found).bit_length()))]
        for low in lows[lows.index(min(found)) :]:
            high = 2 * low or 1
            name = f"< {shown(high)}" if low else shown(0)
            made.append(Bar(name, found[low].messages if low in found else 0, f"from {shown(low)}"))
    return made


def _topics(rows: Sequence[Traffic]) -> Markup:
    headings = [
        "topic",
        "messages",
        "rate",
        "bodies",
        "size, median",
        "99 %",
        "largest",
        "latency, median",
        "95 %",
        "99 %",
        "longest",
        "came back",
    ]
    return table(
        headings,
        [
            (
                row.topic,
                count(row.messages),
                rate(row.messages_per_s),
                *map(size, (row.bytes, row.size_p50, row.size_p99, row.size_max)),
                *map(duration, (row.latency_p50_ms, row.latency_p95_ms, row.latency_p99_ms, row.latency_max_ms)),
                count(row.again),
            )
            for row in rows
        ],
    )


def _values(rows: Sequence[TopValue], kind: str, total: int) -> Markup:
    return table(
        ["topic", kind, "messages", "share of all", "bodies"],
        [
            (
                row.topic,
                "(none)" if row.value is None else row.value,
                count(row.messages),
                f"{100 * row.messages / total:.1f} %",
                size(row.bytes),
            )
            for row in rows
        ],
        texts=2,
    )
