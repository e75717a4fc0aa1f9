"""Bad sends: each gets its code and a remark that says what was wrong and what to do, and the broker goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from skyrocketmq.config import BrokerRole
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from tests.broker.house import House, Peer, open_house
from tests.broker.requests import (
    BORN_MS,
    GROUP,
    TOPIC,
    V1_NAMES,
    as_version_1,
    properties_text,
    pull_frame,
    send_fields,
    send_frame,
    unique_id,
)
from tests.broker.support import BROKER, CLUSTER

Way = Callable[..., Frame]
WAYS: dict[str, Way] = {
    "JSON": lambda *args, **fields: send_frame(*args, **fields),
    "binary": lambda *args, **fields: send_frame(*args, is_binary=True, **fields),
    "version 1": lambda *args, **fields: as_version_1(send_frame(*args, **fields)),
    "version 1, binary": lambda *args, **fields: as_version_1(send_frame(*args, is_binary=True, **fields)),
}
WORKS = properties_text([("UNIQ_KEY", unique_id(1)), ("TAGS", "TagA")])


async def check_every_way(house: House, code: int, words: Sequence[str], *args: Any, **fields: Any) -> None:
    """A send with these fields is refused in both encodings and with both headers."""
    for make in WAYS.values():
        await check_refused(house, make(*args, **fields), code, *words)


async def works_every_way(house: House, *args: Any, **fields: Any) -> int:
    """A send with these fields is stored, in general and when it is known; how often it was sent."""
    peer = await house.connect()
    for make in WAYS.values():
        for _ in range(2):
            await peer.ok(make(*args, **fields))
    await peer.close()
    return 2 * len(WAYS)


async def check_refused(house: House, frame: Frame, code: int, *words: str) -> None:
    """Twice, on a connection that sends good messages before and after; the remark has the words."""
    peer = await house.connect()
    good = send_frame("Good", opaque=77, is_binary=frame.encoding is Encoding.BINARY, properties=WORKS)
    for _ in range(2):
        await peer.ok(good)
        answer = await peer.ask(frame)
        assert answer.code == code, answer.remark
        assert answer.remark
        for word in words:
            assert word in answer.remark
        assert (answer.ext or {}).get("MSG_REGION") == "DefaultRegion", "producers read it in every answer"
        assert (answer.ext or {}).get("TRACE_ON") == "true"
        assert answer.encoding is frame.encoding
        assert "msgId" not in (answer.ext or {})
    await peer.ok(good)
    await peer.close()


# ---------------------------------------------------------------------------------------------------------- topics


async def test_an_unknown_topic_is_refused_where_sending_creates_none() -> None:
    async with open_house(auto_create_topic=False) as house:
        await house.make_topic("Good")
        await check_every_way(house, 17, ("Unknown", "autoCreateTopicEnable is false", "updateTopic"), "Unknown")
        assert house.broker.tables.topics.find("Unknown") is None


async def test_an_unknown_topic_is_refused_without_a_template_that_hands_its_permissions_on() -> None:
    async with open_house() as house:
        await house.make_topic("NoTemplate", perm=6)
        for template in ("NoTemplate", "Missing", None):
            await check_every_way(house, 17, ("Unknown", BROKER, "updateTopic"), "Unknown", c=template)


async def test_a_topic_is_created_from_its_template_with_as_many_queues_as_the_smaller_number() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for way, (make, (wanted, count)) in enumerate(product(WAYS.values(), ((3, 3), (100, 8)))):
            await peer.ok(make(f"New{way}", d=wanted))
            topic = house.broker.tables.topics.find(f"New{way}")
            assert topic is not None
            assert (topic.write_queue_nums, topic.read_queue_nums, topic.perm) == (count, count, 6)


async def test_an_illegal_topic_name_is_refused() -> None:
    async with open_house() as house:
        for name in ("", " ", "a b", "sp/ace", "emoji😀", "dot.ted", "a" * 128, "a\x01b"):
            await check_every_way(house, 1, ("topic",), name)


async def test_every_legal_topic_name_works() -> None:
    async with open_house() as house:
        for name in ("a", "%ns%topic", "A-b_c|d", "a" * 127):
            count = await works_every_way(house, name)
            assert len(await house.pull_all(name)) == count


async def test_the_brokers_own_topics_are_closed() -> None:
    async with open_house() as house:
        for topic in (
            "SCHEDULE_TOPIC_XXXX",
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "RMQ_SYS_TRANS_OP_HALF_TOPIC",
            "TRANS_CHECK_MAX_TIME_TOPIC",
            "SELF_TEST_TOPIC",
            "OFFSET_MOVED_EVENT",
        ):
            await check_every_way(house, 16, (topic, "may not send"), topic)


async def test_other_system_topics_are_open() -> None:
    async with open_house() as house:
        for topic in ("TBW102", "BenchmarkTest", CLUSTER, BROKER, f"{CLUSTER}_REPLY_TOPIC", "rmq_sys_x"):
            await works_every_way(house, topic)


# ---------------------------------------------------------------------------------------------------------- queues


async def test_a_queue_that_the_topic_does_not_have_is_refused() -> None:
    async with open_house() as house:
        await house.make_topic()
        for queue_id in (4, 5, 2**31 - 1):
            await check_every_way(house, 1, (f"queue {queue_id}", "0 to 3", "route"), TOPIC, queue_id)


async def test_the_larger_of_the_two_numbers_of_queues_decides() -> None:
    async with open_house() as house:
        for read, write in ((2, 6), (6, 2)):
            await house.make_topic(readQueueNums=read, writeQueueNums=write)
            await works_every_way(house, TOPIC, 5)
            await check_every_way(house, 1, ("0 to 5",), TOPIC, 6)


async def test_a_topic_without_queues_to_write_cannot_be_chosen_from() -> None:
    async with open_house() as house:
        await house.make_topic(readQueueNums=4, writeQueueNums=0)
        await check_every_way(house, 1, ("no queue to write", "updateTopic"), TOPIC, -1)


# ----------------------------------------------------------------------------------------------------------- sizes


async def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    async with open_house(store={"commit_log_file_bytes": 16 << 20}) as house:
        limit = 4 << 20
        await check_every_way(house, 13, ("maxMessageSize", str(limit)), body=bytes(limit + 1))
        await works_every_way(house, body=bytes(limit))


async def test_a_frame_of_many_megabytes_is_answered_too() -> None:
    async with open_house() as house:
        for is_binary in (False, True):
            await check_refused(house, send_frame(body=bytes(15 << 20), is_binary=is_binary), 13, "maxMessageSize")


async def test_a_frame_over_16_megabytes_ends_its_connection_and_no_other() -> None:
    async with open_house() as house:
        peer, other = await house.connect(), await house.connect()
        await peer.ok(send_frame())
        await peer.write((16 << 20).to_bytes(4, "big"), b"\0\0\0\x10")
        await peer.ended()
        await other.ok(send_frame())


async def test_properties_over_the_limit_are_refused_and_those_at_the_limit_are_not() -> None:
    async with open_house() as house:
        own = len(f"\x02CLUSTER\x01{CLUSTER}")
        for extra in (1, 2, 8_000):
            text = properties_text([("k", "v" * (32_767 - own - 2 + extra))])
            await check_every_way(house, 13, ("properties", "32767"), properties=text)
        await works_every_way(house, properties=properties_text([("k", "v" * (32_767 - own - 2))]))


async def test_the_limit_of_properties_counts_bytes() -> None:
    async with open_house() as house:
        await check_every_way(house, 13, ("properties",), properties=properties_text([("k", "ю" * 16_384)]))


# --------------------------------------------------------------------------------------------------------- headers


async def test_a_header_without_a_needed_field_is_refused() -> None:
    async with open_house() as house:
        for letter, make in product("befgh", WAYS.values()):
            frame = make()
            for name in (letter, V1_NAMES[letter]):
                (frame.ext or {}).pop(name, None)
            await check_refused(house, frame, 1, V1_NAMES[letter])


async def test_a_header_needs_nothing_else() -> None:
    async with open_house() as house:
        await house.make_topic()
        count = await works_every_way(
            house, a=None, c=None, d=None, properties=None, reconsume_times=None, k=None, m=None
        )
        assert [record.properties for record in await house.pull_all()] == [{"CLUSTER": CLUSTER}] * count


async def test_a_send_without_any_field_is_refused() -> None:
    async with open_house() as house:
        nothing: tuple[dict[str, str | None] | None, ...] = (None, {}, {"x": "y"})
        for code, encoding, ext in product((10, 310, 320), Encoding, nothing):
            await check_refused(house, Frame(code, 5, ext=ext, body=b"hello", encoding=encoding), 1, "topic", "queueId")


async def test_a_number_that_is_none_is_refused() -> None:
    async with open_house() as house:
        bad_numbers = ("x", "1 ", "0x10", "99999999999999999999")
        for letter, is_binary, bad in product("defghjl", (False, True), bad_numbers):
            frame = send_frame(is_binary=is_binary)
            assert frame.ext is not None
            frame.ext[letter] = bad
            await check_refused(house, frame, 1, f"field {letter}", "not a number")


async def test_messages_are_refused_before_the_time_from_which_they_are_taken() -> None:
    async with open_house() as house:
        await works_every_way(house)
        await house.set_config(startAcceptSendRequestTimeStamp=2**62)
        peer = await house.connect()
        for make in WAYS.values():
            code, remark = await peer.refused(make())
            assert code == 1
            assert "startAcceptSendRequestTimeStamp" in remark


async def test_transaction_messages_are_refused() -> None:
    async with open_house(reject_transactions=True) as house:
        for value in ("true", "TRUE"):
            text = properties_text([("TRAN_MSG", value), ("PGROUP", "writers")])
            words = ("transaction", "rejectTransactionMessage")
            await check_every_way(house, 16, words, sys_flag=4, properties=text)


async def test_a_slave_takes_no_messages() -> None:
    async with open_house(store={"broker_role": BrokerRole.SLAVE}, check=False) as house:
        peer = await house.connect()
        for make in (*WAYS.values(), *WAYS.values()):
            code, remark = await peer.refused(make("TBW102"))
            assert code == 14
            assert "SERVICE_NOT_AVAILABLE" in remark


# --------------------------------------------------------------------------------------------------------- batches


def batch(*bodies: bytes, properties: bytes = b"", **fields: Any) -> Frame:
    entries = [(number, body, properties) for number, body in enumerate(bodies)]
    settings: dict[str, Any] = {"code": RequestCode.SEND_BATCH_MESSAGE, "m": "true", "body": encode_batch(entries)}
    return send_frame(**(settings | fields))


@pytest.mark.parametrize(("code", "is_binary"), [(310, False), (320, False), (320, True)])
async def test_a_batch_is_stored_message_by_message(code: int, is_binary: bool) -> None:
    async with open_house() as house:
        peer = await house.connect()
        own = properties_text([("UNIQ_KEY", unique_id(1)), ("TAGS", "TagA"), ("WAIT", "true")]).encode()
        for turn in range(2):
            body = encode_batch([(0, b"one", own), (1, b"two", own), (2, b"", own)])
            answer = await peer.ok(
                send_frame(code=code, m="true", is_binary=is_binary, properties="WAIT\x01true", body=body)
            )
            assert answer.ext is not None
            assert answer.ext["queueOffset"] == str(3 * turn)
            records = await house.pull_all()
            ids = [record.store_host.hex().upper() + f"{record.log_offset:016X}" for record in records[3 * turn :]]
            assert answer.ext["msgId"] == ",".join(ids)
        assert [record.body for record in records] == [b"one", b"two", b""] * 2
        assert [record.flag for record in records] == [0, 1, 2] * 2
        for record in records:
            assert record.properties["CLUSTER"] == CLUSTER
            assert record.properties["UNIQ_KEY"] == unique_id(1)
            assert record.properties["WAIT"] == "true", "a batch keeps it"
            assert record.born_ms == BORN_MS


async def test_the_field_decides_what_is_a_batch_and_not_the_code() -> None:
    async with open_house() as house:
        peer = await house.connect()
        body = encode_batch([(0, b"one", b""), (0, b"two", b"")])
        await peer.ok(send_frame(code=320, body=body))
        await peer.ok(as_version_1(send_frame(m="true", body=body)))
        assert [record.body for record in await house.pull_all()] == [body, b"one", b"two"]


REFUSED_BATCHES = {
    "delayed": (batch(b"x", properties=b""), {"i": "DELAY\x011"}, "delayed"),
    "transaction": (batch(b"x"), {"f": "4"}, "transaction"),
    "retry topic": (batch(b"x"), {"b": f"%RETRY%{GROUP}"}, "retry topic"),
    "too large": (batch(bytes(4 << 20), b"x"), {}, "maxMessageSize"),
    "cut off": (send_frame(code=320, m="true", body=encode_batch([(0, b"x", b"a\x01b")])[:-1]), {}, "batch"),
    "no batch": (send_frame(code=320, m="true", body=b"hello"), {}, "batch"),
    "empty": (send_frame(code=320, m="true", body=b""), {}, "no message"),
    "properties": (batch(b"x", b"y", properties=b"k\x01" + b"v" * 32_760), {}, "properties"),
}


@pytest.mark.parametrize(("frame", "changes", "word"), REFUSED_BATCHES.values(), ids=REFUSED_BATCHES)
async def test_a_batch_that_breaks_a_rule_is_refused_whole(
    frame: Frame, changes: dict[str, str | None], word: str
) -> None:
    async with open_house() as house:
        assert frame.ext is not None
        odd = Frame(frame.code, 1, ext=frame.ext | changes, body=frame.body)
        await check_refused(house, odd, 13, word)
        assert not await house.pull_all() if house.broker.tables.topics.find(TOPIC) else True


# ----------------------------------------------------------------------------------------------------- retry topics


async def test_a_message_for_another_attempt_needs_its_group() -> None:
    async with open_house(auto_create_group=False) as house:
        words = (GROUP, "autoCreateSubscriptionGroup", "updateSubGroup")
        await check_every_way(house, 26, words, f"%RETRY%{GROUP}")


@pytest.mark.parametrize(
    ("reconsumed", "limit", "version", "is_dead"),
    [
        (0, None, 407, False),
        (15, None, 407, False),
        (16, None, 407, True),
        (17, None, 407, True),
        (2, 3, 407, False),
        (3, 3, 407, True),
        (3, 3, 120, False),
        (3, 3, 121, True),
        (20, 30, 407, False),
    ],
)
async def test_a_message_that_was_tried_often_enough_is_a_dead_letter(
    reconsumed: int, limit: int | None, version: int, is_dead: bool
) -> None:
    async with open_house() as house:
        peer = await house.connect()
        for make in WAYS.values():
            frame = make(f"%RETRY%{GROUP}", reconsume_times=reconsumed, l=limit, properties="RETRY_TOPIC\x01TopicTest")
            frame.version = version
            answer = await peer.ok(frame)
            assert (answer.ext or {})["queueId"] == "0"
        records = await house.pull_all(f"%{'DLQ' if is_dead else 'RETRY'}%{GROUP}")
        assert [record.reconsume_times for record in records] == [reconsumed] * len(WAYS)
        assert records[0].properties == {"RETRY_TOPIC": TOPIC, "CLUSTER": CLUSTER}


# ----------------------------------------------------------------------------------------------------------- codes


async def test_an_unknown_request_is_answered_with_code_3() -> None:
    async with open_house() as house:
        for is_fast, encoding in product((False, True), Encoding):
            peer = await house.connect(is_fast=is_fast)
            for code in (0, 13, 9999, 32767):
                assert await peer.refused(Frame(code, 4, encoding=encoding)) == (
                    3,
                    f"request type {code} not supported",
                )
            await peer.ok(send_frame())


async def test_a_pull_is_not_supported_on_the_fast_port() -> None:
    async with open_house() as house:
        main, fast = await house.connect(), await house.connect(is_fast=True)
        await main.ok(send_frame())
        assert (await fast.refused(pull_frame()))[0] == 3
        await main.ok(pull_frame())


async def test_fields_that_nobody_knows_are_ignored() -> None:
    async with open_house() as house:
        peer = await house.connect()
        for encoding in (Encoding.JSON, Encoding.BINARY):
            ext = send_fields(extra="x" * 100, ReqT=0, n=BROKER)
            for _ in range(2):
                await peer.ok(Frame(310, 1, ext=ext, body=b"hello", encoding=encoding))


async def test_a_header_may_name_any_language_and_version() -> None:
    async with open_house() as house:
        peer: Peer = await house.connect()
        for is_binary in (False, True):
            for language, version in ((0, 0), (12, 613), (None, 407), (9, -1)):
                frame = send_frame(is_binary=is_binary)
                frame.language, frame.version = language, version
                for _ in range(2):
                    await peer.ok(frame)
