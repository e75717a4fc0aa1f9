"""Writing to a real broker, without a JVM: what Spark's driver and tasks call is called here."""

from __future__ import annotations

import asyncio
import pickle
import random
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from skyrocketmq import Message, MessageView
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument, NetError, NoRoute
from skyrocketmq.model import CompressionType
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.spark import sink
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.spark.once import ROW_ID, TaskPlace
from skyrocketmq.spark.sending import WriteFailed
from skyrocketmq.spark.sink import RocketMQStreamWriter, RocketMQWriter, Written
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.testing import BlockingCluster, LocalCluster
from skyrocketmq.testing.link import Direction, FaultyConnection
from skyrocketmq.wire.compression import compression_type

ONCE = {"mode": "effectively-once"}
KINDS = {
    "topic": pa.string(),
    "keys": pa.list_(pa.string()),
    "properties": pa.map_(pa.string(), pa.string()),
    "delay_level": pa.int32(),
    "flag": pa.int32(),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster(brokers=2, settings={"maxMessageSize": "300000"}) as running:
        yield running


@pytest.fixture
def topic(cluster: BlockingCluster, request: pytest.FixtureRequest) -> str:
    name = f"sink-{abs(hash(request.node.name))}"
    cluster.create_topic(name, queues=2)
    return name


def table(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, KINDS.get(name)) for name, values in columns.items()})


def writer(cluster: BlockingCluster, rows: pa.RecordBatch, **options: str) -> RocketMQWriter:
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "timeout": "5s"} | options)
    made = source.writer(from_arrow_schema(rows.schema), overwrite=False)
    assert isinstance(made, RocketMQWriter)
    return made


def write(cluster: BlockingCluster, rows: pa.RecordBatch, **options: str) -> Written:
    task = pickle.loads(pickle.dumps(writer(cluster, rows, **options)))
    written = pickle.loads(pickle.dumps(task.write(iter([rows]))))
    assert isinstance(written, Written)
    return written


def bodies(cluster: BlockingCluster, topic: str) -> list[str]:
    return sorted(message.body.decode() for message in cluster.messages(topic))


OF_OTHER_CLIENTS = [("empty", ""), ("blank", " \t")]


def test_a_row_is_a_message(cluster: BlockingCluster, topic: str) -> None:
    rows = table(
        topic=[topic, topic],
        body=["first", "second"],
        tags=["a", " "],
        keys=[["k1", "k2"], None],
        properties=[[("colour", "red"), ("UNIQ_KEY", "stays with the message it was read from")], OF_OTHER_CLIENTS],
        flag=[-7, None],
        sys_flag=[1, 2],  # of rows that were read: not written
    )
    assert write(cluster, rows) == Written(2)
    first, second = sorted(cluster.messages(topic), key=lambda message: message.body)
    assert (first.body, first.tags, first.keys, first.user_properties) == (
        b"first",
        "a",
        ("k1", "k2"),
        {"colour": "red"},
    )
    assert (second.body, second.tags, second.keys, second.user_properties) == (b"second", None, (), {})
    assert (first.flag, second.flag) == (-7, 0)
    assert len(first.msg_id) == 32
    assert first.msg_id != second.msg_id


def test_many_rows_travel_in_batches_to_all_queues(cluster: BlockingCluster, topic: str) -> None:
    rows = table(body=[b"%d" % number for number in range(500)])
    assert write(cluster, rows, topic=topic, batchBytes="2000", window="3") == Written(500)
    messages = cluster.messages(topic, count=500)
    assert sorted(int(message.body) for message in messages) == list(range(500))
    assert len({message.queue for message in messages}) == 4


def test_rows_are_taken_in_pieces_that_are_small_whatever_their_sizes() -> None:
    rows = table(body=[bytes([number]) * (5 << 20 if number < 9 else 1) for number in range(200)])
    pieces = list(sink._pieces([rows]))
    assert [body[0] for piece in pieces for body in piece.column("body").to_pylist()] == list(range(200))
    assert max(piece.nbytes for piece in pieces) <= 16 << 20
    assert len(pieces) < 12, "and not smaller than they have to be"


def by_key(messages: list[MessageView]) -> Mapping[str, list[MessageView]]:
    groups: dict[str, list[MessageView]] = {}
    for message in sorted(messages, key=lambda message: message.queue_offset):
        groups.setdefault(message.body.decode().split()[0], []).append(message)
    return groups


