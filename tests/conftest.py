"""What holds for every test."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from skyrocketmq.cli.run import allow_many_descriptors
from tests.unit_times import UnitTimes

if TYPE_CHECKING:
    from tests.spread import Spread

# An example that is slow because the machine is busy is no failure; pytest's own time limit ends what hangs.
# A run for others, in CI, tries the same examples every time: what a search finds is for who searches.
settings.register_profile("skyrocketmq", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("skyrocketmq")

# On a machine with busy cores any step may last 50 ms, and a broker says so. Tests that look at the log look for
# other things; those of the watch itself let it speak again.
logging.getLogger("skyrocketmq.loop_watch").setLevel(logging.ERROR)

allow_many_descriptors()  # some tests hold both ends of a thousand connections


ALONE_PATH = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # not a worker of pytest-xdist, but who prints
        config.pluginmanager.register(UnitTimes())
        # Workers inherit it. Each run of the tests simulates others; `SIMULATE_FROM` repeats one. In CI they are always
        # the same: what is found by chance is nobody's change, and `make simulate` is there to look for it.
        first = 1 if os.environ.get("CI") else randrange(1_000, 10**9)
        os.environ.setdefault("SIMULATE_FROM", str(first))
        directory = TemporaryDirectory(prefix="spread-")
        config.add_cleanup(directory.cleanup)
        config.stash[ALONE_PATH] = Path(directory.name) / "alone.json"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    if any("tests/simulation/test_seeds.py" in report.nodeid for report in reports):
        terminalreporter.write_line(f"simulated from seed {os.environ['SIMULATE_FROM']} on (SIMULATE_FROM)")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["alone_path"] = str(node.config.stash[ALONE_PATH])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Spread:
    from tests.spread import Spread  # here: pytest-xdist need not be there

    return Spread(config, log, alone_path=config.stash[ALONE_PATH])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.spread import write_alone

        write_alone(items, Path(config.workerinput["alone_path"]))


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: the garbage collector need not walk through them again."""
    gc.collect()
    gc.freeze()
