"""Access control: every request is asked who sends it and whether he may.

    from an address of the global white list        passes, except for requests about accounts
    without an access key, or with an unknown one   refused
    from the account's own white address            needs no signature, and an administrator where one is needed
    with a wrong signature                          refused
    else                                            passes if the account has what `access_rules` says

Rule 1: a refusal says nothing that the client has not said itself: not whether a key, a topic or a group exists. An
unknown key is answered like a wrong signature, after as much work.
Rule 2: signatures are compared in constant time; no secret is ever written to a log or an answer.
Rule 3: what the broker sends to clients by itself is for those only who could have got it by asking (`may_be_told`).
Rule 4: a request that names its message only by its place in the log is checked twice: when it comes, and when the
message, and with it the topic, is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skyrocketmq.broker.access_accounts import AccessTable, Account, Permission
from skyrocketmq.broker.access_files import AccessFiles
from skyrocketmq.broker.access_rules import ACCOUNT_REQUESTS, missing_permission, need_on_topic, needs_admin, needs_of
from skyrocketmq.broker.answers import request_name
from skyrocketmq.broker.clients import Member
from skyrocketmq.errors import BrokerError, MQError, ProtocolError, broker_error
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.wire.bodies_admin import AccountConfig
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.signing import ACCESS_KEY, is_signed_by

__all__ = ["WATCH_INTERVAL_S", "AccessControl"]

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S: Final = 5.0
PORT_BYTES: Final = 4  # at the end of a packed host
NO_SECRET: Final = "of an account that does not exist"
# What Apache's refusals begin with; tools and people look for it.
REFUSED: Final = "org.apache.rocketmq.acl.common.AclException: "


class AccessControl:
    """The accounts of a broker, and the check of its requests. `check` and `check_message` refuse by raising."""

    def __init__(self, files: AccessFiles, table: AccessTable, *, cluster: str, disk: Disk) -> None:
        self.table = table
        self._files = files
        self._cluster = cluster
        self._disk = disk
        self._changing = asyncio.Lock()  # guards the files and the swap of the table that follows
        self._reported = ""  # what was wrong with the files when they were last looked at

    @classmethod
    async def open(cls, path: Path, *, cluster: str, disk: Disk, clock: Clock) -> AccessControl:
        """With the accounts of this file and those beside it. Raises `ConfigError` if they cannot be used."""
        files = AccessFiles(path, disk=disk, clock=clock)
        table = await disk.run(files.load)
        logger.info("accounts loaded", extra={"path": str(path), "accounts": len(table.accounts)})
        _warn_of_repeated(table)
        return cls(files, table, cluster=cluster, disk=disk)

    @property
    def path(self) -> Path:
        return self._files.path

    # ------------------------------------------------------------------------------------------------------- checking

    def check(self, frame: Frame, connection: Connection) -> None:
        """Let a request pass, or raise the `BrokerError` that is its answer."""
        table, code = self.table, frame.code
        address = _address(connection)
        if table.is_white(address) and code not in ACCOUNT_REQUESTS:
            return
        account = self._account(frame)
        is_white = account is not None and account.is_white(address)
        secret = NO_SECRET if account is None else account.secret_key
        if account is None or (not is_white and not is_signed_by(frame.ext, frame.body, secret_key=secret)):
            if account is None:
                is_signed_by(frame.ext, frame.body, secret_key=secret)
            raise _refused(
                frame, connection, "the access key is not known here, or the signature is not made with its secret"
            )
        if needs_admin(code) and not account.is_admin:
            raise _refused(frame, connection, f"request {request_name(code)} needs an administrator's account")
        if is_white:
            return
        try:
            missing = missing_permission(account, needs_of(frame, cluster=self._cluster))
        except ProtocolError as error:
            raise _refused(frame, connection, f"request {request_name(code)} cannot be read: {error}") from error
        if missing is not None:
            raise _refused(frame, connection, f"no permission for {missing}")

    def passes(self, frame: Frame, connection: Connection) -> bool:
        """The same as a question, for whoever lets others do the refusing."""
        try:
            self.check(frame, connection)
        except BrokerError:
            return False
        return True

    def check_message(
        self, frame: Frame, connection: Connection, topic: str, *, permission: Permission = Permission.SUB
    ) -> None:
        """Refuse a request that has passed `check`, but is about a message of a topic that is not for its account."""
        address = _address(connection)
        account = self._account(frame)
        if self.table.is_white(address) or account is None or account.is_white(address):
            return
        missing = missing_permission(account, iter([need_on_topic(topic, permission)]))
        if missing is not None:
            # It may not even learn that there is such a message, nor of which topic.
            raise _refused(frame, connection, "no permission for this message")

    def account_of(self, frame: Frame, connection: Connection) -> str | None:
        """Whose request this is that has passed `check`; None from where nobody is asked."""
        account = self._account(frame)
        return None if account is None or self.table.is_white(_address(connection)) else account.access_key

    def may_be_told(self, member: Member[Connection], topic: str) -> bool:
        """Whether a producer may be sent messages of a topic, by its account as it is now: those it may send itself."""
        address = _address(member.connection)
        if self.table.is_white(address):
            return True
        account = self.table.accounts.get(member.account or "")
        if account is None:
            return False
        need = need_on_topic(topic, Permission.PUB)
        return account.is_white(address) or missing_permission(account, iter([need])) is None

    def _account(self, frame: Frame) -> Account | None:
        return self.table.accounts.get((frame.ext or {}).get(ACCESS_KEY) or "")

    # ------------------------------------------------------------------------------------------------------- changing

    async def follow_files(self) -> None:
        """Take over what was changed in the files; called every few seconds."""
        async with self._changing:
            try:
                table = await self._disk.run(self._files.load_if_changed)
            except (MQError, OSError) as error:
                if str(error) != self._reported:
                    self._reported = str(error)
                    logger.error("changed accounts cannot be used, those of before stay", extra={"reason": str(error)})
                return
            if table is not None:
                self._take(table)

    async def put_account(self, account: AccountConfig) -> None:
        """Make or change an account. Raises `ConfigError` for one that cannot be, `OSError` if it cannot be written."""
        await self._change(lambda: self._files.put_account(self.table, account))

    async def delete_account(self, access_key: str) -> None:
        await self._change(lambda: self._files.delete_account(self.table, access_key))

    async def put_white_addresses(self, addresses: list[str], path: Path | None) -> None:
        await self._change(lambda: self._files.put_white_addresses(self.table, addresses, path))

    async def _change(self, change: Callable[[], AccessTable]) -> None:
        async with self._changing:
            self._take(await self._disk.run(change))

    def _take(self, table: AccessTable) -> None:
        self.table = table
        self._reported = ""
        logger.info("accounts changed", extra={"path": str(self.path), "accounts": len(table.accounts)})
        _warn_of_repeated(table)


def _address(connection: Connection) -> bytes:
    return connection.peer_host[:-PORT_BYTES]


def _warn_of_repeated(table: AccessTable) -> None:
    for access_key in table.repeated:
        logger.warning("an account is in several files, the first counts", extra={"account": access_key})


def _refused(frame: Frame, connection: Connection, reason: str) -> BrokerError:
    access_key = (frame.ext or {}).get(ACCESS_KEY)
    logger.info(
        "access refused",
        extra={"request": frame.code, "account": access_key, "peer": connection.peer, "reason": reason},
    )
    return broker_error(ResponseCode.SYSTEM_ERROR, REFUSED + reason)
