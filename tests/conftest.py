"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

from skyrocketmq.cli.run import allow_many_descriptors

# An example that is slow because the machine is busy is no failure; pytest's own time limit ends what hangs.
settings.register_profile("skyrocketmq", deadline=None)
settings.load_profile("skyrocketmq")

allow_many_descriptors()  # some tests hold both ends of a thousand connections
