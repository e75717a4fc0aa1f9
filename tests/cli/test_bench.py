"""`skyrocketmq bench` as a real process: flags and columns of Apache's programs."""

from __future__ import annotations

import random
import re
import signal

import pytest

from skyrocketmq.cli.bench_consuming import counting_handler
from skyrocketmq.cli.bench_figures import ConsumeFigures
from skyrocketmq.cli.bench_sending import MessageMaker, SendLoad
from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.testing import ManualClock
from tests.cli.cluster import Cluster
from tests.cli.processes import running
from tests.client.messages import view

LOAD = SendLoad(
    topic="T",
    sender_count=1,
    message_bytes=40,
    has_keys=False,
    property_characters=0,
    tag_count=0,
    quantity=0,
    delay_level=0,
)


def load(**changes: object) -> SendLoad:
    fields = {name: getattr(LOAD, name) for name in SendLoad.__dataclass_fields__} | changes
    return SendLoad(**fields)


class TestMessages:
    def test_are_bodies_of_letters_and_digits(self) -> None:
        message = MessageMaker(LOAD, random.Random(1)).message(5)
        assert re.fullmatch(rb"[A-Za-z0-9]{40}", message.body)
        assert (message.topic, message.keys, message.tags, dict(message.properties)) == ("T", (), None, {})

    def test_have_the_second_as_their_key_and_one_of_so_many_tags(self) -> None:
        maker = MessageMaker(load(has_keys=True, tag_count=3, delay_level=2), random.Random(1))
        message = maker.message(1_714_564_800_124)
        assert message.keys == ("1714564800",)
        assert message.tags == f"tag{1_714_564_800_124 % 3}"
        assert message.delay_level == 2

    @pytest.mark.parametrize("characters", [1, 50, 1_000])
    def test_have_properties_of_at_least_the_length_asked_for(self, characters: int) -> None:
        properties = MessageMaker(load(property_characters=characters), random.Random(1)).message(5).properties
        length = sum(len(name) + len(value) for name, value in properties.items())
        assert characters < length <= characters + 60


@pytest.mark.system
class TestProducer:
    def test_a_quantity_is_sent_and_the_total_printed(self, cluster: Cluster) -> None:
        done = cluster.run("bench", "producer", "-t", "B1", "-q", "500", "-w", "8", "-s", "64", "-k", "true", "-l", "2")
        assert done.code == 0, done.err
        assert done.lines[:3] == [
            "topic: B1 threadCount: 8 messageSize: 64 keyEnable: true propertySize: 0 tagCount: 2 traceEnable: false "
            "aclEnable: false messageQuantity: 500",
            "delayEnable: false delayLevel: 1",
            "asyncEnable: false",
        ]
        assert re.fullmatch(r"\[Complete\] Send Total: 500 .*Send Failed: 0 Response Failed: 0", done.lines[3])

    def test_asynchronous_sends_have_many_in_flight(self, cluster: Cluster) -> None:
        done = cluster.run("bench", "producer", "-t", "B2", "-q", "3000", "-y", "true", "-p", "100")
        assert done.code == 0, done.err
        assert "threadCount: 1 " in done.lines[0]
        assert "Send Total: 3000 " in done.lines[-1]

    def test_every_ten_seconds_it_prints_how_fast_it_is_until_it_is_stopped(self, cluster: Cluster) -> None:
        with running(cluster.command("bench", "producer", "-t", "B3", "-w", "2"), home=cluster.home) as bench:
            for _ in range(3):
                bench.line()
            assert re.fullmatch(
                r"Current Time: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} Send TPS: [1-9]\d* Max RT\(ms\): \d+ "
                r"Average RT\(ms\): [ \d]{3}\.\d{3} Send Failed: 0 Response Failed: 0",
                bench.line(),
            )
            bench.signal(signal.SIGINT)
            assert bench.line().startswith("[Complete] Send Total: ")
            assert bench.wait() == 0
            assert bench.errors == ""

    def test_failed_sends_are_counted_and_it_can_be_stopped(self, cluster: Cluster) -> None:
        arguments = ["bench", "producer", "-t", "B4", "-w", "1", "-s", str(4 * 1024 * 1024 + 1)]
        with running(cluster.command(*arguments), home=cluster.home) as bench:
            bench.wait_for_error("message not sent")
            bench.signal(signal.SIGTERM)
            for _ in range(3):
                bench.line()
            assert bench.line().startswith("[Complete] Send Total: 1 ")
            assert bench.wait() == 0

    def test_a_trace_is_refused_instead_of_forgotten(self, cluster: Cluster) -> None:
        done = cluster.run("bench", "producer", "-m", "true")
        assert done.code == 2
        assert "no message trace" in done.err


