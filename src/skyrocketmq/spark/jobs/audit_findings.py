"""What an audit says: findings, made of what was counted and compared.

Rule: damage is what readers would notice. What the next start of a broker mends, or a broker at work is about to write,
is told and is no damage, as at `skyrocketmq store check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.spark.jobs.control import JobResult
from skyrocketmq.spark.jobs.outputs import as_table

if TYPE_CHECKING:
    from pyspark.sql import Row

    from skyrocketmq.spark.jobs.audit_plan import AuditPlan

__all__ = ["AuditResult", "AuditedFile", "AuditedTopic", "Finding", "Judging"]

FINDINGS_MAX: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is not as it should be. Queue offsets are `first` to `last`; `log_offset` is that of the first."""

    part: str  # log, queue or index
    place: str  # a file
    what: str
    count: int = 1
    topic: str | None = None
    queue_id: int | None = None
    first: int | None = None
    last: int | None = None
    log_offset: int | None = None
    is_damage: bool = True


@dataclass(frozen=True, kw_only=True)
class AuditedFile:
    """A log file: how many good records and bytes, how many bytes that are damaged, of the log's share of it."""

    name: str
    records: int
    good_bytes: int
    bad_bytes: int
    used_bytes: int  # what is neither good nor bad of it fills up the file
    file_bytes: int


@dataclass(frozen=True, kw_only=True)
class AuditedTopic:
    """Messages of a topic in the log, and cells in its queues that lead there."""

    topic: str
    messages: int
    bytes: int
    cells: int


