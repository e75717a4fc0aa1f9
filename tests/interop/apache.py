"""Apache's name server, broker and mqadmin as real processes, each in a home directory of its own.

    apache = Apache(toolchain.prepare(), tmp_path)
    with apache.namesrv() as namesrv, apache.broker(namesrv=namesrv.address, name="broker-a") as broker:
        print(apache.mqadmin("clusterList", namesrv=namesrv.address).output)

Leaving the block stops the process. A server is an ordinary value too: `start`, `stop`, `kill`, `pause` and `start`
again, on the same port and the same files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop import remoting
from tests.interop.driver import Driver
from tests.interop.processes import Process
from tests.interop.routes import all_addresses
from tests.interop.toolchain import Toolchain
from tests.ports import free_port

READY_TIMEOUT_S = 90.0
MQADMIN_TIMEOUT_S = 60.0
DEFAULT_CLUSTER = "DefaultCluster"

# Small and quick to start: what the tests want.
TEST_JVM = (
    "-Xms64m",
    "-Xmx1g",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)
# Apache's own start scripts for Java 9 and newer, with their heap of 4 or 8 GiB made 1 GiB: what the benchmarks want.
NAMESRV_JVM = (
    "-server",
    "-Xms1g",
    "-Xmx1g",
    "-XX:MetaspaceSize=128m",
    "-XX:MaxMetaspaceSize=320m",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:-UseLargePages",
)
BROKER_JVM = (
    "-server",
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=15g",
    "-XX:-UseLargePages",
)

# Apache's programs want a logging configuration file each; ours writes one file, through a queue as theirs do.
LOGBACK = """\
<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5p %t %c{{0}} - %m%n</pattern></encoder>
  </appender>
  <appender name="queue" class="ch.qos.logback.classic.AsyncAppender"><appender-ref ref="file"/></appender>
  <root level="{level}"><appender-ref ref="queue"/></root>
</configuration>
"""


@dataclass
class Server:
    """One of Apache's servers: a home directory, a configuration file, a port, and a process while it runs."""

    name: str
    main_class: str
    port: int
    config: dict[str, str]
    home: Path
    toolchain: Toolchain
    jvm: Sequence[str]
    ready_code: int
    _process: Process | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def config_file(self) -> Path:
        return self.home / "server.conf"

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self, *, wait: bool = True) -> None:
        self.config_file.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        command = self.toolchain.command(
            "skyrocketmq.interop.Attached",
            self.main_class,
            "-c",
            str(self.config_file),
            jvm=(*self.jvm, f"-Duser.home={self.home}", f"-Drocketmq.home.dir={self.home}"),
        )
        self._process = Process(
            command, name=self.name, log=self.home / "console.log", more_logs=[self.home / "server.log"]
        )
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return once it answers a real request; a broker, once each of its name servers knows it too."""
        self.process.wait_until(self.is_ready, timeout_s=timeout_s)

    def is_ready(self) -> bool:
        if not remoting.answers(self.address, self.ready_code):
            return False
        name_servers = self.config.get("namesrvAddr", "").split(";")
        return all(self.address in all_addresses(namesrv) for namesrv in name_servers if namesrv)

    def stop(self) -> int:
        return self.process.stop()

    def kill(self) -> int:
        return self.process.kill()

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()


@dataclass(frozen=True)
class Completed:
    code: int
    output: str


class Apache:
    """Apache's programs, put to work under one directory."""

    def __init__(self, toolchain: Toolchain, directory: Path) -> None:
        self.toolchain = toolchain
        self.directory = directory
        self._home_count = 0

    @contextmanager
    def namesrv(
        self,
        *,
        port: int = 0,
        config: Mapping[str, str] | None = None,
        jvm: Sequence[str] = TEST_JVM,
        start: bool = True,
    ) -> Iterator[Server]:
        port = port or free_port()
        settings = {"listenPort": str(port), **(config or {})}
        server = Server(
            name="Apache's name server",
            main_class="org.apache.rocketmq.namesrv.NamesrvStartup",
            port=port,
            config=settings,
            home=self._home("namesrv"),
            toolchain=self.toolchain,
            jvm=jvm,
            ready_code=remoting.GET_BROKER_CLUSTER_INFO,
        )
        with _running(server, start=start):
            yield server

    @contextmanager
    def broker(
        self,
        *,
        namesrv: str,
        name: str = "broker-a",
        broker_id: int = 0,
        port: int = 0,
        store: Path | None = None,
        config: Mapping[str, str] | None = None,
        jvm: Sequence[str] = TEST_JVM,
        start: bool = True,
    ) -> Iterator[Server]:
        """A broker on three free ports, a slave if its id is not 0; `namesrv` may be a list joined by semicolons."""
        port = port or free_port(-2, 1)
        home = self._home(name)
        store = store or home / "store"
        settings = {
            "brokerClusterName": DEFAULT_CLUSTER,
            "brokerName": name,
            "brokerId": str(broker_id),
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "namesrvAddr": namesrv,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(port),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            # Megabytes instead of gigabytes: a test sends little.
            "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
            "maxHashSlotNum": "50000",
            "maxIndexNum": "200000",
            "registerNameServerPeriod": "10000",
            **(config or {}),
        }
        server = Server(
            name=f"Apache's broker {name}",
            main_class="org.apache.rocketmq.broker.BrokerStartup",
            port=port,
            config=settings,
            home=home,
            toolchain=self.toolchain,
            jvm=jvm,
            ready_code=remoting.GET_BROKER_CONFIG,
        )
        with _running(server, start=start):
            yield server

    @contextmanager
    def driver(self, *, properties: Mapping[str, str] | None = None) -> Iterator[Driver]:
        """Apache's Java client in a JVM of its own; `properties` are Java system properties."""
        home = self._home("driver")
        jvm = [*TEST_JVM, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
        jvm += [f"-D{key}={value}" for key, value in (properties or {}).items()]
        command = self.toolchain.command("skyrocketmq.interop.Driver", jvm=jvm)
        driver = Driver(command, log=home / "console.log")
        try:
            yield driver
        finally:
            driver.close()

    def mqadmin(self, *arguments: str, namesrv: str, timeout_s: float = MQADMIN_TIMEOUT_S) -> Completed:
        """Run one mqadmin command as a process of its own; `Driver.mqadmin` is quicker when there are many."""
        home = self._home("mqadmin")
        command = self.toolchain.command(
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            *arguments,
            "-n",
            namesrv,
            jvm=[*TEST_JVM, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"],
        )
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Completed(code=done.returncode, output=done.stdout)

    def _home(self, name: str) -> Path:
        self._home_count += 1
        home = self.directory / f"{self._home_count:03}-{name}"
        (home / "conf").mkdir(parents=True)
        text = LOGBACK.format(log=home / "server.log", level="info")
        for program in ("namesrv", "broker", "tools"):
            (home / "conf" / f"logback_{program}.xml").write_text(text)
        return home


@contextmanager
def _running(server: Server, *, start: bool) -> Iterator[None]:
    try:
        if start:
            server.start()
        yield
    finally:
        # Killed, not stopped: a clean stop takes Apache's servers seconds, and their directories are thrown away.
        # A test about stopping stops its server itself.
        if server._process is not None:
            server.kill()
