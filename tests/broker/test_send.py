"""Sends through a real port: answers, buffers of any mixture, and changes while producers send."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.testing import FaultyDisk
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame
from tests.broker.house import ROOT, House, Peer, open_house, read_store
from tests.broker.requests import TOPIC, as_version_1, json_bytes, properties_text, pull_frame, send_frame, unique_id
from tests.broker.support import until

PROPERTIES = properties_text([("UNIQ_KEY", unique_id(1)), ("WAIT", "true"), ("TAGS", "TagA")])


def offsets(answer: Frame) -> tuple[int, int, int]:
    """(queue id, queue offset, log offset) of a message that was stored."""
    assert answer.code == 0, answer.remark
    assert answer.ext is not None
    ext = answer.ext
    return int(ext["queueId"] or ""), int(ext["queueOffset"] or ""), int((ext["msgId"] or "")[16:], 16)


# ---------------------------------------------------------------------------------------------------------- answers


async def test_answers_name_the_place_of_each_message_over_all_changes_of_digits() -> None:
    """From 0 to 1,023, in four encodings, alone and in buffers of many."""
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        asked: list[Frame] = []
        for number in range(1024):
            properties = properties_text([("UNIQ_KEY", unique_id(number)), ("TAGS", "TagA")])
            frame = send_frame(
                TOPIC, 2, opaque=number, body=b"%d" % number, is_binary=number % 3 == 0, properties=properties
            )
            asked.append(as_version_1(frame) if number % 50 == 7 else frame)
        answers: dict[int, Frame] = {}
        for start in range(0, 1024, 64):
            group = asked[start : start + 64]
            if start % 128:
                await peer.write(*group)
                answers |= await peer.all(len(group))
            else:
                answers |= {frame.opaque: await peer.ask(frame) for frame in group}
        records = await house.pull_all(TOPIC, 2)
        assert [record.body for record in records] == [b"%d" % number for number in range(1024)]
        for number, record in enumerate(records):
            assert offsets(answers[number]) == (2, number, record.log_offset)
            assert answers[number].encoding is asked[number].encoding


async def test_an_answer_has_the_family_s_fields_and_the_request_s_number() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for opaque in (0, 1, -1, 2**31 - 1, -(2**31)):
            for is_binary in (False, True):
                answer = await peer.ok(send_frame(opaque=opaque, is_binary=is_binary))
                assert answer.opaque == opaque
                assert answer.flag == 1
                assert answer.remark is None
                assert answer.body == b""
                assert set(answer.ext or ()) == {"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}


async def test_a_negative_queue_id_lets_the_broker_choose_among_the_queues_that_are_written_to() -> None:
    async with open_house() as house:
        await house.make_topic(readQueueNums=8, writeQueueNums=3)
        peer = await house.connect()
        chosen = {offsets(await peer.ask(send_frame(queue_id=-1)))[0] for _ in range(100)}
        assert chosen == {0, 1, 2}


async def test_the_fast_port_takes_sends_too() -> None:
    async with open_house() as house:
        main, fast = await house.connect(), await house.connect(is_fast=True)
        for number in range(4):
            peer = (main, fast)[number % 2]
            assert offsets(await peer.ask(send_frame(is_binary=True)))[:2] == (0, number)


async def test_a_message_is_born_at_the_address_of_its_connection() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for _ in range(2):
            await peer.ok(send_frame())
        port = peer._writer.get_extra_info("sockname")[1]
        for record in await house.pull_all():
            assert record.born_host == bytes([127, 0, 0, 1]) + port.to_bytes(4, "big")
            assert record.store_host == bytes([127, 0, 0, 1]) + house.port.to_bytes(4, "big")


# ---------------------------------------------------------------------------------------------------------- buffers


async def prepared(house: House) -> Peer:
    """A connection whose sends are known to the plain way, in both encodings."""
    peer = await house.connect()
    for is_binary in (False, True):
        await peer.ok(send_frame(queue_id=3, is_binary=is_binary, properties=PROPERTIES))
    return peer


async def test_a_pull_sees_the_sends_before_it_in_the_same_buffer_and_not_those_behind() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        await peer.write(
            send_frame(opaque=1, body=b"first"),
            send_frame(opaque=2, body=b"second", is_binary=True, properties=PROPERTIES),
            pull_frame(opaque=3),
            send_frame(opaque=4, body=b"third"),
            pull_frame(opaque=5, offset=2),
            Frame(RequestCode.GET_MAX_OFFSET, 6, ext={"topic": TOPIC, "queueId": "0"}),
        )
        answers = await peer.all(6)
        assert [answers[opaque].code for opaque in range(1, 7)] == [0] * 6
        assert answers[3].ext is not None
        assert answers[3].ext["maxOffset"] == "2"
        assert b"first" in answers[3].body
        assert b"third" not in answers[3].body
        assert b"third" in answers[5].body
        assert answers[6].ext == {"offset": "3"}


async def test_oneway_sends_are_stored_and_not_answered() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        await peer.write(
            send_frame(opaque=1, is_oneway=True, body=b"a"),
            send_frame(opaque=2, is_oneway=True, body=b"b", is_binary=True, properties=PROPERTIES),
            as_version_1(send_frame(opaque=3, is_oneway=True, body=b"c")),
            send_frame(opaque=4, is_oneway=True, queue_id=99, body=b"refused"),
            send_frame(opaque=5, is_oneway=True, body=bytes(5 << 20)),
            send_frame(opaque=6, body=b"d"),
        )
        assert (await peer.next()).opaque == 6
        await peer.silence()
        assert [record.body for record in await house.pull_all()] == [b"a", b"b", b"c", b"d"]


async def test_an_answer_with_the_code_of_a_send_is_not_stored() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        for is_binary in (False, True):
            stray = send_frame(queue_id=3, opaque=9, is_binary=is_binary, properties=PROPERTIES)
            stray.flag = 1
            await peer.write(stray)
        assert offsets(await peer.ask(send_frame(queue_id=3)))[1] == 2


async def test_frames_may_arrive_in_pieces_of_any_size() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        frames = [
            send_frame(opaque=number, body=b"x" * number, is_binary=number % 2 == 0, properties=PROPERTIES)
            for number in range(12)
        ]
        data = b"".join(map(encode_frame, frames))
        for size in (1, 7, 100, 333):
            for at in range(0, len(data), size):
                await peer.write(data[at : at + size])
                if size > 1 or at % 50 == 0:
                    await asyncio.sleep(0)
            assert set(await peer.all(12)) == set(range(12))
        assert [len(record.body) for record in await house.pull_all()] == list(range(12)) * 4


async def test_a_large_message_in_many_pieces_is_stored_whole() -> None:
    async with open_house(store={"commit_log_file_bytes": 8 << 20}) as house:
        peer = await prepared(house)
        body = bytes(range(256)) * (4 << 12)
        assert len(body) == 4 << 20, "the largest that is allowed"
        for is_binary in (False, True):
            await peer.ok(send_frame(body=body, is_binary=is_binary, properties=PROPERTIES))
        assert [record.body for record in await house.pull_all()] == [body, body]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x10\x05\0\0\x01{}",
        json_bytes(b"no json"),
        json_bytes(b'{"code":310,"extFields":{"b":"TopicTest"'),
        b"\0\0\0\x09\x01\0\0\x05\x01\x36abc",
    ],
)
async def test_good_sends_before_garbage_are_stored_and_answered(garbage: bytes) -> None:
    async with open_house() as house:
        peer, other = await prepared(house), await house.connect()
        await peer.write(send_frame(opaque=1), send_frame(opaque=2, is_binary=True, properties=PROPERTIES), garbage)
        answers = await peer.all(2)
        assert [offsets(answers[opaque])[1] for opaque in (1, 2)] == [0, 1]
        await peer.ended()
        assert offsets(await other.ask(send_frame()))[1] == 2


async def test_an_incomplete_frame_at_the_end_of_a_buffer_waits_for_its_rest() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        for is_binary in (False, True):
            data = encode_frame(send_frame(opaque=2, is_binary=is_binary, properties=PROPERTIES))
            for cut in (1, 4, 6, 8, 40, len(data) - 1):
                await peer.write(send_frame(opaque=1), data[:cut])
                assert (await peer.next()).opaque == 1
                await peer.write(data[cut:])
                assert (await peer.next()).opaque == 2


async def test_a_producer_that_vanishes_in_the_middle_of_a_frame_loses_that_frame_only() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        await peer.write(send_frame(opaque=1), encode_frame(send_frame(opaque=2))[:-1])
        assert (await peer.next()).opaque == 1
        peer.abort()
        other = await house.connect()
        assert offsets(await other.ask(send_frame()))[1] == 1


async def test_many_requests_of_other_kinds_in_one_buffer_are_all_answered() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        ext: dict[str, str | None] = {"topic": TOPIC, "queueId": "0"}
        await peer.write(
            *[Frame(RequestCode.GET_MAX_OFFSET, number, ext=ext) for number in range(5000)],
            send_frame(opaque=5000),
        )
        assert len(await peer.all(5001)) == 5001


async def test_answers_of_several_megabytes_in_one_buffer_arrive() -> None:
    """A client that asks for much at once is served at its pace, not cut off."""
    async with open_house() as house:
        peer = await prepared(house)
        for _ in range(8):
            await peer.write(*[send_frame(opaque=number, body=bytes(1024)) for number in range(32)])
            await peer.all(32)
        await peer.write(*[pull_frame(opaque=number) for number in range(1000)])
        answers = await peer.all(1000)
        assert {len(answer.body) for answer in answers.values()} == {len(answers[0].body)}
        assert len(answers[0].body) > 32 * 1024


# ---------------------------------------------------------------------------------------------- changes on the way


@pytest.mark.parametrize("is_binary", [False, True])
async def test_fewer_queues_are_respected_by_the_next_send(is_binary: bool) -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        frame = send_frame(queue_id=3, is_binary=is_binary, properties=PROPERTIES)
        for _ in range(2):
            await peer.ok(frame)
        await house.make_topic(readQueueNums=3, writeQueueNums=3)
        assert (await peer.refused(frame))[0] == 1
        await house.make_topic()
        assert offsets(await peer.ask(frame))[:2] == (3, 2)


@pytest.mark.parametrize("is_binary", [False, True])
async def test_another_filter_type_is_respected_by_the_next_send(is_binary: bool) -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        frame = send_frame(is_binary=is_binary, properties=PROPERTIES)
        for _ in range(2):
            await peer.ok(frame)
        await house.make_topic(topicFilterType="MULTI_TAG")
        for _ in range(2):
            await peer.ok(frame)
        assert [record.sys_flag for record in await house.pull_all()] == [0, 0, 2, 2]


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_deleted_topic_comes_back_if_it_may_and_goes_on_where_it_ended(is_binary: bool) -> None:
    async with open_house() as house:
        peer = await house.connect()
        frame = send_frame(is_binary=is_binary, properties=PROPERTIES)
        for number in range(12):
            assert offsets(await peer.ask(frame))[1] == number
        await house.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        for number in range(12, 15):
            assert offsets(await peer.ask(frame))[1] == number
        await house.set_config(autoCreateTopicEnable="false")
        await house.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert (await peer.refused(frame))[0] == 17
        await house.make_topic()
        assert offsets(await peer.ask(frame))[1] == 15


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_changed_configuration_holds_for_the_next_send(is_binary: bool) -> None:
    async with open_house() as house:
        peer = await house.connect()
        frame = send_frame(is_binary=is_binary, properties=PROPERTIES, body=bytes(100))
        for _ in range(2):
            assert ((await peer.ok(frame)).ext or {})["MSG_REGION"] == "DefaultRegion"
        await house.set_config(regionId="south 7%", traceOn="false")
        for _ in range(3):
            ext = (await peer.ok(frame)).ext or {}
            assert (ext["MSG_REGION"], ext["TRACE_ON"]) == ("south 7%", "false")
        await house.set_config(maxMessageSize=99)
        assert (await peer.refused(frame))[0] == 13
        await house.set_config(maxMessageSize=100)
        await peer.ok(frame)
        await house.set_config(startAcceptSendRequestTimeStamp=2**62)
        assert (await peer.refused(frame))[0] == 1
        await house.set_config(startAcceptSendRequestTimeStamp=0)
        await peer.ok(frame)


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_broker_that_may_not_be_written_to_refuses_ordered_topics_alone(is_binary: bool) -> None:
    async with open_house() as house:
        peer = await house.connect()
        ordered = send_frame("Ordered", is_binary=is_binary, properties=PROPERTIES)
        other = send_frame("Other", is_binary=is_binary, properties=PROPERTIES)
        for frame in (ordered, ordered, other, other):
            await peer.ok(frame)
        house.broker.tables.topics.apply_order_topics({"Ordered"})
        await peer.ok(ordered)
        await house.set_config(brokerPermission=4)
        assert (await peer.refused(ordered))[0] == 16
        await peer.ok(other)
        await house.set_config(brokerPermission=6)
        await peer.ok(ordered)


async def test_a_topic_may_be_sent_to_although_its_permission_says_no() -> None:
    """It lives in the route: taking it away drains a broker, and fails nobody."""
    async with open_house() as house:
        await house.make_topic(perm=4)
        peer = await house.connect()
        for _ in range(2):
            await peer.ok(send_frame())


# ---------------------------------------------------------------------------------------------------- several peers


async def test_producers_on_many_connections_share_queues_without_gaps() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk) as house:
        peers = [await house.connect(is_fast=number % 3 == 0) for number in range(12)]

        async def produce(peer: Peer, number: int) -> list[tuple[int, int, int]]:
            places = []
            for turn in range(10):
                frames = [
                    send_frame(
                        TOPIC,
                        count % 4,
                        opaque=count,
                        is_binary=number % 2 == 0,
                        body=b"%d %d %d" % (number, turn, count),
                        properties=properties_text([("UNIQ_KEY", unique_id(number * 1000 + turn * 16 + count))]),
                    )
                    for count in range(16)
                ]
                await peer.write(*frames)
                places += [offsets(answer) for answer in (await peer.all(16)).values()]
            return places

        found = await asyncio.gather(*[produce(peer, number) for number, peer in enumerate(peers)])
        places = sorted(place for places in found for place in places)
        assert [(queue_id, offset) for queue_id, offset, _ in places] == [
            (queue_id, offset) for queue_id in range(4) for offset in range(12 * 10 * 4)
        ]
        await until(lambda: house.broker.store.statistics.put_count >= 1920)
    assert len(read_store(disk).records) == 1920


async def test_answers_keep_the_encoding_of_their_requests_on_one_connection() -> None:
    async with open_house() as house:
        peer = await prepared(house)
        await peer.write(
            *[
                send_frame(opaque=number, is_binary=number % 2 == 0, properties=PROPERTIES, queue_id=number % 5)
                for number in range(20)
            ]
        )
        for opaque, answer in (await peer.all(20)).items():
            assert answer.encoding is (Encoding.BINARY if opaque % 2 == 0 else Encoding.JSON)
            assert answer.code == (1 if opaque % 5 == 4 else 0), "the topic has four queues"
