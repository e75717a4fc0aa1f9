"""mqadmin, Apache's admin tool, on a cluster of two brokers: the commands that ask brokers, and what they print.

What it asks name servers is in `test_namesrv`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.interop.apache import DEFAULT_CLUSTER, Apache
from tests.interop.clusters import CLUSTERS, ON_APACHES, Cluster
from tests.interop.driver import Admin, Driver, JavaError, Producer, PushConsumer, Queue, Sent, message
from tests.interop.ours import Broker as OurBroker
from tests.interop.processes import wait_until
from tests.interop.routes import find_route
from tests.test_compatibility import COMMANDS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]

Mqadmin = Callable[..., str]
QUEUES_A_BROKER = 2
TOPIC_NOT_EXIST = 17
NO_PERMISSION = 16
SYSTEM_ERROR = 1
_numbers = count(1)


@pytest.fixture(scope="module", params=["ours", ON_APACHES])
def cluster(
    request: pytest.FixtureRequest, apache: Apache, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with CLUSTERS[request.param](apache, tmp_path_factory.mktemp("cluster"), {}) as started:
        yield started


@pytest.fixture
def mqadmin(java: Driver, cluster: Cluster) -> Mqadmin:
    def run(*arguments: str) -> str:
        return java.mqadmin(*arguments, namesrv=cluster.namesrv)

    return run


@pytest.fixture
def topic(mqadmin: Mqadmin) -> str:
    name = f"Topic{next(_numbers)}"
    mqadmin("updateTopic", "-c", DEFAULT_CLUSTER, "-t", name, "-r", str(QUEUES_A_BROKER), "-w", str(QUEUES_A_BROKER))
    return name


@pytest.fixture
def producer(java: Driver, cluster: Cluster) -> Iterator[Producer]:
    with java.producer("mqadmin-producer", namesrv=cluster.namesrv) as running:
        yield running


@pytest.fixture
def sent(producer: Producer, topic: str) -> list[Sent]:
    """Eight messages, two in each queue."""
    queues = producer.publish_queues(topic)
    return [
        producer.send(message(topic, f"body {number}", tags="A", keys=f"key-{number} all"), queue=queue)[0]
        for number, queue in enumerate([*queues, *queues])
    ]


@pytest.fixture
def group(java: Driver, cluster: Cluster, topic: str, sent: list[Sent]) -> Iterator[PushConsumer]:
    """A consumer that has read everything; its group is named after the topic."""
    options = {"namesrv": cluster.namesrv, "topic": topic, "tags": "A || B", "from_": "first"}
    with java.push_consumer(group_of(topic), **options) as consumer:
        wait_until(lambda: committed(consumer, topic) == len(sent), timeout_s=20, what="all are consumed")
        yield consumer


def group_of(topic: str) -> str:
    return f"group-of-{topic}"


def committed(consumer: PushConsumer, topic: str) -> int:
    return sum(consumer.consumed_offset(queue) for queue in consumer.assignment() if queue.topic == topic)


def rows(printed: str) -> list[list[str]]:
    """The cells of a table, without its title."""
    return [line.split() for line in printed.splitlines() if line.strip() and not line.startswith("#")]


def fields(printed: str, separator: str = "=") -> dict[str, str]:
    """Lines of a name and a value."""
    pairs = (line.partition(separator) for line in printed.splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def test_every_command_has_its_row_on_the_page_about_compatibility(java: Driver) -> None:
    assert sorted(map(str.lower, java.mqadmin_commands())) == sorted(name.lower() for name, _ in COMMANDS)


# --------------------------------------------------------------------------------------------------------------- topics


def test_a_topic_is_made_changed_described_and_deleted(
    mqadmin: Mqadmin, cluster: Cluster, producer: Producer, topic: str, sent: list[Sent]
) -> None:
    status = rows(mqadmin("topicStatus", "-t", topic))
    assert [row[:4] for row in status] == [
        [broker, str(queue_id), "0", "2"] for broker in cluster.brokers for queue_id in range(QUEUES_A_BROKER)
    ]
    assert topic in mqadmin("topicList").split()
    assert mqadmin("updateTopicPerm", "-c", DEFAULT_CLUSTER, "-t", topic, "-p", "4").count("from 6 to 4") == 2
    route = find_route(cluster.namesrv, topic)
    assert route is not None
    assert {queues["perm"] for queues in route["queueDatas"]} == {4}

    assert mqadmin("deleteTopic", "-c", DEFAULT_CLUSTER, "-t", topic).count("success") == 2
    assert find_route(cluster.namesrv, topic) is None
    mqadmin("updateTopic", "-b", cluster.last_broker.address, "-t", topic, "-r", "3", "-w", "3")
    again = rows(mqadmin("topicStatus", "-t", topic))
    # Ours go on where they ended: whoever knows numbers of the topic that is gone is past none that are given again.
    ends = ["2", "2", "0"] if isinstance(cluster.last_broker, OurBroker) else ["0", "0", "0"]
    assert [row[:4] for row in again] == [
        [max(cluster.brokers), str(queue_id), end, end] for queue_id, end in enumerate(ends)
    ]


def test_queues_are_shared_out_among_addresses(mqadmin: Mqadmin, topic: str) -> None:
    shared = json.loads(mqadmin("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2"))["result"]
    assert {address: len(queues) for address, queues in shared.items()} == {"10.0.0.1": 2, "10.0.0.2": 2}


# -------------------------------------------------------------------------------------------------------------- brokers


def test_the_cluster_is_listed_with_what_went_through_it(mqadmin: Mqadmin, cluster: Cluster, sent: list[Sent]) -> None:
    listed = [row[:5] for row in rows(mqadmin("clusterList"))]
    assert listed == [
        [DEFAULT_CLUSTER, name, "0", broker.address, "V4_9_7"] for name, broker in sorted(cluster.brokers.items())
    ]
    totals = rows(mqadmin("clusterList", "-m"))
    assert [row[:2] for row in totals] == [[DEFAULT_CLUSTER, name] for name in cluster.brokers]
    assert all(int(row[4]) >= len(sent) // 2 for row in totals)  # in today


def test_a_broker_tells_its_state(mqadmin: Mqadmin, cluster: Cluster, sent: list[Sent]) -> None:
    state = fields(mqadmin("brokerStatus", "-b", cluster.last_broker.address), ":")
    assert state["brokerVersionDesc"] == "V4_9_7"
    assert int(state["commitLogMaxOffset"]) > int(state["commitLogMinOffset"]) == 0
    assert int(state["putMessageTimesTotal"]) >= len(sent) // 2
    of_all = mqadmin("brokerStatus", "-c", DEFAULT_CLUSTER)
    assert all(broker.address in of_all for broker in cluster.brokers.values())


def test_a_setting_is_changed_while_the_broker_runs(mqadmin: Mqadmin, cluster: Cluster, producer: Producer) -> None:
    def change_to(value: str) -> None:
        changed = mqadmin("updateBrokerConfig", "-c", DEFAULT_CLUSTER, "-k", "autoCreateTopicEnable", "-v", value)
        assert changed.count("success") == len(cluster.brokers)
        for broker in cluster.brokers.values():
            assert fields(mqadmin("getBrokerConfig", "-b", broker.address))["autoCreateTopicEnable"] == value

    assert producer.send(message("MadeOnDemand", "one"))[0].status == "SEND_OK"
    change_to("false")
    with pytest.raises(JavaError) as refused:
        producer.send(message("NotMadeOnDemand", "one"))
    assert refused.value.code == TOPIC_NOT_EXIST
    change_to("true")


def test_metadata_settings_and_figures_are_exported(mqadmin: Mqadmin, topic: str, tmp_path: Path) -> None:
    for what, file in (("Metadata", "metadata"), ("Configs", "configs"), ("Metrics", "metrics")):
        assert "success" in mqadmin(f"export{what}", "-c", DEFAULT_CLUSTER, "-f", str(tmp_path))
        assert (tmp_path / f"{file}.json").exists()
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["topicConfigTable"][topic]["readQueueNums"] == 2 * QUEUES_A_BROKER
    assert json.loads((tmp_path / "configs.json").read_text())["clusterScale"]["masterBrokerSize"] == 2


# --------------------------------------------------------------------------------------------------- groups and clients


def test_a_group_is_made_described_and_deleted(mqadmin: Mqadmin, java: Driver, cluster: Cluster, topic: str) -> None:
    group = group_of(topic)
    made = mqadmin("updateSubGroup", "-c", DEFAULT_CLUSTER, "-g", group, "-r", "3", "-q", "2", "-s", "false")
    assert made.count("success") == len(cluster.brokers)
    described = fields(mqadmin("getConsumerConfig", "-g", group))
    assert (described["retryMaxTimes"], described["retryQueueNums"], described["consumeEnable"]) == ("3", "2", "false")
    with java.pull_consumer(group, namesrv=cluster.namesrv) as consumer, pytest.raises(JavaError) as refused:
        consumer.pull(Queue(topic, "broker-a", 0), offset=0)
    assert refused.value.code == NO_PERMISSION

    deleted = mqadmin("deleteSubGroup", "-c", DEFAULT_CLUSTER, "-g", group, "-r", "true")
    assert deleted.count(f"delete subscription group [{group}]") == len(cluster.brokers)
    assert "retryMaxTimes" not in mqadmin("getConsumerConfig", "-g", group)


def test_the_progress_of_a_group_is_told(
    mqadmin: Mqadmin, producer: Producer, topic: str, sent: list[Sent], group: PushConsumer
) -> None:
    name = group_of(topic)
    of_topic = [row for row in rows(mqadmin("consumerProgress", "-g", name)) if row[0] == topic]
    assert len(of_topic) == 2 * QUEUES_A_BROKER
    assert {tuple(row[3:6]) for row in of_topic} == {("2", "2", "0")}
    all_groups = {row[0]: row[1:5] for row in rows(mqadmin("consumerProgress"))}
    assert all_groups[name] == ["1", "V4_9_7", "PUSH", "CLUSTERING"]

    group.stop()
    producer.send(message(topic, "unread", count=4))
    behind = mqadmin("consumerProgress", "-g", name)
    assert re.search(r"Diff Total: (\d+)", behind, re.ASCII) is not None
    assert sum(int(row[5]) for row in rows(behind) if row[0] == topic) == 4
    accumulated = {row[0]: row[2] for row in rows(mqadmin("statsAll", "-t", topic))}
    assert accumulated == {topic: "4"}


def test_the_clients_of_a_group_are_listed(
    mqadmin: Mqadmin, cluster: Cluster, producer: Producer, topic: str, group: PushConsumer
) -> None:
    name = group_of(topic)
    consumers = mqadmin("consumerConnection", "-g", name)
    assert group.client_id in consumers
    assert {(row[0], " ".join(row[1:])) for row in rows(consumers) if row[0] in (topic, f"%RETRY%{name}")} == {
        (topic, "A || B"),
        (f"%RETRY%{name}", "*"),
    }
    assert "CLUSTERING" in consumers
    wait_until(  # a producer makes itself known with its next heartbeat
        lambda: producer.client_id in mqadmin("producerConnection", "-g", "mqadmin-producer", "-t", topic),
        timeout_s=20,
        what="the producer is known",
    )
    assert group.client_id in mqadmin("producer", "-b", cluster.last_broker.address)
    assert [topic, name] in [row[1:] for row in rows(mqadmin("topicList", "-c"))]


def test_offsets_are_copied_to_another_group(
    mqadmin: Mqadmin, java: Driver, cluster: Cluster, topic: str, group: PushConsumer
) -> None:
    copy = f"copy-{group_of(topic)}"
    assert "success" in mqadmin("cloneGroupOffset", "-s", group_of(topic), "-d", copy, "-t", topic)
    with java.pull_consumer(copy, namesrv=cluster.namesrv) as consumer:
        assert {consumer.fetch_offset(queue) for queue in consumer.queues(topic)} == {2}


# ------------------------------------------------------------------------------------------------------------- messages


def test_a_message_is_found_by_its_ids_its_key_and_its_place(
    mqadmin: Mqadmin, topic: str, sent: list[Sent], group: PushConsumer
) -> None:
    one = sent[3]
    assert one.msg_id is not None
    assert one.offset_msg_id is not None
    assert one.queue is not None
    place = ["-b", one.queue.broker, "-i", str(one.queue.queue_id), "-o", str(one.queue_offset)]
    for found in (
        mqadmin("queryMsgById", "-i", one.offset_msg_id),
        mqadmin("queryMsgByUniqueKey", "-i", one.msg_id, "-t", topic),
        mqadmin("queryMsgByOffset", "-t", topic, *place),
    ):
        described = fields(found, ":")
        assert (described["Topic"], described["Tags"], described["Keys"]) == (topic, "[A]", "[key-3 all]")
        assert Path(described["Message Body Path"]).read_text() == "body 3"
        assert f"consumerGroup={group_of(topic)}, trackType=CONSUMED" in found
    assert [row[0] for row in rows(mqadmin("queryMsgByKey", "-t", topic, "-k", "key-3"))] == [one.msg_id]
    by_shared_key = rows(mqadmin("queryMsgByKey", "-t", topic, "-k", "all"))
    assert sorted(row[0] for row in by_shared_key) == sorted(str(each.msg_id) for each in sent)


def test_messages_are_printed(mqadmin: Mqadmin, topic: str, sent: list[Sent]) -> None:
    every = mqadmin("printMsg", "-t", topic)
    assert sorted(re.findall(r"MSGID: (\w+)", every)) == sorted(str(each.msg_id) for each in sent)
    assert every.count("minOffset=0, maxOffset=2") == 2 * QUEUES_A_BROKER
    assert "MSGID" not in mqadmin("printMsg", "-t", topic, "-s", "Other")
    options = ["-p", "true", "-d", "true", "-f", "true"]
    of_queue = mqadmin("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "1", *options)
    assert of_queue.count("MSGID") == 2
    assert re.search(r"Tag: A\s+Count: 2", of_queue)
    place = ["-b", "broker-b", "-i", "0", "-o", "1"]
    assert mqadmin("consumeMessage", "-t", topic, *place, "-c", "5").count("MSGID") == 1


def test_messages_are_sent(mqadmin: Mqadmin, topic: str) -> None:
    place = ["-b", "broker-b", "-i", "1"]
    [[broker, queue_id, result, _]] = rows(mqadmin("sendMessage", "-t", topic, "-p", "hello", "-c", "B", *place))
    assert (broker, queue_id, result) == ("broker-b", "1", "SEND_OK")
    assert [row[2] for row in rows(mqadmin("checkMsgSendRT", "-t", topic, "-a", "3"))][:3] == ["true"] * 3
    assert mqadmin("sendMsgStatus", "-b", "broker-a", "-c", "3").count("SEND_OK") == 3


def test_a_broker_tells_how_far_its_groups_are_and_cleans_up(
    mqadmin: Mqadmin, cluster: Cluster, topic: str, group: PushConsumer
) -> None:
    broker = cluster.brokers["broker-a"].address
    of_topic = [row for row in rows(mqadmin("brokerConsumeStats", "-b", broker)) if row[0] == topic]
    assert [row[4:7] for row in of_topic] == [["2", "2", "0"]] * QUEUES_A_BROKER
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert "success" in mqadmin(command, "-b", broker)


def test_consumers_are_asked_and_told_through_the_broker(
    mqadmin: Mqadmin, cluster: Cluster, topic: str, sent: list[Sent], group: PushConsumer
) -> None:
    name = group_of(topic)
    assert "#Consumer Subscription#" in mqadmin("consumerStatus", "-g", name, "-i", group.client_id)
    directly = mqadmin("queryMsgById", "-i", str(sent[0].offset_msg_id), "-g", name, "-d", group.client_id)
    assert "CR_SUCCESS" in directly
    cells = mqadmin("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "2", "-b", cluster.last_broker.address)
    assert cells.count("physicOffset") == 2


def test_consumers_are_put_back_and_forward_through_the_broker(
    mqadmin: Mqadmin, apache: Apache, cluster: Cluster, topic: str, sent: list[Sent]
) -> None:
    """In a JVM of its own, which is killed: Apache's client takes ten seconds for each reset, and stops after that."""
    name = group_of(topic)
    with apache.driver() as java:
        consumer = java.push_consumer(name, namesrv=cluster.namesrv, topic=topic, from_="first")
        wait_until(lambda: committed(consumer, topic) == len(sent), timeout_s=20, what="all are consumed")
        wait_until(lambda: len(progress(mqadmin, name)) == 2 * QUEUES_A_BROKER, timeout_s=20, what="the broker knows")
        check_reset(mqadmin, name, topic)
        java.kill()


