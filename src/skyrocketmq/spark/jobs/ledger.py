"""What a job has done so far, as numbered files: each says everything, and the one with the highest number counts.

    commit-00000041.json
    commit-00000042.json      <- how things are

A commit is a file that appears whole, under a number that is free: two runs that both believe to be at 41 cannot both
write 42. A few old ones are kept, for people who look. Once 42 is so old that it was deleted its number is free again:
so whoever commits looks first whether others have gone further.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from skyrocketmq.errors import StoreError, StoreLocked
from skyrocketmq.spark.jobs.folder import Folder

__all__ = ["Ledger"]

KEPT_COUNT: Final = 5
_NAME: Final = re.compile(r"commit-(\d{8,})\.json")


class Ledger:
    """The commits in one directory of a folder."""

    def __init__(self, folder: Folder, directory: str, *, kind: str) -> None:
        self._folder = folder
        self._directory = directory
        self._kind = kind
        self._numbers = self._there()

    @property
    def number(self) -> int:
        """That of the last commit; 0 before the first."""
        return self._numbers[-1] if self._numbers else 0

    def latest(self) -> dict[str, Any] | None:
        """What the last commit says; `None` before the first."""
        if not self._numbers:
            return None
        name = self._name(self.number)
        try:
            found = json.loads(self._folder.read(name) or b"")
            if found["kind"] != self._kind:
                raise StoreError(
                    f"{self._folder.path(name)} belongs to the job {found['kind']}, not to {self._kind}: "
                    f"choose another directory"
                )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._folder.path(name)} is no commit of a job: it was changed by hand") from error
        return dict(found)

    def commit(self, says: dict[str, Any]) -> None:
        """Raises `StoreLocked` if another run has been quicker."""
        if self._there()[-1:] != self._numbers[-1:]:
            raise StoreLocked(f"{self._folder.path(self._directory)} was written to by another run: this one ends")
        number = self.number + 1
        text = json.dumps({"kind": self._kind} | says, ensure_ascii=False)
        self._folder.create(self._name(number), text.encode())
        self._numbers.append(number)
        while len(self._numbers) > KEPT_COUNT:
            self._folder.delete(self._name(self._numbers.pop(0)))

    def _there(self) -> list[int]:
        names = self._folder.names(self._directory)
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def _name(self, number: int) -> str:
        return f"{self._directory}/commit-{number:08d}.json"
