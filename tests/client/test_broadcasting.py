from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageView
from tests.client.cluster import Cluster, until
from tests.client.test_push_consumer import Inbox, numbered, send_all


def reader(
    cluster: Cluster, directory: Path, inbox: Inbox, *, name: str = "DEFAULT", orderly: bool = False
) -> PushConsumer:
    consumer = PushConsumer(
        "readers",
        namesrv=cluster.namesrv,
        broadcasting=True,
        orderly=orderly,
        consume_from="first",
        instance_name=name,
        offsets_directory=directory,
    )
    consumer.subscribe("T", "*", inbox)
    return consumer


@pytest.mark.parametrize("orderly", [False, True])
async def test_every_member_gets_every_message(two_brokers: Cluster, tmp_path: Path, orderly: bool) -> None:
    two_brokers.create_topic("T", queues=2)
    inboxes = [Inbox(), Inbox()]
    readers = [
        reader(two_brokers, tmp_path / "offsets", inbox, name=f"member-{number}", orderly=orderly)
        for number, inbox in enumerate(inboxes)
    ]
    async with readers[0], readers[1]:
        await send_all(two_brokers, numbered(30))
        await until(lambda: all(len(inbox.messages) == 30 for inbox in inboxes))
    assert all(Counter(inbox.bodies) == Counter(numbered(30)) for inbox in inboxes)


async def test_a_member_goes_on_where_its_file_says(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("T", queues=2)
    for round_number in range(3):
        inbox = Inbox()
        bodies = [b"%d-%d" % (round_number, number) for number in range(10)]
        await send_all(cluster, bodies)
        async with reader(cluster, tmp_path / "offsets", inbox) as consumer:
            assert consumer.client_id.endswith("@DEFAULT")
            await until(lambda: len(inbox.messages) >= 10)  # noqa: B023
        assert Counter(inbox.bodies) == Counter(bodies)
    assert cluster.stored_offset("readers", "T", 0) is None


async def test_a_message_that_fails_does_not_come_again(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("T", queues=1)
    seen: list[bytes] = []
    consumer = PushConsumer(
        "readers",
        namesrv=cluster.namesrv,
        broadcasting=True,
        consume_from="first",
        offsets_directory=tmp_path / "offsets",
    )

    @consumer.subscribe("T")
    async def read(message: MessageView) -> None:
        seen.append(message.body)
        raise ValueError

    async with consumer:
        await send_all(cluster, [b"bad"])
        await until(lambda: seen)
        await send_all(cluster, [b"worse"])
        await until(lambda: len(seen) == 2)
    assert seen == [b"bad", b"worse"]
    assert cluster.brokers["broker-a"].tables.topics.find("%RETRY%readers") is not None  # made by the heartbeat
    assert cluster.brokers["broker-a"].store.max_offset("%RETRY%readers", 0) == 0


async def test_messages_come_in_order_to_every_member(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("T", queues=1)
    inbox = Inbox()
    async with reader(cluster, tmp_path / "offsets", inbox, orderly=True):
        for body in numbered(20):
            await send_all(cluster, [body])
        await until(lambda: len(inbox.messages) == 20)
    assert inbox.bodies == numbered(20)


async def test_two_members_with_one_name_in_one_process_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("T", queues=1)
    async with reader(cluster, tmp_path / "offsets", Inbox()):
        with pytest.raises(IllegalArgument, match="another instance_name"):
            await reader(cluster, tmp_path / "offsets", Inbox()).start()
        await asyncio.sleep(0)
