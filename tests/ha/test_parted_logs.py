"""A master that comes back without the end of its log, and stores other messages there: its slave does not follow.

The protocol compares offsets only. What the slave has was acknowledged as replicated, so not a byte of it may change,
and nothing that the master stores from then on may be acknowledged as replicated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.config import BrokerRole
from skyrocketmq.testing import FaultyDisk
from skyrocketmq.wire.codes import RequestCode
from tests.broker.requests import TOPIC, send_frame
from tests.ha.pair import Pair, open_pair
from tests.ha.proxy import Proxy

BEFORE, LOST = 100, 50
SLAVE_NOT_AVAILABLE = 11


@asynccontextmanager
async def parted_pair(*, restart_slave: bool = False) -> AsyncIterator[tuple[Pair, FaultyDisk]]:
    """A synchronous pair whose master has just come back without its newest messages; and the disk that has them all.

    Every message has been acknowledged as replicated.
    """
    async with open_pair(role=BrokerRole.SYNC_MASTER, check=False) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(BEFORE - LOST)
        await pair.caught_up()
        await pair.master.stop()
        disk = pair.master.memory
        older, pair.master.memory = disk.after_power_loss(keep=True), disk.after_power_loss(keep=True)
        await pair.master.start()
        await pair.connected()
        await pair.master.send_many(LOST)
        await pair.caught_up()
        if restart_slave:
            await pair.slave.stop()
        await pair.master.stop()
        newer, pair.master.memory = pair.master.memory, older
        await pair.master.start()
        if restart_slave:
            await pair.slave.start()
        yield pair, newer


async def send_past_the_slave(pair: Pair, *, end: int) -> list[int]:
    """The codes of sends, until the master's log is well behind the end of the copy."""
    peer = await pair.master.connect()
    codes: list[int] = []
    while pair.master.store.log.max_offset < end + 50_000:
        codes.append((await peer.ask(send_frame(TOPIC, 0, body=bytes(1024)))).code)
    await peer.close()
    return codes


@pytest.mark.parametrize("restart_slave", [False, True])
async def test_a_slave_never_follows_a_master_that_lost_its_end(restart_slave: bool) -> None:
    async with parted_pair(restart_slave=restart_slave) as (pair, _):
        before, pulled, end = pair.slave.log_bytes(), await pair.slave.pull_all(), pair.slave.store.log.max_offset
        assert len(pulled) == BEFORE
        for _ in range(2):
            codes = await send_past_the_slave(pair, end=end)
            assert set(codes) == {SLAVE_NOT_AVAILABLE}, "nothing is acknowledged as replicated"
            await pair.pass_time(0.8)  # several attempts to follow
            end = pair.master.store.log.max_offset
        assert pair.slave.log_bytes() == before
        assert await pair.slave.pull_all() == pulled
        assert pair.master.broker.replication.replicas.acknowledged == 0, "it never said how far it is"
        assert not pair.slave.broker.replication.is_following


async def test_tables_of_a_master_that_is_not_followed_are_not_copied() -> None:
    async with parted_pair() as (pair, _):
        await send_past_the_slave(pair, end=pair.slave.store.log.max_offset)
        await pair.master.make_topic("OfAnotherLog")
        follower = pair.slave.broker.replication._follower
        assert follower is not None
        assert await follower._sync()
        assert pair.slave.broker.tables.topics.find("OfAnotherLog") is None


async def test_a_master_that_got_its_messages_back_is_followed_again() -> None:
    async with parted_pair() as (pair, complete):
        await send_past_the_slave(pair, end=pair.slave.store.log.max_offset)
        await pair.pass_time(0.5)
        await pair.master.stop()
        pair.master.memory = complete
        await pair.master.start()
        await pair.connected()
        await pair.master.send_many(10)
        await pair.caught_up()
        pair.assert_equal()


async def test_a_slave_that_cannot_compare_says_nothing_and_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pair(role=BrokerRole.SYNC_MASTER) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        await pair.slave.stop()
        proxy = Proxy(int(pair.master.ha_address.rpartition(":")[2]))  # beside it nobody answers requests
        await proxy.start()
        pair.slave.settings["store"]["ha_master_address"] = f"127.0.0.1:{proxy.port}"
        await pair.slave.start()
        await pair.until(
            lambda: "could not be compared" in str([each.__dict__.get("reason") for each in caplog.records])
        )
        dialled = pair.slave.link.dial_count
        await pair.until(lambda: pair.slave.link.dial_count > dialled + 2)
        assert pair.master.broker.replication.replicas.slaves == {}
        peer = await pair.master.connect()
        assert (await peer.ask(send_frame(TOPIC))).code == SLAVE_NOT_AVAILABLE
        await peer.close()
        await pair.slave.stop()
        await proxy.close()
        pair.slave.settings["store"]["ha_master_address"] = pair.master.ha_address
        await pair.slave.start()
        await pair.caught_up()
        pair.assert_equal()


async def test_a_slave_goes_on_after_its_newest_message_was_deleted_with_its_topic() -> None:
    """The master no longer gives that message to clients, for no queue has it; but its log is the same."""
    async with open_pair(check=False) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        await pair.slave.stop()
        await pair.master.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        await pair.slave.start()
        await pair.connected()
        await pair.master.make_topic()
        await pair.master.send_many(10)
        await pair.caught_up()
        assert pair.master.log_bytes() == pair.slave.log_bytes()
