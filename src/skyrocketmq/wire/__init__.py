"""Bytes to values and back: all that RocketMQ 4.9's peers and files exchange. Pure: no socket, thread, clock or file.

Reading order:

    codes, versions     the numbers: request and response codes, languages, releases
    frames              what travels on a connection: length, header in one of two encodings, body      (hot path)
    headers_codec       a request's fields as text, and as typed values; Java's rules of conversion
    headers_*           the structs of headers: handlers declare which request has which (`net.requests`)
    json_dialect        the JSON that fastjson reads, beyond the standard; `json_references`, `json_writer` belong to it
    bodies              JSON bodies to typed values and back; `java_values` has fastjson's leniency about types
    bodies_*            the structs of the bodies
    own_requests        numbers and structs of what only our servers answer
    registration        how a broker's registration is packed

Records, batches, properties, ids, signing and compression live beside these and have their own docstrings. Whatever
bytes come in, a decoder here returns a value or raises `ProtocolError`: nothing else, in bounded time and memory.
"""

from __future__ import annotations

from skyrocketmq.wire.codes import Language, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Encoding, Frame, FrameDecoder, decode_frame, encode_frame, split_frames

__all__ = [
    "Encoding",
    "Frame",
    "FrameDecoder",
    "Language",
    "RequestCode",
    "ResponseCode",
    "decode_frame",
    "encode_frame",
    "split_frames",
]
