"""A slave's log is its master's, byte for byte, whatever happens on the way."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.ha.connection import CLOSING_S
from skyrocketmq.testing import FaultyDisk
from skyrocketmq.testing.link import Direction
from skyrocketmq.wire.replication import encode_piece_head, encode_report
from tests.broker.house import ROOT
from tests.broker.requests import TOPIC
from tests.ha.pair import Pair, open_pair

BODY = b"x" * 900


async def has_topic(pair: Pair) -> None:
    for slave in pair.slaves:
        await pair.until(lambda slave=slave: slave.broker.tables.topics.find(TOPIC))  # type: ignore[misc]


async def test_every_slave_gets_what_the_master_stores_and_serves_it() -> None:
    async with open_pair(slaves=3) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(500)
        await pair.caught_up()
        pair.assert_equal()
        await has_topic(pair)
        for slave in pair.slaves:
            records = await slave.pull_all()
            assert [record.body for record in records] == [b"%d" % number for number in range(500)]


async def test_a_slave_that_comes_late_gets_the_whole_log_over_several_files() -> None:
    async with open_pair(slaves=0) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(3000, body=BODY)
        assert len(pair.master.store.log.file_starts) > 2
        pair.master.memory.cool("*commitlog*")  # read from the disk, not from the page cache
        await pair.add_slave()
        await pair.caught_up()
        assert pair.slave.store.log.min_offset == 0
        pair.assert_equal()


async def test_an_empty_slave_gets_the_newest_file_alone_where_that_is_wanted() -> None:
    async with open_pair(slaves=0, store={"ha_newest_file_only": True}) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(3000, body=BODY)
        await pair.add_slave(store={"ha_newest_file_only": True})
        await pair.caught_up()
        assert pair.slave.store.log.min_offset == pair.master.store.log.file_starts[-1] > 0
        pair.assert_equal()


async def test_a_slave_that_was_away_goes_on_where_it_was() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(100)
        await pair.caught_up()
        for _ in range(3):
            await pair.slave.stop()
            await pair.master.send_many(700, body=BODY)
            await pair.slave.start()
            await pair.caught_up()
            pair.assert_equal()


async def test_a_slave_is_back_within_a_second_after_its_master() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(100)
        await pair.caught_up()
        await pair.master.stop()
        await pair.pass_time(1.2)  # long enough for the pauses between attempts to be at their longest
        dialled = pair.slave.link.dial_count
        await pair.pass_time(1.0)
        assert pair.slave.link.dial_count > dialled
        await pair.master.start()
        await pair.connected(seconds=1.0)
        await pair.master.send_many(100)
        await pair.caught_up()
        pair.assert_equal()


async def test_cut_links_and_lost_bytes_leave_no_trace_in_the_copy() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        for turn in range(20):
            await pair.master.send_many(100, body=BODY)
            link = pair.slave.link if turn % 2 else pair.master.link
            for connection in list(link.connections):
                if turn % 4 < 2:
                    connection.cut()
                else:
                    connection.drop(Direction.IN, 5)
        await pair.caught_up()
        pair.assert_equal()


async def test_a_master_that_falls_silent_is_left_and_found_again() -> None:
    async with open_pair(slave_store={"ha_idle_timeout_ms": 500}) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        dialled = pair.slave.link.dial_count
        for connection in pair.slave.link.connections:
            connection.stall()
        await pair.until(lambda: pair.slave.link.dial_count > dialled)
        await pair.master.send_many(10)
        await pair.caught_up()
        pair.assert_equal()


async def test_a_slave_that_does_not_read_holds_up_nobody_and_no_memory() -> None:
    async with open_pair(slaves=2) as pair:
        await pair.master.make_topic()
        pair.slaves[0].link.stall(Direction.IN)
        await pair.master.send_many(8000, body=BODY)
        quick = pair.slaves[1].store.log
        await pair.until(lambda: quick.whole_offset == pair.master.store.log.max_offset)
        unsent = [connection.transport.get_write_buffer_size() for connection in pair.master.link.connections]
        assert max(unsent) < 3 << 20 < pair.master.store.log.max_offset
        pair.slaves[0].link.release()
        await pair.caught_up()
        pair.assert_equal()


@pytest.mark.parametrize("offset", [1 << 40, 10**7])
async def test_a_slave_with_a_bogus_offset_is_refused_and_the_log_says_why(
    offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        host, _, port = pair.master.ha_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(encode_report(offset))
        assert await _read_all(reader) == b""
        writer.close()
        refusals = [record for record in caplog.records if record.message == "slave refused"]
        assert len(refusals) == 1
        assert str(offset) in refusals[0].__dict__["reason"]
        assert pair.master.broker.replication.replicas.acknowledged < offset
        await pair.master.send_many(10)  # the good slave does not notice
        await pair.caught_up()


async def test_a_slave_that_later_reports_too_much_is_refused_too() -> None:
    async with open_pair(slaves=0) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        host, _, port = pair.master.ha_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(encode_report(0))
        assert await reader.read(1)
        writer.write(encode_report(1 << 50))
        await _read_all(reader)
        writer.close()
        assert pair.master.broker.replication.replicas.acknowledged < 1 << 50


async def test_a_slave_with_files_of_another_size_follows_nobody_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pair(slaves=0, check=False) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(2500, body=BODY)
        await pair.add_slave(store={"commit_log_file_bytes": 300_000})
        await pair.until(lambda: "the master's log does not fit this copy" in caplog.text)
        assert "mappedFileSizeCommitLog" in str([record.__dict__.get("reason") for record in caplog.records])


async def test_both_ends_give_signs_of_life_while_nothing_is_stored() -> None:
    async with open_pair() as pair:
        dialled = pair.slave.link.dial_count
        await pair.pass_time(5.0)  # longer than either side would wait for a sign
        assert pair.slave.link.dial_count == dialled
        assert len(pair.master.broker.replication.replicas.slaves) == 1


async def test_a_master_that_stops_sends_the_rest_first() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(2000, body=BODY)
        end = pair.master.store.log.max_offset
        await pair.master.stop()
        await pair.until(lambda: pair.slave.store.log.whole_offset == end)


async def test_a_slave_may_have_slaves() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        middle = pair.slave
        await pair.add_slave()
        last = pair.slaves[1]
        await last.stop()
        last.settings["store"]["ha_master_address"] = middle.ha_address
        await last.start()
        await pair.until(lambda: len(middle.broker.replication.replicas.slaves) == 1)
        await pair.master.send_many(200)
        await pair.caught_up()
        pair.assert_equal()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(5):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_a_copy_of_another_log_is_noticed_and_not_continued(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pair(check=False) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(100)
        await pair.caught_up()
        await pair.master.stop()
        pair.master.memory = FaultyDisk(directories=[ROOT], clock=pair.master.clock)  # all is lost, and begins anew
        await pair.master.start()
        await pair.until(lambda: "does not fit this copy" in caplog.text)  # as long as the copy is the longer one
        assert "ends before the newest message" in _refusals(caplog)[-1]
        await pair.master.make_topic()
        await pair.master.send_many(300, body=b"other")
        await pair.until(lambda: len(_refusals(caplog)) == 2)
        assert "have parted" in _refusals(caplog)[-1]
        assert "restart" in _refusals(caplog)[-1]
        await pair.pass_time(0.7)
        assert len(_refusals(caplog)) == 2, "each reason is said once"
        assert not pair.slave.broker.replication.is_following
        assert (await pair.slave.pull_all())[0].body == b"0", "what it has can still be read"


def _refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    phrase = "the master's log does not fit this copy"
    return [str(record.__dict__["reason"]) for record in caplog.records if record.message == phrase]


async def test_a_master_that_stops_does_not_wait_for_a_slave_that_does_not_read() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        pair.slave.link.stall(Direction.IN)
        await pair.master.send_many(8000, body=BODY)
        connections = list(pair.master.link.connections)
        stopping = asyncio.create_task(pair.master.stop())
        await pair.pass_time(0.2)
        unsent = [
            each.transport.get_write_buffer_size() for each in connections if each in pair.master.link.connections
        ]
        assert max(unsent, default=0) < 3 << 20, "what it lacks stays in the log"
        started = pair.clock.monotonic()
        await pair.until(stopping.done)
        assert pair.clock.monotonic() - started <= CLOSING_S
        pair.slave.link.release()


async def test_a_record_that_came_in_part_is_asked_for_again_as_a_whole() -> None:
    reports: list[int] = []

    async def send_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reports.append(int.from_bytes(await reader.readexactly(8), "big"))
        half = pair.master.log_bytes()[:100]
        writer.write(encode_piece_head(0, len(half)) + half)
        await reader.read(8)  # it is at the slave
        writer.close()

    async with open_pair() as pair:
        await pair.slave.stop()
        await pair.master.make_topic()
        await pair.master.send_many(1, body=BODY)
        server = await asyncio.start_server(send_half, "127.0.0.1", 0)
        fake = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        good, pair.slave.settings["store"]["ha_master_address"] = pair.master.ha_address, fake
        await pair.slave.start()
        await pair.until(lambda: len(reports) > 2)
        assert set(reports) == {0}, "its master may be another one by now, with another record there"
        await pair.slave.stop()
        server.close()
        await server.wait_closed()
        pair.slave.settings["store"]["ha_master_address"] = good
        await pair.slave.start()
        await pair.caught_up()
        pair.assert_equal()


async def test_a_failure_that_nobody_thought_of_is_said_and_is_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pair() as pair:
        await pair.slave.stop()
        await pair.master.make_topic()
        await pair.master.send_many(10)
        good, pair.slave.settings["store"]["ha_master_address"] = pair.master.ha_address, "no..host:10912"
        await pair.slave.start()  # looking up such a name raises what no other does: UnicodeError
        await pair.until(lambda: caplog.text.count("unexpected failure, going on") == 2)
        follower = pair.slave.broker.replication._follower
        assert follower is not None
        follower._set_ha_address(good)
        await pair.caught_up()
        pair.assert_equal()


async def test_slaves_of_a_slave_drop_the_record_that_it_dropped() -> None:
    closing = asyncio.Event()
    first, second = b"", b""

    async def send_half_then_another(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == bytes(8)
        piece = second if closing.is_set() else first[:-50]
        writer.write(encode_piece_head(0, len(piece)) + piece)
        await closing.wait()
        if piece == second:
            await _read_all(reader)  # until the slave goes
        writer.close()

    async with open_pair(slaves=2, check=False) as pair:  # the other record is no good one: its CRC is the first's
        await pair.master.make_topic()
        middle, last = pair.slaves
        for slave in pair.slaves:
            await slave.stop()
        await pair.master.send_many(2, body=BODY)
        first = pair.master.log_bytes()[: pair.master.store.log.max_offset // 2]
        second = first.replace(b"x" * 900, b"y" * 900)
        server = await asyncio.start_server(send_half_then_another, "127.0.0.1", 0)
        middle.settings["store"]["ha_master_address"] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await middle.start()
        last.settings["store"]["ha_master_address"] = middle.ha_address
        await last.start()
        await pair.until(lambda: last.store.log.max_offset == len(first) - 50)
        closing.set()
        await pair.until(lambda: last.store.log.whole_offset == len(first))
        assert last.log_bytes() == middle.log_bytes() == second
        await middle.stop()
        server.close()
        await server.wait_closed()
