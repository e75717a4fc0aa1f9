"""Progress that groups commit at a slave while their master is away, and how it reaches the master again.

Apache's slaves overwrite such offsets with the master's as soon as that is back, and groups read everything twice. Ours
hands them over: only what was committed here, and only where the master's offset has not changed since.

Rule 1: the slave remembers each queue of a group that was committed here: the offset before (which came from the
master), and when that was. It is in a file, for a slave that is restarted meanwhile.
Rule 2: one of our masters decides by itself (`CommitTimes`): it knows when its own offset changed last. To another the
offset is handed over if it still is what it was when the slave last asked.
Rule 3: ages travel, not times: the clocks of two machines need not agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from skyrocketmq.ports import Clock

__all__ = ["AGE_FIELD", "KNOWS_AGES_FIELD", "CommitTimes", "ProgressTable", "SlaveProgress"]

AGE_FIELD: Final = "committedAgeMs"  # in the request that commits an offset, by a slave: how long it waited
KNOWS_AGES_FIELD: Final = "knowsCommittedAge"  # in the answer with all offsets: this master understands it

Place = tuple[str, int]  # topic@group, queue id


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """What is waiting for the master. `before` is None where the group had no offset."""

    before: int | None
    since_ms: int


class ProgressTable(msgspec.Struct, frozen=True, rename="camel"):
    """The file: by topic@group, then by queue id."""

    progress: dict[str, dict[int, Progress]] = {}


class SlaveProgress:
    """What was committed at this slave and the master does not know yet. `committed` listens to the offset table."""

    def __init__(self, clock: Clock) -> None:
        self.change_count = 0
        self._clock = clock
        self._waiting: dict[Place, Progress] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def committed(self, key: str, queue_id: int, before: int | None) -> None:
        if (key, queue_id) not in self._waiting:
            self._waiting[key, queue_id] = Progress(before, self._clock.now_ms())
            self.change_count += 1

    def places(self) -> list[Place]:
        return list(self._waiting)

    def take(self, place: Place) -> Progress:
        """One that is about to be handed over; what is committed from now on waits anew."""
        self.change_count += 1
        return self._waiting.pop(place)

    def put_back(self, place: Place, progress: Progress) -> None:
        """It could not be handed over."""
        self.change_count += 1
        self._waiting[place] = progress

    def age_ms(self, progress: Progress) -> int:
        return max(0, self._clock.now_ms() - progress.since_ms)

    # -- the file

    def table(self) -> ProgressTable:
        table: dict[str, dict[int, Progress]] = {}
        for (key, queue_id), progress in self._waiting.items():
            table.setdefault(key, {})[queue_id] = progress
        return ProgressTable(table)

    def restore(self, table: Mapping[str, Mapping[int, Progress]]) -> None:
        self._waiting = {(key, queue): progress for key, queues in table.items() for queue, progress in queues.items()}


class CommitTimes:
    """When each offset of a master changed last, since its start. `committed` listens to the offset table."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: dict[Place, float] = {}

    def committed(self, key: str, queue_id: int, before: int | None) -> None:
        self._at[key, queue_id] = self._clock.monotonic()

    def is_unchanged_for(self, key: str, queue_id: int, age_ms: int) -> bool:
        """Whether the offset is what it was so long ago; one that nobody has changed since the start is."""
        at = self._at.get((key, queue_id))
        return at is None or (self._clock.monotonic() - at) * 1000 > age_ms