def test_rows_with_the_same_sharding_key_keep_their_order(cluster: BlockingCluster, topic: str) -> None:
    keys = [f"k{number % 7}" for number in range(300)]
    rows = table(body=[f"{key} {number}" for number, key in enumerate(keys)], sharding_key=keys)
    assert write(cluster, rows, topic=topic, batchBytes="700").message_count == 300
    groups = by_key(cluster.messages(topic, count=300))
    assert len(groups) == 7
    for messages in groups.values():
        assert len({message.queue for message in messages}) == 1
        numbers = [int(message.body.split()[1]) for message in messages]
        assert numbers == sorted(numbers)


def test_a_delayed_row_comes_later(cluster: BlockingCluster, topic: str) -> None:
    rows = table(body=["now", "soon"], delay_level=[0, 5])
    assert write(cluster, rows, topic=topic) == Written(2)
    assert bodies(cluster, topic) == ["now"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"text": ["x"]}, {}, "a column body is missing: there are text"),
        ({"body": [1]}, {}, "column body is bigint: cast it to binary or string"),
        ({"body": ["x"], "colour": ["red"]}, {}, "a message has no colour: the sink takes body, topic, tags"),
        ({"body": ["x"]}, {"topic": ""}, "Set the option topic, or have a column topic"),
        ({"body": ["x"]}, {"mode": "exactly-once"}, "it can be at-least-once or effectively-once"),
        ({"body": ["x"]}, ONCE, "set checkpointLocation .* or sinkId"),
        ({"body": ["x"]}, {**ONCE, "sinkId": "s", "topic": ""}, "needs the option topic"),
        ({"body": ["x"]}, {**ONCE, "sinkId": "s", "idColumns": "id"}, "idColumns names columns .* not there: id"),
        ({"body": ["x"], "delay_level": [1]}, {**ONCE, "sinkId": "s"}, "delayed messages cannot be read back"),
        ({"body": ["x"]}, {"sinkId": "s"}, "sinkId cannot be used here"),
    ],
)
def test_a_schema_or_options_that_do_not_fit_are_refused_before_any_task(
    cluster: BlockingCluster, topic: str, columns: dict[str, list[Any]], options: dict[str, str], message: str
) -> None:
    with pytest.raises(IllegalArgument, match=message):
        writer(cluster, table(**columns), **{"topic": topic} | options)


