"""Single requests, and floods of them, that once held a server for seconds, while others ask it ordinary things.

Each attack is one that worked, in its size or cut down to what shows the same. Others are answered at most 100 ms later
than at an idle server in the same run, the server takes little memory, and what was refused has changed nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.broker.requests import binary_bytes, properties_text, pull_frame, send_frame, unique_id
from tests.security.attacked import PROBE_TOPIC, Target, attack, started_broker, started_name_server, watched

LATE_S_MAX = 0.1
MIB = 1 << 20

pytestmark = [pytest.mark.system, pytest.mark.alone]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    home = tmp_path_factory.mktemp("attacked")
    with (
        started_broker(home / "broker", "enablePropertyFilter=true") as attacked_one,
        started_broker(home / "idle") as idle_one,
        started_name_server(home / "namesrv") as name_server,
    ):
        yield {"broker": attacked_one(), "idle": idle_one(), "name server": name_server()}


def check(servers: dict[str, Target], data: bytes, *, answers: int = 1, memory: int = 64 * MIB) -> list[Frame]:
    """Attack the broker; returns what the attacker was answered."""
    return _check(servers["broker"], servers["idle"], data, answers=answers, memory=memory)


def check_name_server(servers: dict[str, Target], data: bytes) -> list[Frame]:
    return _check(servers["name server"], servers["idle"], data, answers=1, memory=64 * MIB)


def _check(target: Target, idle: Target, data: bytes, *, answers: int, memory: int) -> list[Frame]:
    before = target.memory_bytes()
    with watched(target, idle) as waits:
        said = attack(target.address, data, answers=answers)
    assert waits.late_s < LATE_S_MAX, (
        f"an answer took {max(waits.wall_s):.3f} s, {max(waits.cpu_s):.3f} s of it at work"
    )
    assert target.memory_bytes() - before < memory
    return said


def heartbeat(text: str) -> bytes:
    return encode_frame(Frame(RequestCode.HEART_BEAT, 1, body=text.encode()))


def quoted(texts: list[str]) -> str:
    return ",".join(texts)


def groups_of(target: Target) -> int:
    return target.ask(Frame(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 1)).body.count(b'"groupName"')


# ---------------------------------------------------------------------------------------------------------- expressions


def sql_heartbeat(expression: str, count: int) -> bytes:
    some = [
        f'{{"topic":"T{number}","subString":"{expression}","expressionType":"SQL92","subVersion":1}}'
        for number in range(count)
    ]
    return heartbeat(
        f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g","subscriptionDataSet":[{quoted(some)}]}}]}}'
    )


def test_expressions_of_a_megabyte_in_a_heartbeat(servers: dict[str, Target]) -> None:
    said = check(servers, sql_heartbeat(" OR ".join(["TRUE"] * 116_000), 14))
    assert said[0].code != 0


def test_many_expressions_as_expensive_as_they_may_be(servers: dict[str, Target]) -> None:
    said = check(servers, sql_heartbeat(" OR ".join(f"a{n} BETWEEN 1 AND {n}" for n in range(1, 999)), 20))
    assert said[0].code == 0


@pytest.mark.parametrize(
    "expression",
    [
        " OR ".join(["TRUE"] * 116_000),
        " OR ".join(f"a{number}" for number in range(100_000)),
        "a IN (" + ",".join(f"'{number}'" for number in range(120_000)) + ")",
        "(" * 90 + " OR (".join(["TRUE)"] * 7_000),
    ],
    ids=["truths", "names", "texts", "parentheses"],
)
def test_an_expression_that_is_only_asked_about(servers: dict[str, Target], expression: str) -> None:
    body = f'{{"group":"g","subscriptionData":{{"topic":"T","subString":"{expression}","expressionType":"SQL92"}}}}'
    assert check(servers, encode_frame(Frame(RequestCode.CHECK_CLIENT_CONFIG, 1, body=body.encode())))[0].code != 0


def test_pulls_whose_filter_is_as_expensive_as_it_may_be(servers: dict[str, Target]) -> None:
    properties = properties_text([(f"p{number}", "y") for number in range(4_000)])
    for _ in range(4):
        sends = b"".join(encode_frame(send_frame("Filtered", 0, properties=properties)) for _ in range(50))
        attack(servers["broker"].address, sends, answers=50)
    expression = "zz = yy AND (" + " OR ".join(f"a{number}" for number in range(990)) + ")"
    pull = pull_frame("Filtered", subscription=expression, expressionType="SQL92", count=32)
    said = check(servers, encode_frame(pull) * 40, answers=40)
    assert {frame.code for frame in said} == {20}


def test_a_pull_with_a_hundred_thousand_names(servers: dict[str, Target]) -> None:
    expression = "zz = yy AND (" + " OR ".join(f"a{number}" for number in range(40_000)) + ")"
    said = check(servers, encode_frame(pull_frame(PROBE_TOPIC, subscription=expression, expressionType="SQL92")) * 5)
    assert said[0].code != 0


# ----------------------------------------------------------------------------------------------------------- heartbeats


def test_a_heartbeat_in_the_looser_dialect(servers: dict[str, Target]) -> None:
    assert check(servers, heartbeat('{clientID:"c",x:[' + "{a:1}," * 400_000 + "{}]}"))[0].code != 0
    assert check(servers, heartbeat('{clientID:"c",x:[' + "{a:1}," * 40_000 + "{}]}"))[0].code != 0


@pytest.mark.parametrize(("kind", "count"), [("producer", 100_000), ("consumer", 20_000)])
def test_a_heartbeat_with_very_many_groups(servers: dict[str, Target], kind: str, count: int) -> None:
    before = groups_of(servers["broker"])
    names = [f'{{"groupName":"many-{number}"}}' for number in range(count)]
    said = check(servers, heartbeat(f'{{"clientID":"c","{kind}DataSet":[{quoted(names)}]}}'))
    assert said[0].code != 0
    assert groups_of(servers["broker"]) == before


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_heartbeat_with_as_many_groups_as_may_be(servers: dict[str, Target], kind: str) -> None:
    names = [f'{{"groupName":"few-{number}"}}' for number in range(1000)]
    assert check(servers, heartbeat(f'{{"clientID":"c","{kind}DataSet":[{quoted(names)}]}}'))[0].code == 0


# --------------------------------------------------------------------------------------------------- batches and pulls


def batch(count: int, properties: str) -> bytes:
    entries = [
        struct.pack(">iiiiih", 0, 0, 0, 0, 0, len(text)) + text
        for text in (((properties + unique_id(number)) if properties else "").encode() for number in range(count))
    ]
    return encode_frame(send_frame("Batches", 0, code=RequestCode.SEND_BATCH_MESSAGE, body=b"".join(entries), m="true"))


def test_a_batch_of_empty_messages(servers: dict[str, Target]) -> None:
    assert check(servers, batch(190_000, ""))[0].code != 0


def test_a_batch_of_as_many_messages_as_java_clients_could_send(servers: dict[str, Target]) -> None:
    said = check(servers, batch(60_000, "UNIQ_KEY\x01"), memory=128 * MIB)[0]
    assert said.code == 0
    assert len(((said.ext or {})["msgId"] or "").split(",")) == 60_000


def keys(count: int) -> str:
    return "KEYS\x01" + " ".join(f"{number:x}" for number in range(count)) + "\x02UNIQ_KEY\x01"


def test_a_batch_whose_messages_have_very_many_keys(servers: dict[str, Target]) -> None:
    assert check(servers, batch(1_000, keys(900)), memory=128 * MIB)[0].code == 0


def test_sends_with_as_many_keys_as_may_be(servers: dict[str, Target]) -> None:
    sends = [send_frame("Plain", 0, properties=keys(1_024) + unique_id(number)) for number in range(200)]
    said = check(servers, b"".join(map(encode_frame, sends)), answers=200, memory=128 * MIB)
    assert {answer.code for answer in said} == {0}
    assert check(servers, encode_frame(send_frame("Plain", 0, properties=keys(1_025) + unique_id(1))))[0].code == 13


def test_queries_that_find_very_much(servers: dict[str, Target]) -> None:
    large = encode_frame(send_frame("Large", 0, body=bytes(3_000_000), properties="KEYS\x01large"))
    attack(servers["broker"].address, [large] * 20, answers=20)
    times: dict[str, str | None] = {"beginTimestamp": "0", "endTimestamp": str(2**62)}
    found = {"topic": "Large", "key": "large", "maxNum": "64", **times}
    query = encode_frame(Frame(RequestCode.QUERY_MESSAGE, 1, ext=found))
    said = check(servers, query * 4, answers=4, memory=128 * MIB)
    assert {(answer.code, len(answer.body) // 3_000_000) for answer in said} == {(0, 2)}


def test_pulls_with_very_many_tags(servers: dict[str, Target]) -> None:
    tags = "||".join(f"tag{number}" for number in range(50_000))
    pull = encode_frame(pull_frame(PROBE_TOPIC, 3, subscription=tags, hold_ms=20_000))
    said = check(servers, pull * 5)
    assert not said or said[0].code != 0
    tags = "||".join(f"tag{number}" for number in range(1_000))
    held = [
        encode_frame(pull_frame(PROBE_TOPIC, 3, subscription=tags, hold_ms=500, opaque=number)) for number in range(200)
    ]
    assert {frame.code for frame in check(servers, b"".join(held), answers=200, memory=128 * MIB)} == {19}


def test_very_many_pulls_at_once_that_are_held_and_end_together(servers: dict[str, Target]) -> None:
    pulls = b"".join(encode_frame(pull_frame(PROBE_TOPIC, 3, hold_ms=1_000, opaque=number)) for number in range(10_000))
    said = check(servers, pulls, answers=10_000, memory=256 * MIB)
    assert len(said) == 10_000


def test_headers_of_megabytes_are_no_requests(servers: dict[str, Target]) -> None:
    sends = [binary_bytes(310, [("a", b"g" * (8 * MIB)), ("b", b"T%d" % number)]) for number in range(3)]
    for data in sends:
        assert check(servers, data) == []
    header = b'{"code":310,"extFields":{' + b",".join(b'"%d":""' % n for n in range(1_000_000)) + b'},"opaque":1}'
    assert check(servers, struct.pack(">iI", 4 + len(header), len(header)) + header) == []


# ---------------------------------------------------------------------------------------------------------- name server


def registration(body: bytes, *, compressed: bool) -> bytes:
    fields = {"brokerName": "b", "brokerAddr": "10.0.0.9:10911", "clusterName": "c", "brokerId": "0"}
    fields |= {"compressed": str(compressed).lower(), "bodyCrc32": "0", "haServerAddr": ""}
    return encode_frame(Frame(RequestCode.REGISTER_BROKER, 1, ext=dict(fields), body=body))


@pytest.mark.parametrize(("count", "is_taken"), [(500_000, False), (50_000, True)])
def test_a_registration_of_very_many_topics(servers: dict[str, Target], count: int, is_taken: bool) -> None:
    lines = b"".join(
        struct.pack(">i", len(line)) + line for line in (b"t%d 1 1 6 SINGLE_TAG" % number for number in range(count))
    )
    version = b'{"counter":1,"timestamp":1}'
    plain = struct.pack(">i", len(version)) + version + struct.pack(">i", count) + lines + struct.pack(">i", 2) + b"[]"
    said = check_name_server(servers, registration(zlib.compress(plain), compressed=True))
    assert (said[0].code == 0) is is_taken


def test_a_data_version_in_the_looser_dialect(servers: dict[str, Target]) -> None:
    body = b"{x:[" + b"{a:1}," * 400_000 + b"{}]}"
    fields = {"brokerName": "b", "brokerAddr": "10.0.0.9:10911", "clusterName": "c", "brokerId": "0"}
    said = check_name_server(
        servers, encode_frame(Frame(RequestCode.QUERY_DATA_VERSION, 1, ext=dict(fields), body=body))
    )
    assert said[0].code != 0
