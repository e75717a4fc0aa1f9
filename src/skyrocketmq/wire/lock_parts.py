"""The file of locks as text, a part at a time: a group may hold thousands of queues, and `parts` splits no group.

b"".join(lock_table_parts(table))    decodes to `table`: queues are keys in the form of objects, as in Java's tables
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from skyrocketmq.wire.bodies_tables import QueueLockTable

__all__ = ["LOCKS_A_PART", "lock_table_parts"]

LOCKS_A_PART: Final = 512

_encode = msgspec.json.Encoder().encode


def lock_table_parts(table: QueueLockTable) -> Iterator[bytes]:
    """Each part is made when it is asked for; the table must not change until the last one."""
    yield b'{"notedMs":%d,"ownerTable":{' % table.noted_ms
    for number, (group, owners) in enumerate(table.owner_table.items()):
        yield (b",\n" if number else b"\n") + _encode(group) + b":{"
        rest = iter(owners.items())
        before = b"\n"
        while some := list(islice(rest, LOCKS_A_PART)):
            yield before + b",\n".join([_encode(queue) + b":" + _encode(client_id) for queue, client_id in some])
            before = b",\n"
        yield b"}"
    yield b"}}\n"
