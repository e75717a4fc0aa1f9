"""The settings that all producers and consumers share, with the defaults of Apache's client.

`SharedOptions` are the keyword arguments that all clients take besides their own; `settings_from` makes one frozen
`ClientSettings` of them, looks at the environment where nothing was given, and refuses what cannot work. Clients with
equal settings share one `ClientInstance`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, TypedDict

from skyrocketmq.client.connection_changes import ConnectionListener
from skyrocketmq.client.hooks import ClientHook
from skyrocketmq.config import DEFAULT_NAMESRV
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.net import ClientTls, parse_address
from skyrocketmq.net.address_server import DEFAULT_SUBGROUP, address_server_url
from skyrocketmq.ports import Chance, Clock, Link, Machine

__all__ = ["AUTOMATIC_INSTANCE", "ClientSettings", "Credentials", "Doors", "SharedOptions", "settings_from"]

ACCESS_KEY_VARIABLE: Final = "ROCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "ROCKETMQ_SECRET_KEY"
SECURITY_TOKEN_VARIABLE: Final = "ROCKETMQ_SECURITY_TOKEN"
AUTOMATIC_INSTANCE: Final = "DEFAULT"  # this instance name is replaced by one that no other process has

_INSTANCE_LABEL: Final = re.compile(r"(MQ_INST_\w+)\.")  # namespaces of Alibaba's cloud stand in the host name


@dataclass(frozen=True, slots=True)
class Credentials:
    """What requests are signed with, for brokers that check it."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


class SharedOptions(TypedDict, total=False):
    """Keyword arguments of every client. Times are seconds.

    The last four are for tests: `skyrocketmq.testing` has a clock that jumps, a link that breaks, whole simulations.
    """

    credentials: Credentials | None  # without it, those of the environment: ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY
    namespace: str  # put before the names of topics and groups on the wire
    instance_name: str  # part of the client id; "DEFAULT" becomes a name of this process and moment
    unit_name: str
    unit_mode: bool
    client_ip: str  # part of the client id; found by itself where it is not given
    tls: ClientTls | bool
    vip_channel: bool  # use the brokers' second port where Apache's client does
    binary_headers: bool  # binary headers instead of JSON
    address_server: str  # host, or host:port, of the page that lists the name servers; asked if none are given
    poll_name_server_interval_s: float
    heartbeat_interval_s: float
    persist_offsets_interval_s: float
    api_timeout_s: float
    hooks: Sequence[ClientHook]  # around everything that is sent and handled: tracing, for example
    on_connection_change: ConnectionListener | None  # called on the loop when a connection is made or lost
    clock: Clock
    link: Link
    chance: Chance
    machine: Machine


@dataclass(frozen=True, slots=True)
class Doors:
    """The ports that a client was given; None means the real one, which all clients of a process share."""

    clock: Clock | None = None
    link: Link | None = None
    chance: Chance | None = None
    machine: Machine | None = None

    @classmethod
    def of(cls, options: SharedOptions) -> Doors:
        return cls(options.get("clock"), options.get("link"), options.get("chance"), options.get("machine"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of one client, complete. Equal ones mean: the same cluster, in the same way."""

    namesrv: tuple[str, ...] = ()  # empty: ask the address server, if one is named
    credentials: Credentials | None = None
    namespace: str = ""
    instance_name: str = AUTOMATIC_INSTANCE
    unit_name: str = ""
    unit_mode: bool = False
    client_ip: str = ""
    tls: ClientTls | None = field(default=None, hash=False)
    vip_channel: bool = False
    binary_headers: bool = False
    address_server_url: str = ""
    poll_name_server_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0
    persist_offsets_interval_s: float = 5.0
    api_timeout_s: float = 3.0


def _check_names(options: SharedOptions) -> None:
    """Only a type checker knows which keyword arguments there are; who has none would not notice a misspelt one."""
    known = SharedOptions.__annotations__
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise TypeError(f"there is no option {name}" + (f"; did you mean {near[0]}?" if near else ""))


def settings_from(
    namesrv: str | Sequence[str] | None, options: SharedOptions, *, environ: Mapping[str, str]
) -> ClientSettings:
    """The settings that these arguments and this environment mean; `IllegalArgument` for what cannot be."""
    _check_names(options)
    given = namesrv if namesrv else environ.get("NAMESRV_ADDR", "")
    unit = options.get("unit_name", "")
    # Apache's clients ask a host of Alibaba's where nothing is said. Nobody is asked here who was not named.
    page = options.get("address_server") or environ.get("ROCKETMQ_NAMESRV_DOMAIN") or ""
    addresses = _split_addresses(given or ("" if page else DEFAULT_NAMESRV))
    tls = options.get("tls", False)
    return ClientSettings(
        namesrv=addresses,
        credentials=options["credentials"] if "credentials" in options else credentials_from(environ),
        namespace=options.get("namespace") or _namespace_of(given),
        instance_name=_checked_name(options.get("instance_name", AUTOMATIC_INSTANCE)),
        unit_name=unit,
        unit_mode=options.get("unit_mode", False),
        client_ip=options.get("client_ip", ""),
        tls=(ClientTls() if tls else None) if isinstance(tls, bool) else tls,
        vip_channel=options.get("vip_channel", False),
        binary_headers=options.get("binary_headers", environ.get("ROCKETMQ_SERIALIZE_TYPE") == "ROCKETMQ"),
        address_server_url=page
        and address_server_url(page, environ.get("ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP", DEFAULT_SUBGROUP), unit=unit),
        poll_name_server_interval_s=_checked_seconds("poll_name_server_interval_s", options, 30.0),
        heartbeat_interval_s=_checked_seconds("heartbeat_interval_s", options, 30.0),
        persist_offsets_interval_s=_checked_seconds("persist_offsets_interval_s", options, 5.0),
        api_timeout_s=_checked_seconds("api_timeout_s", options, 3.0),
    )


def credentials_from(environ: Mapping[str, str]) -> Credentials | None:
    """What the environment says requests are signed with; None if it says nothing."""
    access_key, secret_key = environ.get(ACCESS_KEY_VARIABLE), environ.get(SECRET_KEY_VARIABLE)
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
        raise IllegalArgument(f"an access key and a secret key go together: the environment lacks {missing}")
    return Credentials(access_key, secret_key, environ.get(SECURITY_TOKEN_VARIABLE) or None)


def _split_addresses(given: str | Sequence[str]) -> tuple[str, ...]:
    texts = given.split(";") if isinstance(given, str) else given
    addresses = [text.strip() for text in texts if text.strip()]
    # An address may come as the URL of Alibaba's cloud: http://MQ_INST_1_2.mq.region.aliyuncs.com:80
    addresses = [text.rpartition("/")[2] if text.startswith("http://") else text for text in addresses]
    for address in addresses:
        parse_address(address)
    return tuple(dict.fromkeys(addresses))


def _namespace_of(given: str | Sequence[str]) -> str:
    found = _INSTANCE_LABEL.search(given if isinstance(given, str) else ";".join(given))
    return found.group(1) if found else ""


def _checked_name(name: str) -> str:
    if not name or "@" in name:
        raise IllegalArgument(f"the instance name {name!r} is empty or contains @, which separates parts of client ids")
    return name


def _checked_seconds(name: str, options: SharedOptions, default: float) -> float:
    value = options.get(name, default)
    if not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise IllegalArgument(f"{name} = {value!r} is not a number of seconds above 0")
    return float(value)
