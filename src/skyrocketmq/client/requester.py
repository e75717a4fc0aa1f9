"""Asking by message: send a request, and wait until some consumer's reply is pushed back to this client.

Rule 1: one time limit holds for everything: finding the route, sending, waiting. Any number of requests may wait.
Rule 2: a reply can come through any broker of the cluster, and only through one that knows this client. Before the
        first request to a topic all its brokers, and those of its cluster's reply topic, are sent a heartbeat.
Rule 3: a reply counts even if the send has failed meanwhile: the request was stored, its acknowledgement was lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.replies import request_message
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.sending import Sender
from skyrocketmq.errors import ClientError, MQError, NetError, RequestTimeout, SystemFailure
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.model.names import reply_topic
from skyrocketmq.ports import Clock

__all__ = ["Requester", "send_reply"]

GREETING_S_MAX: Final = 1.0  # a broker that is down must not use up the time of the first request

Send = Callable[[Message], Awaitable[SendResult]]


class Requester:
    """The requests of one producer. `close` ends those that still wait."""

    def __init__(self, instance: ClientInstance, sender: Sender) -> None:
        self._instance = instance
        self._sender = sender
        self._clock = instance.clock
        self._known_in: set[str] = set()  # topics, by their names on the wire, whose brokers know this client
        self._reply_topics: set[str] = set()
        self._waiting: set[str] = set()

    @property
    def topics(self) -> set[str]:
        """The topics whose brokers replies may come through."""
        return self._reply_topics

    async def ask(self, message: Message, send: Send, *, wire_topic: str, timeout_s: float) -> MessageView:
        """Send a message as a request by `send`; its reply. Raises `RequestTimeout`, or what the send raised."""
        correlation_id = str(self._instance.chance.uuid())
        replies = self._instance.replies
        request = request_message(
            message, correlation_id=correlation_id, client_id=self._instance.client_id, timeout_s=timeout_s
        )
        reply = replies.add(correlation_id)
        self._waiting.add(correlation_id)
        sent: SendResult | None = None
        try:
            async with self._clock.timeout(timeout_s):
                await self._make_known(wire_topic, timeout_s)
                try:
                    sent = await send(request)
                except MQError:
                    if not reply.done():
                        raise
                return await reply
        except TimeoutError:
            raise RequestTimeout(_no_reply(message.topic, sent, timeout_s)) from None
        finally:
            replies.forget(correlation_id)
            self._waiting.discard(correlation_id)

    def close(self) -> None:
        """Nobody will be there to hear a reply."""
        for correlation_id in self._waiting:
            self._instance.replies.fail(correlation_id, ClientError("the producer was closed before the reply came"))

    async def _make_known(self, topic: str, timeout_s: float) -> None:
        if topic in self._known_in:
            return
        await self._sender.queues(topic, timeout_s)
        routes = self._instance.routes
        route = routes.find(topic)
        clusters = {broker.cluster for broker in route.broker_datas} if route is not None else set[str]()
        new_topics = {reply_topic(cluster) for cluster in clusters if cluster} - self._reply_topics
        self._reply_topics |= new_topics
        try:
            async with self._clock.timeout(min(GREETING_S_MAX, timeout_s / 2)):
                await routes.refresh_all(new_topics)
                await self._instance.heartbeats.send()
        except TimeoutError:
            pass  # the heartbeats go on; brokers that are up have theirs
        if route is not None:  # a topic that its first message creates has no brokers yet
            self._known_in.add(topic)


def _no_reply(topic: str, sent: SendResult | None, timeout_s: float) -> str:
    if sent is None:
        return f"the request to topic {topic} was not acknowledged within {timeout_s:g} s"
    return (
        f"no reply to the request to topic {topic} within {timeout_s:g} s; it is stored as {sent.msg_id} on "
        f"{sent.queue.broker_name}, queue {sent.queue.queue_id}. Is a consumer of the topic running, and does it reply?"
    )


async def send_reply(
    send: Callable[[MessageQueue | None, float], Awaitable[SendResult]],
    queues: Sequence[MessageQueue],
    *,
    broker_name: str,
    timeout_s: float,
    clock: Clock,
) -> SendResult:
    """Send a reply, first through the broker that the request came from: there the asker is known for certain.

    `queues` are those of the reply's topic; `send` takes one of them or None, and the seconds that are left.
    """
    deadline = clock.monotonic() + timeout_s
    near = next((queue for queue in queues if queue.broker_name == broker_name), None)
    if near is not None:
        try:
            return await send(near, timeout_s)
        except (NetError, SystemFailure):
            if all(queue.broker_name == broker_name for queue in queues):
                raise
    return await send(None, deadline - clock.monotonic())
