"""Traces whose every time is known, as the clients of Apache's and ours write them."""

from __future__ import annotations

from skyrocketmq.wire.trace import ConsumeOutcome, EndTransaction, Pub, SubAfter, SubBefore, TraceMessageType

START_MS = 1_700_000_000_000


def sent(
    msg_id: str,
    at: int = 0,
    *,
    cost: int = 5,
    is_success: bool = True,
    kind: TraceMessageType = TraceMessageType.NORMAL,
    topic: str = "Journeys",
) -> Pub:
    return Pub(
        start_ms=START_MS + at,
        group="shop",
        topic=topic,
        msg_id=msg_id,
        tags="new",
        keys=f"key-{msg_id}",
        store_host="10.0.0.9:10911",
        body_bytes=10,
        cost_ms=cost,
        message_type=kind,
        is_success=is_success,
        client_host="10.0.0.1",
    )


def handled(
    msg_id: str,
    at: int,
    *,
    cost: int = 20,
    group: str = "billing",
    outcome: ConsumeOutcome | None = ConsumeOutcome.SUCCESS,
    retry: int = 0,
) -> list[SubBefore | SubAfter]:
    """A call of a handler; without an outcome it has not ended."""
    request = f"{msg_id}-{group}-{at}"
    before = SubBefore(
        start_ms=START_MS + at, group=group, request_id=request, msg_id=msg_id, retry_times=retry, keys=f"key-{msg_id}"
    )
    if outcome is None:
        return [before]
    after = SubAfter(
        request_id=request,
        msg_id=msg_id,
        cost_ms=cost,
        is_success=outcome is ConsumeOutcome.SUCCESS,
        keys=f"key-{msg_id}",
        context_code=outcome,
        end_ms=START_MS + at + cost,
        group=group,
    )
    return [before, after]


def transaction_ended(msg_id: str, at: int, state: str) -> EndTransaction:
    return EndTransaction(
        start_ms=START_MS + at,
        group="shop",
        topic="Journeys",
        msg_id=msg_id,
        store_host="10.0.0.9:10911",
        transaction_id=msg_id,
        state=state,
        is_from_check=False,
    )
