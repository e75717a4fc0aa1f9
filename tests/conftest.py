"""What holds for every test."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from skyrocketmq.cli.run import allow_many_descriptors

if TYPE_CHECKING:
    from tests.spread import Spread

# An example that is slow because the machine is busy is no failure; pytest's own time limit ends what hangs.
# A run for others, in CI, tries the same examples every time: what a search finds is for who searches.
settings.register_profile("skyrocketmq", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("skyrocketmq")

allow_many_descriptors()  # some tests hold both ends of a thousand connections


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Spread:
    from tests.spread import Spread  # here: pytest-xdist need not be there

    return Spread(config, log)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: the garbage collector need not walk through them again."""
    gc.collect()
    gc.freeze()
