"""Our broker and Apache's take turns on one directory: after each change of hands everything is there.

Both as real processes, stopped in order or killed. Every message is pulled, some are found by their keys and ids, the
group's offsets are those that were committed, and a delayed message that one broker took is delivered by the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop import exchange
from tests.interop.apache import Apache, Server
from tests.interop.driver import Driver, Queue, Sent, message
from tests.interop.exchange import BROKER
from tests.interop.ours import Broker
from tests.interop.processes import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPIC = "Hands"
LATER = "HandsLater"
GROUP = "hands-readers"
QUEUES = 4
SETTINGS = {
    **exchange.SETTINGS,
    "messageDelayLevel": "1s 12s 2h",
    "flushConsumerOffsetInterval": "500",
    "flushDelayOffsetInterval": "500",
    "autoCreateTopicEnable": "true",
}


@dataclass
class Story:
    """What was sent so far, and what the group has committed."""

    java: Driver
    namesrv: str
    sent: list[Sent] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    committed: int = 0

    def send(self, count: int) -> None:
        with self.java.producer("hands", namesrv=self.namesrv) as producer:
            if not self.sent:
                producer.create_topic(TOPIC, queues=QUEUES)
                producer.create_topic(LATER, queues=1)
            for number in range(len(self.sent), len(self.sent) + count):
                sending = message(TOPIC, text_of(number), tags="TagA", keys=f"key-{number}")
                self.sent += producer.send(sending, queue=Queue(TOPIC, BROKER, number % QUEUES))

    def send_later(self, *, level: int) -> None:
        text = f"later {len(self.later)}"
        with self.java.producer("hands", namesrv=self.namesrv) as producer:
            producer.send(message(LATER, text, delay_level=level), queue=Queue(LATER, BROKER, 0))
        self.later.append(text)

    def commit(self, offset: int) -> None:
        with self.java.pull_consumer(GROUP, namesrv=self.namesrv) as consumer:
            for queue_id in range(QUEUES):
                consumer.update_offset(Queue(TOPIC, BROKER, queue_id), offset)
        self.committed = offset

    def check(self, *, later: int) -> None:
        """All of it, through Apache's client; so many delayed messages have come, each once."""
        count = len(self.sent)
        with self.java.pull_consumer(GROUP, namesrv=self.namesrv) as consumer:
            for queue_id in range(QUEUES):
                queue = Queue(TOPIC, BROKER, queue_id)
                assert consumer.offsets(queue).max_offset == count // QUEUES
                assert consumer.fetch_offset(queue) == self.committed
                bodies: list[str] = []
                while len(bodies) < count // QUEUES:
                    pulled = consumer.pull(queue, offset=len(bodies))
                    assert pulled.messages
                    bodies += [received.text for received in pulled.messages]
                assert bodies == [text_of(number) for number in range(queue_id, count, QUEUES)]
            for number in range(0, count, 29):
                assert text_of(number) in [each.text for each in consumer.query(TOPIC, f"key-{number}", max_count=32)]
                assert consumer.view(self.sent[number].msg_id or "", topic=TOPIC).text == text_of(number)
            wait_until(
                lambda: consumer.offsets(Queue(LATER, BROKER, 0)).max_offset >= later,
                timeout_s=40,
                what="delayed messages are delivered",
            )
            pulled = consumer.pull(Queue(LATER, BROKER, 0), offset=0)
            assert [each.text for each in pulled.messages] == self.later[:later]


def text_of(number: int) -> str:
    return f"{number:05d}" + "." * 600


@pytest.fixture
def brokers(apache: Apache, tmp_path: Path) -> Iterator[tuple[Broker, Server]]:
    """Ours and Apache's, not started, on one directory and one name server."""
    with apache.namesrv() as namesrv:
        settings = {**SETTINGS, "storePathRootDir": str(tmp_path / "store")}
        settings["storePathCommitLog"] = str(tmp_path / "store" / "commitlog")
        ours = Broker(tmp_path / "ours", namesrv=namesrv.address, name=BROKER, config=settings)
        with apache.broker(
            namesrv=namesrv.address, name=BROKER, store=tmp_path / "store", config=SETTINGS, start=False
        ) as theirs:
            try:
                yield ours, theirs
            finally:
                if ours.is_running:
                    ours.kill()


def offsets_are_saved(store: Path, *, committed: int, delivered: int) -> bool:
    """What a kill now would not lose: both brokers write these files now and then."""
    paths = [store / "config" / name for name in ("consumerOffset.json", "delayOffset.json")]
    if not all(path.exists() for path in paths):
        return False
    offsets, delays = ("".join(path.read_text().split()) for path in paths)
    levels = sum(int(offset) for offset in re.findall(r"\d+:(\d+)", delays))
    return f"0:{committed},1:{committed}" in offsets and levels == delivered


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_everything_is_there_when_the_brokers_take_turns(
    is_killed: bool, brokers: tuple[Broker, Server], java: Driver, tmp_path: Path
) -> None:
    ours, theirs = brokers
    story = Story(java, theirs.config["namesrvAddr"])

    def end(broker: Broker | Server, *, delivered: int) -> None:
        wait_until(
            lambda: offsets_are_saved(tmp_path / "store", committed=story.committed, delivered=delivered),
            timeout_s=30,
            what="the offsets are saved",
        )
        if is_killed:
            broker.kill()
        else:
            broker.stop()

    ours.start()
    story.send(600)
    story.commit(40)
    story.send_later(level=1)
    story.check(later=1)
    story.send_later(level=2)
    end(ours, delivered=1)

    theirs.start()
    story.check(later=2)
    story.send(200)
    story.commit(77)
    story.send_later(level=2)
    end(theirs, delivered=2)

    ours.start()
    story.check(later=3)
    story.send(100)
    ours.stop()
