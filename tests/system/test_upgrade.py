"""An upgrade, and the way back: servers of the version before and of this one on the same files, and side by side.

- A store goes from version to version and back, after a clean stop and after a kill: messages, places, keys and the
  progress of groups are all there, and the next owner goes on with the next offset.
- Masters and slaves of both versions replicate, in each pairing, and have the same log byte for byte.
- A cluster is upgraded server by server under load (slave, then master, then name server), and back, and nothing that
  was acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.ports import LocalDisk
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import Peer
from tests.broker.requests import TOPIC, properties_text, pull_frame, send_frame, unique_id
from tests.interop.ours import Broker, NameServer, running
from tests.store.reader import Record, check_store, read_records
from tests.system.earlier import earlier_source
from tests.system.test_replication_chaos import CONFIG, SIZES, STORED, Load, Reader, log_bytes, log_end

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

GROUP = "readers"
UTF_16 = "état".encode("utf-16-le").decode("latin-1") * 40  # NULs in a property, as some clients send them


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return earlier_source(tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[NameServer]:
    with running(NameServer(tmp_path / "namesrv")) as server:
        yield server


def frames_of(life: int, *, is_stopped: bool) -> list[Frame]:
    """What producers send in one life of a broker: five messages, two of them as a batch.

    No NULs before a kill: the earlier version's recovery may take them for the torn end of the log.
    """
    ids = [unique_id(life * 100 + number) for number in range(5)]
    usual = properties_text([("KEYS", f"key-{life}"), ("UNIQ_KEY", ids[0]), ("TAGS", "TagA")])
    held = properties_text([("UNIQ_KEY", ids[1]), ("note", UTF_16 if is_stopped else "plain")])
    late = properties_text([("UNIQ_KEY", ids[2]), ("DELAY", "1")])
    pair = encode_batch([(0, b"of a batch", properties_text([("UNIQ_KEY", unique)]).encode()) for unique in ids[3:]])
    return [
        send_frame(TOPIC, 0, body=b"usual", properties=usual, opaque=1),
        send_frame(TOPIC, 0, body=b"with a note", properties=held, opaque=2, is_binary=True),
        send_frame(TOPIC, 0, body=b"late", properties=late, opaque=3),
        send_frame(TOPIC, 0, body=pair, code=RequestCode.SEND_BATCH_MESSAGE, m="true", opaque=4),
    ]


async def live(broker: Broker, life: int, *, is_stopped: bool) -> None:
    """One life of a broker: what was there before is there, then more is sent, and a group gets ahead."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", broker.port))
    expected = {unique_id(before * 100 + number) for before in range(life) for number in range(5)}
    records = await until_there(peer, expected)
    assert [record.queue_offset for record in records] == list(range(len(records)))
    if life:
        at = await peer.ok(offset_frame(RequestCode.QUERY_CONSUMER_OFFSET))
        reached = int((at.ext or {})["offset"] or -1)
        assert reached == life if is_stopped else 0 <= reached <= life  # which is saved every five seconds
        found = await peer.ok(query_frame(f"key-{life - 1}"))
        assert [record.body for record in read_records(found.body)] == [b"usual"]
        if is_stopped:
            notes = [record.properties["note"] for record in records if record.body == b"with a note"]
            assert notes == [UTF_16] * life
    for frame in frames_of(life, is_stopped=is_stopped):
        await peer.ok(frame)
    await peer.ok(offset_frame(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=str(life + 1)))
    await until_there(peer, expected | {unique_id(life * 100 + number) for number in range(5)})
    await peer.close()


async def until_there(peer: Peer, expected: set[str]) -> list[Record]:
    """Every record of the queue, once all that is expected has come: what is delayed takes a second."""
    async with asyncio.timeout(20):
        while True:
            records: list[Record] = []
            while (answer := await peer.ask(pull_frame(TOPIC, 0, len(records)))).code == 0:
                records += read_records(answer.body)
            found = Counter([record.properties["UNIQ_KEY"] for record in records])
            if expected <= found.keys():
                assert expected == found.keys(), "and nothing else"
                late = {record.properties["UNIQ_KEY"] for record in records if record.body == b"late"}
                assert {unique for unique, times in found.items() if times > 1} <= late  # a kill may deliver them twice
                return records
            await asyncio.sleep(0.05)


def offset_frame(code: RequestCode, **fields: str) -> Frame:
    return Frame(code, 9, ext={"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", **fields})


