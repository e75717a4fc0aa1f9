"""The rules of the house, read from the source itself: which way imports point, what is pure, who may wait."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

import pytest

from skyrocketmq.testing import BlockingCluster

PACKAGE = Path(__file__).parents[1] / "src" / "skyrocketmq"

# Each part imports only what stands above it.
PARTS = [
    "errors",
    "ports",
    "config",
    "model",
    "hot",
    "wire",
    "filters",
    "store",
    "net",
    "access",
    "nameserver",
    "ha",
    "broker",
    "client",
    "idempotence",
    "admin",
    "blocking",
    "dashboard",
    "spark",
    "embedded",
    "testing",
    "cli",
]
BESIDE_THE_PARTS = "beside the parts"
PURE_PARTS = ["model", "wire", "filters"]
IMPURE_MODULES = {"asyncio", "os", "pathlib", "socket", "threading", "time"}

# Time comes in through `ports.Clock`, so that a test can move it.
WAITS_AND_CLOCKS = {
    "asyncio": {"sleep", "timeout", "timeout_at", "wait_for"},
    "time": {"monotonic", "monotonic_ns", "sleep", "time", "time_ns"},
}
PARTS_WITH_A_CLOCK = {"ports", "testing"}

# So do sockets, threads, randomness and what tells one process from another: a simulation repeats itself only if none
# of that comes in another way. Process ids are still compared where a fork has to be found out.
WORLD_OUTSIDE = {
    "_thread": {"start_new_thread"},
    "concurrent.futures": {"ProcessPoolExecutor", "ThreadPoolExecutor"},
    "os": {"getpid", "getrandom", "urandom", "cpu_count", "sysconf", "uname"},
    "random": {"*"},
    "secrets": {"*"},
    "socket": {"create_connection", "create_server", "getaddrinfo", "gethostbyname", "gethostname", "socket"},
    "threading": {"Thread", "Timer"},
    "uuid": {"uuid1", "uuid4"},
}
PARTS_IN_THE_WORLD = {"ports", "testing", "cli", "spark", "dashboard"}
MODULES_IN_THE_WORLD = {
    "config/machine.py": {"socket", "os"},  # what the defaults of a configuration are made of; a simulation sets them
    "loop_thread.py": {"threading"},  # the thread of the blocking face, which is its loop
    "blocking/face.py": {"os"},
    "blocking/window.py": {"os"},
    "idempotence/processes.py": {"os"},
    "idempotence/sqlite_ids.py": {"os"},
}

# Clients run on every system that Python runs on; what only some systems have stays out of their way.
PARTS_FOR_EVERY_SYSTEM = ["model", "wire", "filters", "net", "client", "idempotence"]
MODULES_OF_SOME_SYSTEMS = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop"}
NAMES_OF_SOME_SYSTEMS = {
    "os": {
        "eventfd",
        "fdatasync",
        "fork",
        "getuid",
        "killpg",
        "memfd_create",
        "posix_fadvise",
        "posix_fallocate",
        "pread",
        "preadv",
        "pwrite",
        "pwritev",
        "register_at_fork",
        "sched_getaffinity",
        "sched_setaffinity",
        "sendfile",
        "statvfs",
        "uname",
    },
    "signal": {"SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "pthread_kill", "set_wakeup_fd", "setitimer"},
    "socket": {"AF_UNIX", "SO_REUSEPORT", "TCP_DEFER_ACCEPT", "TCP_QUICKACK", "TCP_USER_TIMEOUT", "socketpair"},
}

SOURCES = sorted(path for path in PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The part a source file belongs to, or that it lies beside the parts, such as the package's own face."""
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return name if name in PARTS else BESIDE_THE_PARTS


