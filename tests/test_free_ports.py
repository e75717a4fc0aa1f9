"""Ports that servers are given before they start."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.ports import BLOCK_PORTS, free_port

ROOT = Path(__file__).parents[1]
GIVE = "import sys; from tests.ports import free_port; print(*(free_port(-2, 1) for _ in range(25))); sys.stdin.read()"


def test_processes_that_run_at_once_get_different_ports() -> None:
    others = [
        subprocess.Popen(
            [sys.executable, "-c", GIVE], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    given: list[set[int]] = [{free_port(-2, 1) for _ in range(25)}]
    for other in others:
        assert other.stdout is not None
        given.append({int(text) for text in other.stdout.readline().split()})
    for other in others:
        other.communicate("")
    ports = [port + distance for each in given for port in each for distance in (-2, 0, 1)]
    assert len(set(ports)) == len(ports) == 5 * 25 * 3


def test_a_port_comes_again_only_after_all_others_and_not_while_it_is_used() -> None:
    first = free_port()
    assert first not in {free_port() for _ in range(BLOCK_PORTS - 1)}
    with socket.socket() as used:
        used.bind(("0.0.0.0", first))
        used.listen()
        assert first not in {free_port() for _ in range(2 * BLOCK_PORTS)}
