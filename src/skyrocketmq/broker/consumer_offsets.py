"""How far each group has read each queue: the table behind consumerOffset.json.

Rule 1: an offset is taken as it is given. It may go back, because a group that resets itself does just that.
Rule 2: the table is memory; its owner writes it to its file every few seconds and at the end, whenever `change_count`
has moved since, and only after the log is durable as far as groups have read. After a crash a group reads a few
messages again, which the family's consumers must stand anyway; it never finds itself ahead of the log.
Rule 3: a group without an offset starts at the beginning where the queue is young (`young_queue_start`), else it
decides by itself.
Rule 4: an offset beyond the end of its queue belongs to another log: a master's that is lost, or this one's before a
power cut. Messages will get those numbers anew. So a master begins with none (`clip`), and takes none from a group that
it knows to be within the queue (`is_of_another_log`).

Keys are `topic@group`, as in the file: neither a topic nor a group may contain `@`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from skyrocketmq.model.names import TRANSACTION_GROUP

__all__ = ["ConsumerOffsets", "is_of_another_log", "young_queue_start"]

Queues = dict[int, int]  # queue id -> the offset to read next


class ConsumerOffsets:
    """The offsets of all groups on one broker. `commit` and `find` are called once a pull: a dict look-up each."""

    def __init__(self) -> None:
        self.change_count = 0
        # Told of each offset that a group changes: key, queue id, and the offset before.
        self.on_commit: Callable[[str, int, int | None], object] = _nobody
        self._table: dict[str, Queues] = {}

    def commit(self, *, group: str, topic: str, queue_id: int, offset: int) -> None:
        queues = self._table.get(key := f"{topic}@{group}")
        if queues is None:
            queues = self._table[key] = {}
        before = queues.get(queue_id)
        if before != offset:
            queues[queue_id] = offset
            self.change_count += 1
            self.on_commit(key, queue_id, before)

    def find(self, *, group: str, topic: str, queue_id: int) -> int | None:
        queues = self._table.get(f"{topic}@{group}")
        return None if queues is None else queues.get(queue_id)

    def queues_of(self, *, group: str, topic: str) -> Queues:
        """A copy of what the group has stored for one topic."""
        return dict(self._table.get(f"{topic}@{group}", {}))

    def has_all(self, *, group: str, topic: str, queues: Queues) -> bool:
        """Whether just these are the group's offsets for one topic."""
        return self._table.get(f"{topic}@{group}") == queues

    def topics_of(self, group: str) -> list[str]:
        """The topics for which the group has an offset. Walks the table: for administration only."""
        ending = "@" + group
        return [key.removesuffix(ending) for key in self._table if key.endswith(ending)]

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have an offset for the topic. Walks the table: for administration only."""
        beginning = topic + "@"
        return [key.removeprefix(beginning) for key in self._table if key.startswith(beginning)]

    def forget_group(self, group: str) -> list[str]:
        """Drop all offsets of a group; returns the topics it had some for."""
        topics = self.topics_of(group)
        for topic in topics:
            del self._table[f"{topic}@{group}"]
        self.change_count += len(topics)
        return topics

    # -- the whole table: the file, and the copy that slaves ask for

    def table(self) -> dict[str, Queues]:
        """A copy of the whole table, safe to write from another thread."""
        return {key: dict(queues) for key, queues in self._table.items()}

    def live_table(self) -> dict[str, Queues]:
        """The same on the loop, at no cost: which keys there are does not change, their offsets do."""
        return dict(self._table)

    def restore(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """Begin with what the file holds."""
        self._table = {key: dict(queues) for key, queues in table.items()}

    def clip(self, end_of: Callable[[str, int], int]) -> list[str]:
        """Set each offset that is beyond the end of its queue to that end; returns which were: `topic@group queue`.

        Not those of transactions: that they are beyond the log tells their owner to look at everything.
        """
        clipped = []
        for key, queues in self._table.items():
            topic, _, group = key.partition("@")
            if group == TRANSACTION_GROUP:
                continue
            for queue_id, offset in queues.items():
                if offset > (end := end_of(topic, queue_id)):
                    queues[queue_id] = end
                    clipped.append(f"{key} {queue_id}: {offset} -> {end}")
        self.change_count += len(clipped)
        return clipped

    def merge(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """Take over another broker's table: each of its keys replaces ours, our other keys stay."""
        for key, queues in table.items():
            if self._table.get(key) != queues:
                self._table[key] = dict(queues)
                self.change_count += 1


def _nobody(key: str, queue_id: int, before: int | None) -> None:
    """Nobody has to know of single offsets."""


def is_of_another_log(offset: int, *, stored: int | None, queue_end: int) -> bool:
    """Whether an offset to be committed is no progress in this queue.

    The group is within the queue by what is stored, and nobody can have read beyond its end here: so a consumer that
    says so has read another log. Where nothing is stored, or what is makes no sense either, all are taken as given.
    """
    return offset > queue_end and stored is not None and stored <= queue_end


def young_queue_start(*, begin: int, min_offset: int, is_first_cold: bool) -> int | None:
    """Where a group without an offset starts in a queue whose first message still lies warm: at the beginning.

    Hence a new group misses nothing of a topic that has just come to life, whatever it was told to start from. `None`:
    the queue is old, and the group applies its own rule. `begin` is 0, unless the topic was deleted and made again.
    """
    return max(min_offset, 0) if min_offset <= begin and not is_first_cold else None
