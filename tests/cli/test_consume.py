"""`skyrocketmq consume` as a real process, on a real cluster."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from tests.cli.cluster import Cluster
from tests.cli.processes import WAIT_S, Running, running

pytestmark = pytest.mark.system


@contextmanager
def consuming(cluster: Cluster, *arguments: str) -> Iterator[Running]:
    """A consumer that is ready for what comes."""
    with running(cluster.command("consume", *arguments), home=cluster.home) as process:
        process.wait_for_error("waiting for messages")
        yield process


def produce(cluster: Cluster, topic: str, *lines: str, arguments: list[str] | None = None) -> None:
    done = cluster.run("produce", topic, "-q", *(arguments or []), given="\n".join(lines))
    assert done.code == 0, done.err


class TestAlone:
    def test_what_is_sent_is_printed_a_line_each(self, cluster: Cluster) -> None:
        produce(cluster, "C1", "old")
        with consuming(cluster, "C1", "--count", "3") as consumer:
            produce(cluster, "C1", "one", "zwei ü", "three")
            assert sorted(consumer.line() for _ in range(3)) == ["one", "three", "zwei ü"]
            assert consumer.wait() == 0
            assert consumer.errors == "waiting for messages of C1\n"

    def test_from_the_first_everything_is_printed_every_time(self, cluster: Cluster) -> None:
        produce(cluster, "C2", *(str(n) for n in range(50)))
        for _ in range(2):
            done = cluster.run("consume", "C2", "--from", "first", "--count", "50")
            assert done.code == 0, done.err
            assert sorted(done.lines, key=int) == [str(n) for n in range(50)]

    def test_by_an_sql_expression_only_what_makes_it_true(self, cluster: Cluster) -> None:
        for price in ("5", "15"):
            produce(cluster, "CSql", f"for {price}", arguments=["--property", f"price={price}"])
        done = cluster.run("consume", "CSql", "--from", "first", "--sql", "price > 10", "--count", "1")
        assert (done.code, done.lines) == (0, ["for 15"]), done.err
        done = cluster.run("consume", "CSql", "--sql", "price > 10", "--tags", "TagA")
        assert done.code == 2
        assert "one of them" in done.err

    def test_from_a_time_only_what_came_after_it(self, cluster: Cluster) -> None:
        produce(cluster, "C3", *(f"old {n}" for n in range(16)))
        time.sleep(1.0)
        moment = datetime.now().isoformat()
        time.sleep(1.0)
        produce(cluster, "C3", *(f"new {n}" for n in range(16)))
        done = cluster.run("consume", "C3", "--from", moment, "--timeout", "2")
        assert done.code == 0, done.err
        assert {line for line in done.lines if line.startswith("new")} == {f"new {n}" for n in range(16)}
        # In each queue the message nearest to the time is the first, and that may be the last old one.
        assert len([line for line in done.lines if line.startswith("old")]) <= 4

    def test_tags_choose(self, cluster: Cluster) -> None:
        produce(cluster, "C4", "a", arguments=["--tags", "A"])
        produce(cluster, "C4", "b", arguments=["--tags", "B"])
        produce(cluster, "C4", "c", arguments=["--tags", "C"])
        done = cluster.run("consume", "C4", "--from", "first", "--tags", "A || C", "--count", "2")
        assert sorted(done.lines) == ["a", "c"]

    def test_as_json_everything_is_told(self, cluster: Cluster) -> None:
        arguments = ["--tags", "T", "--key", "k1", "--key", "k2", "--property", "colour=grün"]
        produce(cluster, "C5", "hällo", arguments=arguments)
        done = cluster.run("consume", "C5", "--from", "first", "--count", "1", "--output", "json")
        [line] = done.lines
        message = json.loads(line)
        assert {name: message[name] for name in ("topic", "body", "tags", "keys", "properties", "broker")} == {
            "topic": "C5",
            "body": "hällo",
            "tags": "T",
            "keys": ["k1", "k2"],
            "properties": {"colour": "grün"},
            "broker": "broker-a",
        }
        assert abs(message["born_timestamp"] - time.time() * 1000) < 60_000
        assert (message["queue_offset"], message["reconsume_times"]) == (0, 0)

    def test_bytes_that_are_no_text_are_printed_as_they_are_or_in_base64(self, cluster: Cluster) -> None:
        body = b"\xff\x00\xfe"
        assert cluster.run("produce", "C6", "-q", given=body + b"\n").code == 0
        done = subprocess.run(
            cluster.command("consume", "C6", "--from", "first", "--count", "1"), capture_output=True, check=True
        )
        assert done.stdout == body + b"\n"
        as_json = cluster.run("consume", "C6", "--from", "first", "--count", "1", "--output", "json")
        message = json.loads(as_json.out)
        assert "body" not in message
        assert base64.b64decode(message["body_base64"]) == body

    def test_fewer_than_asked_for_is_a_failure(self, cluster: Cluster) -> None:
        produce(cluster, "C7", "only")
        done = cluster.run("consume", "C7", "--from", "first", "--count", "5", "--timeout", "1")
        assert done.code == 1
        assert done.out == "only\n"
        assert done.err.endswith("skyrocketmq: 1 of 5 messages came\n")

    def test_an_unknown_topic_is_told(self, cluster: Cluster) -> None:
        done = cluster.run("consume", "Nowhere")
        assert done.code == 1
        assert "Nowhere" in done.err
        assert "Traceback" not in done.err

    def test_ctrl_c_ends_it(self, cluster: Cluster) -> None:
        produce(cluster, "C8", "one")
        with consuming(cluster, "C8") as consumer:
            consumer.signal(signal.SIGINT)
            assert consumer.wait() == 0
            assert "Traceback" not in consumer.errors

    def test_a_reader_that_goes_away_ends_it_quietly(self, cluster: Cluster) -> None:
        produce(cluster, "C9", *(str(n) for n in range(200)))
        with subprocess.Popen(
            cluster.command("consume", "C9", "--from", "first"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            consumer.stdout.readline()
            consumer.stdout.close()
            produce(cluster, "C9", "one more")
            assert consumer.wait(WAIT_S) == 1
            assert consumer.stderr.read() == b"waiting for messages of C9\n"

    def test_a_time_that_is_none_is_refused(self, cluster: Cluster) -> None:
        done = cluster.run("consume", "T", "--from", "yesterday")
        assert done.code == 2
        assert "yesterday" in done.err


class TestInAGroup:
    def test_it_goes_on_where_the_group_was(self, cluster: Cluster) -> None:
        produce(cluster, "G1", *(str(n) for n in range(30)))
        seen: list[str] = []
        for _ in range(3):
            done = cluster.run("consume", "G1", "--group", "readers", "--from", "first", "--count", "10")
            assert done.code == 0, done.err
            seen += done.lines
        assert sorted(seen, key=int) == [str(n) for n in range(30)]

    @pytest.mark.alone  # both have to start in the time that they have
    def test_two_share_the_messages(self, cluster: Cluster) -> None:
        produce(cluster, "G2", "first")
        with (
            consuming(cluster, "G2", "--group", "sharers", "--timeout", "4") as one,
            consuming(cluster, "G2", "--group", "sharers", "--timeout", "4") as other,
        ):
            time.sleep(1.5)  # until both hold their queues
            produce(cluster, "G2", *(str(n) for n in range(40)))
            assert one.popen.stdout is not None
            assert other.popen.stdout is not None
            here, there = one.popen.stdout.read().split(), other.popen.stdout.read().split()
        assert {*here, *there} >= {str(n) for n in range(40)}
        assert len(here) >= 10
        assert len(there) >= 10
