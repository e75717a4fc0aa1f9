"""`skyrocketmq spark`: what all jobs share on the command line. What each job does is tested beside it."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skyrocketmq.cli.main import main
from skyrocketmq.cli.spark import _add_shared, _connection
from skyrocketmq.cli.spark_progress import progress_line
from skyrocketmq.spark.jobs.table import JOBS


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["spark", *arguments])
    return int(ended.value.code or 0)


def test_the_page_has_every_shared_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark-jobs.md").read_text(encoding="utf-8")
    table = page.split("| option |")[1].split("\n\n")[0]
    parser = argparse.ArgumentParser(add_help=False)
    _add_shared(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    assert set(re.findall(r"`(--?[a-z-]+)", table)) == options


def test_help_names_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out
    for name, purpose in JOBS.items():
        assert name in shown
        assert purpose.split()[0] in shown


@pytest.mark.parametrize("job", JOBS)
def test_every_job_has_help(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(job, "--help") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: skyrocketmq spark {job}")
    for option in ("--namesrv", "--master", "--conf", "--json", "--quiet", "--tls", "--access-key"):
        assert option in shown


@pytest.mark.parametrize(
    ("arguments", "said"), [((), "JOB"), (("nothing",), "invalid choice: 'nothing'"), (("--bad",), "JOB")]
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err


def test_help_does_not_load_spark() -> None:
    code = """
import sys
for name in ("pyspark", "pyarrow", "numpy"):
    sys.modules[name] = None
from skyrocketmq.cli.main import main
from skyrocketmq.cli.spark import _add_shared, _connection
main(["spark", "--help"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: skyrocketmq spark")


def test_progress_shows_what_is_known() -> None:
    assert progress_line("reading", rows=0, seconds=3, tasks_done=1, tasks=8) == "reading  1 of 8 tasks  3 s"
    assert progress_line("writing", rows=5000, seconds=2, tasks_done=0, tasks=0) == "writing  5,000 rows, 2,500/s  2 s"


def test_connections_are_options_of_the_format(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    _add_shared(parser)
    given = parser.parse_args(["--access-key", "a", "--secret-key", "b", "--option", "timeout=5s", "--tls"])
    assert _connection(given, {}) == {
        "accessKey": "a",
        "secretKey": "b",
        "tls": "true",
        "tlsVerify": "false",
        "tlsCheckHostname": "true",
        "timeout": "5s",
    }
    nothing = parser.parse_args([])
    assert _connection(nothing, {}) == {}
    environ = {"ROCKETMQ_ACCESS_KEY": "x", "ROCKETMQ_SECRET_KEY": "y"}
    assert _connection(nothing, environ) == {"accessKey": "x", "secretKey": "y"}
    assert _connection(given, environ)["accessKey"] == "a"
    file = tmp_path / "options"
    file.write_text("# who we are\nsecuritytoken=t\ntimeout=9s\n")
    both = parser.parse_args(["--option-file", str(file), "--option", "timeout=5s"])
    assert _connection(both, environ) == {"accessKey": "x", "secretKey": "y", "securitytoken": "t", "timeout": "5s"}
    only = parser.parse_args(["--access-key", "a"])
    environ["ROCKETMQ_SECURITY_TOKEN"] = "of x"
    assert _connection(only, environ) == {"accessKey": "a", "secretKey": "y"}, "a token belongs to its key"
    assert _connection(nothing, environ)["securityToken"] == "of x"
