"""Delivery in order, with delay and with retries while the broker and the consumers are killed: real processes.

What must hold, whatever happens:

- nothing that was acknowledged is lost;
- in order: no message comes before the one in front of it, and no two members work on one queue at the same time;
- delayed: no message comes early;
- retried: a message that used up its attempts has exactly one dead letter.

One round each, of some seconds; FAULT_ROUNDS for more, FAULT_SEED for others.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.selectors import select_by_hash
from skyrocketmq.errors import MQError
from skyrocketmq.model import Message, MessageView
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import Peer
from tests.broker.requests import pull_frame
from tests.interop.ours import Broker, NameServer, running
from tests.store.reader import read_records
from tests.system.fault_member import Event, FaultMember, Members, members_of

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "1"))
SEED = int(os.environ.get("FAULT_SEED", "5"))
QUEUES = 4
GROUP = "readers"
LIMIT_S = 60.0

pytestmark = [pytest.mark.system, pytest.mark.timeout(120 + 60 * ROUNDS)]


@contextmanager
def cluster(directory: Path, **config: str) -> Iterator[Broker]:
    """A name server and a broker with the topics of these tests."""
    with (
        running(NameServer(directory / "namesrv")) as namesrv,
        running(Broker(directory / "broker", namesrv=namesrv.address, config=config)) as broker,
    ):
        asyncio.run(create_topic(broker, "Orders"))
        yield broker


async def create_topic(broker: Broker, topic: str) -> None:
    peer = await connect(broker)
    ext: dict[str, str | None] = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    await peer.ok(Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, ext=ext))
    await peer.close()


async def connect(broker: Broker) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", broker.port))


async def kill_and_restart(broker: Broker) -> None:
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start)


async def until(condition: Callable[[], bool], *, what: str, seconds: float = LIMIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.05)


async def send_surely(send: Callable[[], Awaitable[object]]) -> None:
    """Send until it is acknowledged: a broker that is killed comes back. What was stored twice is the same twice."""
    while True:
        try:
            await send()
            return
        except MQError:
            await asyncio.sleep(0.1)


# ------------------------------------------------------------------------------------------------------------- in order


class OrderedLoad:
    """Numbered messages for each of some keys; the next one is sent only when the one before is acknowledged."""

    def __init__(self, producer: Producer, *, keys: int) -> None:
        self._producer = producer
        self.sent = dict.fromkeys((f"key{number}" for number in range(keys)), 0)
        self.is_over = False

    async def run(self) -> None:
        await asyncio.gather(*[self._run(key) for key in self.sent])

    async def _run(self, key: str) -> None:
        while not self.is_over:
            await send_surely(lambda: self._send(key))
            self.sent[key] += 1
            await asyncio.sleep(0.02)

    def _send(self, key: str) -> Awaitable[object]:
        message = Message("Orders", f"{key} {self.sent[key]}".encode())
        return self._producer.send(message, selector=select_by_hash, arg=key, timeout_s=2)

    def is_consumed_by(self, members: Members) -> bool:
        done = members.texts()
        return all(f"{key} {number}" in done for key, count in self.sent.items() for number in range(count))


def check_order(events: list[Event], *, faults: int) -> None:
    """Every key's messages come one after the other; going back to an earlier one needs a fault to explain it."""
    last: dict[str, int] = {}
    returns: Counter[str] = Counter()
    for event in events:
        if event.what != "begun":
            continue
        key, _, number_text = event.text.partition(" ")
        number = int(number_text)
        before = last.get(key, -1)
        assert number <= before + 1, f"{event.member} got {event.text} after {before}"
        if number < before:
            returns[key] += 1
        last[key] = number
    assert all(count <= faults for count in returns.values()), f"{returns} returns with {faults} faults"


def check_alone(events: list[Event], *, killed_at_ns: dict[str, int]) -> None:
    """No member begins with a message of a queue while another one still works on one."""
    busy: dict[int, Event] = {}
    for event in events:
        if event.what != "begun":
            busy.pop(event.queue_id, None)
            continue
        other = busy.get(event.queue_id)
        if other is not None and other.member != event.member:
            ended_ns = killed_at_ns.get(other.member, event.at_ns + 1)
            assert ended_ns < event.at_ns, f"{other.member} and {event.member} both work on queue {event.queue_id}"
        busy[event.queue_id] = event


