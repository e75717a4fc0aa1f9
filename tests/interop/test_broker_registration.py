"""Our broker's registrar at Apache's name server, looked at by a speaker of the protocol that is not ours."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from skyrocketmq.model import TopicConfig
from tests.broker.test_registration import ADDRESS, broker
from tests.interop import remoting
from tests.interop.apache import Apache
from tests.interop.processes import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]


@pytest.fixture(scope="module")
def namesrv(apache: Apache) -> Iterator[RunningServer]:
    with apache.namesrv() as server:
        yield server


def topics_at(address: str) -> set[str]:
    reply = remoting.request(address, remoting.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert reply.code == remoting.SUCCESS
    return set(json.loads(reply.body)["topicList"])


@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("is_forced", [True, False], ids=["forced", "asked first"])
async def test_apaches_name_server_takes_the_whole_table_after_a_part_of_it(
    namesrv: RunningServer, is_compressed: bool, is_forced: bool
) -> None:
    async with broker(namesrv.address, compressed_register=is_compressed, force_register=is_forced) as started:
        await started.registrar.refresh_addresses()
        started.topics.put(TopicConfig("orders", 3, 2))
        assert await started.registrar.announced()
        assert topics_at(namesrv.address) == {"orders"}
        assert await started.registrar.register() == 1
        assert topics_at(namesrv.address) == set(started.topics.names())
        started.topics.put(TopicConfig("refunds"))
        assert await started.registrar.announced()
        assert await started.registrar.register() == 1
        route = remoting.request(namesrv.address, remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
        found = json.loads(route.body)
        assert [(queues["readQueueNums"], queues["writeQueueNums"]) for queues in found["queueDatas"]] == [(3, 2)]
        assert found["brokerDatas"][0]["brokerAddrs"] == {"0": ADDRESS}
    assert topics_at(namesrv.address) == set()


async def test_a_slave_learns_its_masters_address_from_apaches_name_server(namesrv: RunningServer) -> None:
    async with broker(namesrv.address) as master, broker(namesrv.address, broker_id=1, address="10.0.0.2:1") as slave:
        await master.registrar.start()
        await slave.registrar.start()
        assert slave.registrar.master.address == ADDRESS


async def test_apaches_name_server_tells_which_topics_are_ordered(namesrv: RunningServer) -> None:
    async with broker(namesrv.address) as started:
        started.topics.put(TopicConfig("orders"))
        ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:4"}
        assert remoting.request(namesrv.address, remoting.PUT_KV_CONFIG, ext).code == remoting.SUCCESS
        await started.registrar.start()
        found = started.topics.find("orders")
        assert found is not None
        assert found.order
