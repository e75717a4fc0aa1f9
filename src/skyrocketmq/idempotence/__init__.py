"""Handling each message once: ids of what was handled are remembered, and a message that comes again is passed over.

    store = SqliteIds("handled.db")

    @consumer.subscribe("orders")
    @once(store)
    def bill(message): ...

A broker delivers at least once: after a crash, a change of members or a slow answer a message comes again. `ids` says
what is remembered of a message and what a store has to promise; `memory_ids` and `sqlite_ids` are the stores there are;
`once` is the decorator. `docs/idempotent-consumption.md` says what is promised, and what cannot be.
"""

from __future__ import annotations

from skyrocketmq.idempotence.ids import Claim, IdStore, message_key
from skyrocketmq.idempotence.memory_ids import MemoryIds
from skyrocketmq.idempotence.once import once
from skyrocketmq.idempotence.sqlite_ids import SqliteIds

__all__ = ["Claim", "IdStore", "MemoryIds", "SqliteIds", "message_key", "once"]
