"""Connections: an asyncio server and client around `wire`, with TLS on the same port.

Read `stream` (bytes of one connection, and its life), then `connection` (frames on it, requests both ways), then
`dispatch` (requests to handlers) with `requests` (how handlers declare them), `answers` (what a producer is answered),
`server` and `client`. `outbox`, `rest`,
`waiting`, `gate` and `silence` are the parts of a connection, one idea each; `tls` and `certificates` are bytes in,
bytes out; `listeners` binds ports; `options` has every limit.

What requests mean does not live here. Time comes through `Clock`, sockets through `Link`; nothing here sleeps by
itself.
"""

from __future__ import annotations

from skyrocketmq.net.addresses import Address, format_address, pack_address, parse_address
from skyrocketmq.net.client import Client, RequestHook
from skyrocketmq.net.connection import Connection, ConnectionSetup, Feed
from skyrocketmq.net.dispatch import Dispatcher, Handler, Hook
from skyrocketmq.net.listeners import bind, bind_three
from skyrocketmq.net.options import ClientOptions, ConnectionOptions, ServerOptions
from skyrocketmq.net.outbox import Part
from skyrocketmq.net.requests import (
    BodyRequest,
    Declaration,
    Request,
    answers,
    answers_frames,
    declared_by,
    register_answers,
)
from skyrocketmq.net.server import Places, Server
from skyrocketmq.net.slices import InOrder, Steps, in_slices
from skyrocketmq.net.stream import Pause, Stream, StreamSetup
from skyrocketmq.net.tls import ClientAuth, ClientTls, ServerTls, TlsMode

__all__ = [
    "Address",
    "BodyRequest",
    "Client",
    "ClientAuth",
    "ClientOptions",
    "ClientTls",
    "Connection",
    "ConnectionOptions",
    "ConnectionSetup",
    "Declaration",
    "Dispatcher",
    "Feed",
    "Handler",
    "Hook",
    "InOrder",
    "Part",
    "Pause",
    "Places",
    "Request",
    "RequestHook",
    "Server",
    "ServerOptions",
    "ServerTls",
    "Steps",
    "Stream",
    "StreamSetup",
    "TlsMode",
    "answers",
    "answers_frames",
    "bind",
    "bind_three",
    "declared_by",
    "format_address",
    "in_slices",
    "pack_address",
    "parse_address",
    "register_answers",
]
