"""The accounts of a running server: who sends a request, and how accounts change.

    from an address of the global white list        nobody is asked
    without an access key, or with an unknown one   refused
    from the account's own white address            needs no signature
    with a wrong signature                          refused

Rule 1: a refusal says nothing that the client has not said itself: not whether a key, a topic or a group exists. An
unknown key is answered like a wrong signature, after as much work.
Rule 2: signatures are compared in constant time; no secret is ever written to a log or a refusal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from skyrocketmq.access.accounts import AccessTable, Account
from skyrocketmq.access.files import AccessFiles
from skyrocketmq.errors import BrokerError, MQError, broker_error
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.wire.bodies_admin import AccountConfig
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.signing import ACCESS_KEY, is_signed_by

__all__ = ["WATCH_INTERVAL_S", "AccountBook", "is_private", "refused", "remote_address"]

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S: Final = 5.0
PORT_BYTES: Final = 4  # at the end of a packed host
NO_SECRET: Final = "of an account that does not exist"
# What Apache's refusals begin with; tools and people look for it.
REFUSED: Final = "org.apache.rocketmq.acl.common.AclException: "


class AccountBook:
    """Accounts, white addresses and their files."""

    def __init__(self, files: AccessFiles, table: AccessTable, *, disk: Disk) -> None:
        """Use `load`; this only puts the parts together."""
        self.table = table
        self._files = files
        self._disk = disk
        self._changing = asyncio.Lock()  # guards the files and the swap of the table that follows
        self._reported = ""  # what was wrong with the files when they were last looked at

    @classmethod
    async def load(cls, path: Path, *, disk: Disk, clock: Clock) -> AccountBook:
        """With the accounts of this file and those beside it. Raises `ConfigError` if they cannot be used."""
        files = AccessFiles(path, disk=disk, clock=clock)
        table = await disk.run(files.load)
        logger.info("accounts loaded", extra={"path": str(path), "accounts": len(table.accounts)})
        _warn_of_repeated(table)
        return cls(files, table, disk=disk)

    @property
    def path(self) -> Path:
        return self._files.path

    # ---------------------------------------------------------------------------------------------------- who is it?

    def is_white(self, connection: Connection) -> bool:
        """Whether nobody is asked who connects from there."""
        return self.table.is_white(remote_address(connection))

    def find_account(self, frame: Frame) -> Account | None:
        """The account that a request names; whether it is the sender's own is another question."""
        return self.table.accounts.get((frame.ext or {}).get(ACCESS_KEY) or "")

    def get_account(self, frame: Frame, connection: Connection) -> Account:
        """Whose request this is, by its signature or the account's own address; raises the refusal."""
        account = self.find_account(frame)
        is_spared = account is not None and account.is_white(remote_address(connection))
        secret = NO_SECRET if account is None else account.secret_key
        is_signed = is_spared or is_signed_by(frame.ext, frame.body, secret_key=secret)
        if account is None or not is_signed:
            raise refused(
                frame, connection, "the access key is not known here, or the signature is not made with its secret"
            )
        return account

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


def remote_address(connection: Connection) -> bytes:
    """Where a connection comes from, packed and without its port."""
    return connection.peer_host[:-PORT_BYTES]


def is_private(connection: Connection) -> bool:
    """Whether nobody else can listen: TLS, or the machine itself."""
    return connection.is_encrypted or ip_address(remote_address(connection)).is_loopback


def refused(frame: Frame, connection: Connection, reason: str) -> BrokerError:
    """The answer to a request that is not let in."""
    access_key = (frame.ext or {}).get(ACCESS_KEY)
    logger.info(
        "access refused",
        extra={"request": frame.code, "account": access_key, "peer": connection.peer, "reason": reason},
    )
    return broker_error(ResponseCode.SYSTEM_ERROR, REFUSED + reason)


def _warn_of_repeated(table: AccessTable) -> None:
    for access_key in table.repeated:
        logger.warning("an account is in several files, the first counts", extra={"account": access_key})
