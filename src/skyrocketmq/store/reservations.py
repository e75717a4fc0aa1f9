"""Queue offsets that are reserved ahead: a number that anybody may have read is never given to another message.

What is read may not be durable yet. If a power cut takes it, its number must not go to the next message: a consumer
that lives on would take that for one it has had. So a number is reserved on the disk before a message gets it, some
ahead for each queue, and after a power cut a queue goes on after what was reserved. The numbers between are fillers,
over which readers step.

Rule 1: when half of a queue's numbers are used, more are reserved in the background, for all queues that want it with
one sync; twice as many each time, up to `AHEAD_MAX`. Only the first message of a queue, or one that is faster than the
disk, makes the store wait for a sync (`extend_now`), and with it for all queues of its batch.
Rule 2: in the same session of the machine nothing that was written is lost, so after a kill no number is skipped.
Rule 3: a queue that was not written to between two checkpoints keeps few numbers: all of it is durable, and after a
power cut it skips no more than those.
Rule 4: an orderly stop leaves no file, unless queues end with skipped numbers: their files lose these, and they stand
here.

Rule 5: a slave reserves nothing, its numbers are its master's, and it leaves the files as they are: they may be of a
life as a master that ended with a power cut. When it is made the master, each queue skips what they say, and as many as
it has, within bounds: those that the lost master gave out, and that this copy has not seen (`ahead_of_copy`).

Two files, `reserved` for the background and `reserved.now` for those that cannot wait; the higher number counts. What
an entry looks like is drawn in `number_entries`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skyrocketmq.hot import NEVER
from skyrocketmq.ports import Clock, Disk, File
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.file_rows import translated
from skyrocketmq.store.number_entries import ALIGNED_BYTES, encode_entry, read_entries
from skyrocketmq.store.threads import run_to_end

__all__ = ["COPY_NAME", "RESERVED_NAMES", "Reservations", "ahead_of_copy", "read_reserved"]

logger = logging.getLogger(__name__)

RESERVED_NAMES: Final = ("reserved", "reserved.now")
COPY_NAME: Final = "copy"  # there as long as a slave's store has not become a master's
AHEAD_MIN: Final = 64
AHEAD_MAX: Final = 4096
AHEAD_OF_COPY_MAX: Final = 1024  # for each queue, at rest or not: ten thousand of them cost 200 MB
RETRY_S: Final = 1.0


class Reservations:
    """What is reserved, and who wants more. Loop's thread only, but for what blocks."""

    def __init__(self, disk: Disk, root: Path, queues: ConsumeQueues, *, clock: Clock) -> None:
        self.short: dict[ConsumeQueue, None] = {}  # those that gave out a number that is not reserved
        self._disk = disk
        self._path, self._path_now = (root / name for name in RESERVED_NAMES)
        self._queues = queues
        self._clock = clock
        self._wanted: dict[ConsumeQueue, None] = {}
        self._ahead: dict[ConsumeQueue, int] = {}
        self._reserved: dict[ConsumeQueue, int] = {}
        self._ends: dict[ConsumeQueue, int] = {}  # at the last checkpoint
        self._has_work = asyncio.Event()
        self._files: list[File] = []
        self._now: File | None = None
        self._now_bytes = 0
        self._now_count = 0  # how often somebody could not wait
        self._is_tidy = True
        self._has_begun = False

    def begin(self, kept: Mapping[tuple[str, int], int]) -> None:
        """Watch all queues from now on; `kept` is what the files say."""
        self._has_begun = True
        self._queues.first_extend_at = 0
        for queue in self._queues:
            self._reserved[queue] = kept.get((queue.topic, queue.queue_id), 0)
            queue.extend_at = queue.next_offset
            if not queue.is_empty:
                self._wanted[queue] = None
        self._is_tidy = False
        self._has_work.set()

    # ------------------------------------------------------------------------------------------------- those who wait

    def want(self, queue: ConsumeQueue) -> None:
        """The queue has given out a number at or after its `extend_at`."""
        limit = self._reserved.get(queue, 0)
        if queue.next_offset > limit:
            self.short[queue] = None
            queue.extend_at = NEVER
        else:
            self._wanted[queue] = None
            self._has_work.set()
            queue.extend_at = limit

    def extend_now(self) -> None:
        """Reserve what was given out, before it is stored. Blocks for a sync. Raises `DiskFull` or `OSError`."""
        bounds = {queue: self._bound(queue) for queue in self.short}
        data = _encode(bounds)
        try:
            if self._now is None:
                self._now = self._disk.open(self._path_now, create=True)
                self._disk.sync_directory(self._path_now.parent)
                self._now_bytes = -(-self._now.size() // ALIGNED_BYTES) * ALIGNED_BYTES
            self._now.pwrite(data, self._now_bytes)
            self._now_bytes += len(data)
            self._now.fdatasync()
        except OSError as error:
            if self._now is not None:
                self._now.close()
                self._now = None
            raise translated(error, self._path_now) from error
        self._now_count += 1
        self.short.clear()
        self._use(bounds)

    # ------------------------------------------------------------------------------------------------- the background

    def tidy_soon(self) -> None:
        """A checkpoint is durable: queues that are not written to need few numbers ahead."""
        if self._has_begun:
            self._is_tidy = False
            self._has_work.set()

    async def run(self) -> None:
        """Extend whenever somebody wants more. Cancel the task to stop."""
        while True:
            await self._has_work.wait()
            try:
                await self.extend()
            except OSError as error:
                logger.error("no numbers reserved yet", extra={"error": str(error)})
                self._is_tidy = False  # after a failed sync the file is written anew
                await self._clock.sleep(RETRY_S)

    async def extend(self) -> None:
        """Reserve for all who want it now. Raises `OSError`; then they want it still."""
        is_whole = not self._is_tidy or not self._files
        self._is_tidy = True
        if is_whole:
            self._lower_idle()
        bounds = {queue: self._bound(queue) for queue in self._wanted}
        now_count = self._now_count
        try:
            if is_whole:
                await run_to_end(self._disk, self._write_whole, _encode(self._reserved | bounds))
            elif bounds:
                await run_to_end(self._disk, self._append, _encode(bounds))
        except BaseException:
            self._is_tidy = False
            raise
        if is_whole and now_count == self._now_count:
            self._close_now()  # all that it says is in the other file
        # Who could not wait meanwhile has reserved more already.
        self._use({queue: max(bound, self._reserved.get(queue, 0)) for queue, bound in bounds.items()})
        for queue in bounds:
            self._wanted.pop(queue, None)
        if not self._wanted and self._is_tidy:
            self._has_work.clear()

    def _bound(self, queue: ConsumeQueue) -> int:
        ahead = min(self._ahead.get(queue, AHEAD_MIN // 2) * 2, AHEAD_MAX)
        self._ahead[queue] = ahead
        # What a life before this one has reserved farther ahead counts here already, and so has to stay in the file.
        return max(queue.next_offset + ahead, self._reserved.get(queue, 0))

    def _use(self, bounds: dict[ConsumeQueue, int]) -> None:
        for queue, bound in bounds.items():
            self._reserved[queue] = bound
            queue.extend_at = max(bound - self._ahead.get(queue, AHEAD_MIN) // 2, queue.next_offset)

    def _lower_idle(self) -> None:
        """Take numbers from queues that were not written to since the checkpoint before the last one, and from those
        that were deleted."""
        for queue, reserved in list(self._reserved.items()):
            end = queue.next_offset
            if queue.is_empty and queue not in self._wanted and queue not in self.short:
                # Its topic was deleted, and nobody shall find it again after a power cut; see `ended_queues`.
                for table in (self._reserved, self._ahead, self._ends):
                    table.pop(queue, None)
                queue.extend_at = 0
                continue
            if self._ends.get(queue) == end and reserved > end + AHEAD_MIN and queue not in self._wanted:
                self._ahead[queue] = AHEAD_MIN
                self._use({queue: end + AHEAD_MIN})
            self._ends[queue] = end

    def _write_whole(self, data: bytes) -> None:
        self._disk.replace(self._path, data)
        while self._files:
            self._files.pop().close()
        self._files.append(self._disk.open(self._path))

    def keep(self, ends: Mapping[ConsumeQueue, int]) -> None:
        """Leave nothing to the next start but the ends of these queues, whose files will not show them. Blocks.

        A slave adds them to what an earlier life has left.
        """
        kept = {} if self._has_begun else read_reserved(self._disk, self._path.parent)
        for queue, end in ends.items():
            key = queue.topic, queue.queue_id
            kept[key] = max(kept.get(key, 0), end)
        self._write_whole(b"".join([encode_entry(topic, queue_id, end) for (topic, queue_id), end in kept.items()]))
        self._disk.unlink(self._path_now)

    def _append(self, data: bytes) -> None:
        [file] = self._files
        file.pwrite(data, file.size())
        file.fdatasync()

    def _close_now(self) -> None:
        if self._now is not None:
            self._now.close()
            self._now, self._now_bytes = None, 0
            try:
                self._disk.unlink(self._path_now)
            except OSError as error:  # old numbers, lower than the new ones
                logger.warning("file not deleted", extra={"path": str(self._path_now), "error": str(error)})

    def close(self) -> None:
        for file in (*self._files, *(() if self._now is None else (self._now,))):
            file.close()
        self._files, self._now = [], None


def ahead_of_copy(end: int) -> int:
    """How many numbers a queue that ends there skips when its slave is made the master."""
    return min(max(end, AHEAD_MIN), AHEAD_OF_COPY_MAX)


def _encode(reserved: Mapping[ConsumeQueue, int]) -> bytes:
    return b"".join([encode_entry(queue.topic, queue.queue_id, bound) for queue, bound in reserved.items() if bound])


def read_reserved(disk: Disk, root: Path) -> dict[tuple[str, int], int]:
    """How far each queue's numbers are reserved. Blocks."""
    found: dict[tuple[str, int], int] = {}
    for name in RESERVED_NAMES:
        if disk.exists(root / name):
            latest = {(topic, queue_id): bound for topic, queue_id, bound in read_entries(disk.read(root / name))}
            found = {key: max(found.get(key, 0), latest.get(key, 0)) for key in found | latest}
    return found
