"""Sending one message: choose a queue, try, and try elsewhere if that is what failed.

| outcome of an attempt | next |
|---|---|
| stored | the result |
| stored, less safely than asked | the result; another attempt first, if the producer wants that |
| no connection, broker unknown | the next broker; where all refuse, wait a little until time is up: nothing was sent |
| no answer | another attempt, on another broker if there is one |
| refused with a code that another broker may not have | the same |
| refused because the broker is busy | wait a little, then once more; such refusals are not counted, time ends them |
| refused otherwise | the error |

Rule 1: one time limit holds for all attempts together; each gets what is left.
Rule 2: who named the queue, or selected it, gets one attempt: elsewhere would be wrong.
Rule 3: an error says which brokers were tried and what each said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skyrocketmq.client.fault_table import FaultTable
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.outgoing import Outgoing, SendRequests
from skyrocketmq.client.queue_choice import QueueChoice
from skyrocketmq.client.send_result import SendResult, read_send_result
from skyrocketmq.errors import BrokerError, ConnectFailed, MQError, NetError, RequestTimeout, SystemBusy
from skyrocketmq.hot.sends import SendAnswer
from skyrocketmq.model import MessageQueue
from skyrocketmq.model.names import AUTO_CREATE_TOPIC
from skyrocketmq.net.connection import Request
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame

__all__ = ["SendOptions", "Sender"]

RETRIED_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
FAILED_CODES: Final = RETRIED_CODES | {ResponseCode.SYSTEM_BUSY}  # the broker's fault, not the message's
BUSY_FIRST_S: Final = 0.01
BUSY_S_MAX: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """How a producer sends. The numbers are those of Apache's client."""

    retry_count_max: int = 2  # attempts after the first
    retry_unsafe: bool = False  # a message that is stored but not flushed or replicated in time is sent once more
    avoid_slow_brokers: bool = False
    template: str = AUTO_CREATE_TOPIC  # topics are created after its model
    template_queue_nums: int = 4  # queues of such a topic, on each broker


