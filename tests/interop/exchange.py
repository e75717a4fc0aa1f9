"""A store directory that goes from hand to hand: small files, so that there are many, and Apache's broker on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.apache import Apache, Server
from tests.store.reader import Sizes

BROKER = "exchange"
SIZES = Sizes(log_file=256 * 1024, queue_file=20 * 100, slots=500, entries=2000)
SETTINGS = {
    "mappedFileSizeCommitLog": str(SIZES.log_file),
    "mappedFileSizeConsumeQueue": str(SIZES.queue_file),
    "maxHashSlotNum": str(SIZES.slots),
    "maxIndexNum": str(SIZES.entries),
}
"""The same, as both brokers read them."""


@contextmanager
def apaches_broker_on(store: Path, apache: Apache, *, config: Mapping[str, str] = SETTINGS) -> Iterator[Server]:
    """Apache's broker, not started, with a name server of its own."""
    with (
        apache.namesrv() as namesrv,
        apache.broker(namesrv=namesrv.address, name=BROKER, store=store, config=config, start=False) as broker,
    ):
        yield broker
