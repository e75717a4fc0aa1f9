"""Requests of all kinds on one connection, in buffers cut anywhere: they act in the order in which they were sent.

The model is a list of bodies for each queue. A pull sees what was sent before it and nothing of what came behind, a
pull that waits is answered by what comes next, and nothing is lost by where the bytes happen to be cut.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.broker.house import open_house
from tests.broker.requests import TOPIC, as_version_1, properties_text, pull_frame, send_frame, unique_id
from tests.store.reader import read_records

QUEUES = 2
Operation = tuple[str, int, int]  # kind, queue id, a number


@dataclass
class Model:
    """What the broker should hold and answer, as the requests are made."""

    queues: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    requests: list[Frame] = field(default_factory=list)
    stored: dict[int, tuple[int, int]] = field(default_factory=dict)  # number of a send -> queue, offset
    pulled: dict[int, list[bytes]] = field(default_factory=dict)  # number of a pull -> the bodies it has to give
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)  # number of a pull -> queue, offset
    counted: dict[int, int] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def add(self, operation: Operation) -> None:
        kind, queue_id, number = operation
        opaque, queue = len(self.requests), self.queues[queue_id]
        body = b"%d" % opaque + bytes(number * 40)
        text = properties_text([("UNIQ_KEY", unique_id(opaque)), ("TAGS", "TagA")])
        if kind in ("json", "binary", "oneway", "version 1"):
            frame = send_frame(
                TOPIC,
                queue_id,
                opaque=opaque,
                body=body,
                properties=text,
                is_binary=kind == "binary",
                is_oneway=kind == "oneway",
            )
            frame = as_version_1(frame) if kind == "version 1" else frame
            if kind != "oneway":
                self.stored[opaque] = (queue_id, len(queue))
            queue.append(body)
        elif kind == "batch":
            self.stored[opaque] = (queue_id, len(queue))
            bodies = [body + b"%d" % count for count in range(number + 1)]
            frame = send_frame(
                TOPIC, queue_id, opaque=opaque, m="true", body=encode_batch([(0, each, b"") for each in bodies])
            )
            queue += bodies
        elif kind == "pull":
            offset = max(len(queue) - number, 0)
            self.pulled[opaque] = queue[offset : offset + 32]
            frame = pull_frame(queue_id=queue_id, offset=offset, opaque=opaque)
        elif kind == "wait":
            self.waiting[opaque] = (queue_id, len(queue))
            frame = pull_frame(queue_id=queue_id, offset=len(queue), opaque=opaque, hold_ms=60_000)
        elif kind == "count":
            self.counted[opaque] = len(queue)
            frame = Frame(RequestCode.GET_MAX_OFFSET, opaque, ext={"topic": TOPIC, "queueId": str(queue_id)})
        else:
            self.refused.add(opaque)
            frame = send_frame(TOPIC, 99, opaque=opaque) if number % 2 else Frame(9999, opaque)
        self.requests.append(frame)

    @property
    def answer_count(self) -> int:
        return sum(not frame.is_oneway for frame in self.requests)

    def check(self, answers: dict[int, Frame]) -> None:
        for opaque, answer in answers.items():
            ext = answer.ext or {}
            if opaque in self.stored:
                assert answer.code == 0, answer.remark
                assert (int(ext["queueId"] or ""), int(ext["queueOffset"] or "")) == self.stored[opaque]
            elif opaque in self.pulled:
                assert [record.body for record in read_records(answer.body)] == self.pulled[opaque]
                assert answer.code == (0 if self.pulled[opaque] else 19)
            elif opaque in self.waiting:
                queue_id, offset = self.waiting[opaque]
                found = [record.body for record in read_records(answer.body)]
                assert found, "what it waited for has come"
                assert found == self.queues[queue_id][offset : offset + len(found)]
            elif opaque in self.counted:
                assert ext["offset"] == str(self.counted[opaque])
            else:
                assert opaque in self.refused
                assert answer.code in (1, 3)


kinds = st.sampled_from(
    ["json", "json", "binary", "binary", "oneway", "version 1", "batch", "pull", "wait", "count", "bad"]
)
operations = st.lists(st.tuples(kinds, st.integers(0, QUEUES - 1), st.integers(0, 5)), min_size=1, max_size=60)


@settings(max_examples=30)
@given(operations, st.lists(st.integers(1, 2000), min_size=1, max_size=8))
def test_requests_of_a_connection_act_in_the_order_of_their_sending(some: list[Operation], cuts: list[int]) -> None:
    model = Model()
    for operation in [*some, *[("json", queue_id, 0) for queue_id in range(QUEUES)]]:  # the last ones wake who waits
        model.add(operation)

    async def check() -> None:
        async with open_house(clock=ManualClock()) as house:
            await house.make_topic(readQueueNums=QUEUES, writeQueueNums=QUEUES)
            peer = await house.connect()
            data = b"".join(map(encode_frame, model.requests))
            at = turn = 0
            while at < len(data):
                size = cuts[turn % len(cuts)]
                await peer.write(data[at : at + size])
                await asyncio.sleep(0)
                at, turn = at + size, turn + 1
            model.check(await peer.all(model.answer_count))
            for queue_id, bodies in enumerate(model.queues):
                assert [record.body for record in await house.pull_all(TOPIC, queue_id)] == bodies

    asyncio.run(check())
