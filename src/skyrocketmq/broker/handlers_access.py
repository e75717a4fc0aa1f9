"""Requests about accounts (50 to 54). Who may send them is decided before they come here: administrators alone."""

from __future__ import annotations

from pathlib import Path

import msgspec

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.access_rules import ACCOUNTS
from skyrocketmq.broker.answers import refusal
from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.errors import ConfigError
from skyrocketmq.net import Request, answers
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_admin import AccessConfig, AccountConfig
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.headers_admin import (
    BrokerAclInfoAnswer,
    CreateAccessConfigHeader,
    DeleteAccessConfigHeader,
    UpdateWhiteAddressesHeader,
)
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["AccessHandlers"]


class AccessHandlers:
    """The answers. Without access control (`access` is None) there are no accounts to read or to change."""

    def __init__(self, access: AccessControl | None, identity: BrokerIdentity, *, answers_secrets: bool) -> None:
        self._access = access
        self._identity = identity
        self._answers_secrets = answers_secrets

    @answers(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, needs=ACCOUNTS)
    async def put_account(self, request: Request[CreateAccessConfigHeader]) -> None:
        """Make an account, or change one."""
        code = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        access = self._get_access(code)
        header = request.header
        account = AccountConfig(
            access_key=header.access_key,
            admin=header.admin,
            default_group_perm=header.default_group_perm,
            default_topic_perm=header.default_topic_perm,
            group_perms=_split(header.group_perms),
            secret_key=header.secret_key,
            topic_perms=_split(header.topic_perms),
            white_remote_address=header.white_remote_address,
        )
        try:
            await access.book.put_account(account)
        except (ConfigError, OSError) as error:
            raise refusal(code, f"the account was not changed: {error}") from error

    @answers(RequestCode.DELETE_ACL_CONFIG, needs=ACCOUNTS)
    async def delete_account(self, request: Request[DeleteAccessConfigHeader]) -> None:
        """Take an account away."""
        code = ResponseCode.DELETE_ACL_CONFIG_FAILED
        access = self._get_access(code)
        try:
            await access.book.delete_account(request.required(request.header.access_key, "accessKey"))
        except (ConfigError, OSError) as error:
            raise refusal(code, f"the account was not deleted: {error}") from error

    @answers(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, needs=ACCOUNTS)
    async def put_white_addresses(self, request: Request[UpdateWhiteAddressesHeader]) -> None:
        """Change which addresses need no account."""
        code = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        access = self._get_access(code)
        header = request.header
        path = Path(header.acl_file_full_path) if header.acl_file_full_path else None
        try:
            await access.book.put_white_addresses(_split(header.global_white_addrs), path)
        except (ConfigError, OSError) as error:
            raise refusal(code, f"the white list was not changed: {error}") from error

    @answers(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, needs=ACCOUNTS)
    def show_versions(self, request: Request[NoFields]) -> BrokerAclInfoAnswer:
        """Which versions of the access configuration's files are in force."""
        access = self._get_access(ResponseCode.SYSTEM_ERROR)
        versions = {str(file.path): file.version for file in access.book.table.files}
        return BrokerAclInfoAnswer(
            version=encode_body(versions[str(access.book.path)]).decode(),
            all_acl_file_version=msgspec.json.encode(versions).decode(),
            broker_name=self._identity.broker_name,
            broker_addr=self._identity.address,
            cluster_name=self._identity.cluster_name,
        )

    @answers(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, needs=ACCOUNTS)
    def show_accounts(self, request: Request[NoFields]) -> AccessConfig:
        """All accounts, without their secrets.

        A signature does not name the request that it is for, so any that an administrator was heard making may come
        again as this one, over a connection of the listener's own. `aclAnswersSecrets` is for those who are sure that
        nobody listens; even then no secret leaves unencrypted.
        """
        files = self._get_access(ResponseCode.SYSTEM_ERROR).book.table.files
        by_key = {account.access_key: account for file in reversed(files) for account in reversed(file.accounts)}
        accounts = list(reversed(by_key.values()))
        if not (self._answers_secrets and request.connection.is_encrypted):
            accounts = [msgspec.structs.replace(account, secret_key=None) for account in accounts]
        return AccessConfig(
            global_white_addrs=[address for file in files for address in file.white_addresses],
            plain_access_configs=accounts,
        )

    def _get_access(self, code: int) -> AccessControl:
        if self._access is None:
            raise refusal(
                code, f"broker {self._identity.broker_name} checks no access: set aclEnable=true and restart it"
            )
        return self._access


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
