"""Tracing what a producer does: one Pub record for each message that a broker has answered for, and how it ended.

`TracedSender` takes the place of a producer's `Sender`: whatever is sent with it is traced, halves of transactions too.
How a transaction ended its producer tells with `transaction_ended`.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.client.outgoing import Outgoing
from skyrocketmq.client.send_result import DEFAULT_REGION, SendResult
from skyrocketmq.client.sending import Sender, SendOptions
from skyrocketmq.client.tracing import Tracer
from skyrocketmq.model import Message, MessageQueue, MessageView, TransactionType
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import transaction_type
from skyrocketmq.wire.batches import decode_batch
from skyrocketmq.wire.properties import decode_properties
from skyrocketmq.wire.trace import EndTransaction, Pub, TraceMessageType

__all__ = ["TracedSender", "transaction_ended"]

ID_SEPARATOR: Final = ","


class TracedSender(Sender):
    """Sends for one group, and tells its tracer. The tracer sends with a plain `Sender`."""

    def __init__(self, tracer: Tracer, group: str, options: SendOptions) -> None:
        super().__init__(tracer.instance, group, options)
        self._tracer = tracer

    async def send(
        self, outgoing: Outgoing, *, timeout_s: float, topic: str, queue: MessageQueue | None = None
    ) -> SendResult:
        tracer, clock = self._tracer, self._clock
        started_ms, started = clock.now_ms(), clock.monotonic()
        result = await super().send(outgoing, timeout_s=timeout_s, topic=topic, queue=queue)
        if result.trace_on and tracer.traces(topic):
            cost_ms = round((clock.monotonic() - started) * 1000)
            store_host = self._routes.master(result.queue.broker_name)
            tracer.add(*_pubs(outgoing, result, tracer.group, started_ms, cost_ms, store_host))
        return result


def _pubs(
    outgoing: Outgoing, result: SendResult, group: str, started_ms: int, cost_ms: int, store_host: str | None
) -> list[Pub]:
    """A record for each message: those of a batch are told apart, so that each is found by its own id."""
    if outgoing.is_batch:
        entries = [(body, properties.decode("utf-8", "replace")) for _, body, properties in decode_batch(outgoing.body)]
    else:
        entries = [(outgoing.body, outgoing.properties)]
    ids = result.msg_id.split(ID_SEPARATOR)
    offset_ids = result.offset_msg_id.split(ID_SEPARATOR)
    offset_ids += [""] * (len(ids) - len(offset_ids))  # a reply that is passed on and not stored has none of its own
    records: list[Pub] = []
    for (body, text), msg_id, offset_msg_id in zip(entries, ids, offset_ids, strict=False):
        properties = decode_properties(text)
        records.append(
            Pub(
                start_ms=started_ms,
                region=result.region_id,
                group=group,
                topic=result.queue.topic,
                msg_id=msg_id,
                tags=properties.get(names.TAGS),
                keys=properties.get(names.KEYS),
                store_host=store_host,
                body_bytes=len(body),
                cost_ms=cost_ms // len(entries),
                message_type=_message_type(outgoing, properties),
                offset_msg_id=offset_msg_id or None,
                is_success=result.is_ok,
            )
        )
    return records


def _message_type(outgoing: Outgoing, properties: dict[str, str]) -> TraceMessageType:
    if transaction_type(outgoing.sys_flag) is TransactionType.PREPARED:
        return TraceMessageType.TRANSACTION_HALF
    if names.DELAY in properties or names.START_DELIVER_TIME in properties:
        return TraceMessageType.DELAY
    return TraceMessageType.NORMAL


def transaction_ended(
    tracer: Tracer,
    message: Message | MessageView,
    *,
    msg_id: str,
    store_host: str | None,
    state: str,
    is_from_check: bool,
) -> None:
    """Trace how the transaction of a message ended, as its producer told the broker at `store_host`.

    `state` is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW, as Apache spells it. `message` is what the user sent, or
    what the broker showed when it asked; `msg_id`, which is the transaction's id too, the former does not know.
    """
    if tracer.traces(message.topic):
        tracer.add(
            EndTransaction(
                start_ms=tracer.instance.clock.now_ms(),
                region=DEFAULT_REGION,
                group=tracer.group,
                topic=message.topic,
                msg_id=msg_id,
                tags=message.tags,
                keys=names.KEY_SEPARATOR.join(message.keys) or None,
                store_host=store_host,
                transaction_id=msg_id,
                state=state,
                is_from_check=is_from_check,
            )
        )
