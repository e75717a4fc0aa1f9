"""Replication between Apache's brokers and ours, at Apache's name server: a slave of one behind a master of the other.

Either way an empty slave gets the whole log, synchronous sends are acknowledged once it is there, the logs are the same
byte for byte, the slave serves what it has when its master is dead, and follows again when it is back.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from skyrocketmq.ports import LocalDisk
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.requests import pull_frame, send_frame
from tests.cli.processes import ask
from tests.interop import exchange
from tests.interop.apache import Apache, Server
from tests.interop.driver import Driver, message
from tests.interop.exchange import SIZES
from tests.interop.ours import Broker, NameServer, running
from tests.interop.processes import RunningServer, wait_until
from tests.interop.routes import all_addresses
from tests.store.reader import check_store, read_records

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPIC = "Copied"
QUEUES = 4
SETTINGS = {
    **exchange.SETTINGS,
    "haSendHeartbeatInterval": "500",  # when Apache's slave says for the first time where it is
}
MASTER = {**SETTINGS, "brokerRole": "SYNC_MASTER"}
SLAVE = {**SETTINGS, "brokerRole": "SLAVE", "brokerId": "1"}
GROUP = "readers"
REPLICATED, SLAVE_NOT_AVAILABLE = 0, 11


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def send(server: RunningServer, numbers: range, *, size: int = 0) -> list[int]:
    """Send messages that say their numbers; the codes of their answers."""
    codes = []
    for number in numbers:
        frame = send_frame(TOPIC, number % QUEUES, body=b"%d" % number + bytes(size), opaque=number, d=QUEUES)
        codes.append(ask(server.address, frame).code)
    return codes


def read(server: RunningServer) -> list[int]:
    """The numbers of all messages that can be pulled, in their order."""
    found: list[int] = []
    for queue_id in range(QUEUES):
        offset = 0
        while (answer := ask(server.address, pull_frame(TOPIC, queue_id, offset, group=GROUP))).code == 0:
            records = read_records(answer.body)
            offset += len(records)
            found += [int(record.body.rstrip(b"\0")) for record in records]
    return sorted(found)


def log_end(server: RunningServer) -> int:
    while (answer := ask(server.address, Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 1))).code:
        time.sleep(0.1)  # Apache's broker cannot say in the first second of its life
    return int(decode_body(KvTable, answer.body).table["commitLogMaxOffset"])


def until_caught_up(master: RunningServer, slave: RunningServer) -> int:
    wait_until(lambda: log_end(slave) == log_end(master), timeout_s=30, what="the slave has all of the log")
    return log_end(master)


def until_replicated(master: RunningServer, number: int) -> None:
    wait_until(
        lambda: send(master, range(number, number + 1)) == [REPLICATED], timeout_s=30, what="a send is replicated"
    )


def log_bytes(store: Path, end: int) -> bytes:
    files = sorted(path for path in (store / "commitlog").iterdir())
    assert int(files[0].name) == 0, "the whole log is there"
    return b"".join([file.read_bytes() for file in files])[:end]


def commit(server: RunningServer, offset: int) -> None:
    ext: Mapping[str, str] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
    assert ask(server.address, Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 1, ext=dict(ext))).code == 0


def committed(server: RunningServer) -> int | None:
    ext: dict[str, str | None] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    answer = ask(server.address, Frame(RequestCode.QUERY_CONSUMER_OFFSET, 1, ext=ext))
    return int((answer.ext or {})["offset"] or 0) if answer.code == 0 else None


def test_apaches_slave_follows_our_master(apache: Apache, tmp_path: Path, opened: ExitStack) -> None:
    namesrv = opened.enter_context(apache.namesrv())
    master = opened.enter_context(running(Broker(tmp_path / "ours", namesrv=namesrv.address, config=MASTER)))
    assert set(send(master, range(600), size=1000)) == {SLAVE_NOT_AVAILABLE}
    slave = opened.enter_context(apache.broker(namesrv=namesrv.address, broker_id=1, config=SLAVE))
    stores = [tmp_path / "ours" / "store", Path(slave.config["storePathRootDir"])]
    until_replicated(master, 600)
    assert set(send(master, range(1000, 1100))) == {REPLICATED}
    end = until_caught_up(master, slave)
    assert end > 2 * SIZES.log_file
    wait_until(lambda: read(slave) == read(master), timeout_s=30, what="the slave serves the topic")
    assert log_bytes(stores[0], end) == log_bytes(stores[1], end)

    expected = read(master)
    assert set(range(600)) | set(range(1000, 1100)) <= set(expected)
    master.kill()
    assert read(slave) == expected, "what was acknowledged is at the slave alone"
    master.start()
    until_replicated(master, 2000)
    end = until_caught_up(master, slave)
    assert log_bytes(stores[0], end) == log_bytes(stores[1], end)


def test_our_slave_follows_apaches_master(apache: Apache, tmp_path: Path, opened: ExitStack) -> None:
    namesrv = opened.enter_context(apache.namesrv())
    master = opened.enter_context(apache.broker(namesrv=namesrv.address, config=MASTER))
    assert set(send(master, range(600), size=1000)) == {SLAVE_NOT_AVAILABLE}
    commit(master, 10)
    slave = opened.enter_context(running(Broker(tmp_path / "ours", namesrv=namesrv.address, config=SLAVE)))
    stores = [Path(master.config["storePathRootDir"]), tmp_path / "ours" / "store"]
    until_replicated(master, 600)
    assert set(send(master, range(1000, 1100))) == {REPLICATED}
    end = until_caught_up(master, slave)
    assert end > 2 * SIZES.log_file
    assert log_bytes(stores[0], end) == log_bytes(stores[1], end)
    wait_until(lambda: read(slave) == read(master), timeout_s=15, what="the slave serves the topic")
    wait_until(lambda: committed(slave) == 10, timeout_s=15, what="the slave has the group's offset")

    expected = read(master)
    assert set(range(600)) | set(range(1000, 1100)) <= set(expected)
    master.stop()  # in order: what the group has committed is in its file
    assert read(slave) == expected, "what was acknowledged is at the slave alone"
    commit(slave, 77)
    _start(master)
    started = time.monotonic()
    until_replicated(master, 2000)
    assert time.monotonic() - started < 5
    wait_until(lambda: committed(master) == 77, timeout_s=15, what="progress at the slave reaches the master")
    end = until_caught_up(master, slave)
    assert log_bytes(stores[0], end) == log_bytes(stores[1], end)

    assert slave.stop() == 0
    disk = LocalDisk(threads=1)
    content = check_store(disk, stores[1], SIZES)
    disk.close()
    assert len(content.records) >= len(expected)
    shutil.rmtree(stores[1])


def _start(server: Server) -> None:
    """Started, and known to its name server: what it last registered may still be there."""
    server.start(wait=False)
    server.wait_ready()


def test_java_consumers_read_from_our_slave_and_their_progress_reaches_our_master(
    java: Driver, tmp_path: Path, opened: ExitStack
) -> None:
    namesrv = opened.enter_context(running(NameServer(tmp_path / "namesrv")))
    master = opened.enter_context(running(Broker(tmp_path / "master", namesrv=namesrv.address, config=MASTER)))
    slave = opened.enter_context(running(Broker(tmp_path / "slave", namesrv=namesrv.address, config=SLAVE)))
    until_replicated(master, 1000)
    with java.producer("writers", namesrv=namesrv.address) as producer:
        sent = producer.send(message(TOPIC, "{i}", count=100))
    assert {each.status for each in sent} == {"SEND_OK"}
    total = len(read(master))
    master.kill()
    wait_until(lambda: all_addresses(namesrv.address) == {slave.address}, timeout_s=15, what="only the slave is known")
    ext: dict[str, str | None] = {"consumerGroup": "java-readers", "topic": TOPIC}

    def progress(server: RunningServer) -> int:
        answers = [
            ask(server.address, Frame(RequestCode.QUERY_CONSUMER_OFFSET, 1, ext=ext | {"queueId": str(queue_id)}))
            for queue_id in range(QUEUES)
        ]
        return sum(int((answer.ext or {})["offset"] or 0) for answer in answers if answer.code == 0)

    with java.push_consumer("java-readers", namesrv=namesrv.address, topic=TOPIC, from_="first") as consumer:
        received = consumer.received(at_least=total)
        assert {str(number) for number in range(100)} <= {each.text for each in received}
        # A consumer that is stopped while its listener returns does not count what that one had.
        wait_until(lambda: progress(slave) == total, timeout_s=30, what="the slave knows the progress")
    assert {each.store_host.rpartition(":")[2] for each in received} == {str(master.port)}, "stored by the master"
    master.start()
    wait_until(lambda: progress(master) == progress(slave) == total, timeout_s=15, what="the progress is there")
