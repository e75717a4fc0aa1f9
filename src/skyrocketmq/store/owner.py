"""Who has written the end of the log: this program, or another one of the family.

Only where this program wrote it is a missing voucher a sign of a torn record (see `vouchers`); what Apache's broker or
an older version wrote has none. All of them write `lock` into the file `lock` when they open a store. This program
writes a mark of its own there, and keeps beside it, in `owner.json`, what belongs to that mark:

- from where on the log's end is its own work,
- the session of the machine: in the same session nothing that was written is lost, since the page cache is still there.

Rule 1: the note counts only together with the mark. If the mark is another one, somebody else was here since.
Rule 2: the mark is written when recovery has ended and before the first new record. A start that is cut off leaves the
mark of whoever was here before.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from skyrocketmq.ports import Disk

__all__ = ["OWNER_NAME", "Owner", "find_owner", "is_foreign", "next_id", "note_owner"]

logger = logging.getLogger(__name__)

OWNER_NAME: Final = "owner.json"
MARK: Final = b"SkyRocketMQ "
FOREIGN_MARK: Final = b"lock"


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """What the program that opened the store last has noted."""

    id: str
    own_from: int  # the log from here on is its work, or that of lives before it
    session: str = ""  # of the machine; empty where that is not known

    @property
    def mark(self) -> bytes:
        return MARK + self.id.encode()


def next_id(mark: bytes, now_ms: int) -> str:
    """An id that no life of this store had: it depends on the mark of the one before."""
    return blake2b(b"%b %d" % (mark, now_ms), digest_size=8).hexdigest()


def is_foreign(mark: bytes) -> bool:
    """Whether another program of the family, or an older version, opened the store last. A damaged mark is nobody's."""
    return mark.startswith(FOREIGN_MARK)


def find_owner(disk: Disk, root: Path, mark: bytes) -> Owner | None:
    """The note that belongs to the mark in the lock file; None if somebody else opened the store last. Blocks."""
    path = root / OWNER_NAME
    if not mark.startswith(MARK) or not disk.exists(path):
        return None
    try:
        owner = msgspec.json.decode(disk.read(path), type=Owner)
    except msgspec.DecodeError as error:
        logger.warning("owner.json is not readable, ignored", extra={"path": str(path), "error": str(error)})
        return None
    return owner if owner.mark == mark else None


def note_owner(disk: Disk, root: Path, owner: Owner) -> None:
    """Make the note durable, and with it the names in the directory; it counts once the mark is written. Blocks."""
    disk.replace(root / OWNER_NAME, msgspec.json.encode(owner))
