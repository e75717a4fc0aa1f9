"""Synchronous replication: an acknowledgement means that a slave has the message."""

from __future__ import annotations

import pytest

from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.testing.link import Direction
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from tests.broker.requests import TOPIC, as_version_1, properties_text, send_frame
from tests.ha.pair import open_pair

SYNC = BrokerRole.SYNC_MASTER
SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT, FLUSH_DISK_TIMEOUT = 11, 12, 10


async def test_what_is_acknowledged_is_at_the_slave() -> None:
    async with open_pair(role=SYNC) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        for number in range(50):
            await peer.ok(send_frame(body=b"%d" % number))
            assert pair.slave.store.log.max_offset == pair.master.store.log.max_offset
        pair.assert_equal()


async def test_nothing_is_acknowledged_before_it_has_reached_the_slave() -> None:
    async with open_pair(role=SYNC) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame(body=b"first"))
        end = pair.slave.store.log.max_offset
        pair.slave.link.stall(Direction.IN)  # connected, and nothing arrives
        await peer.write(send_frame(body=b"second"))
        await pair.until(lambda: pair.master.store.log.max_offset > end)
        await pair.pass_time(0.2)
        await peer.silence()
        assert pair.slave.store.log.max_offset == end
        pair.slave.link.release()
        assert (await peer.next()).code == 0
        assert pair.slave.store.log.max_offset == pair.master.store.log.max_offset


async def test_a_slave_reports_what_it_has_written_and_nothing_else() -> None:
    async with open_pair(role=SYNC, store={"slave_timeout_ms": 300}) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame(body=b"first"))
        end = pair.slave.store.log.max_offset
        pair.slave.memory.fail("pwrite", path="*/commitlog/*", times=None)
        answer = await pair.moving(peer.ask(send_frame(body=b"second")))
        assert answer.code in (FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE)
        assert pair.master.broker.replication.replicas.acknowledged == end == pair.slave.store.log.max_offset
        pair.slave.memory.heal()
        await pair.caught_up()
        await peer.ok(send_frame(body=b"third"))
        pair.assert_equal()


async def test_a_slave_reports_before_it_brings_its_queues_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_pair(role=SYNC) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame(body=b"first"))
        ha_port = pair.master.port + 1
        (wire,) = [
            each for each in pair.slave.link.connections if each.transport.get_extra_info("peername")[1] == ha_port
        ]
        reports: list[tuple[int, int]] = []  # how far, and how many messages the queue had by then

        def write(data: bytes) -> None:
            reports.append((int.from_bytes(data, "big"), pair.slave.store.max_offset(TOPIC, 0)))
            pass_on(data)

        pass_on = wire.transport.write
        monkeypatch.setattr(wire.transport, "write", write)
        await peer.ok(send_frame(body=b"second"))
        await pair.until(lambda: pair.slave.store.max_offset(TOPIC, 0) == 2)
        end = pair.master.store.log.max_offset
        assert next(count for offset, count in reports if offset == end) == 1, "senders wait for the report alone"


async def test_every_way_of_sending_waits_for_the_slave() -> None:
    async with open_pair(role=SYNC, store={"slave_timeout_ms": 400}) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame())
        pair.slave.link.stall(Direction.OUT)
        batch = encode_batch([(0, b"one", b""), (0, b"two", b"")])
        for frame in (
            send_frame(),
            send_frame(is_binary=True),
            as_version_1(send_frame()),
            send_frame(code=RequestCode.SEND_BATCH_MESSAGE, m="true", body=batch),
            send_frame(properties=properties_text([("DELAY", "1")])),
        ):
            answer = await pair.moving(peer.ask(frame))
            assert answer.code == FLUSH_SLAVE_TIMEOUT
            assert (answer.ext or {})["msgId"]
        pair.slave.link.release()
        await pair.caught_up()


async def test_many_senders_wait_together_and_are_all_answered() -> None:
    async with open_pair(role=SYNC) as pair:
        await pair.master.make_topic()
        peers = [await pair.master.connect() for _ in range(4)]
        for peer in peers:
            await peer.write(*[send_frame(opaque=number, body=b"%d" % number) for number in range(500)])
        for peer in peers:
            assert {answer.code for answer in (await peer.all(500)).values()} == {0}
        await pair.caught_up()
        pair.assert_equal()


