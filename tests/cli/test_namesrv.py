"""`skyrocketmq namesrv` as a real process: it gets ready, answers, stops, and says in one line what is wrong."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import pytest

from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.cli.processes import BIN, finished, running

pytestmark = pytest.mark.system

SKYROCKETMQ = BIN / "skyrocketmq"
START: list[str | Path] = [SKYROCKETMQ, "namesrv", "--listen-port", "0"]
READY = re.compile(r"name server ready on (\S+):(\d+)")


def address_in(line: str) -> tuple[str, int]:
    match = READY.fullmatch(line)
    assert match is not None, line
    return match[1], int(match[2])


def ask(address: tuple[str, int], request: Frame) -> Frame:
    decoder = FrameDecoder()
    with socket.create_connection(address, timeout=10) as sock:
        sock.sendall(encode_frame(request))
        while not (frames := decoder.feed(sock.recv(65536))):
            pass
    return frames[0]


def test_it_says_when_it_is_ready_answers_and_stops_cleanly(tmp_path: Path) -> None:
    with running(START, home=tmp_path) as server:
        address = address_in(server.line())
        answer = ask(address, Frame(RequestCode.GET_NAMESRV_CONFIG, 1))
        assert answer.code == ResponseCode.SUCCESS
        assert f"kvConfigPath={tmp_path}/namesrv/kvConfig.json" in answer.body.decode().splitlines()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "Traceback" not in server.errors
        assert "stopping signal=SIGTERM" in server.errors


def test_ctrl_c_stops_it_cleanly_too(tmp_path: Path) -> None:
    with running(START, home=tmp_path) as server:
        address_in(server.line())
        server.signal(signal.SIGINT)
        assert server.wait() == 0
        assert "Traceback" not in server.errors


def test_the_alias_takes_the_same_arguments(tmp_path: Path) -> None:
    with running([BIN / "mqnamesrv", "--listen-port", "0"], home=tmp_path) as server:
        address_in(server.line())
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_a_file_the_environment_and_options_configure_it(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=0\norderMessageEnable=true\nlisenPort=1\n")
    command: list[str | Path] = [SKYROCKETMQ, "namesrv", "-c", conf, "--set", "bindAddress=127.0.0.1"]
    with running(command, home=tmp_path) as server:
        address = address_in(server.line())
        body = ask(address, Frame(RequestCode.GET_NAMESRV_CONFIG, 1)).body.decode()
        assert "orderMessageEnable=true" in body
        assert f"configStorePath={conf}" in body
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert 'unknown key \\"lisenPort\\" has no effect; did you mean \\"listenPort\\"?' in server.errors


def test_a_change_at_run_time_is_there_after_a_restart(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=0\n")
    command: list[str | Path] = [SKYROCKETMQ, "namesrv", "-c", conf]
    with running(command, home=tmp_path) as server:
        update = Frame(RequestCode.UPDATE_NAMESRV_CONFIG, 1, body=b"orderMessageEnable=true")
        assert ask(address_in(server.line()), update).code == ResponseCode.SUCCESS
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    with running(command, home=tmp_path) as server:
        body = ask(address_in(server.line()), Frame(RequestCode.GET_NAMESRV_CONFIG, 1)).body
        assert b"orderMessageEnable=true" in body


def test_log_files_are_kept_by_part(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with running([*START, "--log-dir", logs], home=tmp_path) as server:
        address_in(server.line())
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert "listening" in (logs / "remoting.log").read_text()
    assert "stopping signal=SIGTERM" in (logs / "skyrocketmq.log").read_text()
    assert "listening" not in (logs / "skyrocketmq.log").read_text()


class TestMistakes:
    """One line on standard error, exit code 1, or 2 for wrong usage; never a traceback."""

    def expect_one_line(self, command: list[str | Path], text: str, *, home: Path) -> None:
        code, out, errors = finished(command, home=home)
        assert (code, out) == (1, "")
        assert errors.startswith("skyrocketmq: ")
        assert errors.count("\n") == 1
        assert text in errors

    def test_a_port_in_use(self, tmp_path: Path) -> None:
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            command: list[str | Path] = [SKYROCKETMQ, "namesrv", "--listen-port", str(port)]
            self.expect_one_line(command, f"cannot listen on 0.0.0.0:{port}", home=tmp_path)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        command: list[str | Path] = [SKYROCKETMQ, "namesrv", "-c", tmp_path / "missing.conf"]
        self.expect_one_line(command, "missing.conf cannot be read: No such file or directory", home=tmp_path)

    def test_an_unknown_key(self, tmp_path: Path) -> None:
        command: list[str | Path] = [SKYROCKETMQ, "namesrv", "--set", "lisenPort=1"]
        self.expect_one_line(command, 'unknown key "lisenPort"; did you mean "listenPort"?', home=tmp_path)

    def test_a_log_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        command: list[str | Path] = [SKYROCKETMQ, "namesrv", "--log-dir", tmp_path / "file" / "logs"]
        self.expect_one_line(command, "--log-dir", home=tmp_path)

    def test_a_certificate_that_is_missing(self, tmp_path: Path) -> None:
        settings = ["tls.test.mode.enable=false", "tls.server.keyPath=/no/key", "tls.server.certPath=/no/cert"]
        command: list[str | Path] = [*START, *(part for text in settings for part in ("--set", text))]
        self.expect_one_line(command, "/no/", home=tmp_path)

    @pytest.mark.parametrize(
        "arguments", [["--set", "novalue"], ["--listen-port", "70000"], ["--listen-port", "x"], ["--nonsense"]]
    )
    def test_wrong_usage(self, tmp_path: Path, arguments: list[str]) -> None:
        code, out, errors = finished([SKYROCKETMQ, "namesrv", *arguments], home=tmp_path)
        assert (code, out) == (2, "")
        assert "Traceback" not in errors
        assert "Error: " in errors


def test_the_second_signal_ends_a_process_at_once(tmp_path: Path) -> None:
    service = (
        "import asyncio\n"
        "from skyrocketmq.cli.run import run_until_stopped\n"
        "async def serve(stop):\n"
        "    print('ready', flush=True)\n"
        "    await stop.wait()\n"
        "    print('stopping', flush=True)\n"
        "    await asyncio.sleep(3600)\n"
        "run_until_stopped(serve)\n"
    )
    with running([BIN / "python", "-c", service], home=tmp_path) as process:
        assert process.line() == "ready"
        process.signal(signal.SIGTERM)
        assert process.line() == "stopping"
        process.signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