@dataclass(frozen=True, kw_only=True)
class AuditResult(JobResult):
    """What was read, and what was found."""

    store: str
    was_clean: bool
    log_begin: int
    log_end: int
    records: int
    queues: int
    cells: int
    index_files: int
    index_entries: int
    damage_count: int
    note_count: int
    findings: tuple[Finding, ...]
    files: tuple[AuditedFile, ...]
    topics: tuple[AuditedTopic, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.damage_count else 0

    def text(self) -> str:
        verdict = "is intact" if not self.damage_count else f"is damaged: {self.damage_count:,} findings"
        lines = [
            f"{self.store} {verdict}",
            f"log      {self.records:,} records in {len(self.files)} files, {self.log_begin:,} to {self.log_end:,}",
            f"queues   {self.cells:,} places in {self.queues:,} queues",
            f"index    {self.index_entries:,} entries in {self.index_files:,} files",
        ]
        if self.findings:
            headings = ["", "part", "place", "topic", "what", "queue", "first", "last", "log offset", "count"]
            rows = [
                [
                    "damage" if one.is_damage else "note",
                    *(one.part, one.place, one.topic or "", one.what),
                    *(one.queue_id, one.first, one.last, one.log_offset, one.count),
                ]
                for one in self.findings
            ]
            lines += ["", as_table(headings, rows, texts=5, characters=120)]
        return "\n".join(lines)


class Judging:
    """Makes findings of what was counted and compared."""

    def __init__(self, plan: AuditPlan, rows: Sequence[Row]) -> None:
        self._plan = plan
        self._rows = rows
        self._findings: list[Finding] = []
        self._seen: dict[tuple[str, int], tuple[int, int, int]] = {}  # first and last offset, log offset of the first
        self.index_end = -1
        for row in rows:
            if row["kind"] == "seen" and row["side"] == "queue":
                place = (row["topic"], row["queue_id"])
                new = (row["first"], row["last"], row["log_offset"])
                old = self._seen.get(place, new)
                low, high = min(old, new), max(old, new)
                self._seen[place] = (low[0], high[1], low[2])
            elif row["kind"] == "seen":
                self.index_end = max(self.index_end, row["log_offset"])
        found = [row for row in rows if row["kind"] == "found"]
        self.bad = sorted(
            (one.log_offset, one.end)
            for one in plan.found
            if one.part == "log" and one.end is not None and one.log_offset is not None
        )
        self.bad += sorted((row["log_offset"], row["last"]) for row in found if row["side"] == "log" and row["last"])
        self._add_known(plan, found)

    def _add_known(self, plan: AuditPlan, rows: Iterable[Row]) -> None:
        for one in plan.found:
            self._findings.append(
                Finding(
                    part=one.part,
                    place=one.place,
                    what=one.what,
                    topic=one.topic,
                    queue_id=one.queue_id,
                    log_offset=one.log_offset,
                    is_damage=one.is_damage,
                )
            )
        for row in rows:
            self._findings.append(
                Finding(
                    part=row["side"],
                    place=row["place"],
                    what=row["what"],
                    count=row["amount"],
                    topic=row["topic"],
                    queue_id=row["queue_id"],
                    first=row["first"],
                    last=row["first"],
                    log_offset=row["log_offset"],
                    is_damage=row["is_damage"],
                )
            )

    def judge_cells(self, runs: Iterable[Row]) -> None:
        """Places of queues that are not as the log says."""
        for run in runs:
            what, is_damage = self._about_cells(run)
            if not what:
                continue
            log_offset = run["should_log_offset"] if run["should_log_offset"] is not None else run["is_log_offset"]
            self._findings.append(
                Finding(
                    part="queue",
                    place=self._queue_place(run["topic"], run["queue_id"], run["first"]),
                    what=what,
                    count=run["amount"],
                    topic=run["topic"],
                    queue_id=run["queue_id"],
                    first=run["first"],
                    last=run["last"],
                    log_offset=log_offset,
                    is_damage=is_damage,
                )
            )

    def _about_cells(self, run: Row) -> tuple[str, bool]:
        place = (run["topic"], run["queue_id"])
        seen = self._seen.get(place)
        if run["problem"] == "wrong":
            is_same = (run["is_log_offset"], run["is_size"]) == (run["should_log_offset"], run["should_size"])
            if run["topic"] == SCHEDULE_TOPIC and is_same and not self._plan.knows_delays:
                return "delivery times are not those of the usual levels: name the broker's configuration", False
            return f"the place says {_cell(run, 'is')}, its message is {_cell(run, 'should')}", True
        if run["problem"] == "stray":
            if any(begin <= run["is_log_offset"] and run["is_log_offset_max"] < end for begin, end in self.bad):
                return "the message is lost: the log is damaged where it was", True
            return "the place leads to no message", True
        if seen is None and run["topic"] not in self._plan.known_topics:
            return "the queue is not there: its topic was deleted", False
        if self._is_of_a_topic_before(run):
            return "messages from before the topic was deleted and made again", False
        if not self._plan.rules.was_clean and (seen is None or run["first"] > seen[1]):
            return "not in the queue yet: its broker adds them, or its next start", False
        return "messages of the log are not in their queue", True

    def _is_of_a_topic_before(self, run: Row) -> bool:
        """Whether messages are from before their topic was made again: the log has them in front of all that its queue
        leads to now, or if that has got nothing since, of all that the topic's queues lead to.
        """
        if run["last"] < self._plan.ended.find(run["topic"], run["queue_id"]):
            return True
        seen = self._seen.get((run["topic"], run["queue_id"]))
        if seen is not None:
            return bool(run["should_log_offset_max"] < seen[2] and run["first"] >= seen[0])
        others = [one[2] for (topic, _), one in self._seen.items() if topic == run["topic"]]
        return bool(others and run["should_log_offset_max"] < min(others))

    def judge_entries(self, runs: Iterable[Row]) -> None:
        """Keys and entries of the index that have no counterpart."""
        for run in runs:
            is_late = run["problem"] == "late" and not self._plan.rules.was_clean
            what = {
                "missing": "keys of messages are not in the index",
                "late": "keys of the newest messages are not in the index",
                "stray": "entries lead to no message with such a key",
            }[run["problem"]]
            if is_late:
                what += " yet: its broker adds them, or its next start"
            self._findings.append(
                Finding(
                    part="index",
                    place=run["place"] or "index",
                    what=what,
                    count=run["amount"],
                    log_offset=run["log_offset"],
                    is_damage=not is_late,
                )
            )

    def _queue_place(self, topic: str, queue_id: int, offset: int) -> str:
        file_bytes = self._plan.rules.config.queue_file_bytes
        return f"consumequeue/{topic}/{queue_id}/{offset * 20 // file_bytes * file_bytes:020d}"

    def result(self, store: str) -> AuditResult:
        read = [row for row in self._rows if row["kind"] == "read"]
        sums = {part: sum(row["amount"] for row in read if row["side"] == part) for part in ("log", "queue", "index")}
        order = {"log": 0, "queue": 1, "index": 2}
        findings = sorted(
            self._findings,
            key=lambda one: (not one.is_damage, order[one.part], one.log_offset or 0, one.place, one.first or 0),
        )
        return AuditResult(
            store=store,
            was_clean=self._plan.rules.was_clean,
            log_begin=self._plan.rules.log_begin,
            log_end=self._plan.rules.log_end,
            records=sums["log"],
            queues=self._plan.queue_count,
            cells=sums["queue"],
            index_files=sum(1 for row in read if row["side"] == "index"),
            index_entries=sums["index"],
            damage_count=sum(one.is_damage for one in findings),
            note_count=sum(not one.is_damage for one in findings),
            findings=tuple(findings[:FINDINGS_MAX]),
            files=tuple(self._files(read)),
            topics=tuple(self._topics(read)),
        )

    def _files(self, read: Sequence[Row]) -> Iterable[AuditedFile]:
        for file in self._plan.files:
            rows = [row for row in read if row["side"] == "log" and row["place"] == file.name]
            end = file.start + file.used
            bad = sum(max(min(stop, end) - max(begin, file.start), 0) for begin, stop in self.bad)
            yield AuditedFile(
                name=file.name,
                records=sum(row["amount"] for row in rows),
                good_bytes=sum(row["size"] for row in rows),
                bad_bytes=bad,
                used_bytes=file.used,
                file_bytes=file.size,
            )

    def _topics(self, read: Sequence[Row]) -> Iterable[AuditedTopic]:
        for topic in sorted({row["topic"] for row in read if row["topic"] is not None}):
            log = [row for row in read if row["side"] == "log" and row["topic"] == topic]
            cells = [row["amount"] for row in read if row["side"] == "queue" and row["topic"] == topic]
            messages, size = (sum(row[name] for row in log) for name in ("amount", "size"))
            yield AuditedTopic(topic=topic, messages=messages, bytes=size, cells=sum(cells))


def _cell(run: Row, side: str) -> str:
    return f"log offset {run[f'{side}_log_offset']}, {run[f'{side}_size']} bytes, tags {run[f'{side}_tags_code']}"
