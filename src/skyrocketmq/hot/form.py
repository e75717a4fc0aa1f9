"""Which form of the hot modules runs, compiled or plain, and why.

Rule 1: it is one form for all of them. If one compiled module is missing, stale or cannot be loaded, all run plain.
Rule 2: a compiled module carries the digest of the sources that it was made of. Where the sources beside it have
changed since, it is not used: a leftover must never run in the place of what the source says.
Rule 3: this file imports nothing of the package, so that `setup.py` can ask it what is to be compiled.
"""

from __future__ import annotations

import os
from hashlib import sha256
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = [
    "MARK",
    "NothingCompiled",
    "Unusable",
    "compiled_modules",
    "compiled_sources",
    "digest",
    "load_compiled",
    "sources",
]

PACKAGE: Final = "skyrocketmq.hot"
MARK: Final = "MADE_OF"  # the name, in a compiled module, of the digest
PLAIN_SWITCH: Final = "SKYROCKETMQ_PLAIN"


class Unusable(Exception):
    """The compiled modules cannot be used; the text says why."""


class NothingCompiled(Unusable):
    """There are none, or they are not wanted: nothing to wonder about."""


def compiled_sources(folder: Path) -> list[Path]:
    """The modules that are compiled: all whose names begin with one underscore."""
    return sorted(folder.glob("_[!_]*.py"))


def sources(folder: Path) -> list[Path]:
    """All files that compiled modules are made of."""
    return [*compiled_sources(folder), *_shared_sources(folder)]


def digest(path: Path) -> str:
    """Of a module's source and of all that it may take C declarations from."""
    found = sha256()
    for source in [path, *_shared_sources(path.parent)]:
        content = source.read_bytes()
        found.update(b"%b %d\n%b" % (source.name.encode(), len(content), content))
    return found.hexdigest()


def compiled_modules(folder: Path) -> dict[str, ModuleType]:
    """The compiled modules of a folder by the names of their plain twins. Raises `Unusable` if they are not to be used.

    The environment may forbid them: `load_compiled` asks it, this does not.
    """
    found = {}
    for path in compiled_sources(folder):
        spec = PathFinder.find_spec(f"{PACKAGE}.{path.stem}", [str(folder)])
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
            raise NothingCompiled("nothing was compiled when it was installed")
        try:
            module = import_module(f"{PACKAGE}.{path.stem}")
        except ImportError as error:
            raise Unusable(f"{path.stem} cannot be loaded: {error}") from error
        if getattr(module, MARK, None) != digest(path):
            raise Unusable(f"{path.stem} was compiled from other sources: install again, or run `make compile`")
        found[path.stem.removeprefix("_")] = module
    if not found:
        raise NothingCompiled("the sources of the compiled modules are not there to compare them with")
    return found


def load_compiled(folder: Path) -> dict[str, ModuleType]:
    """What `compiled_modules` finds, unless the environment asks for plain Python."""
    if os.environ.get(PLAIN_SWITCH, "0") not in ("", "0"):
        raise NothingCompiled(f"{PLAIN_SWITCH} is set")
    return compiled_modules(folder)


def _shared_sources(folder: Path) -> list[Path]:
    return [*sorted(folder.glob("*.pxd")), folder / "layout.py"]
