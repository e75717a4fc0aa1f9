"""Selecting messages by tags and by SQL92, with every kind of consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skyrocketmq import LitePullConsumer, Message, MessageSelector, MessageView, Producer, PullConsumer, PushConsumer
from skyrocketmq.client.pulls import PullStatus
from skyrocketmq.errors import BrokerError, IllegalArgument, SubscriptionParseFailed
from tests.client.cluster import Cluster, open_cluster, until

SQL = "price > 10 AND region IN ('eu', 'us')"
WANTED = [b"15 eu", b"15 us", b"20 eu", b"20 us"]


@pytest.fixture
async def cluster(tmp_path: Path, nothing_is_left_behind: None) -> AsyncIterator[Cluster]:
    """A broker that filters by SQL92, with a topic in which there are nine messages."""
    async with open_cluster(tmp_path, settings={"enablePropertyFilter": "true"}) as opened:
        opened.create_topic("T", queues=1)
        async with Producer("senders", namesrv=opened.namesrv) as producer:
            for price in ("10", "15", "20"):
                for region in ("eu", "us", "cn"):
                    properties = {"price": price, "region": region}
                    await producer.send(Message("T", f"{price} {region}".encode(), tags=region, properties=properties))
        yield opened


class TestSelectors:
    def test_a_selector_knows_what_it_is(self) -> None:
        assert MessageSelector.by_sql("a > 5") == MessageSelector("a > 5", "SQL92")
        assert MessageSelector.by_tag("A || B") == MessageSelector("A || B", "TAG")
        assert MessageSelector.by_tag() == MessageSelector("*", "TAG")

    @pytest.mark.parametrize("text", ["", "  "])
    def test_an_empty_expression_is_refused(self, text: str) -> None:
        with pytest.raises(IllegalArgument, match="empty"):
            MessageSelector.by_sql(text)

    def test_tags_that_name_nothing_are_refused(self) -> None:
        with pytest.raises(IllegalArgument, match="names no tag"):
            MessageSelector.by_tag("||")

    def test_tags_and_sql_do_not_go_together(self) -> None:
        consumer = LitePullConsumer("readers", namesrv="127.0.0.1:1")
        with pytest.raises(IllegalArgument, match="one of them"):
            consumer.subscribe("T", "TagA", sql="a > 5")
        with pytest.raises(IllegalArgument, match="one of them"):
            consumer.subscribe("T", MessageSelector.by_sql("b > 5"), sql="a > 5")


@pytest.mark.parametrize("selector", [MessageSelector.by_sql(SQL), None], ids=["selector", "sql"])
async def test_a_push_consumer_gets_what_its_expression_selects(
    cluster: Cluster, selector: MessageSelector | None
) -> None:
    got: list[bytes] = []
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first")

    async def take(message: MessageView) -> None:
        got.append(message.body)

    if selector is None:
        consumer.subscribe("T", "*", take, sql=SQL)
    else:
        consumer.subscribe("T", selector, take)
    async with consumer, Producer("senders", namesrv=cluster.namesrv) as producer:
        await until(lambda: len(got) == 4)
        for region in ("cn", "us"):
            properties = {"price": "99", "region": region}
            await producer.send(Message("T", region.encode(), properties=properties))
        await until(lambda: len(got) == 5)
        await asyncio.sleep(0.1)
    assert sorted(got) == sorted([*WANTED, b"us"])


async def test_a_pull_consumer_gets_what_its_expression_selects(cluster: Cluster) -> None:
    async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
        (queue,) = await consumer.queues("T")
        for found in (
            await consumer.pull(queue, 0, expression=MessageSelector.by_sql(SQL)),
            await consumer.pull(queue, 0, sql=SQL),
        ):
            assert [message.body for message in found.messages] == WANTED
        found = await consumer.pull(queue, 0, expression=MessageSelector.by_tag("cn"))
        assert [message.tags for message in found.messages] == ["cn"] * 3
        none = await consumer.pull(queue, 0, sql="price > 1000")
        assert (none.status, none.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 9)


@pytest.mark.parametrize("way", ["subscribe", "assign"])
async def test_a_lite_pull_consumer_gets_what_its_expression_selects(cluster: Cluster, way: str) -> None:
    consumer = LitePullConsumer("readers", namesrv=cluster.namesrv, consume_from="first")
    if way == "subscribe":
        consumer.subscribe("T", MessageSelector.by_sql(SQL))
    async with consumer:
        if way == "assign":
            consumer.assign(await consumer.queues("T"), MessageSelector.by_sql(SQL))
        got: list[bytes] = []
        async with asyncio.timeout(10):
            while len(got) < 4:
                got += [message.body for message in await consumer.poll(0.2)]
        assert got == WANTED


async def test_a_wrong_expression_ends_the_start_of_a_push_consumer_with_its_place(cluster: Cluster) -> None:
    consumer = PushConsumer("readers", namesrv=cluster.namesrv)
    consumer.subscribe("T", MessageSelector.by_sql("price > 'cheap'"), lambda message: None)
    with pytest.raises(SubscriptionParseFailed) as refused:
        async with consumer:
            pass
    assert "    price > 'cheap'\n            ^" in refused.value.remark
    async with PullConsumer("readers", namesrv=cluster.namesrv) as puller:
        (queue,) = await puller.queues("T")
        with pytest.raises(SubscriptionParseFailed):
            await puller.pull(queue, 0, sql="price > 'cheap'")


async def test_a_broker_that_filters_by_tags_only_says_so(tmp_path: Path, nothing_is_left_behind: None) -> None:
    async with open_cluster(tmp_path) as cluster:
        cluster.create_topic("T", queues=1)
        consumer = PushConsumer("readers", namesrv=cluster.namesrv)
        consumer.subscribe("T", MessageSelector.by_sql("price > 5"), lambda message: None)
        with pytest.raises(BrokerError, match="enablePropertyFilter"):
            async with consumer:
                pass
