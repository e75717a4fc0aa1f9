"""How much one server carries: the figures of docs/scaling.md, of ours alone.

The name server: so many simulated brokers, each a connection of the generator's, register so many topics in all, each
on one broker; then they send heartbeats, and a client asks for routes, one at a time. The broker: a store whose files
hold so many topics, groups and offsets; it is started, a group and a topic are made. Connections: so many open ones
that say nothing, at a broker without such tables, whose memory has no room left by what it has read.
"""

from __future__ import annotations

import argparse
import random
import socket
import tempfile
import time
from pathlib import Path
from statistics import quantiles

from tests.interop import ours

from benchmarks import namesrv_frames, observe
from benchmarks.frames import answer_code, encode_frame, json_bytes
from benchmarks.load import BadAnswer, ask, connect
from benchmarks.namesrv import register_all, registering
from benchmarks.namesrv_frames import Form, Plan
from benchmarks.report import OURS, Better, Report

NAME = "scaling"
MIB = 2**20
QUERIES = 2000
CREATE_TOPIC, GET_MAX_OFFSET, CREATE_GROUP = 17, 30, 200


class EvenPlan(Plan):
    """Every topic on one broker, the same number on each."""

    def topics_of(self, broker: int) -> list[str]:
        each = self.topic_count // self.broker_count
        return [f"BenchmarkTopic-{number:06}" for number in range(broker * each, (broker + 1) * each)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument("--scaling-brokers", type=int, default=1000)
    group.add_argument("--scaling-topics", type=int, default=100_000, help="at the name server")
    group.add_argument("--scaling-groups", type=int, default=50_000, help="at the broker, each with two offsets")
    group.add_argument("--scaling-connections", type=int, default=10_000)


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    plan = EvenPlan(broker_count=arguments.scaling_brokers, topic_count=arguments.scaling_topics, spread=1)
    settings = {
        "brokers": f"{plan.broker_count:,}",
        "topics": f"{plan.topic_count:,}",
        "groups": f"{arguments.scaling_groups:,}",
        "connections": f"{arguments.scaling_connections:,}",
    }
    report = Report(NAME, settings)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        directory = Path(name)
        with ours.namesrv(directory / "namesrv") as server:
            measure_name_server(server, plan, report, seconds=arguments.seconds, warm_up_s=arguments.warm_up)
        with ours.namesrv(directory / "namesrv-of-broker") as server:
            measure_broker(directory, server.address, arguments, report)
    return report


# --------------------------------------------------------------------------------------------------------- name server


def measure_name_server(
    server: ours.NameServer, plan: Plan, report: Report, *, seconds: float, warm_up_s: float
) -> None:
    """Registrations, heartbeats, routes."""
    print(f"  name server: {plan.broker_count} brokers, {plan.topic_count} topics", flush=True)
    beats = [[namesrv_frames.registration(plan, n, counter=0, form=Form())] for n in range(plan.broker_count)]
    empty_mib = observe.rss_anon_bytes(server.pid) / MIB
    brokers = connect(server.address, plan.broker_count)
    (client,) = connect(server.address, 1)
    try:
        ask(brokers[-1], namesrv_frames.route_query("none", form=Form()))  # it is accepted, and so are those before it
        connected_mib = observe.rss_anon_bytes(server.pid) / MIB
        cpu_s = observe.cpu_s(server.pid)
        first = register_all(brokers, beats)
        cpu_s = observe.cpu_s(server.pid) - cpu_s
        add(report, "name server: memory, empty", "MiB", empty_mib)
        add(report, "name server: memory, all connected", "MiB", connected_mib)
        add(report, "name server: memory, all registered", "MiB", observe.rss_anon_bytes(server.pid) / MIB)
        add(report, "name server: first registration of all", "ms", first.seconds * 1000)
        add(report, "name server: CPU time, a first registration", "us", cpu_s / plan.broker_count * 1e6)
        register_all(brokers, beats)
        beating = registering(brokers, beats).run_for(seconds, warm_up_s=warm_up_s, server_pid=server.pid)
        add(report, "name server: heartbeats", "1/s", beating.rate)
        add(report, "name server: CPU time, a heartbeat", "us", beating.server_cpu_us)
        topics = random.Random(0).sample(plan.topics, min(QUERIES, plan.topic_count))
        spent = [timed(client, namesrv_frames.route_query(topic, form=Form())) for topic in topics]
        cuts = quantiles(spent, n=100)
        add(report, "name server: route query, median", "us", cuts[49] * 1e6)
        add(report, "name server: route query, 99th percentile", "us", cuts[98] * 1e6)
    finally:
        for connection in (*brokers, client):
            connection.close()


def timed(connection: socket.socket, frame: bytes) -> float:
    start = time.perf_counter()
    answer = ask(connection, frame)
    spent = time.perf_counter() - start
    if answer_code(answer) != 0:
        raise BadAnswer(f"refused: {answer[:300]!r}")
    return spent


# -------------------------------------------------------------------------------------------------------------- broker


def measure_broker(directory: Path, namesrv: str, arguments: argparse.Namespace, report: Report) -> None:
    """Start, memory, one more group, one more topic, idle connections."""
    topic_count, group_count = min(arguments.scaling_topics, 10_000), arguments.scaling_groups
    print(f"  broker: {topic_count} topics, {group_count} groups", flush=True)
    with ours.running(ours.Broker(directory / "small", namesrv=namesrv, name="small")) as broker:
        add(report, "broker: memory, empty", "MiB", observe.rss_anon_bytes(broker.pid) / MIB)
        measure_connections(broker, arguments.scaling_connections, report)
    large = ours.Broker(directory / "large", namesrv=namesrv, name="large")
    fill(large.directory / "store" / "config", topic_count, group_count)
    start = time.perf_counter()
    with ours.running(large) as broker:
        add(report, "broker: start with full tables", "ms", (time.perf_counter() - start) * 1000)
        add(report, "broker: memory, full tables", "MiB", observe.rss_anon_bytes(broker.pid) / MIB)
        (client,) = connect(broker.address, 1)
        new_group = encode_frame(CREATE_GROUP, {}, json_bytes({"groupName": "one-more"}))
        add(report, "broker: one more group, in its file", "ms", timed(client, new_group) * 1000)
        ext = {"topic": "one-more", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6", "order": "false"}
        new_topic = encode_frame(CREATE_TOPIC, {**ext, "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102"})
        add(report, "broker: one more topic, in its file", "ms", timed(client, new_topic) * 1000)
        client.close()


def measure_connections(broker: ours.Broker, count: int, report: Report) -> None:
    """What open connections take, and what they do to a request beside them."""
    print(f"  connections: {count}", flush=True)
    ask_max = encode_frame(GET_MAX_OFFSET, {"topic": "none", "queueId": "0"})
    (client,) = connect(broker.address, 1)
    timed(client, ask_max)
    before = observe.rss_anon_bytes(broker.pid)
    idle = connect(broker.address, count)
    try:
        timed(idle[-1], ask_max)  # it is accepted, and so are those before it
        each = (observe.rss_anon_bytes(broker.pid) - before) / len(idle)
        add(report, "broker: memory of an idle connection", "KiB", each / 1024)
        spent = [timed(client, ask_max) for _ in range(QUERIES)]
        add(report, "broker: a request beside them, median", "us", quantiles(spent, n=100)[49] * 1e6)
    finally:
        for connection in (*idle, client):
            connection.close()


def fill(directory: Path, topic_count: int, group_count: int) -> None:
    """The files of a broker that has run for long."""
    directory.mkdir(parents=True)
    version = {"counter": 1, "timestamp": namesrv_frames.FIRST_VERSION_MS}
    topics = [f"BenchmarkTopic-{number:06}" for number in range(topic_count)]
    groups = [f"BenchmarkGroup-{number:06}" for number in range(group_count)]
    topic_table = {
        name: {"topicName": name, "readQueueNums": 8, "writeQueueNums": 8, "perm": 6, "topicFilterType": "SINGLE_TAG"}
        for name in topics
    }
    offsets = {f"{topics[n % topic_count]}@{group}": {"0": n, "1": n} for n, group in enumerate(groups)}
    for name, content in (
        ("topics.json", {"dataVersion": version, "topicConfigTable": topic_table}),
        (
            "subscriptionGroup.json",
            {"dataVersion": version, "subscriptionGroupTable": {name: {"groupName": name} for name in groups}},
        ),
        ("consumerOffset.json", {"offsetTable": offsets}),
    ):
        (directory / name).write_bytes(json_bytes(content))


def add(report: Report, name: str, unit: str, value: float) -> None:
    better = Better.MORE if unit == "1/s" else Better.LESS
    report.row(name, unit, better).add(OURS, value)
