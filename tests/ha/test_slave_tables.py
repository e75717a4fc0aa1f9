"""A slave's copies of its master's tables, and the progress that it gives back."""

from __future__ import annotations

import msgspec

from skyrocketmq.store.reservations import AHEAD_MIN
from skyrocketmq.testing.link import Direction
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.json_dialect import parse
from skyrocketmq.wire.records import decode_records
from tests.broker.house import ROOT
from tests.broker.requests import TOPIC, pull_frame, send_frame
from tests.ha.pair import MASTER_STORE, Member, Pair, open_pair

GROUP = "billing"


async def commit(member: Member, offset: int, *, queue_id: int = 0) -> None:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id, "commitOffset": offset}
    await member.administer(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def offset_of(member: Member, queue_id: int = 0) -> int | None:
    return member.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=queue_id)


async def open_queues(pair: Pair) -> None:
    """A topic with fifty messages in each of its queues, at the slave too: groups may be anywhere in them."""
    await pair.master.make_topic()
    for queue_id in range(4):
        await pair.master.send_many(50, queue_id=queue_id)
    await pair.caught_up()


async def synced(pair: Pair) -> None:
    """The slave has copied everything once more, from now on."""
    follower = pair.slave.broker.replication._follower
    assert follower is not None
    address = follower._master_address()
    assert address is not None
    await follower.tables.sync(address)