def test_a_topic_that_is_not_there_is_named(cluster: BlockingCluster) -> None:
    with pytest.raises(NoRoute, match="no route for topic Nobody"):
        writer(cluster, table(body=["x"]), topic="Nobody")
    with pytest.raises(WriteFailed, match="nothing can be written: no route for topic Nobody"):
        write(cluster, table(body=["x"], topic=["Nobody"]))
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "topic": "Nobody"})
    with pytest.raises(IllegalArgument, match="cannot be overwritten: use mode append"):
        source.writer(from_arrow_schema(table(body=["x"]).schema), overwrite=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"body": [None, "x"]}, r"a row cannot be a message .*body"),
        ({"body": ["x"], "topic": [None]}, r"a row cannot be a message .*topic"),
        ({"body": ["x"], "properties": [[("a\x01", "b")]]}, r"a row cannot be a message"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(
    cluster: BlockingCluster, topic: str, columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(WriteFailed, match=message):
        write(cluster, table(**columns), **({} if "topic" in columns else {"topic": topic}))


def test_what_the_broker_refuses_is_an_error_that_says_what_was_written(cluster: BlockingCluster, topic: str) -> None:
    rows = table(body=[b"small", random.Random(1).randbytes(400_000)])
    with pytest.raises(WriteFailed, match=r"1 messages for .* could not be written.*\n?.*1 messages of this task"):
        write(cluster, rows, topic=topic, window="1", batchBytes="1", compression="none")
    assert bodies(cluster, topic) == ["small"]
    with pytest.raises(WriteFailed, match=r"cannot be a message .* its body has 17825792 bytes, and 16777216 is"):
        write(cluster, table(body=[bytes(17 << 20)]), topic=topic)
    with pytest.raises(WriteFailed, match=r"could not be written, .* a frame of 16777\d+ bytes, the limit is 16777216"):
        write(cluster, table(body=[bytes(16 << 20)]), topic=topic, compression="none")


LARGE = b"compressible " * 50_000  # more than these brokers take, as it is


@pytest.mark.parametrize(
    ("options", "kind", "is_small_compressed"),
    [
        ({}, CompressionType.ZLIB, False),
        ({"compression": "zstd", "compressLevel": "19"}, CompressionType.ZSTD, False),
        ({"compression": "lz4", "compressFromBytes": "5"}, CompressionType.LZ4, True),
        ({"compressLevel": "1", "ratePerTask": "1000000"}, CompressionType.ZLIB, False),  # not by columns
    ],
)
def test_large_bodies_are_compressed_and_small_ones_travel_together(
    cluster: BlockingCluster, topic: str, options: dict[str, str], kind: CompressionType, is_small_compressed: bool
) -> None:
    rows = table(body=[b"small " * 20, LARGE, b"sm", b"also small " * 20, LARGE], tags=["a", "b", "c", "d", "e"])
    assert write(cluster, rows, topic=topic, **options) == Written(5)
    by_tags = {message.tags: message for message in cluster.messages(topic)}
    assert [by_tags[tags].body for tags in "abcde"] == rows.column("body").to_pylist()
    large = by_tags["b"].sys_flag
    assert (large & BODY_COMPRESSED, compression_type(large)) == (BODY_COMPRESSED, kind)
    assert [by_tags[tags].sys_flag for tags in "acd"] == [
        large if is_small_compressed else 0,
        0,
        large if is_small_compressed else 0,
    ]
    together = {by_tags[tags].queue for tags in ("c" if is_small_compressed else "acd")}
    assert len(together) == 1, "what is small is one batch"


def test_what_compression_makes_larger_is_sent_as_it_is(cluster: BlockingCluster, topic: str) -> None:
    body = random.Random(3).randbytes(280 * 1024)
    assert write(cluster, table(body=[body]), topic=topic) == Written(1)
    (message,) = cluster.messages(topic)
    assert (message.body, message.sys_flag & BODY_COMPRESSED) == (body, 0)


def test_rows_with_a_sharding_key_keep_their_order_whatever_their_size(cluster: BlockingCluster, topic: str) -> None:
    texts = [f"k {number} {'x' * (5000 if number % 3 == 1 else 1)}" for number in range(30)]
    rows = table(body=texts, sharding_key=["k"] * 30)
    assert write(cluster, rows, topic=topic, compressFromBytes="4096") == Written(30)
    messages = sorted(cluster.messages(topic, count=30), key=lambda message: message.queue_offset)
    assert [message.body.decode() for message in messages] == texts
    assert [bool(message.sys_flag & BODY_COMPRESSED) for message in messages] == [n % 3 == 1 for n in range(30)]


def test_a_broker_that_goes_away_is_gone_round_or_waited_for(cluster: BlockingCluster, topic: str) -> None:
    rows = [table(body=[f"{part}-{number}" for number in range(50)]) for part in range(3)]
    keyed = [table(body=[f"k {part}"], sharding_key=["k"]) for part in range(3)]
    task = writer(cluster, rows[0], topic=topic, batchBytes="300")
    keyed_task = writer(cluster, keyed[0], topic=topic)

    def restarting(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield batches[0]
        cluster.restart_broker("broker-a")
        yield batches[1]
        cluster.restart_broker("broker-b")
        yield batches[2]

    task.write(restarting(rows))
    keyed_task.write(restarting(keyed))
    found = bodies(cluster, topic)
    assert set(found) == {f"{part}-{number}" for part in range(3) for number in range(50)} | {"k 0", "k 1", "k 2"}


def test_a_broker_that_stays_away_costs_one_pause_and_not_one_for_each_batch(
    cluster: BlockingCluster, topic: str
) -> None:
    rows = table(body=[f"{number}" for number in range(40)])
    task = writer(cluster, rows, topic=topic, batchBytes="1")

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows  # connects to both
        cluster.stop_broker("broker-b")
        yield rows

    began = time.monotonic()
    try:
        assert task.write(batches()) == Written(80)
    finally:
        cluster.start_broker("broker-b")
    # Half of the second forty would each wait a second.
    assert time.monotonic() - began < 15


# ------------------------------------------------------------------------------------------------ effectively once


class Stream:
    """A query that writes: its driver, its tasks, and ways to die."""

    def __init__(self, cluster: BlockingCluster, topic: str, patch: pytest.MonkeyPatch, **options: str) -> None:
        self._source = RocketMQDataSource(
            {"namesrv": cluster.namesrv, "topic": topic, "checkpointLocation": f"/checkpoints/{topic}", **ONCE}
            | options
        )
        self._patch = patch

    def task(
        self, rows: pa.RecordBatch, *, epoch: int, partition: int = 0, attempt: int = 0, query: str = "q"
    ) -> Written:
        self._patch.setattr(sink, "task_place", lambda: TaskPlace(epoch, partition, attempt, query))
        made = self._source.streamWriter(from_arrow_schema(rows.schema), overwrite=False)
        assert isinstance(made, RocketMQStreamWriter)
        written = made.write(iter([rows]))
        assert isinstance(written, Written)
        self._last = made
        return written

    def commit(self, epoch: int) -> None:
        self._last.commit([], epoch)


def test_a_repeated_epoch_writes_what_is_missing_only(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = table(body=["a", "b", "b", "c"])
    query = Stream(cluster, topic, monkeypatch)
    assert query.task(table(body=["a", "b"]), epoch=0) == Written(2)  # and then the driver dies
    again = Stream(cluster, topic, monkeypatch)
    assert again.task(whole, epoch=0) == Written(2, 2)
    assert again.task(whole, epoch=0, attempt=1) == Written(0, 4)
    again.commit(0)
    # It dies after its end was recorded, and before Spark has noted that: the epoch comes once more.
    assert Stream(cluster, topic, monkeypatch).task(whole, epoch=0) == Written(0, 4)
    # The same rows in the next epoch are other rows.
    later = Stream(cluster, topic, monkeypatch)
    assert later.task(whole, epoch=1) == Written(4)
    assert Stream(cluster, topic, monkeypatch).task(whole, epoch=1) == Written(0, 4)
    later.commit(1)
    assert Stream(cluster, topic, monkeypatch).task(whole, epoch=2) == Written(4)
    assert bodies(cluster, topic) == sorted(["a", "b", "b", "c"] * 3)


def test_an_epoch_is_told_from_what_others_wrote_before_and_between(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer("others", namesrv=cluster.namesrv) as producer:
        producer.send(Message(topic, b"before"))
        query = Stream(cluster, topic, monkeypatch, idColumns="id")
        rows = table(body=["x", "y"], id=[1, 2])
        assert query.task(rows, epoch=0) == Written(2)
        producer.send(Message(topic, b"between", properties={ROW_ID: "somebody else's"}))
        changed = table(body=["x again", "z"], id=[1, 3])
        assert Stream(cluster, topic, monkeypatch, idColumns="id").task(changed, epoch=0) == Written(1, 1)
        other = Stream(cluster, topic, monkeypatch, idColumns="id", sinkId="another query")
        assert other.task(rows, epoch=0) == Written(2)
    assert bodies(cluster, topic) == sorted(["before", "x", "y", "between", "z", "x", "y"])


def test_equal_rows_of_several_tasks_are_all_written(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Stream(cluster, topic, monkeypatch)
    rows = table(body=["same", "same"])
    assert [query.task(rows, epoch=0, partition=part) for part in range(2)] == [Written(2), Written(2)]
    again = Stream(cluster, topic, monkeypatch)
    assert [again.task(rows, epoch=0, partition=part) for part in range(2)] == [Written(0, 2), Written(0, 2)]


def test_a_batch_write_with_a_name_is_done_once(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "task_place", lambda: TaskPlace(None, 0, 0))
    rows = table(body=["a", "b"])
    assert write(cluster, rows, topic=topic, sinkId="load of monday", **ONCE) == Written(2)
    assert write(cluster, rows, topic=topic, sinkId="load of monday", **ONCE) == Written(0, 2)
    assert write(cluster, rows, topic=topic, sinkId="load of tuesday", **ONCE) == Written(2)


def losing_answers(cluster: BlockingCluster, topic: str) -> Iterator[pa.RecordBatch]:
    """Rows whose task loses its connections when the brokers have stored some, and have not been able to say so."""

    loop = cluster.awaitable._loop
    assert loop is not None
    run = partial(asyncio.run_coroutine_threadsafe, loop=loop)

    def tasks() -> list[FaultyConnection]:
        """The connections that brokers accepted: not theirs to the name server."""
        links = [cluster.awaitable.link(name) for name in ("broker-a", "broker-b")]
        return [one for link in links for one in link.connections if one._real.get_extra_info("sockname")[1] in ports]

    async def mute() -> None:
        for one in tasks():
            one.stall(Direction.OUT)

    async def cut() -> None:
        for one in tasks():
            one.cut()

    with Cluster([cluster.namesrv], LinkSettings()) as known:
        ports = {int(known.address_of(name, topic).split(":")[1]) for name in ("broker-a", "broker-b")}

    def stored_count() -> int:
        return len(run(cluster.awaitable.messages(topic)).result(10))

    yield table(body=[f"first {number}" for number in range(6)])
    before = stored_count()
    run(mute()).result(10)
    yield table(body=[f"second {number}" for number in range(6)])
    deadline = time.monotonic() + 10
    while stored_count() == before:
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.02)
    run(cut()).result(10)
    yield table(body=[f"third {number}" for number in range(6)])


SENT = sorted(f"{part} {number}" for part in ("first", "second", "third") for number in range(6))


@pytest.mark.parametrize("compress_from", ["4096", "0"], ids=["together", "each compressed"])
def test_what_a_broker_stored_without_saying_so_is_not_sent_again(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch, compress_from: str
) -> None:
    monkeypatch.setattr(sink, "task_place", lambda: TaskPlace(None, 0, 0))
    options = {"batchBytes": "300", "compressFromBytes": compress_from, "sinkId": "cut off", **ONCE}
    task = writer(cluster, table(body=["x"]), topic=topic, **options)
    assert task.write(losing_answers(cluster, topic)) == Written(len(SENT))
    assert bodies(cluster, topic) == SENT


def test_at_least_once_sends_again_what_was_not_answered(cluster: BlockingCluster, topic: str) -> None:
    task = writer(cluster, table(body=["x"]), topic=topic, batchBytes="60")
    assert task.write(losing_answers(cluster, topic)) == Written(len(SENT))
    found = bodies(cluster, topic)
    assert sorted(set(found)) == SENT
    assert len(found) > len(SENT), "or the test above shows nothing"


def test_a_task_that_cannot_find_out_what_is_stored_fails_and_says_so(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "task_place", lambda: TaskPlace(None, 0, 0))
    task = writer(cluster, table(body=["x"]), topic=topic, retries="1", sinkId="gone", **ONCE)
    again = writer(cluster, table(body=["x"]), topic=topic, retries="1", sinkId="gone", **ONCE)
    cluster.stop_broker("broker-b")
    try:
        with pytest.raises(NetError, match=f"what was written to {topic} cannot be read back: 2 attempts failed"):
            task.write(iter([table(body=["x"])]))
    finally:
        cluster.start_broker("broker-b")
    assert bodies(cluster, topic) == [], "or it might be there twice"
    assert again.write(iter([table(body=["x"])])) == Written(1)


def test_a_query_that_begins_anew_writes_all_of_its_rows(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint was deleted: Spark counts from 0 again, and gives it another id."""
    rows = table(body=["a", "b"])
    query = Stream(cluster, topic, monkeypatch)
    assert query.task(rows, epoch=0, query="first") == Written(2)
    query.commit(0)
    assert Stream(cluster, topic, monkeypatch).task(rows, epoch=0, query="second") == Written(2)
    assert Stream(cluster, topic, monkeypatch).task(rows, epoch=0, query="second") == Written(0, 2)


def test_nothing_is_written_while_queues_with_rows_are_away(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(body=[f"{number}" for number in range(40)])
    assert Stream(cluster, topic, monkeypatch, batchBytes="300").task(rows, epoch=0) == Written(40)
    cluster.stop_broker("broker-b")
    try:
        with pytest.raises(NoRoute, match=r"has 2 queues now and had 4: rows in the others cannot be read back"):
            Stream(cluster, topic, monkeypatch).task(rows, epoch=0)
    finally:
        cluster.start_broker("broker-b")
    assert Stream(cluster, topic, monkeypatch).task(rows, epoch=0) == Written(0, 40)


def test_a_batch_write_inside_a_stream_is_told_by_its_epoch(
    cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `foreachBatch`: each batch is a batch write, and its tasks know the epoch."""
    rows = table(body=["a", "b"])
    for epoch in range(3):
        monkeypatch.setattr(sink, "task_place", lambda epoch=epoch: TaskPlace(epoch, 0, 0, "q"))
        assert write(cluster, rows, topic=topic, sinkId="each", **ONCE) == Written(2)
        assert write(cluster, rows, topic=topic, sinkId="each", **ONCE) == Written(0, 2)
