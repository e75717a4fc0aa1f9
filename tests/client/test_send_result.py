"""What a producer makes of a broker's answer."""

from __future__ import annotations

import pytest

from skyrocketmq.client.send_result import SendResult, SendStatus, read_send_result
from skyrocketmq.errors import BrokerError, ProtocolError, SystemBusy
from skyrocketmq.model import MessageQueue, QueueOffset
from skyrocketmq.wire.frames import Frame

PLACE = {"msgId": "7F", "queueId": "3", "queueOffset": "9000000000"}


def answer(code: int = 0, ext: dict[str, str | None] | None = None, remark: str | None = None) -> Frame:
    return Frame(code, 1, flag=1, ext=ext, remark=remark)


def read(frame: Frame) -> SendResult:
    return read_send_result(frame, MessageQueue("T", "broker-a", 0), topic="T", msg_id="U1", address="10.0.0.1:10911")


def test_a_stored_message_has_a_place_and_both_ids() -> None:
    assert read(answer(ext={**PLACE})) == SendResult(
        status=SendStatus.SEND_OK,
        msg_id="U1",
        offset_msg_id="7F",
        queue=MessageQueue("T", "broker-a", 3),
        queue_offset=QueueOffset(9_000_000_000),
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.SEND_OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_four_codes_mean_that_the_message_is_stored(code: int, status: SendStatus) -> None:
    result = read(answer(code, {**PLACE}))
    assert result.status is status
    assert result.is_ok == (code == 0)


def test_region_trace_and_transaction_come_from_the_answer() -> None:
    result = read(answer(ext={**PLACE, "MSG_REGION": "r1", "TRACE_ON": "false", "transactionId": "X"}))
    assert (result.region_id, result.trace_on, result.transaction_id) == ("r1", False, "X")


def test_without_region_and_trace_the_familys_defaults_hold() -> None:
    result = read(answer(ext={**PLACE}))
    assert (result.region_id, result.trace_on, result.transaction_id) == ("DefaultRegion", True, None)


def test_any_other_code_is_the_brokers_refusal() -> None:
    with pytest.raises(SystemBusy, match=r"10\.0\.0\.1:10911: slow down") as failure:
        read(answer(2, remark="slow down"))
    assert isinstance(failure.value, BrokerError)


@pytest.mark.parametrize("missing", sorted(PLACE))
def test_an_answer_without_the_place_is_not_believed(missing: str) -> None:
    ext: dict[str, str | None] = {name: value for name, value in PLACE.items() if name != missing}
    with pytest.raises(ProtocolError, match="T on broker-a"):
        read(answer(ext=ext))
