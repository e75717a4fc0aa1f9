"""Name servers: their configuration, and the key-value settings that they keep for others.

Name servers do not talk to each other: what is written goes to each of them, what is read is asked of one. A
namespace of keys has a meaning to somebody: `ORDER_TOPIC_CONFIG` holds the queues of ordered topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.config import read_properties, write_properties
from skyrocketmq.errors import IllegalArgument, NotFound, QueryNotFound
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_namesrv import GetKvConfigAnswer, KvKeyHeader, KvNamespaceHeader, PutKvConfigHeader

__all__ = ["ORDER_NAMESPACE", "KeyValueAdmin", "NameServerAdmin", "config_body"]

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class NameServerAdmin:
    """`admin.name_servers`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers that are asked."""
        return tuple(sorted(self._gateway.name_servers))

    async def config(self) -> Mapping[str, Mapping[str, str]]:
        """The configuration of each name server, by address."""
        return await self._gateway.ask_every_name_server(
            "the configuration of the name servers",
            RequestCode.GET_NAMESRV_CONFIG,
            read=lambda answer: read_properties(answer.body),
        )

    async def update_config(self, settings: Mapping[str, str]) -> None:
        """Change keys of the configuration of every name server; they keep it in their files."""
        await self._gateway.tell_name_servers(
            "change the configuration of the name servers",
            RequestCode.UPDATE_NAMESRV_CONFIG,
            body=config_body(settings),
        )


class KeyValueAdmin:
    """`admin.key_values`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, namespace: str, key: str) -> str:
        """The value of a key. Raises `NotFound`."""
        value = await self.find(namespace, key)
        if value is None:
            servers = " and ".join(sorted(self._gateway.name_servers))
            raise NotFound(f"there is no key {key} in namespace {namespace}: asked {servers}")
        return value

    async def find(self, namespace: str, key: str) -> str | None:
        """The value of a key; None if it has none."""
        header = KvKeyHeader(namespace, key)
        try:
            answer = await self._gateway.ask_any_name_server(RequestCode.GET_KV_CONFIG, header)
        except QueryNotFound:
            return None
        return decode_header(GetKvConfigAnswer, answer.ext).value

    async def all(self, namespace: str) -> Mapping[str, str]:
        """The keys of a namespace; empty if there is no such namespace."""
        header = KvNamespaceHeader(namespace)
        try:
            answer = await self._gateway.ask_any_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        except QueryNotFound:
            return {}
        return decode_body(KvTable, answer.body).table

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key on every name server."""
        if not namespace or not key:
            raise IllegalArgument("a setting needs a namespace and a key")
        header = PutKvConfigHeader(namespace, key, value)
        await self._gateway.tell_name_servers(f"set {namespace}/{key}", RequestCode.PUT_KV_CONFIG, header)

    async def delete(self, namespace: str, key: str) -> None:
        """Forget a key on every name server; one that is not there is no error."""
        header = KvKeyHeader(namespace, key)
        await self._gateway.tell_name_servers(f"delete {namespace}/{key}", RequestCode.DELETE_KV_CONFIG, header)


def config_body(settings: Mapping[str, str]) -> bytes:
    """Settings as the body of a request that changes them."""
    if not settings:
        raise IllegalArgument("no key is given to change")
    return write_properties(settings)
