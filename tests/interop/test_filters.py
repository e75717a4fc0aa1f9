"""SQL92 filters across the two makes: each one's consumers on the other one's brokers, and files exchanged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq import LitePullConsumer, Message, MessageSelector, MessageView, Producer, PullConsumer, PushConsumer
from skyrocketmq.errors import SubscriptionParseFailed
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.model import MessageQueue
from tests.interop.apache import Apache
from tests.interop.client.support import fresh_group, fresh_name, until
from tests.interop.driver import Driver, JavaError, message
from tests.interop.driver import PushConsumer as JavaPushConsumer
from tests.interop.ours import Broker, NameServer, running
from tests.interop.processes import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(90, func_only=True)]

BROKER = "broker-a"
SQL = "price > 10 AND region IN ('eu', 'us') OR TAGS = 'urgent'"
PRICES, REGIONS = ("10", "15", "20"), ("eu", "us", "cn")
WANTED = {"15 eu", "15 us", "20 eu", "20 us", "1 urgent"}
CONFIG = {"enablePropertyFilter": "true"}


@pytest.fixture(scope="module", params=["ours", "apache"])
def namesrv(request: pytest.FixtureRequest, apache: Apache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one broker that filters by SQL92."""
    if request.param == "apache":
        with apache.namesrv() as server, apache.broker(namesrv=server.address, config=CONFIG):
            yield server.address
        return
    directory = tmp_path_factory.mktemp("ours")
    with (
        running(NameServer(directory / "namesrv")) as ours,
        running(Broker(directory / "broker", namesrv=ours.address, config=CONFIG)),
    ):
        yield ours.address


@pytest.fixture
def topic(java: Driver, namesrv: str) -> str:
    """A fresh topic of one queue with ten messages, five of which are wanted; Apache's client has sent them."""
    name = fresh_name("Filtered")
    java.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "1", "-w", "1", namesrv=namesrv)
    with java.producer("filter-producer", namesrv=namesrv) as producer:
        for price in PRICES:
            for region in REGIONS:
                producer.send(message(name, f"{price} {region}", properties={"price": price, "region": region}))
        producer.send(message(name, "1 urgent", tags="urgent", properties={"price": "1"}))
    return name


def test_apaches_consumers_get_what_their_expressions_select(java: Driver, namesrv: str, topic: str) -> None:
    by_sql = [{"topic": topic, "sql": SQL}]
    with java.push_consumer(fresh_group(), namesrv=namesrv, subscriptions=by_sql, from_="first") as push:
        assert {found.text for found in push.received(at_least=5)} == WANTED
    with java.lite_consumer(fresh_group(), namesrv=namesrv, subscriptions=by_sql, from_="first") as lite:
        assert {found.text for found in lite.poll(at_least=5)} == WANTED


def test_apaches_consumer_is_refused_with_a_wrong_expression(java: Driver, namesrv: str, topic: str) -> None:
    wrong = [{"topic": topic, "sql": "price > 'cheap'"}]
    with pytest.raises(JavaError, match="CODE: 23") as refused:
        java.push_consumer(fresh_group(), namesrv=namesrv, subscriptions=wrong, from_="first")
    assert refused.value.type in ("MQClientException", "MQBrokerException")


async def test_our_consumers_get_what_their_expressions_select(namesrv: str, topic: str) -> None:
    selector = MessageSelector.by_sql(SQL)
    got: set[str] = set()

    async def take(received: MessageView) -> None:
        got.add(received.body.decode())

    push = PushConsumer(fresh_group(), namesrv=namesrv, consume_from="first")
    push.subscribe(topic, selector, take)
    async with push:
        await until(lambda: len(got) >= 5)
    assert got == WANTED
    async with PullConsumer(fresh_group(), namesrv=namesrv) as pull:
        found = await pull.pull(MessageQueue(topic, BROKER, 0), 0, expression=selector)
        assert {each.body.decode() for each in found.messages} == WANTED
    lite = LitePullConsumer(fresh_group(), namesrv=namesrv, consume_from="first")
    lite.subscribe(topic, selector)
    polled: set[str] = set()
    async with lite, asyncio.timeout(30):
        while len(polled) < 5:
            polled |= {each.body.decode() for each in await lite.poll(1.0)}
    assert polled == WANTED


async def test_our_consumer_is_refused_with_a_wrong_expression(namesrv: str, topic: str) -> None:
    consumer = PushConsumer(fresh_group(), namesrv=namesrv)
    consumer.subscribe(topic, MessageSelector.by_sql("price > 'cheap'"), lambda received: None)
    with pytest.raises(SubscriptionParseFailed):
        async with consumer:
            pass


async def test_a_group_of_both_makes_filters_by_one_expression(java: Driver, namesrv: str, topic: str) -> None:
    """Both members are there, and whatever comes is filtered for whoever gets it."""
    group, got = fresh_group(), set[str]()

    async def take(received: MessageView) -> None:
        got.add(received.body.decode())

    def join() -> JavaPushConsumer:
        return java.push_consumer(group, namesrv=namesrv, subscriptions=[{"topic": topic, "sql": SQL}], from_="first")

    ours = PushConsumer(group, namesrv=namesrv, consume_from="first")
    ours.subscribe(topic, MessageSelector.by_sql(SQL), take)
    async with ours:
        theirs = await asyncio.to_thread(join)
        try:
            async with Producer("filter-producer", namesrv=namesrv) as producer:
                for number in range(20):
                    properties = {"price": str(number), "region": "eu"}
                    await producer.send(Message(topic, b"new %d" % number, properties=properties))

            def all_texts() -> set[str]:
                received = {each.text for each in theirs.received()}
                return got | received

            wanted = WANTED | {f"new {number}" for number in range(11, 20)}
            await asyncio.to_thread(wait_until, lambda: all_texts() >= wanted, timeout_s=40, what="all messages")
            assert await asyncio.to_thread(all_texts) == wanted
        finally:
            await asyncio.to_thread(theirs.stop)


