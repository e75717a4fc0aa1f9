"""Ranges of queues, read from a real broker: complete, in order, and honest about what is missing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.client.outgoing import SendRequests, pack_message
from skyrocketmq.errors import BrokerError, ConnectionLost, CorruptRecord, NetError
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.names import AUTO_CREATE_TOPIC
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.link import BlockingLink, LinkSettings
from skyrocketmq.spark.pulling import DataLost, PullOptions, QueueRange, Share, read_range
from skyrocketmq.testing import BlockingCluster, LocalCluster
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.ids import UniqueIdGenerator

COUNT = 700
WANTED = QueueRange("Numbers", "broker-a", 0, 0, COUNT)
OPTIONS = PullOptions(retry_count_max=2)
Connect = Callable[[], BlockingLink]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    # Answers as Apache's brokers give them: several make a batch, and a range is many of them.
    settings = {"enablePropertyFilter": "true", "maxTransferCountOnMessageInMemory": "32"}
    with LocalCluster(settings=settings) as running:
        with Producer("fill", namesrv=running.namesrv) as producer:
            queue = MessageQueue("Numbers", "broker-a", 0)
            for number in range(COUNT):
                # A few are so large that an answer holds one or two only: guesses of how many come are wrong then.
                body = b"%d " % number * (40_000 if number % 97 == 0 else 1)
                message = Message(
                    "Numbers", body, tags="even" if number % 2 == 0 else "odd", properties={"n": str(number)}
                )
                producer.send(message, queue=queue)
        yield running


@pytest.fixture(scope="module")
def connect(cluster: BlockingCluster) -> Connect:
    settings = LinkSettings(timeout_s=10)
    with Cluster([cluster.namesrv], settings) as known:
        address = known.address_of("broker-a", "Numbers")
    return lambda: BlockingLink(address, settings)


def numbers(connect: Connect, wanted: QueueRange, options: PullOptions = OPTIONS) -> list[int]:
    batches = list(read_range(connect, wanted, options, ("queue_offset", "body"), sleep=lambda _: None))
    offsets = [offset for batch in batches for offset in batch.column(0).to_pylist()]
    bodies = [int(body.split()[0]) for batch in batches for body in batch.column(1).to_pylist()]
    assert offsets == bodies
    return bodies


@pytest.mark.parametrize(
    ("start", "end"), [(0, COUNT), (0, 1), (13, 14), (96, 98), (100, 555), (COUNT - 1, COUNT), (5, 5)]
)
def test_a_range_is_read_completely_and_in_order(connect: Connect, start: int, end: int) -> None:
    assert numbers(connect, replace(WANTED, start=start, end=end)) == list(range(start, end))


def test_a_filter_gives_what_matches(connect: Connect) -> None:
    odd = replace(OPTIONS, expression="odd")
    assert numbers(connect, WANTED, odd) == list(range(1, COUNT, 2))
    few = replace(OPTIONS, expression="n BETWEEN 90 AND 99", is_sql=True)
    assert numbers(connect, WANTED, few) == list(range(90, 100))
    nothing = replace(OPTIONS, expression="none")
    assert numbers(connect, WANTED, nothing) == []


def test_what_is_not_there_is_an_error_or_left_out(connect: Connect) -> None:
    beyond = replace(WANTED, start=COUNT - 5, end=COUNT + 5)
    with pytest.raises(DataLost, match=f"read up to {COUNT}, and it ends at {COUNT}.*failOnDataLoss"):
        numbers(connect, beyond)
    tolerant = replace(OPTIONS, fail_on_data_loss=False)
    assert numbers(connect, beyond, tolerant) == list(range(COUNT - 5, COUNT))


def test_a_message_that_the_broker_steps_over_is_an_error_or_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers leave out what is damaged in their log, and answer with the rest as if there were no more."""
    wanted = replace(WANTED, topic="Damaged", end=20)
    settings = LinkSettings(timeout_s=10)
    with LocalCluster(directory=tmp_path, settings={"mappedFileSizeCommitLog": "1048576"}) as running:
        with Producer("fill", namesrv=running.namesrv) as producer:
            for number in range(20):
                producer.send(Message("Damaged", b"%d body" % number), queue=MessageQueue("Damaged", "broker-a", 0))
        running.stop_broker()
        [log] = tmp_path.rglob("commitlog/*0")
        log.write_bytes(log.read_bytes().replace(b"13 body", b"13 bodY"))
        running.start_broker()
        with Cluster([running.namesrv], settings) as known:
            address = known.address_of("broker-a", "Damaged")
            with pytest.raises(DataLost, match=r"read up to 0, and of the 20 messages that follow the broker gave 19"):
                numbers(lambda: BlockingLink(address, settings), wanted)
            tolerant = replace(OPTIONS, fail_on_data_loss=False)
            left = numbers(lambda: BlockingLink(address, settings), wanted, tolerant)
            # A search for a time passes over it as well.
            monkeypatch.setattr(known, "_offset", lambda *asked: {29: 14, 30: 20, 31: 0}[asked[1]])
            assert known.offset_at(MessageQueue("Damaged", "broker-a", 0), 0) == 0
    assert left == [number for number in range(20) if number != 13]