def query_frame(key: str) -> Frame:
    fields: dict[str, str | None] = {
        "topic": TOPIC,
        "key": key,
        "maxNum": "10",
        "beginTimestamp": "0",
        "endTimestamp": str(1 << 60),
    }
    return Frame(RequestCode.QUERY_MESSAGE, 9, ext=fields)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_store_goes_from_version_to_version_and_back(
    ending: str, tmp_path: Path, earlier: Path, namesrv: NameServer
) -> None:
    broker = Broker(tmp_path / "broker", namesrv=namesrv.address, config=CONFIG)
    for life, source in enumerate([earlier, None, earlier, None]):
        broker.source = source
        with running(broker):
            asyncio.run(live(broker, life, is_stopped=ending == "stop"))
            if ending == "kill":
                broker.kill()
    with running(broker):
        pass  # a start mends what the kill has left, and a stop writes everything
    disk = LocalDisk(threads=1)
    check_store(disk, tmp_path / "broker" / "store", SIZES)
    disk.close()


def make_pair(tmp_path: Path, namesrv: NameServer) -> tuple[Broker, Broker]:
    master = Broker(tmp_path / "master", namesrv=namesrv.address, config={**CONFIG, "brokerRole": "SYNC_MASTER"})
    roles = {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": f"127.0.0.1:{master.port + 1}"}
    slave = Broker(tmp_path / "slave", namesrv=namesrv.address, config={**CONFIG, **roles})
    return master, slave


async def make_topic(master: Broker) -> None:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", master.port))
    await peer.ask(send_frame(TOPIC, 0, properties=properties_text([("UNIQ_KEY", "first")])))
    await peer.close()


async def check_pair(master: Broker, slave: Broker, load: Load) -> None:
    """Whatever was acknowledged can be read from either, once."""
    async with asyncio.timeout(20):
        while await log_end(master) != await log_end(slave):  # noqa: ASYNC110  # another process tells nobody
            await asyncio.sleep(0.05)
    for broker in (master, slave):
        reader = Reader(broker)
        await reader.read()
        assert set(reader.found.values()) == {1}
        lost = [unique for unique, code in load.answers.items() if code in STORED and not reader.found[unique]]
        assert not lost, f"{broker.name}: {len(lost)} of {len(load.answers)} acknowledged messages are lost"


def check_logs(tmp_path: Path) -> None:
    begin, copy = log_bytes(tmp_path / "slave" / "store")
    masters_begin, log = log_bytes(tmp_path / "master" / "store")
    assert begin == masters_begin
    shorter = min(len(copy), len(log))  # a spare file may have been prepared by one of them
    assert copy[:shorter] == log[:shorter]
    assert copy.rstrip(b"\0") == log.rstrip(b"\0") != b""


@pytest.mark.parametrize("newer", ["master", "slave"])
def test_a_master_and_a_slave_of_two_versions_replicate(
    newer: str, tmp_path: Path, earlier: Path, namesrv: NameServer
) -> None:
    master, slave = make_pair(tmp_path, namesrv)
    (slave if newer == "master" else master).source = earlier

    async def replicate() -> None:
        load = Load(master, random.Random(7))
        await make_topic(master)
        loading = asyncio.create_task(load.run())
        await load.acknowledged_again()
        for ended in (slave, master):
            await asyncio.to_thread(ended.kill)
            await asyncio.to_thread(ended.start)
            await load.acknowledged_again()
        load.is_over = True
        await loading
        await check_pair(master, slave, load)

    with running(master), running(slave):
        asyncio.run(replicate())
    check_logs(tmp_path)


def test_a_cluster_is_upgraded_server_by_server_and_back_under_load(tmp_path: Path, earlier: Path) -> None:
    namesrv = NameServer(tmp_path / "namesrv")
    namesrv.source = earlier
    with running(namesrv):
        master, slave = make_pair(tmp_path, namesrv)
        master.source = slave.source = earlier

        async def upgrade_and_back() -> None:
            load = Load(master, random.Random(7))
            await make_topic(master)
            loading = asyncio.create_task(load.run())
            await load.acknowledged_again()
            for source in (None, earlier):
                for server in (slave, master, namesrv):
                    assert await asyncio.to_thread(server.stop) == 0, server.process.tail()
                    server.source = source
                    await asyncio.to_thread(server.start)
                    await load.acknowledged_again()
            load.is_over = True
            await loading
            await check_pair(master, slave, load)

        with running(master), running(slave):
            asyncio.run(upgrade_and_back())
    check_logs(tmp_path)
