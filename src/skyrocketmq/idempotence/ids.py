"""What identifies a message over all its deliveries, and what a store of such ids has to do.

An id goes this way:

    unknown --claim--> being handled --finish--> handled
                            |
                            +--release, or the claim runs out--> unknown

Rule 1: `claim` is atomic: of several who ask for an id at the same moment one gets NEW and all others BUSY.
Rule 2: an id that is finished stays so until the store forgets it by age or number.
Rule 3: a claim belongs to its `holder`, any text that nobody else uses; `release` by another, whose claim ran out long
        ago, changes nothing. `finish` always counts: the work has been done, whoever else is at it by now.
Rule 4: a store may be used from several threads at once.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from skyrocketmq.model import MessageView
from skyrocketmq.model import properties as names

__all__ = ["Claim", "IdStore", "message_key"]


class Claim(Enum):
    """The answer to whoever wants to handle a message."""

    NEW = "it is yours"
    BUSY = "somebody else handles it now"
    DONE = "it has been handled"


class IdStore(Protocol):
    """Remembers ids. `is_blocking`: its calls wait for a disk, and are made in a thread where the handler is async."""

    is_blocking: bool

    def claim(self, key: str, holder: str = "") -> Claim: ...

    def finish(self, key: str) -> None:
        """What was claimed has been handled."""
        ...

    def release(self, key: str, holder: str = "") -> None:
        """What `holder` has claimed has failed: whoever comes next may have it."""
        ...


def message_key(message: MessageView) -> str:
    """What stays the same over all attempts of a message.

    The unique id that its producer gave it: it is a property, so it goes along into retry topics and to the dead
    letters, and a producer that sends again because an answer was lost keeps it too. A message without one (of some
    other producer) has the place of its first copy, which a broker writes down when it is handed back.
    """
    properties = message.properties
    return properties.get(names.UNIQ_KEY) or properties.get(names.ORIGIN_MESSAGE_ID) or message.offset_msg_id
