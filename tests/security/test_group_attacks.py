"""Attacks by clients with very many groups, locks and filters, and by those without an account, on real servers.

As in `test_attacks`: each of them worked. Others wait at most 100 ms longer than at an idle server in the same run.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.broker.requests import binary_bytes, properties_text, send_frame
from tests.cli.processes import running
from tests.security.attacked import PROBE_TOPIC, Target, attack, broker_command, started_broker, watched
from tests.security.test_attacks import LATE_S_MAX, MIB, batch, check

GROUPS = [f"g{number}" for number in range(1000)]

pytestmark = [pytest.mark.system, pytest.mark.alone]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    home = tmp_path_factory.mktemp("attacked")
    settings = ("enablePropertyFilter=true", "enableCalcFilterBitMap=true", "enableConsumeQueueExt=true")
    with started_broker(home / "broker", *settings) as attacked_one, started_broker(home / "idle") as idle_one:
        yield {"broker": attacked_one(), "idle": idle_one()}


def heartbeat(client_id: str, groups: list[str], topic: str = PROBE_TOPIC, **subscription: object) -> bytes:
    said = {"topic": topic, "subString": "*", "subVersion": 1} | subscription
    body = {
        "clientID": client_id,
        "consumerDataSet": [{"groupName": group, "subscriptionDataSet": [said]} for group in groups],
    }
    return encode_frame(Frame(RequestCode.HEART_BEAT, 1, body=json.dumps(body).encode()))


def locks(count: int, *, topic: str, group: str = "g") -> bytes:
    queues = ",".join(f'{{"topic":"{topic}","brokerName":"b","queueId":{number}}}' for number in range(count))
    body = f'{{"consumerGroup":"{group}","clientId":"c","mqSet":[{queues}]}}'
    return encode_frame(Frame(RequestCode.LOCK_BATCH_MQ, 1, body=body.encode()))


def connected(target: Target, data: bytes) -> socket.socket:
    """A client that sends this, hears that it was taken, and stays."""
    host, _, port = target.address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=20)
    sock.sendall(data)
    assert sock.recv(65536)
    return sock


# -------------------------------------------------------------------------------------------------------- many members


def test_members_of_a_thousand_groups_that_come_and_go(servers: dict[str, Target]) -> None:
    target, idle = servers["broker"], servers["idle"]
    clients = [connected(target, heartbeat(f"c{number}", GROUPS)) for number in range(20)]
    time.sleep(1)  # those are told of each other
    check(servers, heartbeat("one more", GROUPS))
    with watched(target, idle) as waits:
        for client in clients:
            client.close()
        time.sleep(1)
    assert waits.late_s < LATE_S_MAX
    deadline = time.monotonic() + 20
    asked = Frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 1, ext={"consumerGroup": GROUPS[-1]})
    while target.ask(asked).code == 0:
        assert time.monotonic() < deadline, "they are members still"
        time.sleep(0.05)


def test_a_heartbeat_with_two_million_tags(servers: dict[str, Target]) -> None:
    tags = "||".join(f"t{number}" for number in range(1000))
    some = ",".join(f'{{"topic":"T{number}","subString":"{tags}"}}' for number in range(2000))
    body = f'{{"clientID":"c","consumerDataSet":[{{"groupName":"tags","subscriptionDataSet":[{some}]}}]}}'
    assert check(servers, encode_frame(Frame(RequestCode.HEART_BEAT, 1, body=body.encode())))[0].code != 0


def test_a_heartbeat_with_as_many_tags_as_may_be(servers: dict[str, Target]) -> None:
    tags = "||".join(f"t{number}" for number in range(1000))
    some = ",".join(f'{{"topic":"T{number}","subString":"{tags}"}}' for number in range(65))
    body = f'{{"clientID":"c","consumerDataSet":[{{"groupName":"tags","subscriptionDataSet":[{some}]}}]}}'
    assert check(servers, encode_frame(Frame(RequestCode.HEART_BEAT, 1, body=body.encode())))[0].code == 0


# --------------------------------------------------------------------------------------------------------------- locks


def test_locks_on_very_many_queues_that_do_not_exist(servers: dict[str, Target]) -> None:
    for number in range(3):
        said = check(servers, locks(45_000, topic="T" * 20, group=f"g{number}"))[0]
        assert (said.code, "queueLocksPerGroupMax" in (said.remark or "")) == (1, True)
        said = check(servers, locks(16_000, topic="T" * 100, group=f"g{number}"))[0]
        assert (said.code, json.loads(said.body)["lockOKMQSet"]) == (0, [])


def test_locks_on_as_many_queues_as_may_be(servers: dict[str, Target]) -> None:
    said = check(servers, locks(16_384, topic=PROBE_TOPIC) * 2, answers=2)
    assert [len(json.loads(frame.body)["lockOKMQSet"]) for frame in said] == [16_384] * 2


# --------------------------------------------------------------------------------------------------- cells and bit maps


def test_many_cells_asked_for_at_once(servers: dict[str, Target]) -> None:
    assert attack(servers["broker"].address, batch(20_000, ""), answers=1)[0].code == 0
    ext: dict[str, str | None] = {"topic": "Batches", "queueId": "0", "index": "0", "count": "10000"}
    asked = encode_frame(Frame(RequestCode.QUERY_CONSUME_QUEUE, 1, ext=ext))
    said = check(servers, asked * 6, answers=6, memory=128 * MIB)
    assert [len(json.loads(frame.body)["queueData"]) for frame in said] == [10_000] * 6


def test_sends_to_a_topic_that_a_thousand_groups_filter_at_great_expense(servers: dict[str, Target]) -> None:
    expression = " OR ".join(f"a{number} = 'x{number}'" for number in range(990))
    for first in range(0, 200, 100):
        beat = heartbeat("filters", GROUPS[first : first + 100], "Bits", subString=expression, expressionType="SQL92")
        assert attack(servers["broker"].address, beat, answers=1)[0].code == 0
    properties = properties_text([(f"a{number}", "y") for number in range(990)])
    said = check(servers, encode_frame(send_frame("Bits", properties=properties)) * 3, answers=3)
    assert {frame.code for frame in said} == {0}


def test_a_batch_to_a_topic_with_filters_that_are_just_cheap_enough(servers: dict[str, Target]) -> None:
    expression = " OR ".join(f"a{number} = 'x'" for number in range(990))
    for group in GROUPS[:4]:
        beat = heartbeat(group, [group], "Batches", subString=expression, expressionType="SQL92")
        assert attack(servers["broker"].address, beat, answers=1)[0].code == 0
    assert check(servers, batch(2_000, "UNIQ_KEY\x01"))[0].code == 0


# ------------------------------------------------------------------------------------------------------------- accounts


def test_large_bodies_with_signatures_of_nobody(servers: dict[str, Target], tmp_path: Path) -> None:
    accounts = tmp_path / "acl.yml"
    accounts.write_text("accounts:\n  - accessKey: the-admin\n    secretKey: admin-secret\n    admin: true\n")
    command = broker_command(tmp_path / "store", "aclEnable=true", f"rocketmq.acl.plain.file={accounts}")
    with running(command, home=tmp_path) as process:
        target = Target(process, process.line().rpartition(" ")[2], Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 1))
        with watched(target, servers["idle"]) as waits:
            fields = [("AccessKey", b"the-admin"), ("Signature", b"x"), ("b", b"T"), ("e", b"")]
            said = attack(target.address, binary_bytes(310, fields, b"x" * 15_500_000) * 3, answers=3)
        waits.failures.clear()  # who asks without a signature is refused, and has waited as long as others
        assert waits.late_s < LATE_S_MAX
        assert all("AclException" in (frame.remark or "") for frame in said)