def test_a_body_that_is_not_compressed_as_it_says_is_an_error_or_left_out(
    cluster: BlockingCluster, connect: Connect
) -> None:
    """A producer's mistake must not stop a stream for good."""
    queue = MessageQueue("Mistakes", "broker-a", 0)
    ids = UniqueIdGenerator(ip=b"\x7f\0\0\1", process_id=1, constant=1)
    requests = SendRequests("fill", template=AUTO_CREATE_TOPIC, template_queue_nums=4, unit_mode=False)
    with connect() as link:
        for number in range(50):
            packed = pack_message(Message("Mistakes", b"%d" % number), ids=ids, now_ms=1)
            packed.sys_flag |= BODY_COMPRESSED if number in (0, 21, 22) else 0
            link.request(requests.request(packed, queue, born_ms=1).frame())
    wanted = replace(WANTED, topic="Mistakes", end=50)
    with pytest.raises(CorruptRecord, match=r"queue offset 0 .* cannot be inflated.* set failOnDataLoss=false"):
        numbers(connect, wanted)
    left = numbers(connect, wanted, replace(OPTIONS, fail_on_data_loss=False))
    assert left == [number for number in range(50) if number not in (0, 21, 22)]


def test_an_unknown_topic_is_the_brokers_refusal(connect: Connect) -> None:
    with pytest.raises(BrokerError, match="Nobody"):
        numbers(connect, replace(WANTED, topic="Nobody"))


def test_a_connection_that_ends_is_made_again_where_the_range_was(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"BATCH_ROWS": 50, "PULLS_IN_FLIGHT": 2, "ASK_AGAIN_AT": 1}.items():
        monkeypatch.setattr(f"skyrocketmq.spark.pulling.{name}", value)
    links: list[BlockingLink] = []

    def connect_badly() -> BlockingLink:
        links.append(connect())
        return links[-1]

    bodies: list[int] = []
    ended: set[BlockingLink] = set()
    for batch in read_range(connect_badly, WANTED, OPTIONS, ("queue_offset",), sleep=lambda _: None):
        bodies += batch.column(0).to_pylist()
        if len(links) < 3 and links[-1] not in ended:  # what was received before the end may still come
            links[-1]._socket.shutdown(2)
            ended.add(links[-1])
    assert bodies == list(range(COUNT))
    assert len(links) == 3