def test_order_holds_while_the_broker_is_killed_and_members_come_and_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    faults = 0

    async def run(broker: Broker, members: Members) -> OrderedLoad:
        nonlocal faults
        here: list[FaultMember] = [await asyncio.to_thread(members.start) for _ in range(2)]
        async with Producer("order-producer", namesrv=broker.namesrv, poll_name_server_interval_s=1.0) as producer:
            load = OrderedLoad(producer, keys=8)
            sending = asyncio.create_task(load.run())
            try:
                await until(lambda: len(members.texts()) > 50, what="the members work")
                for _ in range(ROUNDS):
                    for fault in chance.sample(("kill the broker", "join", "leave"), 3):
                        if fault == "kill the broker":
                            await kill_and_restart(broker)
                        elif fault == "join":
                            here.append(await asyncio.to_thread(members.start))
                        else:
                            await asyncio.to_thread(here.pop(chance.randrange(len(here))).stop)
                        faults += 1
                        seen = len(members.texts())
                        await until(lambda: len(members.texts()) > seen + 20, what=f"the members work after: {fault}")  # noqa: B023
            finally:
                load.is_over = True
                await sending
            await until(lambda: load.is_consumed_by(members), what="everything is consumed")
        return load

    with (
        cluster(tmp_path) as broker,
        members_of(group=GROUP, namesrv=broker.namesrv, topic="Orders", orderly=True, takes_s=0.005) as members,
    ):
        load = asyncio.run(run(broker, members))
        check_order(members.events, faults=faults)
        check_alone(members.events, killed_at_ns={})
    with capsys.disabled():
        begun = sum(event.what == "begun" for event in members.events)
        print(f"\nin order, {faults} faults: {sum(load.sent.values())} messages sent, {begun} deliveries")


def test_order_holds_when_a_member_is_killed_in_the_middle(tmp_path: Path) -> None:
    killed_at_ns: dict[str, int] = {}

    async def run(broker: Broker, members: Members) -> None:
        async with Producer("order-producer", namesrv=broker.namesrv) as producer:
            load = OrderedLoad(producer, keys=8)
            sending = asyncio.create_task(load.run())
            try:
                for _ in range(ROUNDS):
                    doomed, other = here
                    await until(
                        lambda: all({event.queue_id for event in member.events} for member in (doomed, other)),  # noqa: B023
                        what="both members work",
                    )
                    await asyncio.to_thread(doomed.kill)
                    killed_at_ns[doomed.name] = time.time_ns()
                    seen = len(other.events)
                    await until(
                        lambda: {event.queue_id for event in other.events[seen:]} == set(range(QUEUES)),  # noqa: B023
                        what="the other has all queues",
                    )
                    if ROUNDS > 1:
                        here[:] = [other, await asyncio.to_thread(members.start)]
            finally:
                load.is_over = True
                await sending
            await until(lambda: load.is_consumed_by(members), what="everything is consumed")

    # A lock outlives its owner: by a minute, unless told otherwise. One round has seconds, and no member that joins: it
    # could take a lock that its owner, who renews every 20 s, still counts on.
    with (
        cluster(tmp_path, **{"rocketmq.broker.rebalance.lockMaxLiveTime": "31000" if ROUNDS > 1 else "3000"}) as broker,
        members_of(group=GROUP, namesrv=broker.namesrv, topic="Orders", orderly=True, takes_s=0.005) as members,
    ):
        here = [members.start(), members.start()]
        asyncio.run(run(broker, members))
        check_order(members.events, faults=2 * ROUNDS + 2)
        check_alone(members.events, killed_at_ns=killed_at_ns)


# -------------------------------------------------------------------------------------------------------------- delayed

LEVELS_S = (1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4)
EACH_LEVEL = 10


