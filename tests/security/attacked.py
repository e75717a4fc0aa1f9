"""Servers as processes of their own, an attacker, and others who measure how long they wait meanwhile.

    with watched(target, idle) as waits:
        attack(target.address, data, answers=1)
    assert waits.late_s < 0.1

Rule: a wait counts only as far as the server was working in it. The machine may be busy with other things, and then
everybody waits; but the thread that answers used no processor then, which the kernel tells to the nanosecond.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.broker.requests import send_frame
from tests.cli.processes import BIN, Running, ask, running

PROBE_EVERY_S = 0.01
WAIT_S = 40.0
PROBE_TOPIC = "Probes"
SETTINGS = (
    "listenPort=0",
    "bindAddress=127.0.0.1",
    "brokerIP1=127.0.0.1",
    "brokerIP2=127.0.0.1",
    "mappedFileSizeCommitLog=67108864",
    "mappedFileSizeConsumeQueue=6000000",
    "maxHashSlotNum=5000",
    "maxIndexNum=20000",
)


@dataclass(frozen=True)
class Target:
    """A server in a process of its own, and the request that others send to it meanwhile."""

    process: Running
    address: str
    probe: Frame

    def cpu_s(self) -> float:
        """How long its loop, which is its main thread, has been running on a processor."""
        pid = self.process.popen.pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.process.popen.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def ask(self, frame: Frame) -> Frame:
        return ask(self.address, frame)


@contextmanager
def started_broker(home: Path, *settings: str, descriptors: int | None = None) -> Iterator[Callable[[], Target]]:
    """A broker that is starting; the function waits until it is ready. So several start at the same time."""
    home.mkdir()
    few = [] if descriptors is None else ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]
    with running([*few, *broker_command(home, *settings)], home=home) as process:
        yield lambda: _ready_broker(process)


def broker_command(store: Path, *settings: str) -> list[str]:
    """What starts a broker."""
    command = [str(BIN / "skyrocketmq"), "broker"]
    for setting in (*SETTINGS, f"storePathRootDir={store}", *settings):
        command += ["--set", setting]
    return command


def _ready_broker(process: Running) -> Target:
    target = Target(process, _address_in(process.line()), send_frame(PROBE_TOPIC, 1, body=b"probe"))
    fields = {"topic": PROBE_TOPIC, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4"}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}
    assert target.ask(Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, ext=dict(fields))).code == 0
    return target


@contextmanager
def started_name_server(home: Path) -> Iterator[Callable[[], Target]]:
    home.mkdir()
    command = [str(BIN / "skyrocketmq"), "namesrv", "--set", "listenPort=0", "--set", "bindAddress=127.0.0.1"]
    with running(command, home=home) as process:
        yield lambda: Target(process, _address_in(process.line()), Frame(RequestCode.GET_BROKER_CLUSTER_INFO, 1))


def _address_in(line: str) -> str:
    assert " ready on " in line, line
    return line.rpartition(" ")[2]


# ------------------------------------------------------------------------------------------------------------- attacks


def attack(address: str, data: bytes | Sequence[bytes], *, answers: int) -> list[Frame]:
    """Send bytes on one connection, and read so many answers; fewer if the server hangs up."""
    host, _, port = address.rpartition(":")
    decoder = FrameDecoder()
    frames: list[Frame] = []
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock:
        sender = threading.Thread(target=_send, args=(sock, data))
        sender.start()
        while len(frames) < answers:
            try:
                received = sock.recv(1 << 20)
            except ConnectionError:
                break
            if not received:
                break
            frames += [frame for frame in decoder.feed(received) if frame.is_response]
        sender.join(WAIT_S)
    return frames


def _send(sock: socket.socket, data: bytes | Sequence[bytes]) -> None:
    try:
        for part in [data] if isinstance(data, bytes) else data:
            sock.sendall(part)
    except OSError:
        pass  # the server has hung up, as it may


# -------------------------------------------------------------------------------------------------------------- waiting


@dataclass
class Waits:
    """How long the answers of some took: by the clock, and how long the server worked before it answered."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    idle_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def late_s(self) -> float:
        """The most by which an answer came later than the latest of an idle server, as far as the server worked."""
        assert not self.failures, self.failures
        assert len(self.wall_s) > 3
        usual = max(self.idle_s)
        return max(min(wall - usual, cpu) for wall, cpu in zip(self.wall_s, self.cpu_s, strict=True))


@contextmanager
def watched(target: Target, idle: Target) -> Iterator[Waits]:
    """Others ask the server under attack, and an idle one, every few milliseconds."""
    waits, over = Waits(), threading.Event()
    probes = [
        threading.Thread(target=_probe, args=(target, waits, waits.wall_s, waits.cpu_s, over)),
        threading.Thread(target=_probe, args=(idle, waits, waits.idle_s, [], over)),
    ]
    for probe in probes:
        probe.start()
    time.sleep(0.1)
    try:
        yield waits
    finally:
        time.sleep(0.1)
        over.set()
        for probe in probes:
            probe.join(WAIT_S)


def _probe(target: Target, waits: Waits, wall_s: list[float], cpu_s: list[float], over: threading.Event) -> None:
    host, _, port = target.address.rpartition(":")
    data, decoder = encode_frame(target.probe), FrameDecoder()
    try:
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock:
            while not over.wait(PROBE_EVERY_S):
                started, worked = time.monotonic(), target.cpu_s()
                sock.sendall(data)
                while not (frames := decoder.feed(sock.recv(65536))):
                    pass
                wall_s.append(time.monotonic() - started)
                cpu_s.append(target.cpu_s() - worked)
                if frames[0].code:
                    waits.failures.append(f"refused: {frames[0].remark}")
    except OSError as error:
        waits.failures.append(f"not served: {error!r}")
