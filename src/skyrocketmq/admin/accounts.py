"""Accounts: who may do what, on brokers that check it (`aclEnable`).

Each broker keeps its own files; slaves do not copy them. A change goes to masters and slaves, what is read comes from
each broker that is asked: they may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from skyrocketmq.admin.fan_out import ask_each, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.moments import moment_of
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.model import DataVersion
from skyrocketmq.wire.bodies_admin import AccessConfig, AccountConfig
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import (
    BrokerAclInfoAnswer,
    CreateAccessConfigHeader,
    DeleteAccessConfigHeader,
    UpdateWhiteAddressesHeader,
)
from skyrocketmq.wire.headers_codec import Header, decode_header

__all__ = ["AccessRules", "AccessVersion", "Account", "AccountAdmin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who may do what. Permissions are Apache's: DENY, PUB, SUB, PUB|SUB, by topic and by group."""

    access_key: str
    secret_key: str = field(default="", repr=False)
    white_address: str | None = None  # from where requests need no signature
    is_admin: bool = False
    default_topic_permission: str | None = None
    default_group_permission: str | None = None
    topic_permissions: Mapping[str, str] = field(default_factory=dict)
    group_permissions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The access control of one broker."""

    accounts: tuple[Account, ...]
    white_addresses: tuple[str, ...]  # from where no account is needed

    def find(self, access_key: str) -> Account | None:
        return next((account for account in self.accounts if account.access_key == access_key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessVersion:
    """Which version of an access file a broker has. The path is empty where the broker names none."""

    path: str
    counter: int
    changed_at: datetime | None


class AccountAdmin:
    """`admin.accounts`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def rules(self, *, broker: str | None = None, cluster: str | None = None) -> Mapping[BrokerNode, AccessRules]:
        """The accounts and white lists of each master; with secrets only if they came through TLS."""
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster)

        async def ask(node: BrokerNode) -> AccessRules:
            return _rules(await self._gateway.ask_for(AccessConfig, node, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG))

        return await ask_each("the accounts of brokers", nodes, ask)

    async def versions(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Mapping[BrokerNode, tuple[AccessVersion, ...]]:
        """Which versions of its access files each master has."""
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster)

        async def ask(node: BrokerNode) -> tuple[AccessVersion, ...]:
            answer = await self._gateway.ask(node, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
            return _versions(decode_header(BrokerAclInfoAnswer, answer.ext))

        return await ask_each("the versions of access files", nodes, ask)

    async def put(self, account: Account, *, broker: str | None = None, cluster: str | None = None) -> list[BrokerNode]:
        """Make an account, or change one; fields that are empty stay as they are. On which brokers that was done."""
        header = CreateAccessConfigHeader(
            access_key=account.access_key,
            secret_key=account.secret_key or None,
            white_remote_address=account.white_address,
            admin=account.is_admin,
            default_topic_perm=account.default_topic_permission,
            default_group_perm=account.default_group_permission,
            topic_perms=_permissions_text(account.topic_permissions),
            group_perms=_permissions_text(account.group_permissions),
        )
        code = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
        return await self._tell(f"change account {account.access_key}", code, header, broker=broker, cluster=cluster)

    async def delete(
        self, access_key: str, *, broker: str | None = None, cluster: str | None = None
    ) -> list[BrokerNode]:
        """Delete an account. On which brokers that was done."""
        code, header = RequestCode.DELETE_ACL_CONFIG, DeleteAccessConfigHeader(access_key)
        return await self._tell(f"delete account {access_key}", code, header, broker=broker, cluster=cluster)

    async def set_white_addresses(
        self,
        addresses: Iterable[str],
        *,
        path: str | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[BrokerNode]:
        """Replace the addresses from which no account is needed; in one access file of the brokers, or in the first."""
        given = [address.strip() for address in addresses]
        if any(not address or "," in address for address in given):
            raise IllegalArgument("an address of the white list is empty or contains a comma: give them one by one")
        header = UpdateWhiteAddressesHeader(",".join(given), path)
        code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
        return await self._tell("change the white list", code, header, broker=broker, cluster=cluster)

    async def _tell(
        self, what: str, code: RequestCode, header: Header, *, broker: str | None, cluster: str | None
    ) -> list[BrokerNode]:
        nodes = await self._gateway.nodes(broker=broker, cluster=cluster, reach=Reach.MASTERS if broker else Reach.ALL)
        return await ask_each_for(what, nodes, lambda node: self._gateway.ask(node, code, header), list)


def _permissions_text(permissions: Mapping[str, str]) -> str | None:
    return ",".join(f"{name}={permission}" for name, permission in permissions.items()) or None


def _permissions(texts: Iterable[str]) -> dict[str, str]:
    return {name.strip(): permission.strip() for name, _, permission in (text.partition("=") for text in texts)}


def _rules(config: AccessConfig) -> AccessRules:
    return AccessRules(
        accounts=tuple(_account(account) for account in config.plain_access_configs),
        white_addresses=tuple(config.global_white_addrs),
    )


def _account(config: AccountConfig) -> Account:
    return Account(
        access_key=config.access_key or "",
        secret_key=config.secret_key or "",
        white_address=config.white_remote_address,
        is_admin=config.admin,
        default_topic_permission=config.default_topic_perm,
        default_group_permission=config.default_group_perm,
        topic_permissions=_permissions(config.topic_perms),
        group_permissions=_permissions(config.group_perms),
    )


def _versions(answer: BrokerAclInfoAnswer) -> tuple[AccessVersion, ...]:
    try:
        if answer.all_acl_file_version:
            versions = msgspec.json.decode(answer.all_acl_file_version, type=dict[str, DataVersion])
        else:
            versions = {"": msgspec.json.decode(answer.version or "{}", type=DataVersion)}
    except msgspec.DecodeError as error:
        raise ProtocolError(f"the versions of access files cannot be read: {error}") from error
    return tuple(
        AccessVersion(path=path, counter=version.counter, changed_at=moment_of(version.timestamp))
        for path, version in versions.items()
    )
