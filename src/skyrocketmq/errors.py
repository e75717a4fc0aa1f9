"""Every exception of SkyRocketMQ, in one tree.

    MQError
    ├── ProtocolError            the peer, or a file, holds bytes that are not the protocol
    │   └── FrameTooLarge        a frame announces more bytes than the limit
    ├── ConfigError              a key, a value or a file of the configuration cannot be used
    ├── NetError                 the request could not be carried out on the network
    │   ├── ConnectFailed        no connection to the address
    │   ├── ConnectionLost       the connection ended while the request was under way
    │   ├── RequestTimeout       no answer within the caller's deadline
    │   └── TooManyRequests      the limit of requests in flight left no room in time
    ├── BrokerError              the server answered, and its answer is a failure; one class a response code
    ├── StoreError               the store cannot do what was asked
    │   ├── CorruptRecord        a record fails its checks
    │   ├── StoreLocked          another process has the store open
    │   ├── DiskFull             no space for the write or the next file; heals by itself
    │   └── FlushFailed          an fsync failed: nothing newer is known to be durable, restart to recover
    ├── ClientError              the caller asked for something that cannot work
    │   ├── IllegalArgument      a name, a size or a value breaks the rules
    │   ├── NoRoute              no name server knows the topic
    │   └── NotFound             there is no such group, broker, cluster, message, account or key
    └── PartialFailure           several servers were asked, and some of them failed

The peer's fault (`ProtocolError`, `BrokerError`) and ours are different classes: a caller can tell whom to blame.
A message says what happened, where, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

__all__ = [
    "BrokerError",
    "ClientError",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "CorruptRecord",
    "DiskFull",
    "FlushFailed",
    "FrameTooLarge",
    "IllegalArgument",
    "MQError",
    "NetError",
    "NoRoute",
    "NotFound",
    "PartialFailure",
    "ProtocolError",
    "RequestTimeout",
    "StoreError",
    "StoreLocked",
    "TooManyRequests",
    "broker_error",
    "own_copy",
]


class MQError(Exception):
    """The root of the tree: `except MQError` catches whatever this package raises on purpose."""


class ProtocolError(MQError):
    """Bytes that no well-behaved peer sends. The connection they came on is closed; nothing else is touched."""


class FrameTooLarge(ProtocolError):
    """A frame announces more bytes than the limit: a wrong peer, or a message that must be made smaller."""


class ConfigError(MQError):
    """A key, a value or a file of the configuration cannot be used; the text says which and what would be right."""


class NetError(MQError):
    """The request could not be carried out on the network; whether the peer acted on it may be unknown."""


class ConnectFailed(NetError):
    """No connection could be made to the address."""


class ConnectionLost(NetError):
    """The connection ended while the request was under way."""


class RequestTimeout(NetError):
    """No answer came within the caller's deadline."""


class TooManyRequests(NetError):
    """The limit of requests in flight left no room within the caller's deadline."""


class StoreError(MQError):
    """The store cannot do what was asked."""


class CorruptRecord(StoreError):
    """A record fails its checks: a wrong magic code, size or checksum."""


class StoreLocked(StoreError):
    """Another process has this store directory open."""


class DiskFull(StoreError):
    """There is no space for the write or for the next file. The store heals by itself once there is."""


class FlushFailed(StoreError):
    """An fsync failed. What was written since the last good one is not known to be durable: restart to recover."""


class ClientError(MQError):
    """The caller asked for something that cannot work."""


class IllegalArgument(ClientError):
    """A name, a size or a value breaks the rules of the protocol."""


class NoRoute(ClientError):
    """No name server knows a route for the topic."""


class NotFound(ClientError):
    """There is no such group, broker, cluster, message, account or key; the text says where it was looked for."""


class PartialFailure(MQError):
    """Several servers were asked, and some of them failed.

    `failures` says which, by name and address, and why. `result` is what the call would have returned if only the
    others had been asked: what was changed there stays changed.
    """

    def __init__(self, text: str, *, failures: Mapping[str, MQError], result: Any) -> None:
        self.failures = dict(failures)
        self.result = result
        super().__init__(text)


class BrokerError(MQError):
    """The server answered, and its answer is a failure.

    `code` is the response code, `remark` what the server said. Each code that callers tell apart has a class of its
    own, found through `broker_error`; any other code is a plain `BrokerError`.
    """

    retryable: ClassVar[bool] = False
    by_code: ClassVar[dict[int, type[BrokerError]]] = {}

    def __init_subclass__(cls, *, code: int) -> None:
        assert code not in cls.by_code, f"code {code} already belongs to {cls.by_code[code].__name__}"
        cls.by_code[code] = cls

    def __init__(self, code: int, remark: str | None, *, address: str | None = None) -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        where = f" from {address}" if address else ""
        super().__init__(f"{type(self).__name__} (code {code}){where}: {self.remark or 'no remark'}")


class SystemFailure(BrokerError, code=1):
    """The server failed in a way it has no code for."""


class SystemBusy(BrokerError, code=2):
    """The server has too much to do; the same request may succeed later."""

    retryable = True


class RequestCodeNotSupported(BrokerError, code=3):
    """The server does not know this kind of request."""


class MessageIllegal(BrokerError, code=13):
    """The message's topic, body or properties break a limit."""


class ServiceNotAvailable(BrokerError, code=14):
    """The store takes no writes now: it is closed, a slave, or its disk is full."""

    retryable = True


class NoPermission(BrokerError, code=16):
    """The topic, group, broker or key may not be used this way."""


class TopicNotExist(BrokerError, code=17):
    """The topic is unknown and may not be created automatically."""


class QueryNotFound(BrokerError, code=22):
    """Nothing is stored under this key."""


class SubscriptionParseFailed(BrokerError, code=23):
    """The filter expression cannot be understood."""


class SubscriptionNotExist(BrokerError, code=24):
    """The broker knows no such subscription of the group."""


class SubscriptionNotLatest(BrokerError, code=25):
    """The broker knows an older subscription of the group than the request names."""


class SubscriptionGroupNotExist(BrokerError, code=26):
    """The group is unknown and may not be created automatically."""


class ConsumerNotOnline(BrokerError, code=206):
    """No member of the group is connected."""


def broker_error(code: int, remark: str | None, *, address: str | None = None) -> BrokerError:
    """The exception for a failed answer, of the class that belongs to its code."""
    return BrokerError.by_code.get(code, BrokerError)(code, remark, address=address)


Error = TypeVar("Error", bound=MQError)


def own_copy(error: Error) -> Error:
    """The same error again, for another who waits: a traceback is not shared."""
    made = type(error).__new__(type(error), *error.args)  # whatever its constructor takes: all of it is copied
    made.__dict__.update(error.__dict__)
    if notes := error.__dict__.get("__notes__"):
        made.__notes__ = list(notes)
    made.__cause__ = error.__cause__
    return made
