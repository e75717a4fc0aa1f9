"""The page of `audit`: what was read of which file, and what is wrong where. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skyrocketmq.spark.reports import Bar, Figure, Section, Share, bars, note, render, shares, table
from skyrocketmq.spark.reports.page import Markup
from skyrocketmq.spark.reports.scales import count, size

if TYPE_CHECKING:
    from skyrocketmq.spark.jobs.audit_findings import AuditedFile, AuditResult, Finding

__all__ = ["audit_page"]

FILES_DRAWN: Final = 40  # each with its bar; of a longer log neighbours are drawn together
PLACES_DRAWN: Final = 20


def audit_page(result: AuditResult) -> str:
    damage = [one for one in result.findings if one.is_damage]
    state = "clean: its broker has stopped in order" if result.was_clean else "in use, or left by a crash"
    figures = [
        Figure(
            "verdict",
            "damaged" if damage else "intact",
            f"{count(result.damage_count)} findings, {count(result.note_count)} notes",
            is_bad=bool(damage),
        ),
        Figure("records", count(result.records), f"{len(result.files)} log files, {size(_log_bytes(result))}"),
        Figure("places in queues", count(result.cells), f"{count(result.queues)} queues"),
        Figure("index entries", count(result.index_entries), f"{count(result.index_files)} files"),
    ]
    sections = [
        Section(
            "What was read",
            (shares(_coverage(result.files), x_label="bytes of the log"),),
            lead="Each log file: records that are whole and have their checksum, stretches without a good record, and "
            "what fills a file up to its end.",
        ),
        Section("Damage", _damage_blocks(damage)),
    ]
    if notes := [one for one in result.findings if not one.is_damage]:
        lead = "Not damage: a broker at work has not written it yet, or its next start mends it."
        sections.append(Section("Notes", (_findings(notes),), lead=lead))
    sections.append(Section("Topics", (_topics(result),)))
    return render(
        "Audit of a store",
        lead=f"{result.store}: {state}. Log offsets {result.log_begin:,} to {result.log_end:,}.",
        figures=figures,
        sections=sections,
        foot="Every record was read: its place, lengths and checksum; queues and index were compared with the log.",
    )


def _log_bytes(result: AuditResult) -> int:
    return sum(file.used_bytes for file in result.files)


def _coverage(files: Sequence[AuditedFile]) -> list[Share]:
    step = max(-(-len(files) // FILES_DRAWN), 1)
    drawn: list[Share] = []
    for at in range(0, len(files), step):
        some = files[at : at + step]
        good, bad, used, whole = (
            sum(getattr(file, name) for file in some)
            for name in ("good_bytes", "bad_bytes", "used_bytes", "file_bytes")
        )
        name = some[0].name if len(some) == 1 else f"{some[0].name} and {len(some) - 1} more"
        parts = (
            ("good records", float(good), "c2"),
            ("no good record", float(bad), "bad"),
            ("filled up", float(max(used - good - bad, 0)), "c5"),
            ("not written yet", float(whole - used), "grid"),
        )
        drawn.append(Share(name, parts))
    return drawn


def _damage_blocks(damage: Sequence[Finding]) -> tuple[Markup, ...]:
    if not damage:
        return (note("Nothing is damaged: log, queues and index agree."),)
    places = Counter(one.place for one in damage)
    drawn = [
        Bar(place.rpartition("/")[2] or place, amount, place) for place, amount in places.most_common(PLACES_DRAWN)
    ]
    left = len(places) - len(drawn)
    label = "file" if left <= 0 else f"file; {left} more have findings"
    return (bars(drawn, x_label=label, y_label="findings", colour="bad"), _findings(damage))


def _findings(findings: Sequence[Finding]) -> Markup:
    headings = ["part", "file", "topic", "what", "queue", "offsets", "log offset", "count"]
    rows = [
        (
            one.part,
            one.place,
            one.topic,
            one.what,
            one.queue_id,
            _offsets(one),
            None if one.log_offset is None else f"{one.log_offset:,}",
            f"{one.count:,}",
        )
        for one in findings
    ]
    return table(headings, rows, texts=4)


def _offsets(finding: Finding) -> str | None:
    if finding.first is None:
        return None
    return f"{finding.first:,}" if finding.last in (None, finding.first) else f"{finding.first:,} to {finding.last:,}"


def _topics(result: AuditResult) -> Markup:
    rows = [(one.topic, count(one.messages), size(one.bytes), count(one.cells)) for one in result.topics]
    return table(["topic", "records in the log", "bytes", "places in queues"], rows)