class Sender:
    """Sends for one group. Holds whose turn it is, and which brokers are slow."""

    def __init__(self, instance: ClientInstance, group: str, options: SendOptions) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._routes = instance.routes
        self._net = instance.net
        self._options = options
        self._avoids_slow = options.avoid_slow_brokers
        self._requests = SendRequests(
            group,
            template=options.template,
            template_queue_nums=options.template_queue_nums,
            unit_mode=instance.settings.unit_mode,
        )
        self._vip_of = instance.calls.address if instance.settings.vip_channel else None
        self._choices: dict[str, QueueChoice] = {}
        self._faults = FaultTable(turn=instance.chance.getrandbits(16))

    @property
    def topics(self) -> Sequence[str]:
        """The topics that were sent to."""
        return list(self._choices)

    async def queues(self, topic: str, timeout_s: float) -> tuple[MessageQueue, ...]:
        """The queues that a topic (its name on the wire) can be sent to."""
        if topic not in self._choices:
            self._choices[topic] = QueueChoice(start=self._instance.chance.getrandbits(31))
        queues = self._routes.writable(topic)
        if queues:
            return queues
        options = self._options
        try:
            async with self._clock.timeout(timeout_s):
                return await self._routes.get_writable(
                    topic, template=options.template, template_queue_nums=options.template_queue_nums
                )
        except TimeoutError:
            raise RequestTimeout(f"the route of topic {topic} was not found within {timeout_s:g} s") from None

    async def send(
        self, outgoing: Outgoing, *, timeout_s: float, topic: str, queue: MessageQueue | None = None
    ) -> SendResult:
        """Send to a queue, or to one that is chosen here. `topic` is what the user calls it.

        Raises the last attempt's error, or `RequestTimeout`, or `NoRoute`.
        """
        clock = self._clock
        remaining_s = timeout_s
        deadline = clock.monotonic() + timeout_s
        attempts_left = 1 if queue is not None else self._options.retry_count_max + 1
        busy_count = 0
        errors: list[tuple[str, MQError]] = []
        unsafe: SendResult | None = None
        avoid: str | None = None
        while attempts_left and remaining_s > 0:
            target = queue
            if target is None:
                queues = self._routes.writable(outgoing.topic)
                choice = self._choices.get(outgoing.topic)
                if not queues or choice is None:
                    queues = await self.queues(outgoing.topic, remaining_s)
                    remaining_s = deadline - clock.monotonic()
                    choice = self._choices[outgoing.topic]
                if self._avoids_slow:
                    target = choice.choose_healthy(queues, self._faults, now_ms=self._now_ms(), avoid_broker=avoid)
                else:
                    target = choice.choose(queues, avoid_broker=avoid)
            attempts_left -= 1
            try:
                address = self._address(target)
                request = self._requests.request(outgoing, target, born_ms=clock.now_ms())
                if self._avoids_slow:
                    answer = await self._call_timed(target.broker_name, address, request, remaining_s)
                else:
                    answer = await self._net.call(address, request, remaining_s)
                result = read_send_result(answer, target, topic=topic, msg_id=outgoing.msg_id, address=address)
            except SystemBusy as error:
                errors.append((target.broker_name, error))
                attempts_left += 1
                busy_count += 1
                await self._wait_while_busy(busy_count, deadline)
            except BrokerError as error:
                errors.append((target.broker_name, error))
                if error.code not in RETRIED_CODES:
                    break
            except NetError as error:
                was_tried = any(name == target.broker_name for name, _ in errors)
                errors.append((target.broker_name, error))
                self._routes.suspect(outgoing.topic)
                if queue is None and self._options.retry_count_max and isinstance(error, ConnectFailed):
                    # Nothing was sent, so it is no attempt. Where every broker refuses, one may be back in time.
                    attempts_left += 1
                    if was_tried:
                        busy_count += 1
                        await self._wait_while_busy(busy_count, deadline)
            else:
                if result.is_ok or not self._options.retry_unsafe or not attempts_left:
                    return result
                unsafe = result
            avoid = target.broker_name
            remaining_s = deadline - clock.monotonic()
        if unsafe is not None:
            return unsafe
        raise _failure(topic, errors, timeout_s, is_late=clock.monotonic() >= deadline)

    async def send_oneway(self, outgoing: Outgoing, *, timeout_s: float, queue: MessageQueue | None = None) -> None:
        """Send without waiting for an answer: nobody will know whether it was stored."""
        deadline = self._clock.monotonic() + timeout_s
        target = queue or self._choose(outgoing.topic, await self.queues(outgoing.topic, timeout_s))
        request = self._requests.request(outgoing, target, born_ms=self._clock.now_ms())
        await self._net.oneway(self._address(target), request.frame(), deadline - self._clock.monotonic())

    # --------------------------------------------------------------------------------------------------------- helpers

    def _choose(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        choice = self._choices[topic]
        if self._avoids_slow:
            return choice.choose_healthy(queues, self._faults, now_ms=self._now_ms())
        return choice.choose(queues)

    async def _call_timed(
        self, broker_name: str, address: str, request: Request, timeout_s: float
    ) -> Frame | SendAnswer:
        """A request, noting how long the broker takes. One that is cancelled says nothing about the broker."""
        started = self._clock.monotonic()
        try:
            answer = await self._net.call(address, request, timeout_s)
        except NetError:
            self._note(broker_name, started, is_failed=True)
            raise
        self._note(broker_name, started, is_failed=isinstance(answer, Frame) and answer.code in FAILED_CODES)
        return answer

    def _note(self, broker_name: str, started: float, *, is_failed: bool) -> None:
        latency_ms = (self._clock.monotonic() - started) * 1000
        self._faults.record(broker_name, latency_ms=latency_ms, is_failed=is_failed, now_ms=self._now_ms())

    def _now_ms(self) -> int:
        """For the table of faults: not the time of day, which may be set."""
        return round(self._clock.monotonic() * 1000)

    def _address(self, queue: MessageQueue) -> str:
        address = self._routes.master(queue.broker_name)
        if address is None:
            raise ConnectFailed(f"the broker {queue.broker_name} has no master that the name servers know")
        return self._vip_of(address) if self._vip_of is not None else address

    async def _wait_while_busy(self, busy_count: int, deadline: float) -> None:
        whole_s = min(BUSY_FIRST_S * 2 ** min(busy_count - 1, 10), BUSY_S_MAX)
        wait_s = whole_s * (1 - self._instance.chance.random() / 2)  # so that senders do not come back as one
        await self._clock.sleep(max(0.0, min(wait_s, deadline - self._clock.monotonic())))


def _failure(topic: str, errors: list[tuple[str, MQError]], timeout_s: float, *, is_late: bool) -> MQError:
    if not errors:
        return RequestTimeout(f"the message to topic {topic} was not sent within {timeout_s:g} s: no time was left")
    last = errors[-1][1]
    tried = "; ".join(f"{broker}: {error}" for broker, error in errors[-3:])
    text = f"the message to topic {topic} was not acknowledged after {len(errors)} attempt(s)"
    if is_late:
        text += f" within {timeout_s:g} s"
    if isinstance(last, BrokerError):
        last.add_note(f"{text}. {tried}")
        return last
    wrapped = type(last)(f"{text}. {tried}")
    wrapped.__cause__ = last
    return wrapped
