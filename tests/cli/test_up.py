"""`skyrocketmq up` as real processes: everything by one command, stopped by one signal."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from skyrocketmq.config import read_properties
from skyrocketmq.model import ClusterInfo
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.requests import TOPIC, pull_frame, send_frame
from tests.cli.processes import BIN, Running, ask, finished, running
from tests.store.reader import read_records
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.system

SKYROCKETMQ = BIN / "skyrocketmq"
WAIT_S = PATIENCE_S


def start(data: Path, *options: str) -> list[str | Path]:
    return [SKYROCKETMQ, "up", "--data", data, "--namesrv-port", "0", "--broker-port", "0", *options]


def ready(process: Running) -> tuple[str, dict[str, str]]:
    """The address of the name server, and those of the brokers by name, from the lines that it prints."""
    match = re.fullmatch(r"name server ready on (\S+)", process.line())
    assert match is not None, process.errors
    brokers: dict[str, str] = {}
    while (line := process.line()) and not line.startswith("data in"):
        if found := re.fullmatch(r"broker (\S+) ready on (\S+)", line):
            brokers[found[1]] = found[2]
    return match[1], brokers


def children_of(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            stat = Path("/proc", name, "stat").read_text() if name.isdigit() else ""
        except OSError:
            continue  # it has ended meanwhile
        if stat and int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + WAIT_S
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)


def send(address: str, body: bytes) -> None:
    answer = ask(address, send_frame(body=body))
    assert answer.code == 0, answer.remark


def bodies(address: str) -> list[bytes]:
    return [record.body for record in read_records(ask(address, pull_frame()).body)]


def test_it_starts_everything_says_where_and_stops_cleanly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    started = time.monotonic()
    with running(start(data), home=tmp_path) as process:
        namesrv, brokers = ready(process)
        spent_s = time.monotonic() - started
        assert list(brokers) == ["broker-a"]
        send(brokers["broker-a"], b"hello")
        info = decode_body(ClusterInfo, ask(namesrv, Frame(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert info.broker_addr_table["broker-a"].broker_addrs == {0: brokers["broker-a"]}
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert "Traceback" not in process.errors
    assert not (data / "broker-a" / "abort").exists(), "stopped in order"
    with capsys.disabled():
        print(f"\n`up` was ready after {spent_s:.2f} s")

    with running(start(data), home=tmp_path) as process:
        _, brokers = ready(process)
        assert bodies(brokers["broker-a"]) == [b"hello"], "it is there after a restart"
        process.signal(signal.SIGINT)
        assert process.wait() == 0


def test_settings_and_ports_are_taken_from_the_command_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(start(data, "--set", "autoCreateTopicEnable=false", "--no-dashboard"), home=tmp_path) as process:
        _, brokers = ready(process)
        assert ask(brokers["broker-a"], send_frame()).code == 17
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert "autoCreateTopicEnable" not in read_properties((data / "broker-a.conf").read_bytes())


def test_two_brokers_are_two_processes_that_stop_together(tmp_path: Path) -> None:
    with running(start(tmp_path / "data", "--brokers", "2"), home=tmp_path) as process:
        namesrv, brokers = ready(process)
        assert sorted(brokers) == ["broker-a", "broker-b"]
        children = children_of(process.popen.pid)
        assert len(children) == 1
        for name, address in brokers.items():
            send(address, name.encode())
            assert bodies(address) == [name.encode()]
        info = decode_body(ClusterInfo, ask(namesrv, Frame(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert sorted(info.broker_addr_table) == ["broker-a", "broker-b"]
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        until_gone(children)
        assert "Traceback" not in process.errors
    for name in brokers:
        assert not (tmp_path / "data" / name / "abort").exists()


def test_a_broker_that_dies_stops_the_others_and_is_told(tmp_path: Path) -> None:
    with running(start(tmp_path / "data", "--brokers", "3"), home=tmp_path) as process:
        ready(process)
        children = children_of(process.popen.pid)
        assert len(children) == 2
        os.kill(children[0], signal.SIGKILL)
        assert process.wait() == 1, "whoever watches it learns that this was no ordinary end"
        until_gone(children)
        assert re.search(r"broker-[bc] ended with exit code -9", process.errors)
        assert "Traceback" not in process.errors


def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    with running(start(tmp_path / "data", "--brokers", "2"), home=tmp_path) as process:
        ready(process)
        children = children_of(process.popen.pid)
        process.signal(signal.SIGKILL)
        process.wait()
        until_gone(children)
    assert not (tmp_path / "data" / "broker-b" / "abort").exists(), "it stopped in order"


def test_a_second_one_on_the_same_data_says_that_it_is_locked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(start(data), home=tmp_path) as process:
        _, brokers = ready(process)
        code, output, errors = finished(start(data), home=tmp_path)
        assert code == 1
        assert output == ""
        told = [line for line in errors.splitlines() if line.startswith("skyrocketmq:")]
        assert len(told) == 1
        assert "locked by another process" in told[0]
        assert str(data / "broker-a") in told[0]
        assert "Traceback" not in errors
        send(brokers["broker-a"], b"the first one goes on")


def test_a_second_one_with_more_brokers_on_the_same_data_leaves_no_process_behind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(start(data, "--brokers", "2"), home=tmp_path) as process:
        ready(process)
        code, output, errors = finished(start(data, "--brokers", "2"), home=tmp_path)
        assert (code, output) == (1, "")
        assert "locked" in errors
        assert len(children_of(process.popen.pid)) == 1


def test_a_broker_that_cannot_start_is_named_and_nothing_goes_on_without_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(start(data, "--brokers", "2"), home=tmp_path) as process:
        ready(process)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    with running([SKYROCKETMQ, "broker", "-c", data / "broker-b.conf"], home=tmp_path) as alone:
        assert alone.line().startswith("broker broker-b ready")
        code, output, errors = finished(start(data, "--brokers", "2"), home=tmp_path)
        assert (code, output) == (1, "")
        assert "locked by another process" in errors
        assert "broker-b did not start (exit code 1)" in errors
        assert "Traceback" not in errors
    assert not (data / "broker-a" / "abort").exists(), "the first one was stopped in order"


def test_a_second_signal_stops_it_at_once(tmp_path: Path) -> None:
    with running(start(tmp_path / "data"), home=tmp_path) as process:
        ready(process)
        process.popen.send_signal(signal.SIGSTOP)  # so that both are waiting for it together
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGINT)
        process.popen.send_signal(signal.SIGCONT)
        assert process.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "autoCreateTopicsEnable=true"), "autoCreateTopicEnable"),
        (("--set", "nonsense"), "key=value"),
        (("--brokers", "0"), "--brokers"),
        (("--brokers", "27"), "--brokers"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    code, _, errors = finished(start(tmp_path / "data", *options), home=tmp_path)
    assert code != 0
    assert words.lower() in errors.lower()
    assert "Traceback" not in errors


def test_topics_made_by_one_start_are_known_to_the_next(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for count in (1, 2):
        with running(start(data), home=tmp_path) as process:
            namesrv, brokers = ready(process)
            send(brokers["broker-a"], b"hello")
            route = Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, ext={"topic": TOPIC})
            deadline = time.monotonic() + WAIT_S
            while ask(namesrv, route).code != 0:
                assert time.monotonic() < deadline
            assert len(bodies(brokers["broker-a"])) == count
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
