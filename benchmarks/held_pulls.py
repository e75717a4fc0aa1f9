"""What a held pull costs a broker: it comes, finds nothing, waits, and is answered when a message arrives.

So many consumers wait at the end of one queue; one message wakes them all; again and again. That every pull is there
before the message comes is known from a request that follows the pulls on each connection and is answered at once.
"""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack

from benchmarks import observe
from benchmarks.broker import end_of_queue
from benchmarks.broker_frames import GET_MAX_OFFSET, one_send
from benchmarks.broker_servers import Target
from benchmarks.frames import SUCCESS, answer_code, answer_fields, encode_frame
from benchmarks.load import BadAnswer, ask, connect, receive
from benchmarks.pull_decks import EVERYTHING, pull_frame, subscribed

TOPIC = "HeldTopic"
CONNECTIONS = 32
GROUPS = 8  # each with a pull on each connection


def held_pull_cpu_us(target: Target, rounds: int) -> float:
    """CPU time of the broker for one held pull, its share of the message that wakes it included."""
    groups = [f"benchmark-holders-{number}" for number in range(GROUPS)]
    with ExitStack() as opened:
        for group in groups:
            opened.enter_context(subscribed(target, group, TOPIC, EVERYTHING))
        producer, *consumers = [opened.enter_context(each) for each in connect(target.address, 1 + CONNECTIONS)]
        offset = end_of_queue(producer, TOPIC)
        used_s = 0.0
        for number in range(-1, rounds):
            before_s = observe.cpu_s(target.pid)
            _hold(consumers, groups, offset)
            message = one_send(TOPIC, 0, bytes(100), number=number + (offset << 8))
            if answer_code(ask(producer, message)) != SUCCESS:
                raise BadAnswer("a message was refused")
            for consumer in consumers:
                for _ in groups:
                    if answer_code(receive(consumer)) != SUCCESS:
                        raise BadAnswer("a held pull was answered without a message")
            if number >= 0:  # the first round is to warm up
                used_s += observe.cpu_s(target.pid) - before_s
            offset += 1
    return used_s * 1e6 / (rounds * CONNECTIONS * GROUPS)


def _hold(consumers: list[socket.socket], groups: list[str], offset: int) -> None:
    pulls = b"".join(pull_frame(group, TOPIC, offset, may_suspend=True) for group in groups)
    question = encode_frame(GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})
    for consumer in consumers:
        consumer.sendall(pulls)
    for consumer in consumers:
        # Its answer is the first: a pull that is answered before it was not held.
        if answer_fields(ask(consumer, question)).get("offset") != str(offset):
            raise BadAnswer("a pull was answered before there was a message")
    if select.select(consumers, (), (), 0)[0]:
        raise BadAnswer("a pull was answered before there was a message")
