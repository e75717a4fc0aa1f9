"""Messages: finding them by every name they have, reading queues, tracing, and sending by hand.

A message has two ids that look alike. The offset id says where one copy is stored, and is enough to find it; the unique
id was given by its producer and is looked up in an index, together with the topic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Final

from skyrocketmq.admin.fan_out import Steps, ask_each_for
from skyrocketmq.admin.gateway import Gateway
from skyrocketmq.admin.groups import GroupAdmin
from skyrocketmq.admin.message_values import ConsumerTrack, ConsumeTrace, MessageTrace, Probe
from skyrocketmq.admin.moments import ms_of
from skyrocketmq.admin.nodes import BrokerNode, Reach
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.admin.tracks import track_message
from skyrocketmq.client.message_selector import MessageSelector, as_selector
from skyrocketmq.client.outgoing import pack_message
from skyrocketmq.client.pulls import PullRequest, PullResult, Pulls, PullStatus
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.sending import Sender, SendOptions
from skyrocketmq.client.subscription import subscription_of
from skyrocketmq.errors import BrokerError, IllegalArgument, MQError, NetError, NotFound, ProtocolError, QueryNotFound
from skyrocketmq.hot import split_records
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.model.flags import PULL_SUBSCRIPTION
from skyrocketmq.model.hosts import host_text
from skyrocketmq.model.names import TRACE_TOPIC
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_admin import ConsumeQueueEntries
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_admin import QueryConsumeQueueHeader, ResumeCheckHalfMessageHeader
from skyrocketmq.wire.headers_clients import ConsumeMessageDirectlyHeader
from skyrocketmq.wire.headers_pull import QueryMessageHeader, ViewMessageHeader
from skyrocketmq.wire.ids import decode_offset_id
from skyrocketmq.wire.records import decode_record
from skyrocketmq.wire.trace import EndTransaction, Pub, SubAfter, SubBefore, TraceRecord, decode_trace

__all__ = ["MessageAdmin"]

TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # every broker knows it
TOOLS_PRODUCER_GROUP: Final = "TOOLS_PRODUCER"
PULL_COUNT: Final = 32
QUERY_COUNT_MAX: Final = 64  # brokers give no more at a time


class MessageAdmin:
    """`admin.messages`."""

    def __init__(self, gateway: Gateway, topics: TopicAdmin, groups: GroupAdmin) -> None:
        self._gateway = gateway
        self._topics = topics
        self._groups = groups
        self._pulls = Pulls(gateway.instance, TOOLS_GROUP)
        self._sender = Sender(gateway.instance, TOOLS_PRODUCER_GROUP, SendOptions())

    # --------------------------------------------------------------------------------------------------------- finding

    async def get(self, topic: str, msg_id: str) -> MessageView:
        """The message with an id of either kind; of several copies under one unique id the oldest."""
        unreached: NetError | None = None
        try:
            found = await self.by_offset_id(msg_id)
            if found.topic == topic:
                return found
        except NetError as error:
            unreached = error  # or it is the other kind, and the address in it means nothing
        except MQError:
            pass  # no such place: then it is the other kind
        steps = Steps(f"the message {msg_id}")
        try:
            return (await steps.take(self.by_unique_id(topic, msg_id)))[0]
        except NotFound as error:
            if unreached is None:
                raise
            raise NotFound(
                f"{error}. If {msg_id} is an offset id, the broker that it names could not be reached: {unreached}"
            ) from unreached

    async def by_offset_id(self, offset_id: str) -> MessageView:
        """The message at the place that an offset id names. Raises `NotFound`, or `NetError` if nobody is there."""
        node, log_offset = await self._place(offset_id)
        try:
            answer = await self._gateway.ask(node, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(log_offset))
        except BrokerError as error:
            raise NotFound(
                f"there is no message at {log_offset} of {node}: it was deleted since, or {offset_id} is a unique id, "
                "which is looked up with by_unique_id"
            ) from error
        return decode_record(answer.body, broker_name=node.broker_name)

    async def _place(self, offset_id: str) -> tuple[BrokerNode, int]:
        try:
            host, log_offset = decode_offset_id(offset_id)
        except ProtocolError as error:
            raise IllegalArgument(f"{offset_id!r} is no offset id: {error}") from error
        if log_offset < 0 or int.from_bytes(host[-4:], "big", signed=True) not in range(1, 65_536):
            raise NotFound(f"{offset_id} names no broker's port: it is a unique id, look it up with by_unique_id")
        return await self._gateway.node(host_text(host)), log_offset

    async def by_unique_id(self, topic: str, msg_id: str) -> list[MessageView]:
        """The messages with a unique id, oldest first: more than one if it was sent again. Raises `NotFound`."""
        header = QueryMessageHeader(topic, msg_id, QUERY_COUNT_MAX, 0, INT64_MAX, True)
        steps = Steps(f"the message {msg_id}")
        found = [one for one in await steps.take(self._query(header)) if one.topic == topic and one.msg_id == msg_id]
        steps.done(found or None)
        if not found:
            raise NotFound(
                f"topic {topic} has no message with the unique id {msg_id}: it was deleted since, or it is elsewhere"
            )
        return found

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        count_max: int = QUERY_COUNT_MAX,
    ) -> list[MessageView]:
        """The messages with a key that were stored between two times, oldest first; at most so many of each broker."""
        begin_ms = 0 if begin is None else ms_of(begin)
        end_ms = INT64_MAX if end is None else ms_of(end)
        header = QueryMessageHeader(topic, key, count_max, begin_ms, end_ms, False)
        steps = Steps(f"the messages with key {key}")
        found = await steps.take(self._query(header))
        # A broker finds by hash: what only shares it is left out here.
        return steps.done([one for one in found if one.topic == topic and key in one.keys])

    async def _query(self, header: QueryMessageHeader) -> list[MessageView]:
        assert header.topic is not None, "every query has one"
        nodes = await self._gateway.topic_nodes(header.topic)

        async def ask(node: BrokerNode) -> list[MessageView]:
            timeout_s = self._gateway.slow_timeout_s
            try:
                answer = await self._gateway.ask(node, RequestCode.QUERY_MESSAGE, header, timeout_s=timeout_s)
            except QueryNotFound:
                return []
            return [
                decode_record(answer.body, at, end, broker_name=node.broker_name)
                for at, end in split_records(answer.body)
            ]

        return await ask_each_for(
            f"messages of topic {header.topic} with {header.key}",
            nodes,
            ask,
            lambda found: sorted((one for some in found.values() for one in some), key=lambda one: one.store_timestamp),
        )

    async def at(self, queue: MessageQueue, offset: int) -> MessageView:
        """The message at an offset of a queue. Raises `NotFound` with the offsets that there are."""
        await self._gateway.queue_node(queue)
        result = await self._pull(queue, offset, MessageSelector.by_tag("*"), count_max=1)
        if result.status is not PullStatus.FOUND or not result.messages:
            raise NotFound(
                f"queue {queue} has no message at {offset}: it has {result.min_offset} to {result.max_offset - 1}"
                if result.max_offset > result.min_offset
                else f"queue {queue} has no message at {offset}: it is empty"
            )
        return result.messages[0]

    async def scan(
        self,
        topic: str,
        *,
        queue: MessageQueue | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        expression: str | MessageSelector = "*",
        sql: str | None = None,
    ) -> AsyncIterator[MessageView]:
        """The messages of a topic, or of one of its queues, that were stored between two times, queue by queue.

        Those that are there at the start; what comes later is not waited for.
        """
        selector = as_selector(expression, sql)
        calls = self._gateway.instance.calls
        begin_ms = 0 if begin is None else ms_of(begin)
        end_ms = INT64_MAX if end is None else ms_of(end)
        for one in await self._topics.queues(topic) if queue is None else [queue]:
            offset = await calls.min_offset(one) if begin is None else await calls.search_offset(one, begin_ms)
            last = await calls.max_offset(one)
            while offset < last:
                result = await self._pull(one, offset, selector, count_max=min(PULL_COUNT, last - offset))
                if result.status is PullStatus.NO_NEW_MESSAGE or result.next_offset <= offset:
                    break
                offset = result.next_offset
                for message in result.messages:
                    if message.store_timestamp > end_ms:
                        offset = last  # a queue is in the order of time
                        break
                    if message.store_timestamp >= begin_ms:
                        yield message

    async def _pull(self, queue: MessageQueue, offset: int, selector: MessageSelector, *, count_max: int) -> PullResult:
        subscription = subscription_of(
            queue.topic, selector.expression, sub_version=0, expression_type=selector.expression_type
        )
        return await self._pulls.pull(
            PullRequest(
                queue=queue,
                offset=offset,
                subscription=subscription,
                count_max=count_max,
                sys_flag=PULL_SUBSCRIPTION,
                hold_s=0.0,
                timeout_s=self._gateway.slow_timeout_s,
            )
        )

    async def queue_entries(
        self, queue: MessageQueue, offset: int, *, count: int = 10, group: str | None = None
    ) -> ConsumeQueueEntries:
        """The cells of a consume queue from an offset on; with a group, what its filter makes of each."""
        node = await self._gateway.queue_node(queue)
        header = QueryConsumeQueueHeader(queue.topic, queue.queue_id, offset, count, group)
        answer = await self._gateway.ask(node, RequestCode.QUERY_CONSUME_QUEUE, header)
        if not answer.body:
            raise NotFound(f"queue {queue} has no cell {offset}: {answer.remark}")
        return decode_body(ConsumeQueueEntries, answer.body)

    async def trace(self, msg_id: str, *, trace_topic: str = TRACE_TOPIC) -> MessageTrace:
        """What producers and consumers with tracing on have written about a message. Raises `NotFound`."""
        steps = Steps(f"the trace of {msg_id}")
        traces = await steps.take(self.by_key(trace_topic, msg_id))
        records = [record for one in traces for record in decode_trace(one.body) if record.msg_id == msg_id]
        steps.done(_trace(msg_id, records) if records else None)
        if not records:
            raise NotFound(
                f"nothing is written about {msg_id} in {trace_topic}: trace data is written by clients that have "
                "tracing switched on, to brokers with traceTopicEnable=true"
            )
        return _trace(msg_id, records)

    async def tracks(self, message: MessageView) -> list[ConsumerTrack]:
        """What became of a message in each group that consumes its topic."""
        return await track_message(message, topics=self._topics, groups=self._groups)

    # ---------------------------------------------------------------------------------------------------------- acting

    async def consume_directly(
        self, group: str, offset_id: str, *, client_id: str | None = None
    ) -> ConsumeMessageDirectlyResult:
        """Have a member of a group handle a message now; no offset moves, nothing is sent back. What it made of it."""
        node, _ = await self._place(offset_id)
        header = ConsumeMessageDirectlyHeader(group, client_id, offset_id)
        answer = await self._gateway.ask(
            node, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout_s=self._gateway.slow_timeout_s
        )
        return decode_body(ConsumeMessageDirectlyResult, answer.body)

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        """Send a message, to a queue or to one that is chosen."""
        instance = self._gateway.instance
        outgoing = pack_message(message, ids=instance.ids, now_ms=instance.clock.now_ms())
        if queue is not None:
            await self._gateway.queue_node(queue, reach=Reach.MASTERS)
        return await self._sender.send(outgoing, timeout_s=self._gateway.timeout_s, topic=message.topic, queue=queue)

    async def probe(self, topic: str, *, count: int = 50, body_bytes: int = 128) -> list[Probe]:
        """Send test messages one after the other, to each queue of a topic in turn, and say how long each took.

        Brokers have topics for this, named after themselves and after their cluster.
        """
        if count < 1 or body_bytes < 1:
            raise IllegalArgument(f"{count} messages of {body_bytes} bytes: both must be at least 1")
        queues = await self._sender.queues(topic, self._gateway.timeout_s)
        clock, message = self._gateway.instance.clock, Message(topic, b"a" * body_bytes)
        probes: list[Probe] = []
        for number in range(count):
            queue = queues[number % len(queues)]
            started = clock.monotonic()
            status, failure = None, None
            try:
                status = (await self.send(message, queue=queue)).status
            except MQError as error:
                failure = error
            took_ms = (clock.monotonic() - started) * 1000
            probes.append(Probe(queue=queue, took_ms=took_ms, status=status, failure=failure))
        return probes

    async def resume_check(self, offset_id: str) -> None:
        """Have a half message whose transaction was given up checked again."""
        node, _ = await self._place(offset_id)
        await self._gateway.ask(node, RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageHeader(offset_id))


def _trace(msg_id: str, records: Iterable[TraceRecord]) -> MessageTrace:
    sent: list[Pub] = []
    transactions: list[EndTransaction] = []
    before: dict[str | None, SubBefore] = {}
    after: dict[str | None, SubAfter] = {}
    for record in records:
        match record:
            case Pub():
                sent.append(record)
            case EndTransaction():
                transactions.append(record)
            case SubBefore():
                before[record.request_id] = record
            case SubAfter():
                after[record.request_id] = record
    consumed = [
        ConsumeTrace(
            group=(before[one].group if one in before else None) or (after[one].group if one in after else None),
            before=before.get(one),
            after=after.get(one),
        )
        for one in dict.fromkeys([*before, *after])
    ]
    return MessageTrace(msg_id=msg_id, sent=tuple(sent), transactions=tuple(transactions), consumed=tuple(consumed))