def progress(mqadmin: Mqadmin, group: str) -> list[str]:
    """The offsets of a group at its brokers, as far as they are not 0."""
    return [row[4] for row in rows(mqadmin("consumerProgress", "-g", group)) if row[4:5] == ["2"]]


def check_reset(mqadmin: Mqadmin, name: str, topic: str) -> None:
    back = rows(mqadmin("resetOffsetByTime", "-g", name, "-t", topic, "-s", "0"))
    assert sum(row[2:] == ["0"] for row in back) == 2 * QUEUES_A_BROKER
    ahead = rows(mqadmin("skipAccumulatedMessage", "-g", name, "-t", topic))
    assert sum(row[2:] == ["2"] for row in ahead) == 2 * QUEUES_A_BROKER


def test_a_group_that_is_not_there_is_put_back_by_its_offsets_at_the_broker(
    mqadmin: Mqadmin, java: Driver, cluster: Cluster, topic: str, group: PushConsumer
) -> None:
    name = group_of(topic)
    group.stop()
    back = rows(mqadmin("resetOffsetByTime", "-g", name, "-t", topic, "-s", "0"))
    assert sum(row[-2:] == ["0", "0"] for row in back) == 2 * QUEUES_A_BROKER
    with java.pull_consumer(name, namesrv=cluster.namesrv) as consumer:
        assert {consumer.fetch_offset(queue) for queue in consumer.queues(topic)} == {0}


