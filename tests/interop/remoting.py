"""The smallest speaker of the wire protocol: blocking, JSON headers, one request at a time.

It shares no line with `skyrocketmq`, on purpose: a mistake that our encoder and our decoder both make would go
unnoticed if our own code looked at our servers.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

VERSION_4_9_7 = 407
FLAG_RESPONSE = 1

SUCCESS = 0
SYSTEM_ERROR = 1
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
QUERY_NOT_FOUND = 22

GET_BROKER_CONFIG = 26
GET_MAX_OFFSET = 30
PUT_KV_CONFIG = 100
GET_KV_CONFIG = 101
DELETE_KV_CONFIG = 102
REGISTER_BROKER = 103
UNREGISTER_BROKER = 104
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
WIPE_WRITE_PERM_OF_BROKER = 205
GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
DELETE_TOPIC_IN_NAMESRV = 216
GET_KVLIST_BY_NAMESPACE = 219
GET_TOPICS_BY_CLUSTER = 224
GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
GET_UNIT_TOPIC_LIST = 311
GET_HAS_UNIT_SUB_TOPIC_LIST = 312
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
UPDATE_NAMESRV_CONFIG = 318
QUERY_DATA_VERSION = 322
ADD_WRITE_PERM_OF_BROKER = 327


@dataclass(frozen=True)
class Reply:
    code: int
    remark: str | None
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def encode_request(
    code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, opaque: int = 1, version: int = VERSION_4_9_7
) -> bytes:
    """A whole frame: | length 4 B | encoding 1 B, header length 3 B | header | body |."""
    header = {"code": code, "flag": 0, "language": "PYTHON", "opaque": opaque, "version": version}
    if ext:
        header["extFields"] = ext
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


def request(
    address: str,
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    version: int = VERSION_4_9_7,
    timeout_s: float = 3.0,
) -> Reply:
    """Ask on a connection of its own. Raises `OSError` if there is nobody, or no answer in time."""
    with connect(address, timeout_s=timeout_s) as connection:
        return exchange(connection, encode_request(code, ext, body, version=version))


def connect(address: str, *, timeout_s: float = 3.0, source: str | None = None) -> socket.socket:
    """`source` is the address of this machine to connect from: any of 127.0.0.* will do."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s, source_address=source and (source, 0))


def exchange(connection: socket.socket, frame: bytes) -> Reply:
    connection.sendall(frame)
    (length,) = struct.unpack(">I", _read(connection, 4))
    content = _read(connection, length)
    (header_bytes,) = struct.unpack(">I", content[:4])
    header: dict[str, Any] = json.loads(content[4 : 4 + header_bytes])
    assert header["flag"] & FLAG_RESPONSE, header
    return Reply(
        code=header["code"],
        remark=header.get("remark"),
        ext=header.get("extFields") or {},
        body=content[4 + header_bytes :],
    )


def _read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the server closed the connection")
        data += piece
    return bytes(data)


def answers(address: str, code: int) -> bool:
    """Whether a server is there and answers that request with success: what "ready" means here."""
    try:
        return request(address, code, timeout_s=2.0).code == SUCCESS
    except OSError:
        return False
