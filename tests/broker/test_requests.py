"""Each request that a broker answers is declared once, where it is answered, and everything else follows from that."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import skyrocketmq.wire.headers_admin
import skyrocketmq.wire.headers_clients
import skyrocketmq.wire.headers_namesrv
import skyrocketmq.wire.headers_pull
import skyrocketmq.wire.headers_send
from skyrocketmq.access import Permission
from skyrocketmq.broker.access_rules import Needs
from skyrocketmq.broker.requests import HANDLERS, NEEDS, REQUESTS
from skyrocketmq.net import declared_by
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.headers_codec import Header, NoFields, decode_header
from tests.broker.house import ROOT, open_house
from tests.broker.requests import GROUP, TOPIC
from tests.broker.walks import walk
from tests.declared import ALL_REQUESTS

SOURCE = Path(skyrocketmq.__file__).parent

# What each request needs, written down apart from the declarations: who may do what changes only on purpose.
WHO_MAY = """
 10 PUB topic                      11 SUB topic, SUB group consumerGroup        12 SUB topic
 14 SUB topic, SUB group consumerGroup     15 SUB topic, SUB group consumerGroup
 17 admin       21 admin       25 admin       26 admin       28 signature
 29 PUB|SUB topic      30 PUB|SUB topic      31 PUB|SUB topic      32 PUB|SUB topic
 33 signature   34 body        35 SUB group consumerGroup      36 SUB group group      37 signature
 38 SUB group consumerGroup    41 body        42 body        43 admin       45 admin       46 body
 50 accounts    51 accounts    52 accounts    53 accounts    54 accounts
 200 admin      201 admin      202 PUB|SUB topic      203 SUB group consumerGroup     204 admin      207 admin
 208 SUB topic, SUB group consumerGroup       215 admin
 222 SUB topic, SUB group group       223 SUB topic, SUB group group
 300 PUB|SUB topic     303 SUB topic, SUB group group       305 signature
 306 admin      307 SUB group consumerGroup   308 admin      309 admin
 310 PUB b      314 SUB topic, SUB group srcGroup, SUB group destGroup      315 admin      316 admin      317 admin
 320 PUB b      321 SUB topic, SUB group consumerGroup      323 admin      324 PUB topic      325 PUB b
 328 admin      329 admin      343 SUB group group      345 SUB topic, SUB group group
 351 PUB|SUB topic     352 SUB group group      20001 admin
"""


def who_may() -> dict[int, str]:
    entries = [entry.strip() for line in WHO_MAY.splitlines() for entry in line.split("   ") if entry.strip()]
    return {int(code): needs for code, needs in (entry.split(" ", 1) for entry in entries)}


def described(needs: Needs) -> str:
    """Needs in the notation above."""
    if needs.is_for_admins or needs.is_about_accounts:
        assert needs.is_for_admins, "accounts are for administrators"
        assert (needs.topic, needs.groups, needs.in_body) == (None, (), None)
        return "accounts" if needs.is_about_accounts else "admin"
    parts = []
    if needs.topic is not None:
        field, permission = needs.topic
        names = {Permission.PUB: "PUB", Permission.SUB: "SUB", Permission.PUB | Permission.SUB: "PUB|SUB"}
        parts.append(f"{names[permission]} {field}")
    parts += [f"SUB group {field}" for field in needs.groups]
    if needs.in_body is not None:
        parts.append("body")
    return ", ".join(parts) or "signature"


def test_who_may_send_each_request_is_what_is_written_down_here() -> None:
    assert {code: described(needs) for code, needs in NEEDS.items()} == who_may()


async def test_a_broker_answers_what_is_declared_and_pulls_not_on_its_fast_port() -> None:
    assert len(REQUESTS) == sum(len(declared_by(cls)) for classes in HANDLERS.values() for cls in classes)
    async with open_house(disk=FaultyDisk(directories=[ROOT])) as house:
        assert set(house.broker.parts.main_dispatcher.codes) == set(REQUESTS)
        fast = await house.connect(is_fast=True)
        for code in REQUESTS:
            answer = await fast.ask(Frame(code, 1, ext={}))
            assert (answer.code == 3) == (code == RequestCode.PULL_MESSAGE), code


@pytest.mark.parametrize("code", REQUESTS)
def test_a_declaration_says_what_the_request_means_and_names_fields_that_it_has(code: int) -> None:
    declared, needs = REQUESTS[code], NEEDS[code]
    assert declared.meaning
    assert "|" not in declared.meaning, "it stands in a table"
    named = {*needs.groups} | ({needs.topic[0]} if needs.topic else set())
    assert named <= set(declared.header.__struct_encode_fields__)
    assert needs.in_body is None or needs.in_body[0] is declared.body, "what is checked is what is handled"
    assert str(needs)


def test_every_header_has_one_home_and_belongs_to_a_request() -> None:
    wire = (
        skyrocketmq.wire.headers_admin,
        skyrocketmq.wire.headers_clients,
        skyrocketmq.wire.headers_namesrv,
        skyrocketmq.wire.headers_pull,
        skyrocketmq.wire.headers_send,
    )
    names = [name for module in wire for name in module.__all__]
    classes = {getattr(module, name) for module in wire for name in module.__all__}
    assert len(names) == len(set(names)) == len(classes)
    used = {cls for declared in ALL_REQUESTS.values() for cls in (declared.header, declared.answer)}
    assert used - {NoFields} == classes


def test_a_request_of_our_own_touches_two_files() -> None:
    """One with its number and what it carries, for both sides, and one with its handler; a class of each is enough."""
    for name in ("GET_SUBSCRIPTION_DIFFERENCES", "DifferenceReport"):
        files = [path.name for path in SOURCE.rglob("*.py") if name in path.read_text(encoding="utf-8")]
        assert sorted(files) == ["handlers_differences.py", "own_requests.py"]


@pytest.mark.parametrize("cls", dict.fromkeys(each.header for each in ALL_REQUESTS.values()))
def test_fields_that_a_header_does_not_know_change_nothing(cls: type[Header]) -> None:
    assert decode_header(cls, {"unknownField": "1"}) == cls()
    assert msgspec.structs.asdict(decode_header(cls, {"unknownField": None})) == msgspec.structs.asdict(cls())


# From the frame's bytes, through the dispatcher, to the bytes of the answer; the door in front of it is the same for
# all requests.
REQUEST_PROPER = frozenset({"frames:decode_frame", "dispatch:Dispatcher.handle", "dispatch:encode_reply"})


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize(
    "code", [RequestCode.GET_MAX_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MIN_OFFSET]
)
async def test_a_request_passes_twenty_functions_at_most(code: int, encoding: Encoding) -> None:
    clock = ManualClock()
    async with open_house(disk=FaultyDisk(directories=[ROOT]), clock=clock) as house:
        await house.make_topic()
        await house.send_many(3)
        house.broker.tables.offsets.commit(group=GROUP, topic=TOPIC, queue_id=0, offset=1)
        peer = await house.connect()
        frame = Frame(code, 1, ext={"topic": TOPIC, "queueId": "0", "consumerGroup": GROUP}, encoding=encoding)
        await peer.ok(frame)  # what is worked out once is there then
        passed = await walk(peer, frame, inside=REQUEST_PROPER)
        assert "dispatch:Dispatcher.handle" in passed
        assert len(set(passed)) <= 20, "\n".join(passed)
