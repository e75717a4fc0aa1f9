"""The store reader shows what an independent reader finds, in parts of any size, and nothing that is not whole."""

from __future__ import annotations

import shutil
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import StructType

from skyrocketmq.errors import CorruptRecord, IllegalArgument, StoreError
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.ports import LocalDisk
from skyrocketmq.testing.clock import ManualClock
from tests.spark.stores import LOG_FILE_BYTES, config_of, make_store, plan, put_many, read_rows
from tests.store.reader import Record, java_hash, read_log, read_queues
from tests.store.support import new_message, open_store, put_ok, sizes_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    root = tmp_path_factory.mktemp("made") / "store"
    return root, make_store(root)


@pytest.fixture
def copied(made: tuple[Path, list[Record]], tmp_path: Path) -> tuple[Path, list[Record]]:
    """One to be damaged."""
    root = tmp_path / "copied"
    shutil.copytree(made[0], root)
    return root, made[1]


def bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in rows]


def damage(root: Path, log_offset: int, data: bytes = b"\xff\xff\xff\xff") -> None:
    """Other bytes at a place of the log."""
    start = log_offset - log_offset % LOG_FILE_BYTES
    with (root / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(log_offset - start)
        file.write(data)


# ------------------------------------------------------------------------------------------------------------ messages


@pytest.mark.parametrize("part_bytes", [1_000, 10_000, 1 << 30])
def test_messages_are_those_of_the_log_in_parts_of_any_size(made: tuple[Path, list[Record]], part_bytes: int) -> None:
    root, records = made
    assert len({record.log_offset // LOG_FILE_BYTES for record in records}) > 2, "of several files"
    rows = read_rows(root, partitionBytes=part_bytes, broker="broker-a")
    assert [row["log_offset"] for row in rows] == [record.log_offset for record in records]
    for row, record in zip(rows, records, strict=True):
        assert (row["topic"], row["queue_id"], row["queue_offset"]) == (
            record.topic,
            record.queue_id,
            record.queue_offset,
        )
        assert row["body"] == record.body
        assert dict(row["properties"]) == record.properties
        assert row["store_timestamp"] == EPOCH + timedelta(milliseconds=record.store_ms)
        assert row["broker"] == "broker-a"
    _, partitions = plan(root, partitionBytes=part_bytes)
    assert len(partitions) >= min(len(records) // 10, 5) if part_bytes < 1 << 30 else len(partitions) == 1


@pytest.mark.parametrize("part_bytes", [1_000, 1 << 30])
async def test_numbers_that_a_power_cut_made_queues_skip_hide_nothing(tmp_path: Path, part_bytes: int) -> None:
    disk, clock = LocalDisk(), ManualClock()
    async with open_store(disk, config_of(tmp_path), clock=clock) as store:
        await put_many(store, clock, 40)
        for queue in store.queues:  # as a start after a power cut does; files hold 50 numbers
            queue.skip_to(queue.max_offset + 130)
            store.queues.mark_dirty(queue)
        await put_many(store, clock, 40, first=40)
        for queue in store.queues:
            queue.skip_to(queue.max_offset + 64)
            store.queues.mark_dirty(queue)
    records = [each for each in read_log(disk, tmp_path, sizes_of(config_of(tmp_path)))[0] if each.topic == "Orders"]
    disk.close()
    assert len(records) == 40
    rows = read_rows(tmp_path, subscribe="Orders", partitionBytes=part_bytes)
    assert sorted(row["log_offset"] for row in rows) == [record.log_offset for record in records]


def test_topics_are_read_through_their_queues(made: tuple[Path, list[Record]]) -> None:
    root, records = made
    rows = read_rows(root, subscribe="Rare, Payments", partitionBytes=5_000)
    wanted = [record for record in records if record.topic in ("Rare", "Payments")]
    for topic in ("Rare", "Payments"):
        of_topic = [row for row in rows if row["topic"] == topic]
        assert bodies(of_topic) == [record.body for record in wanted if record.topic == topic], "in the log's order"
    assert len(rows) == len(wanted)
    _, partitions = plan(root, subscribe="Payments", partitionBytes=5_000)
    assert len(partitions) > 5, "all queues are cut at the same places of the log"


def test_a_topic_that_is_not_there_is_named(made: tuple[Path, list[Record]]) -> None:
    with pytest.raises(StoreError, match=r"no queue of topic Nobody: it has Orders, Payments, Rare"):
        plan(made[0], subscribe="Nobody")


@pytest.mark.parametrize("options", [{}, {"subscribe": "Orders,Payments,Rare"}])
def test_filters_leave_out_what_they_do_not_want(made: tuple[Path, list[Record]], options: dict[str, Any]) -> None:
    root, records = made
    filters = [In(("topic",), ("Orders", "Rare")), EqualTo(("queue_id",), 1), GreaterThanOrEqual(("queue_offset",), 10)]
    rows = read_rows(root, *filters, LessThan(("queue_offset",), 40), partitionBytes=3_000, **options)
    wanted = [
        record.body
        for record in records
        if record.topic in ("Orders", "Rare") and record.queue_id == 1 and 10 <= record.queue_offset < 40
    ]
    assert wanted
    assert sorted(bodies(rows)) == sorted(wanted)


@pytest.mark.parametrize("options", [{}, {"subscribe": "Orders,Payments,Rare"}])
def test_a_filter_on_time_spares_files(made: tuple[Path, list[Record]], options: dict[str, Any]) -> None:
    root, records = made
    late_ms = records[-30].store_ms
    late = EPOCH + timedelta(milliseconds=late_ms)
    rows = read_rows(root, GreaterThanOrEqual(("store_timestamp",), late), **options)
    assert sorted(bodies(rows)) == sorted(record.body for record in records if record.store_ms >= late_ms)
    _, all_parts = plan(root, partitionBytes=3_000)
    _, parts = plan(root, GreaterThanOrEqual(("store_timestamp",), late), partitionBytes=3_000)
    assert len(parts) < len(all_parts) / 3
    early = EPOCH + timedelta(milliseconds=records[0].store_ms)
    assert bodies(read_rows(root, LessThan(("store_timestamp",), early), **options)) in ([], [records[0].body])


def test_only_the_columns_of_a_schema_are_made(made: tuple[Path, list[Record]]) -> None:
    rows = read_rows(made[0], schema=StructType().add("topic", "string").add("queue_offset", "long"))
    assert len(rows) == len(made[1])
    assert set(rows[0]) == {"topic", "queue_offset"}
    with pytest.raises(IllegalArgument, match=r"the table messages has no column colour: there are topic"):
        read_rows(made[0], schema=StructType().add("colour", "string"))
    with pytest.raises(IllegalArgument, match=r"column queue_id is int, not string"):
        read_rows(made[0], schema=StructType().add("queue_id", "string"))


# -------------------------------------------------------------------------------------------------------- other tables


def test_queues_are_shown_cell_by_cell(made: tuple[Path, list[Record]]) -> None:
    root, _ = made
    disk = LocalDisk()
    queues = read_queues(disk, root, sizes_of(config_of(root)))
    disk.close()
    rows = read_rows(root, table="queues", partitionBytes=500)
    found = {
        (row["topic"], row["queue_id"], row["queue_offset"]): (row["log_offset"], row["record_bytes"], row["tags_code"])
        for row in rows
    }
    assert len(found) == len(rows)
    assert found == {(*name, offset): cell for name, cells in queues.items() for offset, cell in enumerate(cells)}
    some = read_rows(root, EqualTo(("topic",), "Rare"), LessThan(("queue_offset",), 3), table="queues")
    assert {(row["topic"], row["queue_offset"]) for row in some} == {("Rare", 0), ("Rare", 1), ("Rare", 2)}


def test_the_index_is_shown_entry_by_entry(made: tuple[Path, list[Record]]) -> None:
    root, records = made
    rows = read_rows(root, table="index")
    expected = [
        (abs(java_hash(f"{record.topic}#{key}")) & 0x7FFFFFFF, record.log_offset)
        for record in records
        for key in record.keys
    ]
    assert [(row["key_hash"], row["log_offset"]) for row in rows] == expected
    assert len({row["file"] for row in rows}) > 2
    stored = {record.log_offset: record.store_ms for record in records}
    for row in rows:
        away = row["store_timestamp"] - (EPOCH + timedelta(milliseconds=stored[row["log_offset"]]))
        assert abs(away) <= timedelta(seconds=1)


# -------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        (0, "no record begins at log offset"),
        (4, "its parts do not add up"),
        (28, "it stands at another place"),
        (95, "another checksum"),
    ],
)
@pytest.mark.parametrize("number", [0, 300])
def test_a_damaged_record_is_an_error_that_names_it(
    copied: tuple[Path, list[Record]], inside: int, words: str, number: int
) -> None:
    root, records = copied
    record = next(one for one in records[number:] if len(one.body) > 100 and not one.sys_flag)
    damage(root, record.log_offset + inside)
    with pytest.raises(CorruptRecord, match=words) as caught:
        read_rows(root, partitionBytes=20_000)
    if inside != 28:
        assert str(record.log_offset) in str(caught.value)
    assert "commitlog" in str(caught.value)
    with pytest.raises(CorruptRecord):
        read_rows(root, subscribe=record.topic)
    rest = [one.body for one in records if one is not record]
    assert bodies(read_rows(root, failOnDataLoss=False, partitionBytes=20_000)) == rest
    of_queue = read_rows(root, failOnDataLoss=False, subscribe=record.topic)
    assert sorted(bodies(of_queue)) == sorted(
        one.body for one in records if one is not record and one.topic == record.topic
    )
    [row] = read_rows(root, table="damage", partitionBytes=20_000)
    assert (row["part"], row["begin_offset"], row["is_damage"]) == ("log", record.log_offset, True)
    assert row["end_offset"] == record.log_offset + record.total


def test_an_intact_store_has_no_damage(made: tuple[Path, list[Record]]) -> None:
    assert read_rows(made[0], table="damage") == []


def test_bodies_need_not_be_checked(copied: tuple[Path, list[Record]]) -> None:
    root, records = copied
    record = next(one for one in records if len(one.body) > 100 and not one.sys_flag)
    damage(root, record.log_offset + 95)
    assert len(read_rows(root, checkBodies=False)) == len(records)


@pytest.mark.parametrize("options", [{}, {"subscribe": "T"}])
async def test_bodies_are_inflated_piece_by_piece_and_one_that_is_not_compressed_is_stepped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """It says that it is compressed, and has the checksum of what it is: a producer's mistake."""
    monkeypatch.setattr("skyrocketmq.spark.columns.INFLATED_BYTES", 100_000)
    disk, root = LocalDisk(), tmp_path / "store"
    root.mkdir()
    inflated = [b"%d" % number * 20_000 for number in range(30)]
    async with open_store(disk, config_of(root)) as store:
        for number, body in enumerate(inflated):
            stored = b"not compressed" if number == 17 else zlib.compress(body)
            put_ok(store, new_message("T", 0, stored, sys_flag=BODY_COMPRESSED))
    disk.close()
    with pytest.raises(CorruptRecord, match=r"the body of queue offset 17 at log offset .* cannot be inflated"):
        read_rows(root, **options)
    del inflated[17]
    assert bodies(read_rows(root, failOnDataLoss=False, **options)) == inflated
    reader, partitions = plan(root, failOnDataLoss=False, **options)
    assert all(batch.nbytes < 200_000 for one in partitions for batch in reader.read(one))


def test_a_place_of_a_queue_that_was_wiped_does_not_end_it(copied: tuple[Path, list[Record]]) -> None:
    """A cell of zeros looks like one that nobody has written yet: to a search, the queue ends there."""
    root, records = copied
    orders = [one.body for one in records if (one.topic, one.queue_id) == ("Orders", 0)]
    files = sorted((root / "consumequeue" / "Orders" / "0").iterdir())
    assert len(orders) > 100
    assert len(files) > 2
    for wiped in (0, 31, 49, 50, 63, 75, 99, 100, len(orders) // 2, len(orders) - 2):
        file, at = files[wiped // 50], wiped % 50 * 20
        intact = file.read_bytes()
        file.write_bytes(intact[:at] + bytes(20) + intact[at + 20 :])
        only = [EqualTo(("queue_id",), 0)]
        with pytest.raises(CorruptRecord, match=rf"place {wiped} of queue 0 is damaged.*a queue of Orders leads to it"):
            read_rows(root, *only, subscribe="Orders")
        left = read_rows(root, *only, subscribe="Orders", failOnDataLoss=False)
        assert bodies(left) == [body for number, body in enumerate(orders) if number != wiped]
        file.write_bytes(intact)


def test_a_missing_file_is_an_error_and_a_row(copied: tuple[Path, list[Record]]) -> None:
    root, records = copied
    (root / "commitlog" / f"{LOG_FILE_BYTES:020d}").unlink()
    with pytest.raises(CorruptRecord, match=r"files before it are missing, so log offsets 65536 to 131072"):
        read_rows(root)
    left = [one.body for one in records if one.log_offset // LOG_FILE_BYTES != 1]
    assert bodies(read_rows(root, failOnDataLoss=False)) == left
    assert sorted(bodies(read_rows(root, failOnDataLoss=False, subscribe="Orders,Payments,Rare"))) == sorted(left)
    [row] = read_rows(root, table="damage")
    assert (row["begin_offset"], row["end_offset"]) == (LOG_FILE_BYTES, 2 * LOG_FILE_BYTES)


def test_a_file_of_another_size_is_an_error_and_a_row(copied: tuple[Path, list[Record]]) -> None:
    root, _ = copied
    path = root / "commitlog" / f"{LOG_FILE_BYTES:020d}"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CorruptRecord, match=r"00065536: it has 1000 bytes, not 65536"):
        read_rows(root)
    [row] = read_rows(root, table="damage")
    assert "it has 1000 bytes" in row["what"]
    path.write_bytes(bytes(LOG_FILE_BYTES + 1))
    with pytest.raises(StoreError, match=r"65537 bytes, mappedFileSizeCommitLog says"):
        read_rows(root, mappedFileSizeCommitLog=LOG_FILE_BYTES)


def test_queue_and_index_files_of_another_size_are_rows_of_damage(copied: tuple[Path, list[Record]]) -> None:
    root, records = copied
    (root / "consumequeue" / "Orders" / "0" / f"{0:020d}").write_bytes(bytes(999_980))
    with (root / "index" / min(path.name for path in (root / "index").iterdir())).open("ab") as file:
        file.write(b"more")
    rows = read_rows(root, table="damage")
    assert [row["part"] for row in rows] == ["queue", "index"]
    with pytest.raises(StoreError, match=r"mappedFileSizeConsumeQueue says"):
        read_rows(root, table="queues")
    with pytest.raises(StoreError, match=r"index files of this store have"):
        read_rows(root, table="index")
    assert len(read_rows(root)) == len(records), "the log is the truth"


# ------------------------------------------------------------------------------------------- stores in other conditions


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is no directory: give the one that storePathRootDir names"):
        read_rows(tmp_path / "nothing")
    with pytest.raises(StoreError, match=r"holds no store"):
        read_rows(tmp_path)


def test_a_log_that_lies_elsewhere_is_not_an_empty_store(copied: tuple[Path, list[Record]], tmp_path: Path) -> None:
    root, records = copied
    shutil.move(root / "commitlog", tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"there is no log in .*commitlog, but the checkpoint knows of messages"):
        read_rows(root)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"storePathCommitLog={tmp_path / 'elsewhere'}\nmappedFileSizeCommitLog={LOG_FILE_BYTES}\n"
        f"mappedFileSizeConsumeQueue=1000\nmaxHashSlotNum=50\nmaxIndexNum=200\n"
    )
    assert len(read_rows(root, config=conf)) == len(records)
    assert len(read_rows(root, config=conf, subscribe="Rare")) == len([one for one in records if one.topic == "Rare"])


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 0)
    for table in ("messages", "queues", "index", "damage"):
        assert read_rows(tmp_path / "store", table=table) == []
    with pytest.raises(StoreError, match=r"it has none at all"):
        read_rows(tmp_path / "store", subscribe="Orders")


async def test_a_store_that_is_written_is_read_up_to_what_it_held_when_the_read_was_planned(tmp_path: Path) -> None:
    disk, clock, root = LocalDisk(), ManualClock(), tmp_path / "store"
    root.mkdir()
    sizes = sizes_of(config_of(root))
    async with open_store(disk, config_of(root), clock=clock) as store:
        await put_many(store, clock, 100)
        for number in range(100, 600, 100):
            before, _ = read_log(disk, root, sizes, until_bad=True)
            reader, partitions = plan(root, partitionBytes=3_000)
            await put_many(store, clock, 100, first=number)  # after the plan: not part of it
            rows = [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]
            assert [row["log_offset"] for row in rows] == [record.log_offset for record in before]
            cells = read_rows(root, table="queues")
            assert all(row["record_bytes"] > 0 for row in cells)
            assert read_rows(root, table="damage") == []
    disk.close()


def test_a_place_of_a_queue_out_of_order_loses_no_other(copied: tuple[Path, list[Record]]) -> None:
    """Cells are put in the order of the log; one that leads nowhere near its neighbours takes nothing with it."""
    root, records = copied
    with (root / "consumequeue" / "Orders" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(7 * 20)
        file.write((2 * LOG_FILE_BYTES).to_bytes(8, "big"))
    with pytest.raises(CorruptRecord, match="a queue of Orders leads to it"):
        read_rows(root, subscribe="Orders", partitionBytes=3_000)
    rows = read_rows(root, subscribe="Orders", partitionBytes=3_000, failOnDataLoss=False)
    wanted = [one for one in records if one.topic == "Orders" and (one.queue_id, one.queue_offset) != (0, 7)]
    assert sorted(bodies(rows)) == sorted(one.body for one in wanted)


@pytest.mark.parametrize("cut", [3, 50, 92, 150])
def test_a_crash_leaves_what_was_whole(copied: tuple[Path, list[Record]], cut: int) -> None:
    """The last record was being written: so many of its bytes are there, then zeros."""
    root, records = copied
    last = records[-1]
    cut = min(cut, last.total - 1)
    damage(root, last.log_offset + cut, bytes(last.total - cut))
    assert bodies(read_rows(root)) == [record.body for record in records[:-1]]
    [row] = read_rows(root, table="damage")
    assert (row["begin_offset"], row["is_damage"]) == (last.log_offset, False)
    assert last.log_offset < row["end_offset"] <= last.log_offset + last.total
    assert last.body not in bodies(read_rows(root, subscribe=last.topic)), "its place in the queue leads behind the end"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tabel": "queues"}, "no option 'tabel': did you mean table"),
        ({"table": "tables"}, "a store has no table 'tables': there are messages, queues, index, damage"),
        ({"partitionBytes": "many"}, "option partitionBytes is 'many': a whole number is expected"),
        ({"failOnDataLoss": "perhaps"}, "true or false is expected"),
        (
            {"table": "index", "subscribe": "T"},
            "option subscribe cannot be used here: it is for the tables messages and queues",
        ),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(IllegalArgument, match=words):
        plan(tmp_path, **options)


def test_a_store_needs_a_directory() -> None:
    with pytest.raises(IllegalArgument, match=r"the store's directory is missing: load\(DIR\)"):
        plan("")
