"""A slave's log is its master's, byte for byte, whatever happens on the way."""

from __future__ import annotations

from tests.broker.requests import TOPIC
from tests.broker.support import until
from tests.ha.pair import open_pair


async def test_a_slave_gets_what_its_master_stores() -> None:
    async with open_pair() as pair:
        await pair.master.make_topic()
        await pair.master.send_many(500)
        await pair.caught_up()
        pair.assert_equal()
        await until(lambda: pair.slave.broker.tables.topics.find(TOPIC))
        records = await pair.slave.pull_all()
        assert [record.body for record in records] == [b"%d" % number for number in range(500)]
