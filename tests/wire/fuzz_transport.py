"""What a fuzz loop needs of frames, headers, bodies, the JSON dialect and registrations.

A decoder that has several forms picks one by the first byte of its input, so that damage also changes the form: a body
of one kind is then read as another. Where something was decoded, it is written and read again: that must give the same.
"""

from __future__ import annotations

import zlib

import msgspec

from skyrocketmq.config import read_properties, write_properties
from skyrocketmq.errors import ConfigError, ProtocolError
from skyrocketmq.model.routes import BrokerData, ClusterInfo, TopicRoute
from skyrocketmq.model.tables import TopicConfig
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_routes import decode_cluster_info, decode_route, encode_cluster_info, encode_route
from skyrocketmq.wire.frames import Encoding, Frame, FrameDecoder, encode_frame
from skyrocketmq.wire.headers_codec import decode_header, encode_header
from skyrocketmq.wire.json_dialect import parse, write, write_pretty
from skyrocketmq.wire.registration import RegisterBrokerBody, decode_registration, encode_registration
from tests.declared import REQUEST_BODIES, REQUEST_HEADERS, RESPONSE_BODIES, RESPONSE_HEADERS
from tests.wire.fuzz_messages import Target
from tests.wire.test_bodies import EXAMPLES
from tests.wire.test_bodies_routes import OLD_FORM, ROUTE, STANDARD_FORM
from tests.wire.test_frames import HEARTBEAT_BINARY, ROUTE_BINARY, ROUTE_JSON, json_frame
from tests.wire.test_registration import FULL, INFLATED, REGISTERED

SEND = Frame(
    310,
    77,
    ext={
        "a": "PG",
        "b": "TopicTest",
        "e": "2",
        "g": "1700000000000",
        "i": "TAGS\x01TagA\x02WAIT\x01true",
        "m": "false",
    },
    body=b"hello",
    remark="a remark, 中文",
)
CLUSTER = encode_cluster_info(
    ClusterInfo(
        broker_addr_table={"a": BrokerData(broker_addrs={0: "10.0.0.1:10911"}, broker_name="a", cluster="c")},
        cluster_addr_table={"c": ["a"]},
    )
)
TOLERATED = (
    b"{code:'105',extFields:{topic:'T',n:5,t:true,z:null,},flag:null,language:9,opaque:\"7\",/* c */version:407}"
)


def _frames(data: bytes) -> None:
    """Whole, in two pieces and in many: the outcome is the same. What holds no whole frame is not understood."""
    whole = _feed([data])
    middle = len(data) // 2
    assert _feed([data[:middle], data[middle:]]) == whole
    if len(data) < 200:
        assert _feed([data[at : at + 1] for at in range(len(data))]) == whole
    for frame in whole or []:
        (again,) = FrameDecoder().feed(encode_frame(frame))
        assert (again.code, again.opaque, again.flag) == (frame.code, frame.opaque, frame.flag)
        assert (again.version, again.body) == (frame.version, frame.body)
        assert (again.remark or "") == (frame.remark or "")
    if not whole:
        raise ProtocolError("a frame is broken, or there is none")


def _feed(pieces: list[bytes]) -> list[Frame] | None:
    decoder = FrameDecoder()
    frames: list[Frame] = []
    try:
        for piece in pieces:
            frames += decoder.feed(piece)
    except ProtocolError:
        return None
    return frames


HEADERS = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda cls: cls.__name__)


def _headers(data: bytes) -> None:
    cls = HEADERS[data[0] % len(HEADERS)]
    pairs = (pair.partition("=") for pair in data[1:].decode("utf-8", "replace").split("&"))
    ext: dict[str, str | None] = {name: value if equals else None for name, equals, value in pairs}
    header = decode_header(cls, ext)
    assert decode_header(cls, encode_header(header)) == header


def _header_seeds() -> list[bytes]:
    values = ["T", "5", "-1", "9223372036854775807", "true", "false", "1"]
    return [
        bytes([number]) + "&".join(f"{name}={values[at % 7]}" for at, name in enumerate(names)).encode()
        for number, names in enumerate(cls.__struct_encode_fields__ for cls in HEADERS)
    ]


_ALL_BODIES: set[type[msgspec.Struct]] = {*REQUEST_BODIES.values(), *RESPONSE_BODIES.values(), TopicRoute}
_ALL_BODIES |= {type(value) for value, _ in EXAMPLES.values()}
BODIES = sorted(_ALL_BODIES, key=lambda cls: cls.__name__)