class ShortLived(BlockingLink):
    """A connection that ends after a few answers."""

    answers_left = 3

    def receive_view(self) -> tuple[Frame, memoryview]:
        if not self.answers_left:
            raise ConnectionLost("it ended")
        self.answers_left -= 1
        return super().receive_view()


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, expression="odd")])
def test_what_was_read_before_a_connection_ended_is_not_read_again(connect: Connect, options: PullOptions) -> None:
    address = connect_address(connect)
    asked = 0

    def connect_briefly() -> BlockingLink:
        nonlocal asked
        asked += 1
        return ShortLived(address, LinkSettings(timeout_s=10))

    expected = list(range(COUNT)) if options is OPTIONS else list(range(1, COUNT, 2))
    assert numbers(connect_briefly, WANTED, options) == expected
    assert asked > 3, "more often than retries would allow if nothing had come of it"


def connect_address(connect: Connect) -> str:
    with connect() as link:
        return link.address


def test_a_broker_that_stays_away_is_given_up_with_the_place(cluster: BlockingCluster) -> None:
    pauses: list[float] = []
    dead = LinkSettings(timeout_s=1)
    reading = read_range(lambda: BlockingLink("127.0.0.1:1", dead), WANTED, OPTIONS, ("body",), sleep=pauses.append)
    with pytest.raises(NetError, match=r"\[0, 700\) was read up to 0, then 3 attempts failed: no connection"):
        next(reading)
    assert len(pauses) == 2


# ------------------------------------------------------------------------------------------------ how much is asked for


class Counting(BlockingLink):
    """A connection that counts what it receives."""

    body_bytes = 0

    def receive_view(self) -> tuple[Frame, memoryview]:
        frame, body = super().receive_view()
        Counting.body_bytes += len(body)
        return frame, body


@pytest.fixture(scope="module")
def usual_cluster() -> Iterator[BlockingCluster]:
    chance = random.Random(5)
    with LocalCluster() as running, Producer("fill", namesrv=running.namesrv) as producer:
        for topic, least, most in (("Alike", 1000, 1000), ("Varied", 500, 3000), ("Large", 10_000, 14_000)):
            running.create_topic(topic, queues=1)
            for _ in range(24):
                some = [Message(topic, bytes(chance.randint(least, most))) for _ in range(2000 // most * 20 or 20)]
                producer.send_batch(some, queue=MessageQueue(topic, "broker-a", 0))
        yield running


@pytest.mark.parametrize("topic", ["Alike", "Varied", "Large"])
def test_hardly_anything_is_received_twice_whatever_the_sizes(
    usual_cluster: BlockingCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LinkSettings(timeout_s=10)
    with Cluster([usual_cluster.namesrv], settings) as known:
        address = known.address_of("broker-a", topic)
        end = known.max_offset(MessageQueue(topic, "broker-a", 0))
    for start in (0, end // 2):
        monkeypatch.setattr(Counting, "body_bytes", 0)
        wanted = QueueRange(topic, "broker-a", 0, start, end)
        batches = list(read_range(lambda: Counting(address, settings), wanted, OPTIONS, ("queue_offset", "body")))
        assert sum(batch.num_rows for batch in batches) == wanted.count
        body_bytes = sum(len(body) for batch in batches for body in batch.column(1).to_pylist())
        assert Counting.body_bytes < 1.6 * body_bytes + 200 * wanted.count


def test_a_limit_of_messages_is_found_at_once_and_kept() -> None:
    share = Share()
    share.learn(share.count, 32)
    assert (share.count, share.is_sure) == (32, False)
    for _ in range(63):
        share.learn(32, 32)
        assert (share.count, share.is_sure) == (32, True)
    share.learn(32, 32)
    assert share.count == 36, "it may have been raised"
    share.learn(36, 32)
    assert share.count == 32


def test_a_limit_of_bytes_is_kept_away_from_and_tried_again_later() -> None:
    share = Share()
    for given in (200, 180):
        share.learn(share.count, given)
    assert share.count == 157
    for _ in range(64):
        assert share.count == 157
        share.learn(157, 157)
    assert (share.count, share.is_sure) == (176, False)


def test_more_is_asked_for_as_long_as_it_is_given() -> None:
    share = Share()
    for _ in range(5):
        share.learn(share.count, share.count)
    assert share.count == 1024
    share.learn(3, 3)  # the end of a range says nothing
    assert share.is_sure
