"""Routes as bodies: the answers to 105 and 106.

A name server writes routes more often than anything else, so the work is done by `msgspec` and a few substitutions:
Java's older form has the broker ids, which are keys, without quotation marks.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from skyrocketmq.model.routes import BrokerData, ClusterInfo, TopicRoute
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.json_writer import escape_beyond_ascii

__all__ = ["decode_cluster_info", "decode_route", "encode_cluster_info", "encode_route"]


def encode_route(route: TopicRoute, *, standard_json: bool) -> bytes:
    """105: `standard_json` for clients from 4.9.4 on, and for those that ask for it."""
    data = _encode(route)
    if route.order_topic_conf is None:
        data = data.replace(b'"orderTopicConf":null,', b"", 1)
    return escape_beyond_ascii(data) if standard_json else _unquote_ids(data, route.broker_datas)


def encode_cluster_info(info: ClusterInfo) -> bytes:
    """106: always in the older form."""
    return encode_body(info)


def decode_route(data: bytes) -> TopicRoute:
    """105, from any name server: releases up to 4.8 spell one member differently."""
    return decode_body(TopicRoute, data.replace(b'"topicSynFlag":', b'"topicSysFlag":'))


def decode_cluster_info(data: bytes) -> ClusterInfo:
    """106."""
    return decode_body(ClusterInfo, data)


_encode = msgspec.json.Encoder().encode  # members are declared in Java's order


def _unquote_ids(data: bytes, brokers: Iterable[BrokerData]) -> bytes:
    # A text's own quotation marks are escaped, so only keys can match, and all other keys of a route are addresses.
    for broker_id in {broker_id for broker in brokers for broker_id in broker.broker_addrs}:
        data = data.replace(b'"%d":' % broker_id, b"%d:" % broker_id)
    return data
