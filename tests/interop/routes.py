"""Questions to a name server that several tests ask, through `remoting`."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.interop import remoting


def find_route(namesrv: str, topic: str) -> dict[str, Any] | None:
    """The route of a topic as the name server gives it to a 4.9.7 client; `None` if it knows no such topic."""
    reply = remoting.request(namesrv, remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if reply.code == remoting.TOPIC_NOT_EXIST:
        return None
    assert reply.code == remoting.SUCCESS, reply
    route: dict[str, Any] = json.loads(reply.body)
    return route


def addresses_of(namesrv: str, broker: str) -> dict[str, str]:
    """Broker id to address, for one broker name; empty if the name server does not know it."""
    table = cluster_info(namesrv)["brokerAddrTable"]
    addresses: dict[str, str] = table[broker]["brokerAddrs"] if broker in table else {}
    return addresses


def all_addresses(namesrv: str) -> set[str]:
    """The addresses of all brokers that a name server knows; none if it does not answer."""
    try:
        table = cluster_info(namesrv)["brokerAddrTable"]
    except OSError:
        return set()
    return {address for broker in table.values() for address in broker["brokerAddrs"].values()}


def all_topics(namesrv: str) -> list[str]:
    reply = remoting.request(namesrv, remoting.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert reply.code == remoting.SUCCESS, reply
    topics: list[str] = json.loads(reply.body)["topicList"]
    return topics


def cluster_info(namesrv: str) -> dict[str, Any]:
    reply = remoting.request(namesrv, remoting.GET_BROKER_CLUSTER_INFO)
    if reply.code == remoting.SYSTEM_ERROR and "ConcurrentModification" in str(reply.remark):
        # Apache's name server reads these tables without a lock, and fails when they change meanwhile.
        return cluster_info(namesrv)
    assert reply.code == remoting.SUCCESS, reply
    info: dict[str, Any] = json.loads(quote_number_keys(reply.body.decode()))
    return info


def quote_number_keys(text: str) -> str:
    """Apache's JSON writes the number keys of a map without quotes; ours does so too where it must."""
    return re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text)