async def test_topics_groups_and_offsets_are_copied_and_written_down() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        body = msgspec.json.encode({"groupName": GROUP, "retryMaxTimes": 3})
        await pair.master.administer(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        await commit(pair.master, 42)
        await synced(pair)
        tables, original = pair.slave.broker.tables, pair.master.broker.tables
        assert tables.topics.table() == original.topics.table()
        assert tables.topics.data_version == original.topics.data_version
        assert tables.groups.table() == original.groups.table()
        assert offset_of(pair.slave) == 42
        await pair.pass_time(0.1)
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
            assert GROUP in (text := pair.slave.disk.read(ROOT / "config" / name).decode()) or TOPIC in text


async def test_a_topic_that_was_deleted_at_the_master_goes_at_the_slave_too() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await synced(pair)
        assert pair.slave.broker.tables.topics.find(TOPIC)
        await pair.master.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        await synced(pair)
        assert pair.slave.broker.tables.topics.find(TOPIC) is None


async def test_a_new_topic_is_copied_with_its_first_message() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic("Another")
        peer = await pair.master.connect()
        await peer.ok(send_frame("Another"))
        await pair.until(lambda: pair.slave.broker.tables.topics.find("Another"))


async def test_messages_of_a_topic_that_the_slave_could_not_ask_for_can_be_read_there() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic("Another")
        for connection in pair.slave.link.connections:  # all but the log
            if str(connection.transport.get_extra_info("peername")[1]) != pair.master.ha_address.rpartition(":")[2]:
                connection.stall()
        peer = await pair.master.connect()
        await peer.ok(send_frame("Another", 3))
        await pair.until(lambda: pair.slave.store.max_offset("Another", 3) == 1)
        assert len(await pair.slave.pull_all("Another", 3)) == 1
        pair.slave.link.release()
        original = pair.master.broker.tables.topics
        await pair.until(lambda: pair.slave.broker.tables.topics.data_version == original.data_version)
        assert pair.slave.broker.tables.topics.table() == original.table()


async def test_progress_at_the_slave_reaches_the_master_when_it_is_back() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        await commit(pair.master, 10)
        await commit(pair.master, 10, queue_id=1)
        await synced(pair)
        await pair.master.stop()
        await commit(pair.slave, 25)
        await commit(pair.slave, 30)
        await commit(pair.slave, 7, queue_id=2)  # the group had nothing there
        await pair.master.start()
        await pair.until(lambda: offset_of(pair.master) == 30)
        await pair.until(lambda: offset_of(pair.master, 2) == 7)
        assert offset_of(pair.master, 1) == 10
        await synced(pair)
        assert [offset_of(pair.slave, queue_id) for queue_id in (0, 1, 2)] == [30, 10, 7]


async def test_a_group_that_has_gone_on_at_the_master_keeps_that() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        await commit(pair.master, 10)
        await synced(pair)
        await pair.master.stop()
        await commit(pair.slave, 30)
        pair.slave.link.is_refusing = True
        await pair.master.start()
        await pair.pass_time()
        await commit(pair.master, 15)  # before the slave is back
        pair.slave.link.is_refusing = False
        await pair.until(lambda: offset_of(pair.slave) == 15)
        assert offset_of(pair.master) == 15


async def test_progress_at_the_master_that_the_slave_never_saw_is_no_change_since() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        await commit(pair.master, 10)
        await synced(pair)
        await commit(pair.master, 20)  # not copied before the master goes
        await pair.master.stop()
        await commit(pair.slave, 30)
        await pair.master.start()
        await pair.until(lambda: offset_of(pair.master) == 30)


async def test_progress_survives_a_restart_of_the_slave() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        await commit(pair.master, 10)
        await synced(pair)
        await pair.master.stop()
        await commit(pair.slave, 30)
        await pair.slave.stop()
        await pair.slave.start()
        assert offset_of(pair.slave) == 30
        await pair.master.start()
        await pair.until(lambda: offset_of(pair.master) == 30)


async def test_what_was_handed_over_once_is_not_handed_over_again() -> None:
    async with open_pair() as pair:
        await open_queues(pair)
        await commit(pair.master, 10)
        await synced(pair)
        await pair.pass_time()
        await commit(pair.slave, 30)
        await synced(pair)
        assert offset_of(pair.master) == 30
        await commit(pair.master, 5)  # a reset
        await synced(pair)
        assert offset_of(pair.master) == offset_of(pair.slave) == 5


async def test_how_far_transactions_are_over_is_taken_over_once_their_ends_are_in_the_copy() -> None:
    group, topic = "CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC"
    async with open_pair() as pair:
        await pair.master.make_topic()
        await synced(pair)
        for connection in pair.slave.link.connections:
            if str(connection.transport.get_extra_info("peername")[1]) == pair.master.ha_address.rpartition(":")[2]:
                connection.stall(Direction.IN)
        await pair.master.send_many(10)
        pair.master.broker.tables.offsets.commit(group=group, topic=topic, queue_id=0, offset=7)
        await synced(pair)
        assert pair.slave.broker.tables.offsets.find(group=group, topic=topic, queue_id=0) is None
        pair.slave.link.release()
        await pair.caught_up()
        await synced(pair)
        assert pair.slave.broker.tables.offsets.find(group=group, topic=topic, queue_id=0) == 7


async def test_delay_offsets_are_written_once_their_deliveries_are_in_the_copy() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await synced(pair)
        path = ROOT / "config" / "delayOffset.json"
        pair.master.memory.replace(path, b'{"offsetTable":{1:5}}')
        for connection in pair.slave.link.connections:
            if str(connection.transport.get_extra_info("peername")[1]) == pair.master.ha_address.rpartition(":")[2]:
                connection.stall(Direction.IN)
        await pair.master.send_many(10)
        await synced(pair)
        assert parse(pair.slave.disk.read(path)) == {"offsetTable": {}}
        pair.slave.link.release()
        await pair.caught_up()
        await synced(pair)
        assert parse(pair.slave.disk.read(path)) == {"offsetTable": {"1": 5}}


# ----------------------------------------------------------------------------------------------- not beyond its own log


def hold_up_the_log(pair: Pair) -> None:
    """Let nothing of the master's log arrive at the slave; requests pass."""
    for connection in pair.slave.link.connections:
        if str(connection.transport.get_extra_info("peername")[1]) == pair.master.ha_address.rpartition(":")[2]:
            connection.stall(Direction.IN)


async def promoted(pair: Pair) -> Member:
    """The slave, started as a master on its own disk; the master is gone for good."""
    slave = pair.slaves.pop()
    await slave.stop()
    await pair.master.stop()
    master = Member(pair, disk=slave.memory, store=MASTER_STORE)
    await master.start()
    pair.slaves.append(master)  # to be stopped and read in the end
    return master


async def test_progress_is_taken_over_as_far_as_the_copy_reaches() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        hold_up_the_log(pair)
        await pair.master.send_many(20)
        await commit(pair.master, 30)
        await synced(pair)
        assert offset_of(pair.slave) == 10
        pair.slave.link.release()
        await pair.caught_up()
        await synced(pair)
        assert offset_of(pair.slave) == 30


async def test_a_group_gets_all_that_a_promoted_slave_stores() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        hold_up_the_log(pair)
        await pair.master.send_many(100)
        await commit(pair.master, 110)
        await synced(pair)
        await commit(pair.slave, 108)  # a member that was sent there after all: what it says waits for the master
        assert offset_of(pair.slave) == 108
        master = await promoted(pair)
        await master.send_many(50)
        assert offset_of(master) == 10 + AHEAD_MIN


async def test_a_new_master_gives_no_number_that_a_consumer_has_read_at_the_lost_one() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        hold_up_the_log(pair)
        await pair.master.send_many(20)
        master = await promoted(pair)
        await master.send_many(25)  # as many, and more, before the consumer is back
        peer = await master.connect()
        offset, found = 30, 0
        while found < 25:
            answer = await peer.ask(pull_frame(TOPIC, 0, offset, group=GROUP))
            assert answer.ext is not None
            found += len(decode_records(answer.body))
            before, offset = offset, int(answer.ext["nextBeginOffset"] or 0)
            assert offset > before, answer
        assert offset == 10 + AHEAD_MIN + 25


async def test_a_consumer_that_read_more_at_the_lost_master_goes_on_where_its_group_is() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        hold_up_the_log(pair)
        await pair.master.send_many(100)
        await commit(pair.master, 110)
        await synced(pair)
        master = await promoted(pair)
        await master.send_many(15)
        await commit(master, 110)  # the consumer lives on, and says again and again how far it was
        peer = await master.connect()
        beyond = pull_frame(TOPIC, 0, 110, group=GROUP, commit=100)
        answer = await peer.ask(beyond)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY")
        assert answer.ext is not None
        assert answer.ext["nextBeginOffset"] == "10"
        assert offset_of(master) == 10
        await commit(master, 24)  # progress within the queue counts as ever
        assert offset_of(master) == 24
        assert (await peer.ask(beyond)).ext["nextBeginOffset"] == "24"  # type: ignore[index]  # a pull's answer has one
