"""Bringing delayed messages that are due to the queues they were sent to.

A hundred thousand messages may fall due in one second: all of a look are one batch.

Rule 1: the copy has body, properties, birth, flags and store host of the original. Its properties still say how it was
delayed and where it belongs, as the family leaves them. New are its offsets and its store time.
Rule 2: nobody waits for the flush or a slave's copy of a delivery.
Rule 3: a message was accepted when it was sent: a limit that was lowered since does not keep it back. Only what cannot
be delivered at all is stepped over, and that is an error in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from skyrocketmq.broker.delay_reading import DueMessage
from skyrocketmq.errors import MQError, ProtocolError
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import TRANSACTION_HALF_TOPIC
from skyrocketmq.store import Buffer, MessageStore, NewMessage, PutResult, PutStatus, Refusal
from skyrocketmq.store.new_message import read_stored
from skyrocketmq.wire.properties import find_property

__all__ = ["DelayedCopies", "Delivered"]

logger = logging.getLogger(__name__)

QUEUE_ID_MAX: Final = 2**31 - 1
_REAL_TOPIC: Final = names.REAL_TOPIC.encode()
_REAL_QUEUE_ID: Final = names.REAL_QUEUE_ID.encode()
_NEVER_STORED: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far a delivery came: `count` messages are done with; `refusal` says why not all."""

    count: int
    refusal: Refusal | None = None


class DelayedCopies:
    """Puts the messages of a look into the store, in their order."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def deliver(self, due: Sequence[DueMessage]) -> Delivered:
        """Store copies of these messages, as one write. Those after the first that the store refuses are not stored.

        Nothing is awaited: when this returns, the messages are in the log, and those who wait for them are woken.
        """
        batch = self._store.begin()
        done: list[int] = []  # places in the log, of each message that is done with
        refusal: Refusal | None = None
        for offset, record in due:
            try:
                result = batch.add(_copy(record), is_accepted=True)
            except MQError as error:
                result = PutResult(PutStatus.MESSAGE_ILLEGAL, remark=str(error))
            if result.status in _NEVER_STORED:
                _cannot_deliver(offset, result.remark)
            elif not result.status.is_stored:
                refusal = Refusal(result.status, result.remark)
                break
            done.append(int(result.log_offset))
        outcome = batch.commit()
        if outcome.refusal is None:
            return Delivered(len(done), refusal)
        stored = next((number for number, place in enumerate(done) if place >= outcome.failed_from), len(done))
        return Delivered(stored, outcome.refusal)


def _copy(record: Buffer) -> NewMessage:
    """What is delivered. Raises `MQError` for a message that belongs nowhere, and for a body that has rotted."""
    message, _, _ = read_stored(record)
    topic = (find_property(message.properties, _REAL_TOPIC) or b"").decode("utf-8", "replace")
    number = find_property(message.properties, _REAL_QUEUE_ID) or b""
    queue_id = int(number) if number.isdigit() and len(number) <= 10 else -1
    if not topic or not 0 <= queue_id <= QUEUE_ID_MAX:
        raise ProtocolError(f"its properties do not say where it belongs: topic {topic!r}, queue {number!r}")
    if topic == TRANSACTION_HALF_TOPIC:
        raise ProtocolError("it belongs to no consumer: a half message is never delayed")
    return replace(message, topic=topic, queue_id=queue_id, prepared_transaction_offset=0)


def _cannot_deliver(offset: int, reason: str) -> None:
    logger.error("delayed message cannot be delivered, stepped over", extra={"offset": offset, "reason": reason})
