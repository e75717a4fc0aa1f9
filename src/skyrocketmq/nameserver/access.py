"""Who may change a name server, and who a broker's name belongs to.

    reading routes, lists and key-value settings    everybody: clients have no accounts here
    from outside of `changesAllowedFrom`            refused, signed or not
    with `aclEnable`                                an administrator's signature, or an address of the global white list
    without                                         passes; then `Identities` guards names that are in use

Rule 1: what is not declared as needing nothing is a change, so that a request nobody thought of is guarded.
Rule 2: without accounts nobody can tell two brokers of one name apart. The one that is there keeps its name, id and
address while it answers: a second one by mistake, or a false one, gets none of them. One that is gone, or does not
answer, is replaced at once, so that a broker may come back elsewhere. A slave that is known under the name may become
its master. This keeps mistakes out; against attackers there are accounts and lists of addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Final

from skyrocketmq.access.addresses import parse_addresses
from skyrocketmq.access.book import AccountBook, refused, remote_address
from skyrocketmq.errors import NetError, broker_error
from skyrocketmq.nameserver.routes import BrokerIdentity, RouteTables
from skyrocketmq.net import Connection, Declaration
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame

__all__ = ["Identities", "NameServerAccess", "Needs"]

logger = logging.getLogger(__name__)

PROBE_S: Final = 2.0  # a broker's registration waits 6 s for its answer, Apache's too


class Needs(StrEnum):
    """What a request needs of its sender; handlers declare it (`net.requests`)."""

    NOTHING = "nothing"
    CHANGING = "the right to change"


class NameServerAccess:
    """The check of requests; `check` refuses by raising."""

    def __init__(self, allowed_from: str, book: AccountBook | None, requests: Mapping[int, Declaration]) -> None:
        """Raises `ConfigError` if `allowed_from` is no list of addresses."""
        self.book = book
        self._requests = requests
        self._is_allowed = parse_addresses(allowed_from)

    def check(self, frame: Frame, connection: Connection) -> None:
        declared = self._requests.get(frame.code)
        if declared is not None and declared.needs is Needs.NOTHING:
            return
        if not self._is_allowed(remote_address(connection)):
            raise refused(
                frame, connection, "changes are not taken from this address: add it to the key changesAllowedFrom"
            )
        if self.book is None or self.book.is_white(connection):
            return
        if not self.book.get_account(frame, connection).is_admin:
            raise refused(frame, connection, f"request {frame.code} needs an administrator's account")


class Identities:
    """Which connections speak for brokers, and whether a registration takes something away from one of them."""

    def __init__(self, tables: RouteTables, *, is_guarded: bool) -> None:
        self._tables = tables
        self._is_guarded = is_guarded
        self._speakers: dict[Hashable, Connection] = {}

    def heard(self, connection: Connection) -> None:
        """A broker was registered by this connection."""
        self._speakers[connection.id] = connection

    def forget(self, connection: Connection) -> None:
        self._speakers.pop(connection.id, None)

    def find_rival(self, broker: BrokerIdentity, connection: Connection) -> Connection | None:
        """The connection, from another machine, that speaks for what this one claims."""
        if not self._is_guarded:
            return None
        here = remote_address(connection)
        for holder in self._tables.holders_of(broker):
            rival = self._speakers.get(holder)
            if rival is not None and not rival.is_closed and remote_address(rival) != here:
                return rival
        return None

    async def give_way(self, broker: BrokerIdentity, rival: Connection) -> None:
        """Return if the rival is gone, though its connection may not know yet; raise the refusal if it answers."""
        try:
            # Brokers answer no requests of name servers; that they say so shows that they are there.
            await rival.request(Frame(RequestCode.QUERY_DATA_VERSION), PROBE_S)
        except NetError as error:
            logger.warning(
                "broker replaced", extra={"broker": broker.name, "id": broker.broker_id, "reason": str(error)}
            )
            return
        raise taken(broker, rival)


def taken(broker: BrokerIdentity, rival: Connection) -> Exception:
    logger.warning(
        "broker refused, its name is in use",
        extra={"broker": broker.name, "id": broker.broker_id, "address": broker.address, "held_by": rival.peer},
    )
    return broker_error(
        ResponseCode.SYSTEM_ERROR,
        f"broker {broker.name} with id {broker.broker_id} is registered from another machine, and answers there: stop "
        "it, give this one another brokerName or brokerId, or set allowBrokerTakeover=true at the name server",
    )
