from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skyrocketmq.client.heartbeats import Heartbeats
from skyrocketmq.client.name_servers import NameServers
from skyrocketmq.client.routes import Routes
from skyrocketmq.client.settings import ClientSettings
from skyrocketmq.model import ConsumerData, HeartbeatData, ProducerData
from skyrocketmq.net import Client
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Chance, SystemClock, TcpLink
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.client.cluster import until
from tests.client.scripted import Scripted, open_scripted, refuse


class Sender:
    """Heartbeats to all brokers of topic T; `data` is what they say."""

    def __init__(self, client: Client, scripted: Scripted) -> None:
        clock = SystemClock()
        self.tasks = Tasks()
        self.data: HeartbeatData | None = heartbeat("one")
        settings = ClientSettings(namesrv=(scripted.namesrv,))
        servers = NameServers(settings, client, clock=clock, link=TcpLink(), chance=Chance(1))
        self.routes = Routes(servers, clock=clock, interval_s=30, timeout_s=3, tasks=self.tasks)
        self.heartbeats = Heartbeats(lambda: self.data, client, self.routes, timeout_s=1, tasks=self.tasks)


def heartbeat(group: str, *, consumes: bool = False) -> HeartbeatData:
    consumers = (ConsumerData(group_name=group),) if consumes else ()
    return HeartbeatData(client_id="c", producer_data_set=(ProducerData(group),), consumer_data_set=consumers)


@asynccontextmanager
async def open_sender(scripted: Scripted) -> AsyncIterator[Sender]:
    async with Client() as client:
        sender = Sender(client, scripted)
        scripted.add_topic("T")
        await sender.routes.refresh("T")
        yield sender
        await sender.tasks.finish(clock=SystemClock(), grace_s=1)


async def test_every_broker_is_told_and_its_version_remembered() -> None:
    async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted, open_sender(scripted) as sender:
        await sender.heartbeats.send()
        addresses = {broker.address for broker in scripted.brokers.values()}
        assert {broker.heartbeats()[0].producer_data_set[0].group_name for broker in scripted.brokers.values()} == {
            "one"
        }
        assert sender.heartbeats.versions == dict.fromkeys(addresses, 407)


async def test_a_change_during_a_round_is_followed_by_another_round() -> None:
    async with open_scripted() as scripted, open_sender(scripted) as sender:
        broker = scripted.brokers["broker-a"]
        released = asyncio.Event()

        async def slowly(frame: Frame) -> Frame:
            await released.wait()
            return frame.reply()

        broker.on(RequestCode.HEART_BEAT, slowly)
        sender.heartbeats.send_soon()
        await until(lambda: broker.count(RequestCode.HEART_BEAT))
        sender.data = heartbeat("two")
        sender.heartbeats.send_soon()
        sender.heartbeats.send_soon()
        released.set()
        await sender.heartbeats.send()
        groups = [data.producer_data_set[0].group_name for data in broker.heartbeats()]
        assert groups == ["one", "two"]


async def test_nothing_is_said_while_there_is_nothing_to_say() -> None:
    async with open_scripted() as scripted, open_sender(scripted) as sender:
        sender.data = None
        await sender.heartbeats.send()
        assert scripted.brokers["broker-a"].received == []


async def test_a_broker_that_refuses_holds_up_no_other() -> None:
    async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted, open_sender(scripted) as sender:
        scripted.brokers["broker-a"].on(RequestCode.HEART_BEAT, refuse(1))
        await sender.heartbeats.send()
        assert list(sender.heartbeats.versions) == [scripted.brokers["broker-b"].address]


async def test_good_bye_is_said_only_where_there_is_a_connection() -> None:
    async with open_scripted(brokers=["broker-a", "broker-b"]) as scripted, open_sender(scripted) as sender:
        await sender.heartbeats.greet(scripted.brokers["broker-a"].address)
        await sender.heartbeats.say_goodbye("c", producer_group="one")
        (frame,) = scripted.brokers["broker-a"].frames(RequestCode.UNREGISTER_CLIENT)
        assert frame.ext == {"clientID": "c", "producerGroup": "one"}
        assert scripted.brokers["broker-b"].received == []


async def test_good_bye_waits_for_the_answer_to_the_last_heartbeat() -> None:
    async with open_scripted() as scripted, open_sender(scripted) as sender:
        broker = scripted.brokers["broker-a"]
        released = asyncio.Event()

        async def slowly(frame: Frame) -> Frame:
            await released.wait()
            return frame.reply()

        broker.on(RequestCode.HEART_BEAT, slowly)
        greeting = asyncio.ensure_future(sender.heartbeats.greet(broker.address))
        await until(lambda: broker.count(RequestCode.HEART_BEAT))
        leaving = asyncio.ensure_future(sender.heartbeats.say_goodbye("c", consumer_group="one"))
        await asyncio.sleep(0.05)
        assert broker.count(RequestCode.UNREGISTER_CLIENT) == 0
        released.set()
        await asyncio.gather(greeting, leaving)
        assert broker.count(RequestCode.UNREGISTER_CLIENT) == 1
