"""Looking into a consume queue (321): its cells, and what the filter of a group makes of them.

For operators who wonder why a consumer does not see a message. Cells say where messages lie, not what is in them: a
filter by tags is decided by them, one by SQL only as far as bit maps go.

One answer at a time is made, in slices: thousands may be asked for at once, and each is a megabyte.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Final

import msgspec

from skyrocketmq.broker.access_rules import reads
from skyrocketmq.broker.answers import refusal
from skyrocketmq.broker.clients import ConsumerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters, is_tag_type
from skyrocketmq.broker.pull_filters import SqlPullFilter
from skyrocketmq.filters import ALL_TAGS
from skyrocketmq.model import SubscriptionData
from skyrocketmq.net import Connection, Request, answers
from skyrocketmq.ports import Clock
from skyrocketmq.slices import Slices, joined_in_slices
from skyrocketmq.store import ConsumeQueue, MessageStore
from skyrocketmq.store.queue_extension import EXT_ADDRESS_MAX, ExtensionUnit
from skyrocketmq.wire.bodies import body_parts, encode_body
from skyrocketmq.wire.bodies_admin import ConsumeQueueEntries, ConsumeQueueEntry
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_admin import QueryConsumeQueueHeader

__all__ = ["CellHandlers"]

CELL_COUNT_MAX: Final = 10_000  # in one answer: about a megabyte

Wants = Callable[[int, ExtensionUnit | None], bool]


class CellHandlers:
    """The answer, from the store and the subscriptions of connected groups."""

    def __init__(
        self, *, store: MessageStore, consumers: ConsumerTable[Connection], filters: ConsumerFilters, clock: Clock
    ) -> None:
        self._store = store
        self._consumers = consumers
        self._filters = filters
        self._clock = clock
        self._making = asyncio.Lock()  # guards no state: whoever has it makes an answer

    @answers(RequestCode.QUERY_CONSUME_QUEUE, answer=ConsumeQueueEntries, needs=reads("topic", "consumerGroup"))
    async def query_cells(self, request: Request[QueryConsumeQueueHeader]) -> Frame | bytes:
        """Cells of a queue from an index on, as many as one of its files has of them."""
        header = request.header
        topic = request.required(header.topic, "topic")
        queue = self._store.queues.find(topic, header.queue_id)
        if queue is None:
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"there is no queue {header.queue_id} of topic {topic} here: check both, and whether it has messages",
            )
        async with self._making:
            return await self._answer(request.frame, header, topic, queue)

    async def _answer(
        self, frame: Frame, header: QueryConsumeQueueHeader, topic: str, queue: ConsumeQueue
    ) -> Frame | bytes:
        cells = await self._store.read_cells(queue, header.index, min(header.count, CELL_COUNT_MAX))
        if cells is None:
            # A success without a body: this is how the family says that there is no such place.
            remark = f"index {header.index} of queue {header.queue_id} of topic {topic} does not exist"
            return frame.reply(remark=remark)
        subscription, filter_data, wants = self._filter(topic, header.consumer_group)
        entries = []
        slices = Slices(self._clock)
        for cell in cells:
            entries.append(self._entry(queue, *cell, wants))
            await slices.step()
        body = ConsumeQueueEntries(
            filter_data=filter_data,
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
            queue_data=entries,
            subscription_data=subscription,
        )
        return await joined_in_slices(body_parts(body), self._clock)

    def _filter(self, topic: str, group: str | None) -> tuple[SubscriptionData | None, str | None, Wants]:
        """What a group subscribes to, the filter that the broker keeps for it as a text, and its decision on a cell."""
        if not group:
            return None, None, _wants_all
        subscription = self._consumers.find_subscription(group, topic)
        if subscription is None:
            return None, f"{group}@{topic} is not online", _wants_all
        if is_tag_type(subscription.expression_type):
            return subscription, None, _wants_tags(subscription)
        registered = self._filters.find(topic, group)
        if registered is None:
            return subscription, None, _wants_all
        sql = SqlPullFilter(registered.sql, registered)
        text = encode_body(self._filters.describe(registered)).decode()
        return subscription, text, lambda _, unit: unit is None or sql.may_match(unit)

    def _entry(
        self, queue: ConsumeQueue, log_offset: int, size_bytes: int, tags_code: int, wants: Wants
    ) -> ConsumeQueueEntry:
        extensions = self._store.extensions
        is_address = tags_code <= EXT_ADDRESS_MAX
        unit = extensions.find(queue, tags_code) if is_address and extensions is not None else None
        return ConsumeQueueEntry(
            bit_map=None if unit is None else _bits(unit.bit_map),
            eval=wants(tags_code if unit is None else unit.tags_code, unit),
            extend_data_json=None if unit is None else _unit_text(unit),
            msg=f"there is no unit at the address {tags_code}" if is_address and unit is None else None,
            log_offset=log_offset,
            size_bytes=size_bytes,
            tags_code=tags_code,
        )


def _wants_all(_: int, __: ExtensionUnit | None) -> bool:
    return True


def _wants_tags(subscription: SubscriptionData) -> Wants:
    codes = frozenset(subscription.code_set)
    if subscription.sub_string == ALL_TAGS or not codes:
        return _wants_all
    return lambda tags_code, _: tags_code in codes


def _bits(bit_map: bytes) -> str:
    """The bits, the highest first."""
    return "".join(f"{byte:08b}" for byte in reversed(bit_map))


def _unit_text(unit: ExtensionUnit) -> str:
    members = {
        "bitMapSize": len(unit.bit_map),
        "filterBitMap": base64.b64encode(unit.bit_map).decode(),
        "msgStoreTime": unit.store_ms,
        "tagsCode": unit.tags_code,
    }
    return msgspec.json.encode(members).decode()
