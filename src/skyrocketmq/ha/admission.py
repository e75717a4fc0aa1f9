"""Who may copy the log. Values in, values out.

| a slave | `haSignatureRequired` false | true |
|---|---|---|
| from an address that is allowed | let in | has to sign |
| from any other | has to sign, where there is an account to sign with; else refused | has to sign |

Allowed are the addresses of `haSlaveAddresses`; where there are none, those of the white list with accounts, and all
without. A slave that signs needs the account of an administrator, or the broker's own, and the same broker name.

Rule 1: a slave that is let in gets every message, and its reports count. There is nothing in between.
Rule 2: accounts and the white list change while a master runs. A slave that would not be let in now has to go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from skyrocketmq.ha.rules import SlaveRefused
from skyrocketmq.wire.replication_greeting import Introduction, is_signed_with

__all__ = ["Admission", "Entry", "Pass"]

NO_SECRET = "of an account that may not copy the log"


class Entry(Enum):
    """What a slave has to do at the door."""

    FREE = "free"
    SIGN = "sign"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Pass:
    """The account that a slave has signed with, as it was then."""

    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The rules of one master. `find_secret` answers for the accounts that may copy the log, None for others."""

    broker_name: str
    is_allowed: Callable[[bytes], bool]  # of a packed address
    find_secret: Callable[[str], str | None]
    can_check: Callable[[], bool]  # whether there is any account to sign with
    is_signature_required: bool = False

    def entry(self, address: bytes) -> Entry:
        """What a slave that connects from this packed address has to do."""
        if not self.is_signature_required and self.is_allowed(address):
            return Entry.FREE
        return Entry.SIGN if self.can_check() else Entry.NONE

    def check(self, introduction: Introduction, challenge: bytes) -> Pass:
        """Check a slave's signature and its broker name. Raises `SlaveRefused`."""
        secret = self.find_secret(introduction.access_key)
        # An unknown account takes as long as a wrong secret.
        if not is_signed_with(NO_SECRET if secret is None else secret, introduction, challenge) or secret is None:
            raise SlaveRefused("its account may not copy the log here, or the signature is not made with its secret")
        if introduction.broker_name != self.broker_name:
            raise SlaveRefused(
                f"it is a slave of {introduction.broker_name!r}, and this is {self.broker_name!r}: set its brokerName, "
                "or haMasterAddress"
            )
        return Pass(introduction.access_key, secret)

    def is_good(self, shown: Pass | None, address: bytes) -> bool:
        """Whether a slave that was let in with this pass, or by its address alone, would be let in now."""
        if shown is None:
            return self.entry(address) is Entry.FREE
        return self.find_secret(shown.access_key) == shown.secret_key