async def test_a_slave_that_does_not_answer_in_time_makes_a_timeout_and_the_message_is_stored() -> None:
    async with open_pair(role=SYNC, store={"slave_timeout_ms": 300}) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame(body=b"first"))
        pair.slave.link.stall(Direction.OUT)
        started = pair.clock.monotonic()
        answer = await pair.moving(peer.ask(send_frame(body=b"second")))
        assert answer.code == FLUSH_SLAVE_TIMEOUT
        assert 0.3 <= pair.clock.monotonic() - started < 0.45
        assert (answer.ext or {})["queueOffset"] == "1"
        assert [record.body for record in await pair.master.pull_all()] == [b"first", b"second"]
        pair.slave.link.release()
        await peer.ok(send_frame(body=b"third"))


async def test_without_a_slave_the_sender_hears_it_at_once_and_later_success() -> None:
    async with open_pair(role=SYNC, slaves=0) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        answer = await peer.ask(send_frame())  # though the clock stands still
        assert answer.code == SLAVE_NOT_AVAILABLE
        assert (answer.ext or {})["queueOffset"] == "0"
        await pair.add_slave()
        await pair.caught_up()
        await peer.ok(send_frame())
        await pair.slave.stop()
        await pair.pass_time(0.1)
        assert (await peer.ask(send_frame())).code == SLAVE_NOT_AVAILABLE
        pair.slaves.clear()


async def test_a_slave_that_is_too_far_behind_does_not_count() -> None:
    async with open_pair(role=SYNC, store={"ha_lag_bytes_max": 10_000, "slave_timeout_ms": 200}) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame())
        pair.slave.link.stall(Direction.OUT)
        codes = [(await pair.moving(peer.ask(send_frame(body=bytes(3000))))).code for _ in range(5)]
        assert codes[0] == FLUSH_SLAVE_TIMEOUT
        assert codes[-1] == SLAVE_NOT_AVAILABLE
        pair.slave.link.release()
        await pair.caught_up()
        await peer.ok(send_frame())


async def test_who_does_not_want_to_wait_does_not() -> None:
    async with open_pair(role=SYNC, slaves=0) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame(properties=properties_text([("WAIT", "false")])))


@pytest.mark.parametrize("is_sync_flush", [False, True])
async def test_an_asynchronous_master_waits_for_no_slave(is_sync_flush: bool) -> None:
    flush = FlushDiskType.SYNC_FLUSH if is_sync_flush else FlushDiskType.ASYNC_FLUSH
    async with open_pair(slaves=0, store={"flush_disk_type": flush}) as pair:
        await pair.master.make_topic()
        await (await pair.master.connect()).ok(send_frame())


async def test_disk_and_slave_are_waited_for_together_and_the_disk_is_blamed_first() -> None:
    store = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "slave_timeout_ms": 300, "sync_flush_timeout_ms": 300}
    async with open_pair(role=SYNC, store=store) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        await peer.ok(send_frame())
        assert pair.master.store.flushed_offset == pair.master.store.log.max_offset
        assert pair.slave.store.log.max_offset == pair.master.store.log.max_offset
        pair.master.memory.stall("fdatasync", seconds=0.8, path="*commitlog*", times=1)
        assert (await pair.moving(peer.ask(send_frame()))).code == FLUSH_DISK_TIMEOUT
        await pair.pass_time(1)
        pair.slave.link.stall(Direction.OUT)
        assert (await pair.moving(peer.ask(send_frame()))).code == FLUSH_SLAVE_TIMEOUT
        pair.master.memory.stall("fdatasync", seconds=0.8, path="*commitlog*", times=1)
        assert (await pair.moving(peer.ask(send_frame()))).code == FLUSH_DISK_TIMEOUT
        pair.slave.link.release()
        await pair.pass_time(1)


async def test_the_time_to_wait_for_a_slave_can_be_changed_while_the_broker_runs() -> None:
    async with open_pair(role=SYNC) as pair:
        await pair.master.make_topic()
        await pair.master.set_config(slaveTimeout=200)
        peer = await pair.master.connect()
        pair.slave.link.stall(Direction.OUT)
        started = pair.clock.monotonic()
        assert (await pair.moving(peer.ask(send_frame()))).code == FLUSH_SLAVE_TIMEOUT
        assert 0.2 <= pair.clock.monotonic() - started < 0.35
        pair.slave.link.release()
