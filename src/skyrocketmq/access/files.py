"""The files that hold a server's accounts: `plain_acl.yml`, and every YAML file below the directory `acl` beside it.

Rule 1: accounts change by editing a file, which is noticed within seconds, or by an administrator's request, which
edits the file. Either way the files are the truth.
Rule 2: files that cannot be used leave the accounts as they are, and are reported once.
Rule 3: a file is replaced whole, with its data version one higher; what is in it besides accounts stays.

All methods wait for the disk: they are called through `disk.run`, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from skyrocketmq.access.accounts import (
    ACCOUNTS,
    DATA_VERSION,
    WHITE_ADDRESSES,
    AccessTable,
    check_account,
    parse_access_file,
)
from skyrocketmq.access.addresses import parse_addresses
from skyrocketmq.errors import ConfigError
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.wire.bodies_admin import AccountConfig

__all__ = ["AccessFiles", "find_access_file"]

FILE_ENDINGS: Final = (".yml", ".yaml")
DIRECTORIES_DEEP_MAX: Final = 8

Document = dict[str, Any]


def find_access_file(wanted: Path, *, home: Path | None, config_file: Path | None, store: Path, disk: Disk) -> Path:
    """Where the accounts are: in the home directory, beside the configuration file, or where they would be made."""
    if wanted.is_absolute():
        return wanted
    candidates = [home / wanted] if home is not None else []
    if config_file is not None:
        candidates += [config_file.parent / wanted.name, config_file.parent / wanted]
    candidates.append(store / wanted)
    return next((path for path in candidates if disk.exists(path)), candidates[0])


class AccessFiles:
    """Reads and changes them."""

    def __init__(self, path: Path, *, disk: Disk, clock: Clock) -> None:
        self.path = path
        self._directory = path.parent / "acl"
        self._disk = disk
        self._clock = clock
        self._seen: dict[Path, bytes] = {}

    # -------------------------------------------------------------------------------------------------------- reading

    def load(self) -> AccessTable:
        """All accounts. Raises `ConfigError` or `OSError`. The main file is made, empty, if it is not there."""
        if not self._disk.exists(self.path):
            self._disk.make_directories(self.path.parent)
            self._disk.replace(self.path, b"", is_secret=True)
        self._seen = self._contents()
        return AccessTable([parse_access_file(path, data) for path, data in self._seen.items()])

    def load_if_changed(self) -> AccessTable | None:
        """The accounts, if a file was changed, added or taken away since the last time; raises as `load` does."""
        return self.load() if self._contents() != self._seen else None

    def _contents(self) -> dict[Path, bytes]:
        """The files in the order in which they count. They are small, and their times may miss a quick change."""
        paths = [*self._below(self._directory, DIRECTORIES_DEEP_MAX), self.path]
        return {path: self._disk.read(path) for path in paths if self._disk.exists(path)}

    def _below(self, directory: Path, depth: int) -> list[Path]:
        found: list[Path] = []
        for name in self._disk.list(directory):
            path = directory / name
            if self._disk.is_directory(path):
                found += self._below(path, depth - 1) if depth else []
            elif name.endswith(FILE_ENDINGS):
                found.append(path)
        return found

    # ------------------------------------------------------------------------------------------------------- changing

    def put_account(self, table: AccessTable, account: AccountConfig) -> AccessTable:
        """Make an account, in the main file, or change what is given of one that is there.

        Its secret need not be given again: a client that was shown the account without TLS does not have it.
        """
        there = table.accounts.get(account.access_key or "")
        if there is not None and not account.secret_key:
            account = msgspec.structs.replace(account, secret_key=there.secret_key)
        check_account(account, are_words_checked=True)
        parse_addresses(account.white_remote_address)

        def change(document: Document) -> None:
            accounts: list[Document] = document.setdefault(ACCOUNTS, None) or []
            document[ACCOUNTS] = accounts
            known = next((each for each in accounts if str(each.get("accessKey")) == account.access_key), None)
            if known is None:
                accounts.append(known := {})
            known.update(_written(account))

        return self._change(table.paths.get(account.access_key or "", self.path), change)

    def delete_account(self, table: AccessTable, access_key: str) -> AccessTable:
        """Raises `ConfigError` if there is no such account."""
        path = table.paths.get(access_key)
        if path is None:
            raise ConfigError(f"there is no account {access_key}")

        def change(document: Document) -> None:
            accounts = document.get(ACCOUNTS) or []
            document[ACCOUNTS] = [each for each in accounts if str(each.get("accessKey")) != access_key]

        return self._change(path, change)

    def put_white_addresses(self, table: AccessTable, addresses: Sequence[str], path: Path | None) -> AccessTable:
        """Replace the addresses that need no account, of one file: the main one, or another that is known."""
        if path is not None and path != self.path and path not in [file.path for file in table.files]:
            raise ConfigError(f"{path} is not a file of accounts of this server")
        for address in addresses:
            parse_addresses(address)

        def change(document: Document) -> None:
            document[WHITE_ADDRESSES] = list(addresses)

        return self._change(path or self.path, change)

    def _change(self, path: Path, change: Callable[[Document], None]) -> AccessTable:
        data = self._disk.read(path)
        before = parse_access_file(path, data)  # so that a file that is broken now is not written over
        document: Document = yaml.safe_load(data) or {}
        change(document)
        version = before.version.next(self._clock.now_ms())
        document[DATA_VERSION] = [{"counter": version.counter, "timestamp": version.timestamp}]
        written = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
        parse_access_file(path, written)
        self._disk.replace(path, written, is_secret=True)
        return self.load()


def _written(account: AccountConfig) -> Document:
    """What an administrator gave of an account, under the names of the file."""
    given: Document = {"accessKey": account.access_key, "secretKey": account.secret_key}
    if account.white_remote_address is not None:
        given["whiteRemoteAddress"] = account.white_remote_address
    given["admin"] = account.admin
    if account.default_topic_perm:
        given["defaultTopicPerm"] = account.default_topic_perm
    if account.default_group_perm:
        given["defaultGroupPerm"] = account.default_group_perm
    if account.topic_perms:
        given["topicPerms"] = list(account.topic_perms)
    if account.group_perms:
        given["groupPerms"] = list(account.group_perms)
    return given
