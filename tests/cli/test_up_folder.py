"""The ready folders of configuration files, each started by the one command that the documents name."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from skyrocketmq.model import ClusterInfo
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.requests import pull_frame, send_frame
from tests.cli.processes import BIN, Running, ask, finished, running
from tests.store.reader import read_records

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path for path in (ROOT / "conf").iterdir() if path.is_dir())
EXPECTED = {
    "1m-2s-async": {"broker-a": {0, 1, 2}},
    "2m-noslave": {"broker-a": {0}, "broker-b": {0}},
    "2m-2s-sync": {"broker-a": {0, 1}, "broker-b": {0, 1}},
    "2m-2s-async": {"broker-a": {0, 1}, "broker-b": {0, 1}},
}
WAIT_S = 30.0


def start(folder: Path, data: Path) -> list[str | Path]:
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    return [BIN / "skyrocketmq", "up", "--conf", folder, "--data", data, *ports, "--log-level", "warning"]


def ready(process: Running) -> str:
    match = re.fullmatch(r"name server ready on (\S+)", process.line())
    assert match is not None, process.errors
    while (line := process.line()) and not line.startswith("data in"):
        assert re.fullmatch(r"broker \S+ (slave \d+ )?ready on \S+", line), line
    return match[1]


def bodies(address: str) -> list[bytes]:
    answer = ask(address, pull_frame())
    return [record.body for record in read_records(answer.body)] if answer.code == 0 else []


def until_reads(address: str, expected: list[bytes]) -> None:
    deadline = time.monotonic() + WAIT_S
    while bodies(address) != expected:
        assert time.monotonic() < deadline, f"{address} has {bodies(address)}"
        time.sleep(0.05)


def test_every_folder_is_known_here_and_in_the_documents() -> None:
    document = (ROOT / "docs" / "replication.md").read_text()
    assert {folder.name for folder in FOLDERS} == set(EXPECTED)
    for folder in FOLDERS:
        assert f"skyrocketmq up --conf conf/{folder.name}" in document


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_is_started_by_one_command_and_replicates(folder: Path, tmp_path: Path) -> None:
    # The one with most to remember is started twice, the second time on what the first has left.
    for body in (b"first", b"second") if folder.name == "2m-2s-sync" else (b"first",):
        with running(start(folder, tmp_path / "data"), home=tmp_path) as process:
            namesrv = ready(process)
            info = decode_body(ClusterInfo, ask(namesrv, Frame(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
            found = {name: set(data.broker_addrs) for name, data in info.broker_addr_table.items()}
            assert found == EXPECTED[folder.name]
            for broker in info.broker_addr_table.values():
                master = broker.broker_addrs[0]
                deadline = time.monotonic() + WAIT_S
                sent: list[int] = []
                while not sent or sent[-1] == 11:  # its slave may need a moment to find it
                    assert time.monotonic() < deadline
                    sent.append(ask(master, send_frame(body=body)).code)
                    time.sleep(0.1 if sent[-1] else 0)
                assert sent[-1] == 0
                expected = bodies(master)
                assert expected[0] == b"first"
                assert expected[-1] == body
                for address in broker.broker_addrs.values():
                    until_reads(address, expected)
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
            assert "Traceback" not in process.errors
    for file in folder.iterdir():
        assert (tmp_path / "data" / f"{file.stem}.conf").exists()
        assert "namesrvAddr" not in file.read_text(), "the folder itself stays as it is"


def test_a_folder_without_configurations_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, text in ((tmp_path / "empty", "no broker's configuration"), (tmp_path / "missing", "No such file")):
        code, _, errors = finished(start(folder, tmp_path / "data"), home=tmp_path)
        assert code != 0
        assert text in errors
        assert "Traceback" not in errors
