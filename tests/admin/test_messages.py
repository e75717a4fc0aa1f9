"""Messages, dead letters and accounts through `Admin`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skyrocketmq import Admin, ConsumeResult, Credentials, Message, MessageQueue, MessageView, PushConsumer, SendStatus
from skyrocketmq.admin import Account, TrackState
from skyrocketmq.errors import BrokerError, IllegalArgument, NoRoute, NotFound, PartialFailure
from skyrocketmq.model.names import TRACE_TOPIC
from skyrocketmq.wire.trace import Pub, SubAfter, SubBefore, encode_trace
from tests.admin.ghost import ghost_broker
from tests.admin.test_groups import consuming
from tests.client.cluster import Cluster, open_cluster, until

QUEUE = MessageQueue("T", "broker-a", 0)


class TestFinding:
    async def test_a_message_is_found_by_all_its_names(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        messages = admin.messages
        sent = await messages.send(Message("T", b"one", tags="A", keys=["k1", "k2"]), queue=QUEUE)
        await messages.send(Message("T", b"two", keys=["k2"]), queue=QUEUE)
        assert sent.status is SendStatus.SEND_OK
        by_offset_id = await messages.by_offset_id(sent.offset_msg_id)
        (by_unique_id,) = await messages.by_unique_id("T", sent.msg_id)
        assert (by_offset_id.body, by_offset_id.queue) == (b"one", QUEUE)
        assert by_unique_id == by_offset_id
        assert (await messages.at(QUEUE, 0)).msg_id == sent.msg_id
        assert await messages.get("T", sent.msg_id) == await messages.get("T", sent.offset_msg_id) == by_offset_id
        assert [one.body for one in await messages.by_key("T", "k2")] == [b"one", b"two"]
        assert await messages.by_key("T", "k2", begin=datetime.now(UTC) + timedelta(hours=1)) == []
        assert await messages.by_key("T", "nothing") == []

    async def test_what_is_not_there(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        sent = await admin.messages.send(Message("T", b"one"), queue=QUEUE)
        nowhere = sent.offset_msg_id[:16] + f"{10**6:016X}"
        with pytest.raises(NotFound, match=r"there is no message at 1000000 of broker-a \(.*by_unique_id"):
            await admin.messages.by_offset_id(nowhere)
        with pytest.raises(NotFound, match="topic T has no message with the unique id"):
            await admin.messages.by_unique_id("T", nowhere)
        with pytest.raises(IllegalArgument, match="'xyz' is no offset id"):
            await admin.messages.by_offset_id("xyz")
        with pytest.raises(NotFound, match="queue T@broker-a:0 has no message at 7: it has 0 to 0"):
            await admin.messages.at(QUEUE, 7)
        with pytest.raises(NoRoute, match="no route for topic Other"):
            await admin.messages.by_key("Other", "k")

    async def test_a_broker_that_is_down_does_not_hide_what_others_have(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        sent = await admin.messages.send(Message("T", b"one", keys=["k"]), queue=QUEUE)
        async with ghost_broker(cluster.namesrv, topics=["T"]) as address:
            with pytest.raises(PartialFailure, match=address) as caught:
                await admin.messages.by_key("T", "k")
            assert [one.body for one in caught.value.result] == [b"one"]
            assert (await admin.messages.get("T", sent.msg_id)).body == b"one"
            with pytest.raises(PartialFailure):
                await admin.messages.by_key("T", "other")

    async def test_a_place_on_a_broker_that_is_gone_is_not_just_unknown(
        self, two_brokers: Cluster, admin_of_two: Admin
    ) -> None:
        two_brokers.create_topic("T", queues=1)
        queue = MessageQueue("T", "broker-b", 0)
        sent = await admin_of_two.messages.send(Message("T", b"one"), queue=queue)
        address = two_brokers.brokers["broker-b"].address
        await two_brokers.stop_broker("broker-b")
        with pytest.raises(NotFound, match=f"could not be reached.*{address}"):
            await admin_of_two.messages.get("T", sent.offset_msg_id)

    async def test_a_topic_is_read_by_time_and_tag(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=2)
        for number in range(70):
            queue = MessageQueue("T", "broker-a", number % 2)
            await admin.messages.send(Message("T", str(number).encode(), tags="AB"[number % 2]), queue=queue)
        everything = [message async for message in admin.messages.scan("T")]
        assert len(everything) == 70
        assert {one.tags for one in [message async for message in admin.messages.scan("T", expression="B")]} == {"B"}
        assert len([message async for message in admin.messages.scan("T", queue=QUEUE)]) == 35
        later = datetime.now(UTC) + timedelta(minutes=1)
        assert [message async for message in admin.messages.scan("T", begin=later)] == []
        middle_ms = everything[20].store_timestamp
        moment = datetime.fromtimestamp(middle_ms / 1000, UTC)
        until_then = [message async for message in admin.messages.scan("T", end=moment)]
        assert until_then == [message for message in everything if message.store_timestamp <= middle_ms]

    async def test_cells_of_a_queue(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        for _ in range(3):
            await admin.messages.send(Message("T", b"x"), queue=QUEUE)
        entries = await admin.messages.queue_entries(QUEUE, 1, count=2)
        assert (entries.min_queue_index, entries.max_queue_index, len(entries.queue_data)) == (0, 3, 2)

    async def test_the_trace_of_a_message(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic(TRACE_TOPIC, queues=1)
        pub = Pub(
            start_ms=1,
            group="senders",
            topic="T",
            msg_id="ID",
            store_host="h:1",
            body_bytes=1,
            cost_ms=2,
            is_success=True,
        )
        before = SubBefore(start_ms=3, group="readers", request_id="R", msg_id="ID")
        after = SubAfter(request_id="R", msg_id="ID", cost_ms=4, is_success=True)
        other = SubBefore(start_ms=3, group="readers", request_id="S", msg_id="OTHER")
        for records in ([pub], [before, other], [after]):
            await admin.messages.send(Message(TRACE_TOPIC, encode_trace(records), keys=["ID"]))
        trace = await admin.messages.trace("ID")
        assert (trace.sent[0].group, len(trace.consumed)) == ("senders", 1)
        assert (trace.consumed[0].group, trace.consumed[0].before, trace.consumed[0].after) == (
            "readers",
            before,
            after,
        )
        with pytest.raises(NotFound, match="nothing is written about NONE in RMQ_SYS_TRACE_TOPIC"):
            await admin.messages.trace("NONE")


class TestActing:
    async def test_what_became_of_a_message(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        async with (
            consuming(cluster, "all", "T") as handled,
            consuming(cluster, "tagged", "T", "B") as tagged,
        ):
            sent = await admin.messages.send(Message("T", b"x", tags="A"), queue=QUEUE)
            await admin.messages.send(Message("T", b"y", tags="B"), queue=QUEUE)
            await until(lambda: len(handled) == 2 and len(tagged) == 1)
        message = await admin.messages.by_offset_id(sent.offset_msg_id)
        assert {one.state for one in await admin.messages.tracks(message)} == {TrackState.NOT_ONLINE}
        async with consuming(cluster, "all", "T"), consuming(cluster, "tagged", "T", "B"):
            tracks = {one.group: one.state for one in await admin.messages.tracks(message)}
            assert tracks == {"all": TrackState.CONSUMED, "tagged": TrackState.FILTERED}
            await admin.offsets.set("all", {QUEUE: 0}, even_if_online=True)
            tracks = {one.group: one.state for one in await admin.messages.tracks(message)}
            assert tracks["all"] is TrackState.NOT_CONSUMED

    async def test_a_member_handles_a_message_at_once(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        async with consuming(cluster, "readers", "T") as handled:
            sent = await admin.messages.send(Message("T", b"x"), queue=QUEUE)
            await until(lambda: len(handled) == 1)
            client_id = (await admin.groups.connections("readers")).members[0].client_id
            result = await admin.messages.consume_directly("readers", sent.offset_msg_id, client_id=client_id)
            assert result.consume_result is not None
            assert result.consume_result.name == "CR_SUCCESS"
            assert len(handled) == 2
        with pytest.raises(BrokerError, match="readers"):
            await admin.messages.consume_directly("readers", sent.offset_msg_id, client_id=client_id)

    async def test_probes_take_their_time(self, cluster: Cluster, admin: Admin) -> None:
        probes = await admin.messages.probe("broker-a", count=3)
        assert [probe.status for probe in probes] == [SendStatus.SEND_OK] * 3
        assert all(probe.took_ms >= 0 for probe in probes)

    async def test_dead_letters_are_listed_and_sent_again(self, cluster: Cluster, admin: Admin) -> None:
        cluster.create_topic("T", queues=1)
        tries: list[MessageView] = []
        consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", retry_count_max=0)
        is_well = False

        @consumer.subscribe("T")
        async def take(message: MessageView) -> ConsumeResult:
            tries.append(message)
            return ConsumeResult.SUCCESS if is_well else ConsumeResult.RETRY

        async with consumer:
            await admin.messages.send(Message("T", b"bad", keys=["k"], properties={"a": "b"}), queue=QUEUE)
            async with asyncio.timeout(10):
                while await admin.dead_letters.groups() != ["readers"]:
                    await until(lambda: tries)
                letters: list[MessageView] = []
                while not letters:
                    letters = [message async for message in admin.dead_letters.scan("readers")]
            is_well = True
            assert letters[0].body == b"bad"
            await admin.dead_letters.resend("readers", letters[0])
            await until(lambda: len(tries) == 2)
            again = tries[1]
            assert (again.topic, again.body, again.keys, again.user_properties) == ("T", b"bad", ("k",), {"a": "b"})
        with pytest.raises(IllegalArgument, match="is no dead letter of group others"):
            await admin.dead_letters.resend("others", letters[0])
        with pytest.raises(NotFound, match="group others has no dead letters"):
            _ = [message async for message in admin.dead_letters.scan("others")]


class TestAccounts:
    @pytest.fixture
    async def guarded(self, tmp_path: Path, nothing_is_left_behind: None) -> AsyncIterator[Cluster]:
        path = tmp_path / "plain_acl.yml"
        path.write_text("accounts:\n  - {accessKey: chief-key, secretKey: chief-secret, admin: true}\n")
        settings = {"aclEnable": "true", "rocketmq.acl.plain.file": str(path)}
        async with open_cluster(tmp_path / "data", settings=settings) as opened:
            yield opened

    async def test_accounts_are_made_changed_and_deleted(self, guarded: Cluster) -> None:
        async with Admin(namesrv=guarded.namesrv, credentials=Credentials("chief-key", "chief-secret")) as admin:
            account = Account(
                access_key="worker-key",
                secret_key="worker-secret",
                default_topic_permission="DENY",
                topic_permissions={"T": "PUB|SUB"},
                group_permissions={"readers": "SUB"},
            )
            (node,) = await admin.accounts.put(account)
            (rules,) = (await admin.accounts.rules()).values()
            found = rules.find("worker-key")
            assert found is not None
            assert (found.topic_permissions, found.group_permissions) == ({"T": "PUB|SUB"}, {"readers": "SUB"})
            assert "worker-secret" not in repr(rules)
            assert found.secret_key == ""  # which this connection would show to others
            await admin.accounts.put(dataclasses.replace(found, topic_permissions={"T": "SUB"}))
            assert await admin.accounts.set_white_addresses(["10.0.0.*", "10.0.1.1"]) == [node]
            assert (await admin.accounts.rules())[node].white_addresses == ("10.0.0.*", "10.0.1.1")
            (versions,) = (await admin.accounts.versions()).values()
            assert versions[0].path.endswith("plain_acl.yml")
            assert versions[0].counter > 0
            await admin.accounts.delete("worker-key")
            assert (await admin.accounts.rules())[node].find("worker-key") is None
            with pytest.raises(BrokerError, match="worker-key"):
                await admin.accounts.delete("worker-key")

    async def test_others_are_told_that_they_may_not(self, guarded: Cluster) -> None:
        async with Admin(namesrv=guarded.namesrv) as admin:
            with pytest.raises(BrokerError) as caught:
                await admin.topics.create("T")
            assert caught.value.address is not None

    async def test_a_broker_without_access_control_says_so(self, admin: Admin) -> None:
        with pytest.raises(BrokerError, match="checks no access: set aclEnable=true"):
            await admin.accounts.rules()
