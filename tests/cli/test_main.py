"""The command line in this process: what it prints, and the codes it ends with."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq import __version__, hot
from skyrocketmq.cli.main import app, main, mqnamesrv


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_configuration_is_printed_and_nothing_is_started(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run("namesrv", "-p", "--listen-port", "1234", "--set", "orderMessageEnable=true") == 0
    out = " ".join(capsys.readouterr().out.split())  # columns are as wide as they have to be
    assert f"kvConfigPath = {home}/namesrv/kvConfig.json (default)" in out
    assert "orderMessageEnable = true (--set)" in out
    assert "listenPort = 1234 (--set)" in out
    assert "unused here" in out


def test_an_option_goes_before_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("namesrv", "-p", "--set", "listenPort=1", "--listen-port", "2") == 0
    assert "= 2  (--set)" in capsys.readouterr().out


def test_warnings_about_a_file_go_to_standard_error(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    conf = home / "namesrv.conf"
    conf.write_text("lisenPort=1")
    assert run("namesrv", "-p", "-c", str(conf)) == 0
    captured = capsys.readouterr()
    assert "did you mean" in captured.err
    assert "did you mean" not in captured.out


def test_the_alias_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["mqnamesrv", "-p"])
    with pytest.raises(SystemExit) as ended:
        mqnamesrv()
    assert ended.value.code == 0
    assert "listenPort" in capsys.readouterr().out


def test_the_version_is_told_and_which_form_of_the_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"skyrocketmq {__version__} ({hot.description()})\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() in (0, 2)
    captured = capsys.readouterr()
    assert "namesrv" in captured.out + captured.err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        assert command.callback.__doc__
        name = command.name or command.callback.__name__
        assert run(name, flag) == 0
        assert f"Usage: skyrocketmq {name}" in capsys.readouterr().out


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("namesrv", "--set", "lisenPort=1") == 1
    assert capsys.readouterr().err == 'skyrocketmq: --set: unknown key "lisenPort"; did you mean "listenPort"?\n'


@pytest.mark.parametrize("key", ["tls.server.keyPassword", "brokerSecretKey"])
def test_a_secret_on_the_command_line_is_warned_of_and_not_repeated(
    capsys: pytest.CaptureFixture[str], home: Path, key: str
) -> None:
    run("broker", "--set", f"{key}=hunter2", "--set", "brokerAccessKey=the-broker", "-p")
    printed = capsys.readouterr()
    assert f"--set {key}=... stands in the list of processes" in printed.err
    assert "brokerAccessKey=... stands" not in printed.err
    assert "hunter2" not in printed.out + printed.err