@cache
def imports_and_uses(path: Path) -> list[ast.Import | ast.ImportFrom | ast.Attribute]:
    """What the rules look at of a file; many of them look at the same file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute)]


@cache
def imported_modules(path: Path) -> tuple[str, ...]:
    """The full names of the modules that a file imports, also inside functions and for type checking only."""
    names: list[str] = []
    for node in imports_and_uses(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are written in full"
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def imported_parts(path: Path) -> set[str]:
    names = (name.split(".") for name in imported_modules(path))
    return {name[1] for name in names if len(name) > 1 and name[0] == "skyrocketmq" and name[1] in PARTS}


def used_names(path: Path, module: str) -> set[str]:
    """What a file uses of a module, as `module.name`, under another name of the module, or imported by name."""
    used: set[str] = set()
    aliases: set[str] = set()
    for node in imports_and_uses(path):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name for alias in node.names if alias.name == module}
        elif isinstance(node, ast.ImportFrom) and node.module == module and not node.level:
            used |= {alias.name for alias in node.names}
    for node in imports_and_uses(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            used.add(node.attr)
    return used


PARTS_WITH_SOURCES = [part for part in PARTS if any(part_of(path) == part for path in SOURCES)]


def sources_of(part: str) -> list[Path]:
    return [path for path in SOURCES if part_of(path) == part]


def files_that(are_wrong: Callable[[Path], Collection[str]], paths: list[Path]) -> dict[str, Collection[str]]:
    """The files that break a rule, each with what breaks it: what a failed test shows."""
    assert paths, "a rule that looks at nothing"
    found = {str(path.relative_to(PACKAGE)): are_wrong(path) for path in paths}
    return {name: wrong for name, wrong in found.items() if wrong}


def top_modules(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported_modules(path)}


def used_of(path: Path, forbidden: Mapping[str, set[str]]) -> set[str]:
    return {
        f"{module}.{name}"
        for module, names in forbidden.items()
        for name in used_names(path, module)
        if name in names or "*" in names
    }


def test_every_directory_of_the_package_is_a_known_part() -> None:
    found = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert found <= set(PARTS)


@pytest.mark.parametrize("part", PARTS_WITH_SOURCES)
def test_a_part_imports_only_what_stands_above_it(part: str) -> None:
    above = {*PARTS[: PARTS.index(part)], part}
    assert files_that(lambda path: imported_parts(path) - above, sources_of(part)) == {}


@pytest.mark.parametrize("part", PURE_PARTS)
def test_pure_code_knows_no_io(part: str) -> None:
    assert files_that(lambda path: top_modules(path) & IMPURE_MODULES, sources_of(part)) == {}


def test_hot_code_knows_no_io_but_for_the_choice_of_its_form() -> None:
    choosing = {PACKAGE / "hot" / "__init__.py", PACKAGE / "hot" / "form.py"}
    paths = [path for path in sources_of("hot") if path not in choosing]
    assert files_that(lambda path: top_modules(path) & IMPURE_MODULES, paths) == {}
    assert files_that(lambda path: imported_parts(path) - {"hot", "errors"}, paths) == {}


@pytest.mark.parametrize(
    "part", [part for part in [*PARTS_WITH_SOURCES, BESIDE_THE_PARTS] if part not in PARTS_WITH_A_CLOCK]
)
def test_time_is_read_and_waited_for_only_behind_the_clock(part: str) -> None:
    assert files_that(lambda path: used_of(path, WAITS_AND_CLOCKS), sources_of(part)) == {}


@pytest.mark.parametrize(
    "part", [part for part in [*PARTS_WITH_SOURCES, BESIDE_THE_PARTS] if part not in PARTS_IN_THE_WORLD]
)
def test_chance_threads_and_sockets_come_in_through_the_ports(part: str) -> None:
    def taken_past_the_ports(path: Path) -> set[str]:
        allowed = MODULES_IN_THE_WORLD.get(path.relative_to(PACKAGE).as_posix(), set())
        return used_of(path, {module: names for module, names in WORLD_OUTSIDE.items() if module not in allowed})

    assert files_that(taken_past_the_ports, sources_of(part)) == {}


@pytest.mark.parametrize("part", PARTS_FOR_EVERY_SYSTEM)
def test_what_clients_are_made_of_runs_on_every_system(part: str) -> None:
    assert files_that(lambda path: top_modules(path) & MODULES_OF_SOME_SYSTEMS, sources_of(part)) == {}
    assert files_that(lambda path: used_of(path, NAMES_OF_SOME_SYSTEMS), sources_of(part)) == {}


def test_a_client_works_without_what_only_some_systems_have(rocketmq: BlockingCluster, rocketmq_topic: str) -> None:
    """A process that lacks all of it, from the modules to the functions of `os`, sends and reads."""
    code = f"""
import asyncio, os, signal, socket, sys
for module in {MODULES_OF_SOME_SYSTEMS - {"posix"}}:
    sys.modules[module] = None
for name in {NAMES_OF_SOME_SYSTEMS["os"]}:
    if hasattr(os, name):
        delattr(os, name)
from skyrocketmq import Message
from skyrocketmq.blocking import Producer, PullConsumer
topic = {rocketmq_topic!r}
with Producer("anywhere", namesrv={rocketmq.namesrv!r}) as producer:
    sent = producer.send(Message(topic, b"from anywhere"))
with PullConsumer("anywhere", namesrv={rocketmq.namesrv!r}) as consumer:
    print(consumer.pull(sent.queue, 0).messages[0].body.decode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "from anywhere\n"), done.stderr


class TestTheseChecks:
    """The checks themselves: each must be able to find what it looks for."""

    def write(self, tmp_path: Path, text: str) -> Path:
        path = tmp_path / "sample.py"
        path.write_text(text, encoding="utf-8")
        return path

    @pytest.mark.parametrize(
        "text",
        [
            "import asyncio\nasyncio.sleep(1)",
            "import asyncio as loop\nasync def f():\n    await loop.sleep(1)",
            "from asyncio import sleep",
            "from asyncio import sleep as pause",
        ],
    )
    def test_a_wait_is_found_under_any_name(self, tmp_path: Path, text: str) -> None:
        assert "sleep" in used_names(self.write(tmp_path, text), "asyncio")

    def test_a_method_of_the_same_name_is_no_wait(self, tmp_path: Path) -> None:
        text = "import asyncio\nasyncio.gather()\nclock.sleep(1)"
        assert used_names(self.write(tmp_path, text), "asyncio") == {"gather"}

    @pytest.mark.parametrize(
        "text",
        [
            "import skyrocketmq.store.log",
            "from skyrocketmq.store import log",
            "from skyrocketmq import store",
            "def f():\n    from skyrocketmq.store.log import CommitLog",
        ],
    )
    def test_an_import_of_a_part_is_found_in_any_form(self, tmp_path: Path, text: str) -> None:
        assert imported_parts(self.write(tmp_path, text + "\nimport msgspec")) == {"store"}
