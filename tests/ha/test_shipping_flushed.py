"""With synchronous flush a slave gets what is durable at its master: a power cut there never leaves it with more."""

from __future__ import annotations

import pytest

from skyrocketmq.config import BrokerRole, FlushDiskType
from tests.ha.pair import open_pair
from tests.store.support import memory_disk, new_message, open_store, put_ok, store_config

SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH


@pytest.mark.parametrize(
    ("flush", "role", "waits"),
    [
        (SYNC, BrokerRole.SYNC_MASTER, True),
        (ASYNC, BrokerRole.SYNC_MASTER, False),
        (SYNC, BrokerRole.ASYNC_MASTER, True),
    ],
)
async def test_a_master_ships_what_is_flushed_if_its_senders_wait_for_that(
    flush: FlushDiskType, role: BrokerRole, waits: bool
) -> None:
    async with open_store(memory_disk(), store_config(flush_disk_type=flush, broker_role=role)) as store:
        told: list[int] = []
        store.log.on_append = lambda: told.append(int(store.log.shippable_offset))
        put_ok(store, new_message())
        end = store.log.max_offset
        assert store.log.shippable_offset == (0 if waits else end)
        await store.flush()
        assert store.log.shippable_offset == end
        assert told[-1] == end, "slaves are woken when there is more for them"


async def test_a_slave_never_has_what_its_master_could_lose() -> None:
    async with open_pair(store={"flush_disk_type": SYNC}) as pair:
        await pair.master.make_topic()
        copied: list[bool] = []
        tell = pair.slave.store.log.on_append

        def check_copy() -> None:
            tell()
            copied.append(pair.slave.store.log.max_offset <= pair.master.store.log.flushed_offset)

        pair.slave.store.log.on_append = check_copy
        await pair.master.send_many(300)
        await pair.caught_up()
        assert copied
        assert all(copied)
