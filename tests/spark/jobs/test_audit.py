"""Audits: of stores that are whole, of one that is being written, and of one in which everything is damaged."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument, StoreError
from skyrocketmq.hot.layout import INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from skyrocketmq.spark.jobs import Control
from skyrocketmq.spark.jobs.audit import AuditResult, Finding, add_arguments, audit, run
from skyrocketmq.spark.jobs.audit_compare import runs_of_cells
from skyrocketmq.spark.jobs.audit_findings import Judging
from skyrocketmq.spark.jobs.audit_plan import AuditPlan, plan_audit
from skyrocketmq.spark.jobs.audit_report import audit_page
from skyrocketmq.spark.jobs.audit_tasks import DETAIL_SCHEMA, digests
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.store.index_file import ENTRY
from skyrocketmq.testing import LocalCluster
from tests.spark.jobs.audited import first_pass
from tests.spark.stores import LOG_FILE_BYTES, make_store
from tests.store.reader import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS, COUNT = 50, 600


class TestWithoutSpark:
    def test_both_sides_of_a_whole_store_have_the_same_sums(self, tmp_path: Path) -> None:
        records = make_store(tmp_path, count=COUNT)
        done = first_pass(tmp_path)
        assert len(done.plan.starts) > 2
        assert done.differing == []
        assert [done.count(side) for side in ("log", "queue", "index")] == [len(records), COUNT, 2 * COUNT]
        assert done.found() == []

    def test_one_changed_number_of_a_cell_changes_the_sum_of_its_part_alone(self, tmp_path: Path) -> None:
        make_store(tmp_path, count=COUNT)
        write_at(queue_file(tmp_path, "Orders", 0), 20 * 3 + 19, b"\x77")
        assert first_pass(tmp_path).differing == [("cells", 0)]

    def test_entries_of_the_index_that_do_not_hang_together_are_found(self, tmp_path: Path) -> None:
        make_store(tmp_path, count=COUNT)
        path = sorted((tmp_path / "index").iterdir())[0]
        write_at(path, INDEX_HEADER_BYTES + SLOTS * INDEX_SLOT_BYTES + 60 * ENTRY.size + 16, (3).to_bytes(4, "big"))
        write_at(sorted((tmp_path / "index").iterdir())[1], INDEX_HEADER_BYTES, (0).to_bytes(4, "big") * SLOTS)
        done = first_pass(tmp_path)
        assert done.differing == []
        links, slots = done.found()
        assert (links["place"], "from number 60 on are not linked" in links["what"]) == (f"index/{path.name}", True)
        assert "slots do not lead to their newest entries" in slots["what"]

    def test_files_that_are_missing_or_short_are_found_before_anything_is_read(self, tmp_path: Path) -> None:
        make_store(tmp_path, count=COUNT)
        logs = sorted((tmp_path / "commitlog").iterdir())
        logs[1].unlink()
        with queue_file(tmp_path, "Orders", 0).open("r+b") as file:
            file.truncate(100)
        done = first_pass(tmp_path)
        missing, short = done.plan.found
        assert (missing.what, missing.log_offset, missing.end) == (
            "files before it are missing",
            LOG_FILE_BYTES,
            2 * LOG_FILE_BYTES,
        )
        assert (short.topic, short.queue_id, short.what) == ("Orders", 0, "it has 100 bytes, not 1000")
        assert done.differing, "cells lead to messages that are gone"

    def test_digests_tell_rows_apart_and_not_their_order(self) -> None:
        rows = np.array([[1, 2], [2, 1], [1, 2], [-1, 2**62]], np.int64)
        one, other, again, last = digests(rows).tolist()
        assert one == again
        assert len({one, other, last}) == 3

    def test_what_is_no_store_is_refused(self, tmp_path: Path) -> None:
        nothing: SparkSession = None  # type: ignore[assignment]
        with pytest.raises(StoreError, match="is no directory: give the one that storePathRootDir names"):
            audit(nothing, store=tmp_path / "nothing")
        with pytest.raises(StoreError, match="holds no store"):
            audit(nothing, store=tmp_path)
        with pytest.raises(IllegalArgument, match="is there already"):
            audit(nothing, store=tmp_path, parquet=tmp_path)

    def test_names_of_topics_are_text_in_the_report(self) -> None:
        hostile = "<script>alert('x')</script>"
        finding = Finding(part="queue", place=f"consumequeue/{hostile}/0", what=hostile, topic=hostile, queue_id=0)
        page = audit_page(result_with(finding))
        assert "<script" not in page
        assert "&lt;script&gt;" in page


class TestWhatCountsAsDamage:
    """The store is in use; queue 0 of Orders leads from offset 10 (log offset 1000) to 20, the index up to 5000."""

    SEEN: ClassVar = [
        {
            "kind": "seen",
            "side": "queue",
            "topic": "Orders",
            "queue_id": 0,
            "first": 10,
            "last": 20,
            "log_offset": 1000,
        },
        {"kind": "seen", "side": "index", "log_offset": 5000},
        {"kind": "found", "side": "log", "place": "x", "what": "bad", "amount": 1, "topic": None, "queue_id": None}
        | {"first": None, "last": 900, "log_offset": 800, "is_damage": True},
    ]

    @pytest.fixture
    def plan(self, tmp_path: Path) -> AuditPlan:
        make_store(tmp_path, count=1)
        plan = plan_audit(StoreOptions.parse({"path": str(tmp_path)}))
        return replace(plan, rules=replace(plan.rules, was_clean=False), known_topics=frozenset({"Orders"}))

    def cells(self, plan: AuditPlan, problem: str, **values: Any) -> tuple[str, bool]:
        judging = Judging(plan, self.SEEN)  # type: ignore[arg-type]
        run = {"topic": "Orders", "queue_id": 0, "problem": problem, "amount": 1, "first": 15, "last": 15}
        offsets = ("should_log_offset", "should_log_offset_max", "is_log_offset", "is_log_offset_max")
        run |= dict.fromkeys(offsets, 2000) | values
        judging.judge_cells([run])  # type: ignore[list-item]
        [found] = [one for one in judging.result("x").findings if one.part == "queue"]
        return found.what, found.is_damage

    def test_a_message_in_the_midst_that_is_not_in_its_queue_is_damage(self, plan: AuditPlan) -> None:
        assert self.cells(plan, "missing") == ("messages of the log are not in their queue", True)

    def test_what_is_behind_the_end_of_a_queue_in_use_is_on_its_way(self, plan: AuditPlan) -> None:
        what, is_damage = self.cells(plan, "missing", first=21)
        assert (what.startswith("not in the queue yet"), is_damage) == (True, False)
        at_rest = replace(plan, rules=replace(plan.rules, was_clean=True))
        assert self.cells(at_rest, "missing", first=21)[1], "nobody will add it"

    def test_messages_of_a_topic_that_was_deleted_are_no_damage(self, plan: AuditPlan) -> None:
        assert self.cells(plan, "missing", topic="Gone")[0] == "the queue is not there: its topic was deleted"
        what, is_damage = self.cells(plan, "missing", should_log_offset=500, should_log_offset_max=999)
        assert ("made again" in what, is_damage) == (True, False)
        assert self.cells(plan, "missing", first=9, should_log_offset=500, should_log_offset_max=999)[1]

    def test_a_queue_that_has_got_nothing_since_its_topic_was_made_again_is_no_damage(self, plan: AuditPlan) -> None:
        at_rest = replace(plan, rules=replace(plan.rules, was_clean=True))
        before = {"should_log_offset": 500, "should_log_offset_max": 999}
        what, is_damage = self.cells(at_rest, "missing", queue_id=3, **before)
        assert ("made again" in what, is_damage) == (True, False)
        assert self.cells(at_rest, "missing", queue_id=3)[1], "the other queues have messages that are older"
        only = replace(at_rest, known_topics=frozenset({"Orders", "Bills"}))
        assert self.cells(only, "missing", topic="Bills", **before)[1], "no queue of it is there"

    def test_delays_of_a_broker_whose_configuration_is_not_named_are_no_damage(self, plan: AuditPlan) -> None:
        times = {"should_size": 7, "is_size": 7, "should_tags_code": 1, "is_tags_code": 2}
        what, is_damage = self.cells(plan, "wrong", topic="SCHEDULE_TOPIC_XXXX", **times)
        assert ("name the broker's configuration" in what, is_damage) == (True, False)
        assert self.cells(plan, "wrong", topic="SCHEDULE_TOPIC_XXXX", **times | {"is_size": 8})[1]
        assert self.cells(replace(plan, knows_delays=True), "wrong", topic="SCHEDULE_TOPIC_XXXX", **times)[1]
        assert self.cells(plan, "wrong", **times)[1]

    def test_a_place_that_leads_into_a_damaged_stretch_has_lost_its_message(self, plan: AuditPlan) -> None:
        inside = {"is_log_offset": 810, "is_log_offset_max": 890}
        assert self.cells(plan, "stray", **inside)[0].startswith("the message is lost")
        assert self.cells(plan, "stray")[0] == "the place leads to no message"

    def test_keys_behind_the_end_of_an_index_in_use_are_on_their_way(self, plan: AuditPlan) -> None:
        judging = Judging(plan, self.SEEN)  # type: ignore[arg-type]
        assert judging.index_end == 5000
        late, missing = (
            {"problem": problem, "place": None, "amount": 3, "log_offset": 9} for problem in ("late", "missing")
        )
        judging.judge_entries([late, missing])  # type: ignore[list-item]
        found = [one for one in judging.result("x").findings if one.part == "index"]
        assert sorted((one.is_damage, one.what) for one in found) == [
            (False, "keys of the newest messages are not in the index yet: its broker adds them, or its next start"),
            (True, "keys of messages are not in the index"),
        ]


def result_with(*findings: Finding) -> AuditResult:
    return AuditResult(
        store="<store>",
        was_clean=True,
        log_begin=0,
        log_end=10,
        records=1,
        queues=1,
        cells=1,
        index_files=0,
        index_entries=0,
        damage_count=len(findings),
        note_count=0,
        findings=findings,
        files=(),
        topics=(),
    )


# ------------------------------------------------------------------------------------------------------- with Spark


def queue_file(root: Path, topic: str, queue_id: int, number: int = 0) -> Path:
    return sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())[number]


def write_at(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def damage_body(root: Path, records: list[Record]) -> Record:
    record = next(one for one in records if len(one.body) > 100 and not one.sys_flag and one.log_offset > 20_000)
    write_at(
        root / "commitlog" / f"{record.log_offset // LOG_FILE_BYTES * LOG_FILE_BYTES:020d}",
        record.log_offset % LOG_FILE_BYTES + 95,
        b"\xff\xff\xff",
    )
    return record


def damage_entry(root: Path) -> tuple[str, int]:
    """Another hash in an entry of the index: its file, and the log offset that it leads to."""
    path = sorted((root / "index").iterdir())[0]
    position = INDEX_HEADER_BYTES + SLOTS * INDEX_SLOT_BYTES + 9 * ENTRY.size
    with path.open("r+b") as file:
        file.seek(position)
        key_hash, log_offset, seconds, previous = ENTRY.unpack(file.read(ENTRY.size))
        file.seek(position)
        # In the same slot: nothing but the hash is wrong.
        file.write(ENTRY.pack(key_hash + SLOTS, log_offset, seconds, previous))
    return path.name, log_offset


@pytest.fixture(scope="module")
def damaged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditResult, dict[str, Any]]:
    """One store with all kinds of damage, and where each was done."""
    root = tmp_path_factory.mktemp("audit") / "store"
    records = make_store(root, count=COUNT)
    done: dict[str, Any] = {"body": damage_body(root, records), "entry": damage_entry(root)}
    write_at(queue_file(root, "Orders", 0), 20 * 7, bytes(20))
    write_at(queue_file(root, "Orders", 1), 20 * 5, (1).to_bytes(8, "big"))
    cut = queue_file(root, "Payments", 1, -1)
    with cut.open("r+b") as file:
        file.truncate(20 * 3)
    done["cut"] = int(cut.name) // 20 + 3
    result = audit(spark, store=root, report=root.parent / "page.html", parquet=root.parent / "tables")
    done["report"] = (root.parent / "page.html").read_text()
    done["table"] = [row.asDict() for row in spark.read.parquet(str(root.parent / "tables" / "findings")).collect()]
    return result, done


def findings(result: AuditResult, part: str, text: str) -> list[Finding]:
    return [one for one in result.findings if one.part == part and text in one.what]


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_body_with_another_checksum_is_named_with_its_place(damaged: tuple[AuditResult, dict[str, Any]]) -> None:
    result, done = damaged
    record: Record = done["body"]
    [found] = findings(result, "log", "checksum")
    assert (found.topic, found.queue_id, found.first) == (record.topic, record.queue_id, record.queue_offset)
    assert found.log_offset == record.log_offset
    assert found.place == f"{record.log_offset // LOG_FILE_BYTES * LOG_FILE_BYTES:020d}"
    [lost] = findings(result, "queue", "the message is lost")
    assert (lost.topic, lost.queue_id, lost.first) == (record.topic, record.queue_id, record.queue_offset)
    assert sum(file.bad_bytes for file in result.files) > 0


@pytest.mark.system
def test_queues_that_are_not_as_the_log_says_are_named(damaged: tuple[AuditResult, dict[str, Any]]) -> None:
    result, done = damaged
    missing = {
        (one.topic, one.queue_id, one.first, one.count) for one in findings(result, "queue", "not in their queue")
    }
    [cut] = [one for one in missing if one[0] == "Payments"]
    assert cut[:3] == ("Payments", 1, done["cut"])
    assert ("Orders", 0, 7, 1) in missing
    [wrong] = findings(result, "queue", "the place says")
    assert (wrong.topic, wrong.queue_id, wrong.first, wrong.last) == ("Orders", 1, 5, 5)
    assert wrong.place.endswith(f"consumequeue/Orders/1/{0:020d}")


@pytest.mark.system
def test_index_entries_that_are_not_as_the_log_says_are_named(damaged: tuple[AuditResult, dict[str, Any]]) -> None:
    result, done = damaged
    name, log_offset = done["entry"]
    [stray] = findings(result, "index", "no message with such a key")
    assert (stray.place, stray.log_offset, stray.count) == (f"index/{name}", log_offset, 1)
    [missing] = findings(result, "index", "keys of messages are not in the index")
    assert (missing.log_offset, missing.count) == (log_offset, 1)


@pytest.mark.system
def test_damage_is_the_exit_code_the_page_and_the_table(damaged: tuple[AuditResult, dict[str, Any]]) -> None:
    result, done = damaged
    assert result.exit_code == 1
    assert result.damage_count == len(result.findings) == len(done["table"])
    assert "the body has another checksum" in done["report"]
    assert "is damaged" in result.text()


@pytest.mark.system
@pytest.mark.timeout(300)
def test_of_a_topic_that_was_made_again_the_later_messages_count(spark: SparkSession) -> None:
    def cell(side: str, offset: int, log_offset: int, size: int, tags_code: int | None) -> tuple[Any, ...]:
        return ("cells", side, None, "Orders", 0, offset, log_offset, size, tags_code, None)

    rows = [
        *(cell("log", 0, 100, 300, 9), cell("log", 0, 900, 200, 4), cell("other", 0, 900, 200, 4)),
        *(cell("log", 1, 400, 300, 9), cell("log", 1, 1100, 200, None), cell("other", 1, 1100, 201, None)),
        cell("log", 2, 700, 300, 9),
    ]
    runs = runs_of_cells(spark.createDataFrame(rows, DETAIL_SCHEMA))
    assert [(run["problem"], run["first"], run["should_log_offset"], run["should_size"]) for run in runs] == [
        ("wrong", 1, 1100, 200),
        ("missing", 2, 700, 300),
    ]


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_store_that_is_being_written_is_intact(spark: SparkSession, tmp_path: Path) -> None:
    with LocalCluster(directory=tmp_path) as running, Producer("fill", namesrv=running.namesrv) as producer:
        running.create_topic("Orders", queues=4)
        for number in range(300):
            producer.send(Message("Orders", b"order %d" % number, tags="new", keys=[f"k{number}"]))
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        arguments = parser.parse_args([str(tmp_path / "broker-a")])
        arguments.control = Control()
        result = run(spark, arguments)
    assert (result.exit_code, result.damage_count, result.was_clean) == (0, 0, False)
    assert result.records >= 300
    assert {one.topic: one.messages for one in result.topics}["Orders"] == 300
    assert "is intact" in result.text()
