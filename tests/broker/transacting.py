"""Producers of transactions on a broker in this process: what the tests of transactions need besides `house`."""

from __future__ import annotations

from typing import Any, NamedTuple

from skyrocketmq.model.heartbeats import HeartbeatData, ProducerData
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from tests.broker.house import House, Peer
from tests.broker.requests import BORN_MS, TOPIC, properties_text, send_frame, unique_id
from tests.store.reader import Record, read_records

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
PRODUCERS = "writers"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


class Sent(NamedTuple):
    """A half message that was stored, as its producer knows it."""

    number: int
    queue_id: int
    half_offset: int
    log_offset: int
    answer: Frame


def half_frame(
    number: int = 1,
    *,
    topic: str = TOPIC,
    queue_id: int = 1,
    body: bytes = b"",
    group: str = PRODUCERS,
    more: dict[str, str] | None = None,
    born_ms: int = BORN_MS,
    has_id: bool = True,
    **fields: Any,
) -> Frame:
    """The first half of a transaction, with the properties in the order of Java's client."""
    pairs = {"TRAN_MSG": "true", "UNIQ_KEY": unique_id(number), "WAIT": "true", "PGROUP": group, "TAGS": "TagA"}
    if not has_id:
        del pairs["UNIQ_KEY"]
    return send_frame(
        topic,
        queue_id,
        body=body or b"%d" % number,
        properties=properties_text(pairs | (more or {})),
        sys_flag=4,
        born_ms=born_ms,
        **({"opaque": number} | fields),
    )


def end_frame(
    half_offset: int,
    log_offset: int,
    end: object = COMMIT,
    *,
    group: str = PRODUCERS,
    opaque: int = 9001,
    is_oneway: bool = False,
    is_binary: bool = False,
    **others: str | None,
) -> Frame:
    fields: dict[str, str | None] = {
        "producerGroup": group,
        "tranStateTableOffset": str(half_offset),
        "commitLogOffset": str(log_offset),
        "commitOrRollback": str(end),
        "fromTransactionCheck": "false",
        "msgId": "whatever",
        "transactionId": "whatever",
    }
    return Frame(
        RequestCode.END_TRANSACTION,
        opaque,
        2 if is_oneway else 0,
        {name: text for name, text in (fields | others).items() if text is not None},
        language=0,
        encoding=Encoding.BINARY if is_binary else Encoding.JSON,
    )


async def send_half(peer: Peer, number: int = 1, **fields: Any) -> Sent:
    answer = await peer.ok(half_frame(number, **fields))
    return read_sent(number, answer)


def read_sent(number: int, answer: Frame) -> Sent:
    assert answer.ext is not None
    assert answer.code == 0, answer.remark
    log_offset = int((answer.ext["msgId"] or "")[16:], 16)
    return Sent(number, int(answer.ext["queueId"] or ""), int(answer.ext["queueOffset"] or ""), log_offset, answer)


def end(sent: Sent, how: int = COMMIT, **fields: Any) -> Frame:
    return end_frame(sent.half_offset, sent.log_offset, how, **fields)


async def join(peer: Peer, group: str = PRODUCERS, *, client_id: str = "producer-1") -> None:
    """Tell the broker that this connection belongs to a producer of the group."""
    beat = HeartbeatData(client_id=client_id, producer_data_set=(ProducerData(group_name=group),))
    await peer.ok(Frame(RequestCode.HEART_BEAT, 8001, body=encode_body(beat), language=0))


async def pass_time(clock: ManualClock, seconds: float, *peers: Peer) -> None:
    """Let time pass for producers that send their heartbeats meanwhile."""
    while seconds > 0:
        await clock.advance(min(seconds, 50))
        seconds -= 50
        for peer in peers:
            await join(peer)


async def asked(peer: Peer) -> list[Frame]:
    """The questions that the broker has sent to this connection so far."""
    await peer.ask(Frame(RequestCode.GET_BROKER_CONFIG, 7001))
    questions = [frame for frame in peer.requests if frame.code == RequestCode.CHECK_TRANSACTION_STATE]
    peer.requests.clear()
    return questions


def asked_about(question: Frame) -> tuple[int, int]:
    """Where the half message lies that a question is about: in the half queue and in the log."""
    assert question.ext is not None
    return int(question.ext["tranStateTableOffset"] or ""), int(question.ext["commitLogOffset"] or "")


async def bodies(house: House, topic: str = TOPIC, queue_id: int = 1) -> list[bytes]:
    return [record.body for record in await house.pull_all(topic, queue_id)]


def halves(house: House) -> int:
    """How many half messages the store holds, copies included."""
    return int(house.broker.store.max_offset(HALF_TOPIC, 0))


def marks(house: House) -> int:
    return int(house.broker.store.max_offset(OP_TOPIC, 0))


def pending(house: House) -> int:
    return len(house.broker.transactions.log.pending)


def saved_offsets(house: House) -> tuple[int | None, int | None]:
    """How far the broker says it is in the half queue and the op queue."""
    offsets = house.broker.tables.offsets
    half, op = (offsets.find(group="CID_RMQ_SYS_TRANS", topic=topic, queue_id=0) for topic in (HALF_TOPIC, OP_TOPIC))
    return half, op


def record_in(frame: Frame) -> Record:
    """The message in a question."""
    return read_records(frame.body)[0]