def test_no_delayed_message_is_early_or_lost_when_the_broker_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    # Whole milliseconds, as brokers count: what is stored in the last part of one is due at the beginning of another.
    sent_ms: dict[str, int] = {}  # when its sender began to send it: it is stored later
    came_ms: dict[str, list[int]] = {}

    async def note(message: MessageView) -> None:
        came_ms.setdefault(message.body.decode(), []).append(int(time.time() * 1000))

    async def send_all(producer: Producer, turn: int) -> None:
        for level in range(1, len(LEVELS_S) + 1):
            for number in range(EACH_LEVEL):
                text = f"{level} {turn}.{number}"
                sent_ms[text] = int(time.time() * 1000)
                message = Message("Orders", text.encode(), delay_level=level)
                await send_surely(lambda: producer.send(message, timeout_s=2))  # noqa: B023

    async def run(broker: Broker) -> None:
        options = {"namesrv": broker.namesrv, "poll_name_server_interval_s": 1.0}
        consumer = PushConsumer(GROUP, consume_from="first", **options)  # type: ignore[arg-type]
        consumer.subscribe("Orders", "*", note)
        async with consumer, Producer("delay-producer", **options) as producer:  # type: ignore[arg-type]
            for turn in range(ROUNDS):
                await asyncio.gather(send_all(producer, turn), kills())
            await until(lambda: came_ms.keys() >= sent_ms.keys(), what="all have come")
            await asyncio.sleep(1)

    async def kills() -> None:
        for _ in range(2):
            await asyncio.sleep(chance.uniform(0.3, 1.5))
            await kill_and_restart(broker)

    with cluster(tmp_path, messageDelayLevel=" ".join(f"{seconds}s" for seconds in LEVELS_S)) as broker:
        asyncio.run(run(broker))
    assert len(sent_ms) == ROUNDS * len(LEVELS_S) * EACH_LEVEL
    waited_ms = {text: min(times) - sent_ms[text] for text, times in came_ms.items()}
    for text, waited in waited_ms.items():
        level = int(text.partition(" ")[0])
        assert waited >= LEVELS_S[level - 1] * 1000, f"{text} came after {waited} ms"
    with capsys.disabled():
        twice = sum(len(times) > 1 for times in came_ms.values())
        print(f"\ndelayed, {2 * ROUNDS} kills: {len(sent_ms)} messages sent, {twice} of them came more than once")


# -------------------------------------------------------------------------------------------------------------- retried

RETRIES = 3


def test_a_message_that_used_up_its_retries_has_exactly_one_dead_letter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    texts = [f"{kind} {number}" for number in range(40 * ROUNDS) for kind in ("good", "flaky", "poison")]
    survivors = {text for text in texts if not text.startswith("poison")}
    poisons = sorted(set(texts) - survivors)

    async def run(broker: Broker, members: Members) -> list[str]:
        async with Producer("retry-producer", namesrv=broker.namesrv, poll_name_server_interval_s=1.0) as producer:

            async def send_all() -> None:
                for text in texts:
                    await send_surely(lambda: producer.send(Message("Orders", text.encode()), timeout_s=2))  # noqa: B023
                    await asyncio.sleep(0.02)

            sending = asyncio.create_task(send_all())
            member = await asyncio.to_thread(members.start)
            for _ in range(ROUNDS):
                for fault in chance.sample(("kill the broker", "kill the member", "kill the broker again"), 3):
                    await asyncio.sleep(chance.uniform(0.4, 1.2))
                    if fault == "kill the member":
                        await asyncio.to_thread(member.kill)
                        member = await asyncio.to_thread(members.start)
                    else:
                        await kill_and_restart(broker)
            await sending
            await until(lambda: members.texts() >= survivors, what="all that can be consumed is")
            deadline = time.monotonic() + LIMIT_S
            while not {*poisons} <= {*(letters := await dead_letters(broker))}:
                assert time.monotonic() < deadline, f"{len(letters)} dead letters for {len(poisons)}"
                await asyncio.sleep(0.3)
            # Copies that went other ways may still be on theirs: each has so many attempts, a second apart.
            await settle(members)
            return await dead_letters(broker)

    with (
        cluster(tmp_path, messageDelayLevel=" ".join(["1s"] * 18)) as broker,
        members_of(group=GROUP, namesrv=broker.namesrv, topic="Orders", retries=RETRIES) as members,
    ):
        letters = asyncio.run(run(broker, members))
    assert sorted(letters) == poisons
    attempts = Counter(event.text for event in members.events if event.what == "failed" and event.text in poisons)
    assert min(attempts.values()) >= RETRIES + 1
    with capsys.disabled():
        more = sum(count - RETRIES - 1 for count in attempts.values())
        print(
            f"\nretried, {3 * ROUNDS} kills: {len(poisons)} dead letters, {more} attempts more than {RETRIES + 1} each"
        )


async def settle(members: Members) -> None:
    """Wait until nothing has been handled for longer than a retry takes, and a kept message is kept."""
    handled_count, still_since = -1, 0.0
    while time.monotonic() - still_since < 6.0:
        if handled_count != len(members.events):
            handled_count, still_since = len(members.events), time.monotonic()
        await asyncio.sleep(0.1)


async def dead_letters(broker: Broker) -> list[str]:
    peer = await connect(broker)
    letters: list[str] = []
    offset = 0
    while (answer := await peer.ask(pull_frame(f"%DLQ%{GROUP}", 0, offset))).code == 0:
        records = read_records(answer.body)
        letters += [record.body.decode() for record in records]
        offset += len(records)
    await peer.close()
    return letters
