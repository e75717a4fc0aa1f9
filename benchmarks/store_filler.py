"""The files of a broker of ours that took so many messages, and was then stopped, or killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from benchmarks.broker_servers import Servers, create_topics
from benchmarks.report import OURS
from benchmarks.send_shapes import SendDecks, SendShape
from benchmarks.stage import PIPELINED, Stage


def fill_store(
    stage: Stage, directory: Path, shape: SendShape, count: int, *, is_killed: bool, decks: SendDecks | None = None
) -> None:
    """Messages of the stage's traffic, or of that of other decks."""
    decks = decks or stage.decks
    directory.mkdir()
    with Servers(stage.directory, None).started(OURS, store=directory) as target:
        create_topics(target, decks.topics)
        stage.run(target, decks.deck(shape), PIPELINED, count=count)
        if is_killed:
            os.kill(target.pid, signal.SIGKILL)