@pytest.mark.system
class TestConsumer:
    def test_every_ten_seconds_it_prints_how_many_came_and_how_old_they_were(self, cluster: Cluster) -> None:
        arguments = ["bench", "consumer", "-t", "B5", "-g", "measuring", "-w", "5", "-r", "0.5"]
        with (
            running(cluster.command("bench", "producer", "-t", "B5", "-w", "1"), home=cluster.home) as sending,
            running(cluster.command(*arguments), home=cluster.home) as bench,
        ):
            assert bench.line() == (
                "topic: B5, threadCount 5, group: measuring, suffix: false, filterType: null, expression: null, "
                "msgTraceEnable: false, aclEnable: false"
            )
            assert bench.line() == "Consumer Started."
            found = re.fullmatch(
                r"Current Time: \d{13} TPS: [1-9]\d* FAIL: [1-9]\d* AVG\(B2C\) RT\(ms\): [ \d.]*\.\d{3} "
                r"AVG\(S2C\) RT\(ms\): [ \d.]*\.\d{3} MAX\(B2C\) RT\(ms\): \d+ MAX\(S2C\) RT\(ms\): \d+",
                line := bench.line(),
            )
            assert found is not None, line
            sending.signal(signal.SIGINT)
            assert sending.wait() == 0
            bench.signal(signal.SIGINT)
            assert bench.wait() == 0
            assert bench.errors == ""

    def test_the_group_may_get_a_number_and_the_filter_comes_from_a_file(self, cluster: Cluster) -> None:
        (cluster.home / "tags").write_text("tag0 || tag1\n")
        arguments = ["bench", "consumer", "-t", "B1", "-p", "true", "-f", "TAG", "-e", "tags"]
        with running(cluster.command(*arguments), home=cluster.home) as bench:
            line = bench.line()
            assert re.search(
                r"group: benchmark_consumer_\d{1,2}, suffix: true, filterType: TAG, expression: tags", line
            )
            assert bench.line() == "Expression: tag0 || tag1"
            assert bench.line() == "Consumer Started."
            bench.signal(signal.SIGTERM)
            assert bench.wait() == 0

    def test_an_unknown_kind_of_filter_is_refused(self, cluster: Cluster) -> None:
        (cluster.home / "any").write_text("x")
        done = cluster.run("bench", "consumer", "-f", "SQL99", "-e", "any")
        assert done.code == 2
        assert "SQL99" in done.err


class TestCounting:
    async def test_a_part_of_the_messages_comes_again(self) -> None:
        figures = ConsumeFigures()
        handle = counting_handler(figures, fail_rate=0.25, clock=ManualClock(), chance=random.Random(1))
        results = [await handle(view(n)) for n in range(1_000)]
        assert figures.count == 1_000
        assert 200 < figures.failed_count < 300
        assert results.count(ConsumeResult.RETRY) == figures.failed_count

    async def test_without_a_rate_all_are_consumed(self) -> None:
        figures = ConsumeFigures()
        handle = counting_handler(figures, fail_rate=0.0, clock=ManualClock(), chance=random.Random(1))
        assert {await handle(view(n)) for n in range(10)} == {ConsumeResult.SUCCESS}


@pytest.mark.parametrize("command", ["producer", "consumer"])
@pytest.mark.system
def test_both_commands_have_help(cluster: Cluster, command: str) -> None:
    done = cluster.run("bench", command, "-h")
    assert done.code == 0
    assert f"Usage: skyrocketmq bench {command}" in done.out