def _bodies(data: bytes) -> None:
    cls = BODIES[data[0] % len(BODIES)]
    value: msgspec.Struct = decode_body(cls, data[1:])
    for standard_json in (False, True):
        written = encode_body(value, standard_json=standard_json)
        if "inf" not in repr(value) and "nan" not in repr(value):  # JSON has no such numbers: they become null
            assert decode_body(cls, written) == value


def _body_seeds() -> list[bytes]:
    seeds = [bytes([BODIES.index(type(value))]) + data for value, data in EXAMPLES.values()]
    loose = b"{offsetTable:{{'brokerName':a1,queueId:'0',topic:\"T\"}:5,}}".replace(b"a1", b"'a'")
    names = [cls.__name__ for cls in BODIES]
    return [*seeds, bytes([names.index("ResetOffsets")]) + loose, bytes([names.index("TopicRoute")]) + OLD_FORM]


def _route(data: bytes) -> None:
    route = decode_route(data)
    for standard_json in (False, True):
        assert decode_route(encode_route(route, standard_json=standard_json)) == route


def _cluster(data: bytes) -> None:
    cluster = decode_cluster_info(data)
    assert decode_cluster_info(encode_cluster_info(cluster)) == cluster


def _property_file(data: bytes) -> dict[str, str]:
    try:
        properties = read_properties(data)
    except ConfigError as error:
        raise ProtocolError(str(error)) from error
    assert read_properties(write_properties(properties)) == properties
    return properties


def _dialect(data: bytes) -> None:
    value = parse(data)
    if len(data) < 10_000:
        parse(write(value))
        parse(write_pretty(value))


def _registration(data: bytes) -> RegisterBrokerBody:
    return decode_registration(data[1:], version=data[0] * 4, compressed=data[0] % 2 == 1)


def _compressed_registration(data: bytes) -> None:
    registered = decode_registration(zlib.compress(data, 1), version=407, compressed=True)
    try:
        again = decode_registration(encode_registration(registered, compressed=True), version=407, compressed=True)
    except ProtocolError:
        assert any(_has_blank(topic) for topic in registered.topics.topic_config_table.values())
    else:
        assert again == registered


def _has_blank(topic: TopicConfig) -> bool:
    return " " in topic.topic_name


TARGETS = [
    Target(
        "frames",
        _frames,
        [ROUTE_JSON, ROUTE_BINARY, HEARTBEAT_BINARY, ROUTE_BINARY * 2 + ROUTE_JSON, json_frame(TOLERATED, b"body")]
        + [encode_frame(msgspec.structs.replace(SEND, encoding=encoding)) for encoding in Encoding],
    ),
    Target("frames.json", lambda data: _frames(json_frame(data or b"{}")), [ROUTE_JSON[8:], TOLERATED]),
    Target("headers", lambda data: _headers(data or b"\0"), _header_seeds()),
    Target("bodies", lambda data: _bodies(data or b"\0{}"), _body_seeds()),
    Target("routes", _route, [OLD_FORM, STANDARD_FORM, encode_route(ROUTE, standard_json=True)]),
    Target("routes.cluster", _cluster, [CLUSTER, encode_cluster_info(ClusterInfo())]),
    Target(
        "properties.file",
        _property_file,
        [b"a = 1\n# c\n! d\nb:2\\\n  3\nc\\ d \\u4e2d=\\t x\r\n\r\nkey", b"brokerName=a\nlistenPort=10911\n"],
    ),
    Target(
        "dialect",
        _dialect,
        [
            TOLERATED,
            OLD_FORM,
            *(data for _, data in EXAMPLES.values()),
            b'{"a":[{"x":1},[2]],"b":{"$ref":"$.a[0]"},"c":[{"$ref":"$.a"},{"$ref":"$.b"},{"$ref":".."},{"$ref":"@"}]}',
            b'{"a":{"t":"x"},"m":{{"$ref":"$.a"}:1,{"k":[1]}:2,0:3}} // end',
            b'["\\ud83d\\ude00","\\x41\\v\\0",1L,.5,1.5E-3,NaN,\'\\\'\',,]',
        ],
    ),
    Target(
        "registration",
        lambda data: _registration(data or b"\xff"),
        [
            b"\xff" + encode_registration(REGISTERED, compressed=True),
            b"\xfe" + FULL,
            b"\x01" + encode_registration(REGISTERED, version=1),
            b"\xff",
        ],
    ),
    Target("registration.inflated", _compressed_registration, [INFLATED]),
]