def test_bloom_filters_have_the_same_places(java: Driver) -> None:
    texts = [f"group-{number}#Topic{number % 7}" for number in range(200)] + ["g#T", "größe#中文", ""]
    for error_percent, count in ((20, 32), (1, 32), (20, 64), (50, 1), (99, 100)):
        ours = BloomFilter(error_percent=error_percent, subscriber_count=count)
        theirs = java.call("bloom", error_percent=error_percent, count=count, texts=texts)
        assert theirs["bits"] == ours.bit_count
        assert [tuple(places) for places in theirs["places"]] == [ours.places(text) for text in texts]


def filters_in(store: Path) -> dict[str, dict[str, object]]:
    table = json.loads((store / "config" / "consumerFilter.json").read_text())
    found: dict[str, dict[str, object]] = table["filterDataByTopic"]["Kept"]["groupFilterData"]
    return found


def test_bit_maps_of_one_make_serve_the_other(apache: Apache, java: Driver, tmp_path: Path) -> None:
    """A store with extension files goes from us to Apache's broker and back; a group misses nothing on the way."""
    store = tmp_path / "broker" / "store"
    config = {**CONFIG, "enableCalcFilterBitMap": "true", "enableConsumeQueueExt": "true"}
    by_sql = [{"topic": "Mapped", "sql": "n > 3 AND n < 7"}]

    def send_and_take(namesrv: str, label: str) -> set[str]:
        with (
            java.push_consumer("mappers", namesrv=namesrv, subscriptions=by_sql, from_="first") as consumer,
            java.producer("filter-producer", namesrv=namesrv) as producer,
        ):
            for number in range(10):
                producer.send(message("Mapped", f"{label} {number}", properties={"n": str(number)}))
            # What was taken when the consumer before closed may come again: that one was not asked to finish it.
            taken: set[str] = set()
            count = 0
            while len(taken) < 3:
                received = consumer.received(at_least=count + 1)
                count = len(received)
                taken = {found.text for found in received if found.text.startswith(label)}
            return taken

    with apache.namesrv() as namesrv:
        ours = Broker(tmp_path / "broker", namesrv=namesrv.address, config=config)
        ours.start()
        one_queue = ("-t", "Mapped", "-r", "1", "-w", "1")
        java.mqadmin("updateTopic", "-b", ours.address, *one_queue, namesrv=namesrv.address)
        assert send_and_take(namesrv.address, "a") == {"a 4", "a 5", "a 6"}
        ours.stop()
        assert (store / "consumequeue_ext" / "Mapped" / "0" / ("0" * 20)).is_file()
        with apache.broker(namesrv=namesrv.address, store=store, config=config) as theirs:
            assert send_and_take(namesrv.address, "b") == {"b 4", "b 5", "b 6"}
            with java.push_consumer("others", namesrv=namesrv.address, subscriptions=by_sql, from_="first") as other:
                assert len(other.received(at_least=6)) == 6
            theirs.stop()
        ours.start()
        assert send_and_take(namesrv.address, "c") == {"c 4", "c 5", "c 6"}
        with java.push_consumer("more", namesrv=namesrv.address, subscriptions=by_sql, from_="first") as other:
            assert {found.text for found in other.received(at_least=9)} == {
                f"{label} {number}" for label in "abc" for number in (4, 5, 6)
            }
        ours.stop()


def test_the_file_of_filters_is_read_by_the_other_make(apache: Apache, java: Driver, tmp_path: Path) -> None:
    store = tmp_path / "broker" / "store"
    by_sql = [{"topic": "Kept", "sql": "price > 10"}]
    with apache.namesrv() as namesrv:
        our_broker = Broker(tmp_path / "broker", namesrv=namesrv.address, config=CONFIG)
        our_broker.start()
        java.mqadmin(
            "updateTopic", "-b", our_broker.address, "-t", "Kept", "-r", "1", "-w", "1", namesrv=namesrv.address
        )
        with java.push_consumer("keepers", namesrv=namesrv.address, subscriptions=by_sql, from_="first"):
            pass
        our_broker.stop()
        ours = filters_in(store)["keepers"]
        assert (ours["expression"], ours["dead"]) == ("price > 10", True)
        with apache.broker(namesrv=namesrv.address, store=store, config=CONFIG) as theirs:
            theirs.stop()
        written = filters_in(store)["keepers"]
        assert {key: written[key] for key in ("expression", "bornTime", "deadTime", "bloomFilterData")} == {
            key: ours[key] for key in ("expression", "bornTime", "deadTime", "bloomFilterData")
        }
        our_broker.start()
        our_broker.stop()
        assert filters_in(store)["keepers"]["bornTime"] == ours["bornTime"]
