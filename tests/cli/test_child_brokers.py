"""What a child broker is told, and by which way."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from skyrocketmq.cli.child_brokers import child_broker, split_secrets
from skyrocketmq.config import write_properties


def test_secrets_go_by_the_environment_under_any_of_their_names() -> None:
    settings = {"tls.server.keyPassword": "one", "brokerSecretKey": "two", "brokerAccessKey": "me", "traceOn": "false"}
    environ, shown = split_secrets(settings)
    assert environ == {"SKYROCKETMQ_TLS_SERVER_KEY_PASSWORD": "one", "SKYROCKETMQ_BROKER_SECRET_KEY": "two"}
    assert shown == {"brokerAccessKey": "me", "traceOn": "false"}


def command_lines() -> list[str]:
    """Of the children of this process."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids]


async def test_no_secret_is_in_the_list_of_processes(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    store = {"storePathRootDir": str(tmp_path / "store"), "storePathCommitLog": str(tmp_path / "store" / "commitlog")}
    local = {"listenPort": "0", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1"}
    path.write_bytes(
        write_properties({**store, **local, "brokerName": "broker-z", "mappedFileSizeCommitLog": "1048576"})
    )
    settings = {"brokerAccessKey": "the-broker", "brokerSecretKey": "hunter2"}
    dead: list[str] = []
    async with child_broker("broker-z", path, settings, asyncio.Event(), dead) as line:
        assert line.startswith("broker broker-z ready on ")  # with half an account it would not have started
        (command,) = [each for each in command_lines() if str(path) in each]
        assert "brokerAccessKey=the-broker" in command
        assert "hunter2" not in command
