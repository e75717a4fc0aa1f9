"""`skyrocketmq produce` as a real process, on a real cluster."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from tests.cli.cluster import Cluster
from tests.cli.processes import WAIT_S

pytestmark = pytest.mark.system

RESULT = re.compile(r"SEND_OK [0-9A-F]{32} broker-a \d+ \d+")


def test_each_line_is_a_message_and_has_a_place(cluster: Cluster) -> None:
    done = cluster.run("produce", "Lines", given="one\ntwo\nthree")
    assert done.code == 0
    assert done.err == "3 sent\n"
    assert [bool(RESULT.fullmatch(line)) for line in done.lines] == [True] * 3


def test_empty_lines_are_skipped_and_counted(cluster: Cluster) -> None:
    done = cluster.run("produce", "Empty", "-q", given="one\n\n\r\ntwo\r\n")
    assert (done.code, done.out) == (0, "")
    assert done.err == "2 sent, 2 empty lines skipped\n"


def test_results_as_json_come_one_a_line(cluster: Cluster) -> None:
    done = cluster.run("produce", "Json", "--output", "json", "--in-flight", "1", given="one\ntwo\n")
    results = [json.loads(line) for line in done.lines]
    assert [result["status"] for result in results] == ["SEND_OK", "SEND_OK"]
    assert set(results[0]) == {"status", "msg_id", "offset_msg_id", "broker", "queue_id", "queue_offset"}


def test_a_long_input_is_sent_whole(cluster: Cluster) -> None:
    given = "".join(f"{number} {'x' * 200}\n" for number in range(3_000))
    done = cluster.run("produce", "Long", given=given)
    assert done.code == 0
    assert done.err == "3000 sent\n"
    places = {tuple(line.split()[2:]) for line in done.lines}
    assert len(places) == 3_000


def test_the_first_line_that_cannot_be_sent_ends_it(cluster: Cluster) -> None:
    given = b"short\n" + b"x" * (5 * 1024 * 1024) + b"\nnever\n" * 3
    done = cluster.run("produce", "Large", "--in-flight", "1", given=given)
    assert done.code == 1
    said = done.err.splitlines()
    assert said[0] == "1 sent"
    assert said[1].startswith("skyrocketmq: line 2 was not sent: ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bad topic"], "the topic name 'bad topic' contains ' '"),
        (["T", "--property", "TAGS=x"], "the property name TAGS is reserved"),
        (["T", "--property", "nonsense"], "write NAME=VALUE"),
        (["T", "--key", "two words"], "contains a blank"),
        (["T", "--access-key", "a"], "give both or neither"),
    ],
)
def test_a_mistake_in_the_options_is_told_before_anything_is_sent(
    cluster: Cluster, arguments: list[str], complaint: str
) -> None:
    done = cluster.run("produce", *arguments, given="one\n")
    assert done.code in (1, 2)
    assert complaint in done.err
    assert "sent" not in done.err.replace("was not sent", "")


def test_without_a_cluster_it_says_whom_it_asked(cluster: Cluster) -> None:
    nowhere = Cluster("127.0.0.1:1", cluster.home)
    done = nowhere.run("produce", "T", "--timeout", "1", given="one\n")
    assert done.code == 1
    assert "127.0.0.1:1" in done.err
    assert "Traceback" not in done.err


def test_ctrl_c_ends_it_while_it_waits_for_input(cluster: Cluster) -> None:
    with subprocess.Popen(
        cluster.command("produce", "Typed"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as typing:
        assert typing.stdin is not None
        assert typing.stdout is not None
        assert typing.stderr is not None
        typing.stdin.write("one\n")
        typing.stdin.flush()
        assert RESULT.fullmatch(typing.stdout.readline().strip())  # shown while the input is still open
        typing.send_signal(signal.SIGINT)
        assert typing.wait(WAIT_S) == 0
        assert typing.stderr.read() == "1 sent\n"


def test_a_reader_that_goes_away_ends_it_quietly(cluster: Cluster) -> None:
    with subprocess.Popen(
        cluster.command("produce", "Headless", "--in-flight", "1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as sending:
        assert sending.stdin is not None
        assert sending.stdout is not None
        assert sending.stderr is not None
        sending.stdin.write("one\n")
        sending.stdin.flush()
        sending.stdout.readline()
        sending.stdout.close()
        sending.stdin.write("two\n")
        sending.stdin.close()
        assert sending.wait(WAIT_S) == 1
        assert sending.stderr.read() == "2 sent\n"
