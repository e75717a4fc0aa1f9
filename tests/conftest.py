"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import settings

from skyrocketmq.cli.run import allow_many_descriptors

# An example that is slow because the machine is busy is no failure; pytest's own time limit ends what hangs.
# A run for others, in CI, tries the same examples every time: what a search finds is for who searches.
settings.register_profile("skyrocketmq", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("skyrocketmq")

allow_many_descriptors()  # some tests hold both ends of a thousand connections
