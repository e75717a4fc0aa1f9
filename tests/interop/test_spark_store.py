"""A store that Apache's broker writes, through the store reader: at work, and after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.ports import LocalDisk
from tests.interop.apache import Apache, Server
from tests.interop.driver import Driver, Queue, message
from tests.spark.jobs.audited import first_pass
from tests.spark.stores import read_rows
from tests.store.reader import Record, Sizes, read_log

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "Exchange"
QUEUES = 4
COUNT = 600
SIZES = Sizes(log_file=256 * 1024, queue_file=20 * 100, slots=500, entries=2000)
SETTINGS = {
    "mappedFileSizeCommitLog": str(SIZES.log_file),
    "mappedFileSizeConsumeQueue": str(SIZES.queue_file),
    "maxHashSlotNum": str(SIZES.slots),
    "maxIndexNum": str(SIZES.entries),
}


@pytest.fixture
def apache_broker(apache: Apache, tmp_path: Path) -> Iterator[Server]:
    with (
        apache.namesrv() as namesrv,
        apache.broker(
            namesrv=namesrv.address, name="exchange", store=tmp_path / "store", config=SETTINGS, start=False
        ) as broker,
    ):
        yield broker


def log_of(root: Path) -> list[Record]:
    disk = LocalDisk()
    try:
        return read_log(disk, root, SIZES, until_bad=True)[0]
    finally:
        disk.close()


def text_of(number: int) -> str:
    return f"{number:05d}" + "." * 900


def test_the_store_of_apache_s_broker_is_read_at_work_and_after_a_kill(
    apache_broker: Server, java: Driver, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    apache_broker.start()
    with java.producer("exchange", namesrv=apache_broker.config["namesrvAddr"]) as producer:
        producer.create_topic(TOPIC, queues=QUEUES)
        for number in range(COUNT):
            queue = Queue(TOPIC, "exchange", number % QUEUES)
            producer.send(message(TOPIC, text_of(number), tags="TagA", keys=f"key-{number}"), queue=queue)
        check(root)
    apache_broker.kill()
    check(root)


def check(root: Path) -> None:
    expected = [text_of(number).encode() for number in range(COUNT)]
    rows = read_rows(root, partitionBytes=100_000)
    ours = [row for row in rows if row["topic"] == TOPIC]
    assert [row["body"] for row in ours] == expected
    assert [row["log_offset"] for row in rows] == [record.log_offset for record in log_of(root)]
    assert [(row["tags"], row["keys"]) for row in ours] == [("TagA", [f"key-{number}"]) for number in range(COUNT)]
    assert len({row["log_offset"] // SIZES.log_file for row in ours}) > 2, "of several files"
    assert sorted(row["body"] for row in read_rows(root, subscribe=TOPIC)) == expected
    cells = [row for row in read_rows(root, table="queues") if row["topic"] == TOPIC]
    assert len(cells) == COUNT
    assert {row["log_offset"] for row in cells} == {row["log_offset"] for row in ours}
    entries = [row["log_offset"] for row in read_rows(root, table="index")]
    assert {row["log_offset"] for row in ours} <= set(entries)
    assert read_rows(root, table="damage") == []
    audited = first_pass(root)
    assert audited.count("log") == len(rows)
    assert (audited.differing, audited.found(), audited.plan.found) == ([], [], ())