def test_the_round_trips_of_a_cluster_are_measured(java: Driver, cluster: Cluster) -> None:
    brokers = [f" {name} " for name in cluster.brokers]  # in no order: one that is cut off would count a failure
    printed = java.mqadmin_until(brokers, "clusterRT", "-a", "2", "-s", "16", "-i", "1", namesrv=cluster.namesrv)
    measured = {row[1]: row[3:5] for row in rows(printed) if row[0] == DEFAULT_CLUSTER}
    assert measured == {name: ["2", "0"] for name in cluster.brokers}


def test_monitoring_reports_how_far_groups_are_and_who_runs(
    java: Driver, cluster: Cluster, topic: str, group: PushConsumer
) -> None:
    """What the command "startMonitoring" does every minute."""
    reports = java.monitor(namesrv=cluster.namesrv)
    assert [reports[0]["kind"], reports[-1]["kind"]] == ["begin", "end"]
    running = [client for report in reports if report["kind"] == "running" for client in report["what"]]
    assert group.client_id in running
    assert [group_of(topic), topic, 0] in [report["what"] for report in reports if report["kind"] == "undone"]


# -------------------------------------------------------------------------------------------- the admin client's own


def test_the_admin_client_asks_what_mqadmin_does_not(
    java: Driver, cluster: Cluster, topic: str, sent: list[Sent], group: PushConsumer
) -> None:
    name, broker = group_of(topic), cluster.brokers["broker-a"].address
    with java.admin(namesrv=cluster.namesrv) as admin:
        status = admin.invoke("getConsumeStatus", topic, name, group.client_id)
        assert [sum(of_client.values()) for of_client in status.values()] == [len(sent)]
        spans = admin.invoke("queryConsumeTimeSpan", topic, name)
        assert sorted(span["messageQueue"]["queueId"] for span in spans) == [0, 0, 1, 1]
        assert all(0 < span["minTimeStamp"] <= span["consumeTimeStamp"] == span["maxTimeStamp"] for span in spans)
        assert {span["delayTime"] for span in spans} == {0}
        admin.invoke("cloneGroupOffset", name, f"clone-{name}", topic, False)
        with java.pull_consumer(f"clone-{name}", namesrv=cluster.namesrv) as clone:
            assert sorted(clone.fetch_offset(queue) for queue in clone.queues(topic)) == [2] * 4
        wait_until(lambda: has_statistics(admin, broker, topic), timeout_s=20, what="the statistics of the topic")
        stats = admin.invoke("viewBrokerStatsData", broker, "GROUP_GET_NUMS", f"{topic}@{name}")
        assert set(stats) == {"statsMinute", "statsHour", "statsDay"}
        with pytest.raises(JavaError) as unknown:
            admin.invoke("viewBrokerStatsData", broker, "GROUP_GET_NUMS", "nothing@nobody")
        assert unknown.value.code == SYSTEM_ERROR
        consumed = admin.invoke("fetchConsumeStatsInBroker", broker, False, 5000)
        assert name in {each for groups in consumed["consumeStatsList"] for each in groups}


def has_statistics(admin: Admin, broker: str, topic: str) -> bool:
    try:
        admin.invoke("viewBrokerStatsData", broker, "TOPIC_PUT_NUMS", topic)
    except JavaError:
        return False
    return True


def test_a_setting_that_counts_at_a_start_only_is_taken(mqadmin: Mqadmin, cluster: Cluster) -> None:
    broker = cluster.last_broker.address
    before = fields(mqadmin("getBrokerConfig", "-b", broker))["maxHashSlotNum"]
    for value in ("60000", before):
        assert "success" in mqadmin("updateBrokerConfig", "-b", broker, "-k", "maxHashSlotNum", "-v", value)
        assert fields(mqadmin("getBrokerConfig", "-b", broker))["maxHashSlotNum"] == value
