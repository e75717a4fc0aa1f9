"""A store that was moved or copied is read where it is, whatever its configuration says."""

from __future__ import annotations

from pathlib import Path

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import StoreError

__all__ = ["log_path_of"]


def log_path_of(root: Path, config: StoreConfig) -> str | None:
    """The log's directories, as the configuration says; those below its own root have moved with the store."""
    if config.commit_log_path is None:
        return None
    configured_root = config.root_path.resolve()
    places = [
        root / path.relative_to(configured_root) if path.is_relative_to(configured_root) else path
        for path in map(Path.resolve, config.commit_log_directories)
    ]
    own = root / "commitlog"
    if root != configured_root and own not in places and _has_files(own) and any(map(_has_files, places)):
        raise StoreError(
            f"both {own} and {', '.join(map(str, places))} hold a log: leave -c away to read the first, "
            f"or add --set storePathRootDir={root} to read the second"
        )
    return config.path_separator.join(map(str, places))


def _has_files(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())
