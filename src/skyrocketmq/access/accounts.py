"""Accounts: who may do what. From the text of an access file to values that answer questions.

Rule 1: what is not said is denied. A permission that is missing or cannot be read is DENY.
Rule 2: an explicit permission on a topic or a group counts before the default one; DENY beats everything.
Rule 3: an administrator with no explicit permissions may do all; one with some is bound by them for messages.
Rule 4: a group's permission is also that of its retry topic.
Rule 5: nothing here shows a secret: not in a log, not in an error, not in a `repr`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import Any, Final

import yaml

from skyrocketmq.access.addresses import AddressMatcher, match_any, parse_addresses
from skyrocketmq.errors import ConfigError
from skyrocketmq.model import DataVersion
from skyrocketmq.wire.bodies_admin import AccountConfig

__all__ = ["AccessFile", "AccessTable", "Account", "Permission", "check_account", "parse_access_file"]

KEY_CHARACTERS_MIN: Final = 7  # of access keys and of secrets
ADDRESSES_REMEMBERED_MAX: Final = 10_000

ACCOUNTS: Final = "accounts"
WHITE_ADDRESSES: Final = "globalWhiteRemoteAddresses"
DATA_VERSION: Final = "dataVersion"


class Permission(IntFlag):
    """What an account may do with a topic or a group. Needed as PUB|SUB, one of the two is enough."""

    DENY = 1
    PUB = 4
    SUB = 8


_WORDS: Final = {
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
    "DENY": Permission.DENY,
}


@dataclass(frozen=True, slots=True)
class Account:
    """One account, ready to be asked."""

    access_key: str
    secret_key: str = field(repr=False)
    is_white: AddressMatcher
    is_admin: bool
    default_topic: Permission
    default_group: Permission
    topics: Mapping[str, Permission]
    groups: Mapping[str, Permission]

    def may_use_topic(self, topic: str, needed: Permission) -> bool:
        return self._is_unbound or _is_enough(self.topics.get(topic, self.default_topic), needed)

    def may_use_group(self, group: str, needed: Permission) -> bool:
        return self._is_unbound or _is_enough(self.groups.get(group, self.default_group), needed)

    @property
    def _is_unbound(self) -> bool:
        return self.is_admin and not self.topics and not self.groups


def _is_enough(owned: Permission, needed: Permission) -> bool:
    return not owned & Permission.DENY and bool(owned & needed)


@dataclass(frozen=True, slots=True)
class AccessFile:
    """What one file says, as it says it: `accounts` and `white_addresses` are also what administrators are shown."""

    path: Path
    version: DataVersion
    white_addresses: tuple[str, ...]
    accounts: tuple[AccountConfig, ...] = field(repr=False)


class AccessTable:
    """All accounts of a server, from all its files. Of an access key that is there twice, the first counts."""

    def __init__(self, files: Sequence[AccessFile]) -> None:
        """Raises `ConfigError` for an account or an address that cannot be used."""
        self.files = tuple(files)
        self.accounts: dict[str, Account] = {}
        self.paths: dict[str, Path] = {}  # in which file each account is
        self.repeated: list[str] = []  # access keys that are there twice
        for file in files:
            for config in file.accounts:
                account = _account(config)
                if account.access_key in self.accounts:
                    self.repeated.append(account.access_key)
                    continue
                self.accounts[account.access_key] = account
                self.paths[account.access_key] = file.path
        self._is_white = match_any([parse_addresses(text) for file in files for text in file.white_addresses])
        self._known_addresses: dict[bytes, bool] = {}

    def is_white(self, address: bytes) -> bool:
        """Whether requests from this packed address need no account."""
        known = self._known_addresses.get(address)
        if known is None:
            if len(self._known_addresses) >= ADDRESSES_REMEMBERED_MAX:
                self._known_addresses.clear()
            known = self._known_addresses[address] = self._is_white(address)
        return known


def _account(config: AccountConfig) -> Account:
    check_account(config)
    name = config.access_key or ""
    try:
        is_white = parse_addresses(config.white_remote_address)
    except ConfigError as error:
        raise ConfigError(f"whiteRemoteAddress of account {name}: {error}") from error
    return Account(
        access_key=name,
        secret_key=config.secret_key or "",
        is_white=is_white,
        is_admin=config.admin,
        default_topic=_permission(config.default_topic_perm),
        default_group=_permission(config.default_group_perm),
        topics=_permissions(config.topic_perms, name),
        groups=_permissions(config.group_perms, name),
    )


def check_account(config: AccountConfig, *, are_words_checked: bool = False) -> None:
    """Raise `ConfigError` for keys that are too short or permissions without a name; for unknown words too if asked."""
    for what, key in (("accessKey", config.access_key), ("secretKey", config.secret_key)):
        if key is None or len(key) < KEY_CHARACTERS_MIN:
            shown = f" {key!r}" if what == "accessKey" else ""
            raise ConfigError(f"{what}{shown} of an account has fewer than {KEY_CHARACTERS_MIN} characters")
    for text in (*config.topic_perms, *config.group_perms):
        name, word = _named(text, config.access_key or "")
        if are_words_checked and word not in _WORDS:
            raise ConfigError(f"{word!r} is no permission for {name}: write PUB, SUB, PUB|SUB or DENY")


def _permission(text: str | None) -> Permission:
    return _WORDS.get((text or "").strip(), Permission.DENY)


def _permissions(texts: Sequence[str], account: str) -> dict[str, Permission]:
    return {name: _permission(word) for name, word in (_named(text, account) for text in texts)}


def _named(text: str, account: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split("=")]
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f"the permission {text!r} of account {account} has not the form name=PUB|SUB")
    return parts[0], parts[1]


# ---------------------------------------------------------------------------------------------------------------- files


def parse_access_file(path: Path, data: bytes) -> AccessFile:
    """What a YAML file says; `ConfigError` if it is not one of accounts. An empty one says nothing."""
    try:
        document = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # The text of such an error may show a line of the file, and with it a secret.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path} is not YAML{where}") from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path} has no accounts: it needs the keys {WHITE_ADDRESSES} and {ACCOUNTS}")
    versions = _list_of(document, DATA_VERSION, path, _version)
    return AccessFile(
        path=path,
        version=versions[0] if versions else DataVersion(),
        white_addresses=tuple(_list_of(document, WHITE_ADDRESSES, path, lambda value: _text(value) or "")),
        accounts=tuple(_list_of(document, ACCOUNTS, path, _account_config)),
    )


def _list_of(document: Mapping[str, Any], key: str, path: Path, convert: Callable[[Any], Any]) -> list[Any]:
    values = document.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise ConfigError(f"{key} in {path} is not a list: write each element on a line that begins with -")
    try:
        return [convert(value) for value in values]
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(f"an element of {key} in {path} has not the right form") from None


def _account_config(value: Any) -> AccountConfig:
    return AccountConfig(
        access_key=_text(value.get("accessKey")),
        admin=str(value.get("admin")).lower() == "true",
        default_group_perm=_text(value.get("defaultGroupPerm")),
        default_topic_perm=_text(value.get("defaultTopicPerm")),
        group_perms=[_text(each) or "" for each in value.get("groupPerms") or ()],
        secret_key=_text(value.get("secretKey")),
        topic_perms=[_text(each) or "" for each in value.get("topicPerms") or ()],
        white_remote_address=_text(value.get("whiteRemoteAddress")),
    )


def _version(value: Any) -> DataVersion:
    return DataVersion(timestamp=int(value.get("timestamp") or 0), counter=int(value.get("counter") or 0))


def _text(value: Any) -> str | None:
    """A scalar as text: a key of digits is a number in YAML."""
    if isinstance(value, dict | list):
        raise TypeError("not a scalar")
    return None if value is None else str(value)
