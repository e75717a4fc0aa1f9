"""Access control: every request is asked who sends it and whether he may.

    from an address of the global white list        passes, except for requests about accounts
    not signed, by nobody that `access.book` knows  refused
    about accounts, where others can listen         refused, unless `aclRequestsInPlainText` allows it
    else                                            passes if the account has what `access_rules` says

Rule 1: an account's own white address spares it the signature and nothing else. With `aclWhiteAddressSparesPermissions`
its permissions are not looked at from there, as at Apache's brokers; it never makes an administrator.
Rule 2: what the broker sends to clients by itself is for those only who could have got it by asking (`may_be_told`).
Rule 3: a request that names its message only by its place in the log is checked twice: when it comes, and when the
message, and with it the topic, is known.
Rule 4: a body that is larger than any that is sent here is refused before it is hashed: to have that done, nobody needs
an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skyrocketmq.access.accounts import Account, Permission
from skyrocketmq.access.book import AccountBook, is_private, refused, remote_address
from skyrocketmq.broker.access_rules import ADMIN, Need, Needs, missing_permission, need_on_topic, permissions
from skyrocketmq.broker.clients import Member
from skyrocketmq.config import BrokerConfig
from skyrocketmq.errors import BrokerError, ProtocolError
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.wire.codes import request_name
from skyrocketmq.wire.frames import Frame

__all__ = ["AccessControl"]

MIB: Final = 1024 * 1024


class AccessControl:
    """The check of requests, by what each code needs. `check` and `check_message` refuse by raising."""

    def __init__(self, book: AccountBook, config: BrokerConfig, needs: Mapping[int, Needs]) -> None:
        self.book = book
        self._needs = needs
        self._cluster = config.cluster_name
        self._is_bound_at_home = not config.acl_white_address_spares_permissions
        self._is_plain_text_enough = config.acl_requests_in_plain_text
        self.apply_config(config)

    def apply_config(self, config: BrokerConfig) -> None:
        """Follow a configuration that has changed."""
        self._body_bytes_max = max(config.store.message_bytes_max, 4 * MIB) + MIB

    @classmethod
    async def open(
        cls, path: Path, config: BrokerConfig, needs: Mapping[int, Needs], *, disk: Disk, clock: Clock
    ) -> AccessControl:
        """With the accounts of this file and those beside it. Raises `ConfigError` if they cannot be used."""
        return cls(await AccountBook.load(path, disk=disk, clock=clock), config, needs)

    def check(self, frame: Frame, connection: Connection) -> None:
        """Let a request pass, or raise the `BrokerError` that is its answer."""
        code = frame.code
        needs = self._needs.get(code, ADMIN)
        if needs.is_about_accounts:
            self._check_privacy(frame, connection)
        elif self.book.is_white(connection):
            return
        if len(frame.body) > self._body_bytes_max:
            remark = (
                f"a body of {len(frame.body)} bytes, at most {self._body_bytes_max} may be (maxMessageSize and 1 MiB)"
            )
            raise refused(frame, connection, remark)
        account = self.book.get_account(frame, connection)
        if needs.is_for_admins and not account.is_admin:
            raise refused(frame, connection, f"request {request_name(code)} needs an administrator's account")
        if not self._is_bound(account, connection):
            return
        try:
            missing = missing_permission(account, permissions(needs, frame, cluster=self._cluster))
        except ProtocolError as error:
            raise refused(frame, connection, f"request {request_name(code)} cannot be read: {error}") from error
        if missing is not None:
            raise refused(frame, connection, f"no permission for {missing}")

    def _check_privacy(self, frame: Frame, connection: Connection) -> None:
        """A signature proves who made it, once: whoever hears it can use it again, also for another request."""
        if not self._is_plain_text_enough and not is_private(connection):
            raise refused(
                frame,
                connection,
                f"request {request_name(frame.code)} is for encrypted connections: use TLS, or the broker's own "
                "machine, or set aclRequestsInPlainText=true",
            )

    def _is_bound(self, account: Account, connection: Connection) -> bool:
        """Whether the permissions of an account count for what comes from there."""
        return self._is_bound_at_home or not account.is_white(remote_address(connection))

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
        if self.book.is_white(connection):
            return
        account = self.book.find_account(frame)  # it may have been deleted while the message was read
        if account is None or not self._has(account, connection, need_on_topic(topic, permission)):
            # It may not even learn that there is such a message, nor of which topic.
            raise refused(frame, connection, "no permission for this message")

    def may_everything(self, frame: Frame, connection: Connection) -> bool:
        """Whether a request that has passed `check` comes from an administrator, or from a broker's address."""
        account = self.book.find_account(frame)
        return self.book.is_white(connection) or (account is not None and account.is_admin)

    def account_of(self, frame: Frame, connection: Connection) -> str | None:
        """Whose request this is that has passed `check`; None from where nobody is asked."""
        account = self.book.find_account(frame)
        return None if account is None or self.book.is_white(connection) else account.access_key

    def may_be_told(self, member: Member[Connection], topic: str) -> bool:
        """Whether a producer may be sent messages of a topic, by its account as it is now: those it may send itself."""
        if self.book.is_white(member.connection):
            return True
        account = self.book.table.accounts.get(member.account or "")
        return account is not None and self._has(account, member.connection, need_on_topic(topic, Permission.PUB))

    def _has(self, account: Account, connection: Connection, need: Need) -> bool:
        return not self._is_bound(account, connection) or missing_permission(account, iter([need])) is None
