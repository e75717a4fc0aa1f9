"""How far long runs with damaged inputs have come: for the code as it is now, and begun anew when that changes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "skyrocketmq"
PACKAGES = ("wire", "filters", "config", "net", "model")


class FuzzState:
    """A file with the number of pieces that were run, and the digest of the code that they were run on."""

    def __init__(self, path: Path, *, packages: tuple[str, ...] = PACKAGES) -> None:
        self._path = path
        self._digest = digest_of(packages)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = json.loads(path.read_text()) if path.exists() else {}
        self.pieces: int = kept["pieces"] if kept.get("code") == self._digest else 0

    def note(self, pieces: int) -> None:
        """So many are done."""
        self.pieces = pieces
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"code": self._digest, "pieces": pieces}))
        temporary.replace(self._path)


def digest_of(packages: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((SOURCE / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
