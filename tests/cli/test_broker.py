"""`skyrocketmq broker` as a real process: it runs from Apache's file, registers, stops, and says what is wrong."""

from __future__ import annotations

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
from tests.broker.requests import pull_frame, send_frame
from tests.cli.processes import BIN, Running, ask, finished, running
from tests.store.reader import read_records

pytestmark = pytest.mark.system

SKYROCKETMQ = BIN / "skyrocketmq"
CONF = """# as Apache ships it
brokerClusterName = DefaultCluster
brokerName = broker-x
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
brokerIP1 = 127.0.0.1
bindAddress = 127.0.0.1
listenPort = 0
mappedFileSizeCommitLog = 8388608
maxHashSlotNum = 1000
maxIndexNum = 4000
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(CONF + f"storePathRootDir = {tmp_path}/store\n")
    return path


def address_in(process: Running, name: str = "broker-x") -> str:
    match = re.fullmatch(rf"broker {name} ready on (\S+)", process.line())
    assert match is not None, process.errors
    return match[1]


def test_it_runs_from_apaches_file_and_keeps_its_messages(tmp_path: Path, conf: Path) -> None:
    for count in (1, 2):
        with running([SKYROCKETMQ, "broker", "-c", conf], home=tmp_path) as process:
            address = address_in(process)
            assert ask(address, send_frame(body=b"hello")).code == 0
            assert len(read_records(ask(address, pull_frame()).body)) == count
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
            assert "Traceback" not in process.errors
    assert {path.name for path in (tmp_path / "store").iterdir()} >= {"commitlog", "consumequeue", "config", "lock"}
    assert not (tmp_path / "store" / "abort").exists()


def test_it_registers_with_the_name_server_it_is_told_and_leaves_when_it_stops(tmp_path: Path, conf: Path) -> None:
    with running([SKYROCKETMQ, "namesrv", "--listen-port", "0"], home=tmp_path) as namesrv:
        match = re.fullmatch(r"name server ready on \S+:(\d+)", namesrv.line())
        assert match is not None
        where = f"127.0.0.1:{match[1]}"

        def brokers() -> dict[str, str]:
            info = decode_body(ClusterInfo, ask(where, Frame(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
            return {name: broker.broker_addrs[0] for name, broker in info.broker_addr_table.items()}

        with running([BIN / "mqbroker", "-c", conf, "-n", where], home=tmp_path) as process:
            address = address_in(process)
            assert brokers() == {"broker-x": address}
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
        assert brokers() == {}


def test_a_change_at_run_time_is_written_to_its_file(tmp_path: Path, conf: Path) -> None:
    with running([SKYROCKETMQ, "broker", "-c", conf, "--set", "regionId=east"], home=tmp_path) as process:
        address = address_in(process)
        assert ask(address, Frame(RequestCode.UPDATE_BROKER_CONFIG, 1, body=b"fileReservedTime=5\n")).code == 0
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    keys = read_properties(conf.read_bytes())
    assert keys["fileReservedTime"] == "5"
    assert keys["brokerName"] == "broker-x"


def test_the_configuration_is_printed_on_request(tmp_path: Path, conf: Path) -> None:
    code, output, _ = finished([SKYROCKETMQ, "broker", "-c", conf, "-p"], home=tmp_path)
    assert code == 0
    assert re.search(r"^ +brokerName +=  ?broker-x", output, re.MULTILINE)
    assert not (tmp_path / "store").exists(), "nothing is started"


def test_it_says_what_keeps_it_from_starting(tmp_path: Path, conf: Path) -> None:
    with running([SKYROCKETMQ, "broker", "-c", conf], home=tmp_path) as process:
        address = address_in(process)
        port = address.rpartition(":")[2]
        for options, words in (
            (["-c", str(conf)], "locked by another process"),
            (["-c", str(conf), "--set", f"listenPort={port}", "--set", f"storePathRootDir={tmp_path}/other"], port),
            (["-c", str(tmp_path / "missing.conf")], "missing.conf"),
            (["-c", str(conf), "--set", "brokerNam=x"], "brokerName"),
        ):
            code, output, errors = finished([SKYROCKETMQ, "broker", *options], home=tmp_path)
            assert code != 0
            assert output == ""
            assert words in errors
            assert "Traceback" not in errors
        assert ask(address, send_frame()).code == 0, "the first one goes on"


def test_a_second_signal_does_not_wait_for_the_disk_or_for_clients(tmp_path: Path, conf: Path) -> None:
    with running([SKYROCKETMQ, "broker", "-c", conf], home=tmp_path) as process:
        address_in(process)
        started = time.monotonic()
        for _ in range(2):
            process.signal(signal.SIGTERM)
        assert process.wait() in (0, 128 + signal.SIGTERM)
        assert time.monotonic() - started < 10
