"""A master and its slave as real processes, killed, stopped and cut off from each other under load.

Each round runs under another combination of flush type and role of the master and has a trouble of its own. In each
both are killed with SIGKILL: the slave as the trouble, while its master works, or else when its master is dead; the
master always, and it comes back under the next combination. What must hold, whatever happens:

- a message that was acknowledged is there when its master is back, and is consumed, from either;
- the moment a synchronous master is dead, all that it acknowledged as replicated can be read from the slave alone;
  after the death of an asynchronous one, all that the slave had copied before;
- only a synchronous master tells senders of a slave that is late or away;
- the two logs are the same, byte for byte, and every file of both is in order.

Four rounds, one a combination; CHAOS_ROUNDS for more, CHAOS_SEED for others. Many rounds are done in stretches, each
with new stores that are checked in full at its end and counted then: CHAOS_FROM=480 goes on after 480 rounds.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skyrocketmq.ports import LocalDisk
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.broker.house import Peer
from tests.broker.requests import TOPIC, properties_text, pull_frame, send_frame, unique_id
from tests.ha.proxy import Proxy
from tests.interop.ours import Broker, NameServer, running
from tests.store.reader import Sizes, check_store, read_records

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "4"))
FROM = int(os.environ.get("CHAOS_FROM", "0"))
SEED = int(os.environ.get("CHAOS_SEED", "11"))
STRETCH = 48  # rounds with the same stores: three times each trouble under each combination
EVENTS = ("kill the slave", "stop the master", "stop the slave", "cut the link")
QUEUES = 4
PRODUCERS = 3
WINDOW = 16
DONE, STORED = 0, (0, 10, 11, 12)
FLUSH_DISK_TIMEOUT, OF_SLAVES = 10, {11, 12}
SIZES = Sizes(log_file=1 << 20, queue_file=20 * 1000, slots=500, entries=2000)
CONFIG = {
    "mappedFileSizeCommitLog": str(SIZES.log_file),
    "mappedFileSizeConsumeQueue": str(SIZES.queue_file),
    "maxHashSlotNum": str(SIZES.slots),
    "maxIndexNum": str(SIZES.entries),
    "slaveTimeout": "400",
    "haSendHeartbeatInterval": "300",
    "haHousekeepingInterval": "2000",
}


@dataclass(frozen=True)
class Combination:
    """What a master is told to do before it acknowledges."""

    flush: str
    role: str

    @property
    def is_synchronous(self) -> bool:
        return self.role == "SYNC_MASTER"

    def __str__(self) -> str:
        return f"{self.flush}, {self.role}"


COMBINATIONS = [
    Combination(flush, role) for role in ("SYNC_MASTER", "ASYNC_MASTER") for flush in ("ASYNC_FLUSH", "SYNC_FLUSH")
]


class Load:
    """Producers that never give up, and what they were told."""

    def __init__(self, broker: Broker, chance: random.Random) -> None:
        self.answers: dict[str, int] = {}  # unique id -> the code of its answer
        self.replicated: set[str] = set()  # of those that a synchronous master has answered without reserve
        self.combination = COMBINATIONS[0]  # of the master that gives the answers
        self.codes: dict[Combination, Counter[int]] = {each: Counter() for each in COMBINATIONS}
        self.is_over = False
        self._broker = broker
        self._chance = chance
        self._numbers: Iterator[int] = iter(range(10**9))

    @property
    def acknowledged(self) -> list[str]:
        return [unique for unique, code in self.answers.items() if code in STORED]

    async def run(self) -> None:
        await asyncio.gather(*[self._produce() for _ in range(PRODUCERS)])

    async def _produce(self) -> None:
        while not self.is_over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._broker.port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            try:
                await self._send_until_it_ends(reader, writer)
            except OSError:
                pass
            finally:
                writer.transport.abort()

    async def _send_until_it_ends(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        waiting: dict[int, str] = {}
        while not self.is_over or waiting:
            while len(waiting) < WINDOW and not self.is_over:
                number = next(self._numbers)
                waiting[number] = unique_id(number)
                writer.write(encode_frame(self._frame(number)))
            async with asyncio.timeout(20):
                data = await reader.read(1 << 16)
            if not data:
                return
            for answer in decoder.feed(data):
                unique = waiting.pop(answer.opaque)
                self.codes[self.combination][answer.code] += 1
                self.answers[unique] = answer.code
                if answer.code == DONE and self.combination.is_synchronous:
                    self.replicated.add(unique)
            await asyncio.sleep(0.01)  # a few thousand a second are enough

    def _frame(self, number: int) -> Frame:
        text = properties_text([("UNIQ_KEY", unique_id(number)), ("TAGS", "TagA")])
        body = b"%d " % number + bytes(self._chance.choice((0, 50, 900)))
        return send_frame(TOPIC, number % QUEUES, opaque=number, body=body, properties=text, is_binary=number % 2 == 0)

    async def acknowledged_again(self) -> float:
        """Wait until a message that is sent from now on is acknowledged without reserve; seconds that it took."""
        started = time.monotonic()
        codes = self.codes[self.combination]
        before = codes[DONE]
        while codes[DONE] <= before + PRODUCERS * WINDOW:
            assert time.monotonic() - started < 30, f"nothing acknowledged for 30 s: {self.codes}"
            await asyncio.sleep(0.005)
        return time.monotonic() - started


class Reader:
    """Reads a broker's queues, each message once, however often it is asked."""

    def __init__(self, broker: Broker) -> None:
        self.found: Counter[str] = Counter()
        self._broker = broker
        self._offsets = dict.fromkeys(range(QUEUES), 0)

    def another(self) -> Reader:
        """One that begins where this one is, and has found nothing yet."""
        reader = Reader(self._broker)
        reader._offsets |= self._offsets
        return reader

    def take_over(self, another: Reader) -> None:
        """Go on where the other one is, with what it has found."""
        self.found += another.found
        self._offsets |= another._offsets

    async def read(self) -> None:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._broker.port))
        for queue_id in range(QUEUES):
            while (answer := await peer.ask(pull_frame(TOPIC, queue_id, self._offsets[queue_id]))).code == 0:
                records = read_records(answer.body)
                self._offsets[queue_id] += len(records)
                self.found.update([record.properties["UNIQ_KEY"] for record in records])
        await peer.close()


async def log_end(broker: Broker) -> int:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", broker.port))
    answer = await peer.ok(Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 1))
    await peer.close()
    return int(decode_body(KvTable, answer.body).table["commitLogMaxOffset"])


def log_bytes(store: Path) -> tuple[int, bytes]:
    """Where the log begins, and its files one after the other."""
    files = sorted((store / "commitlog").iterdir())
    return int(files[0].name), b"".join([file.read_bytes() for file in files])


class Chaos:
    """One run."""

    def __init__(self, master: Broker, slave: Broker, proxy: Proxy, chance: random.Random) -> None:
        self._master = master
        self._slave = slave
        self._proxy = proxy
        self._chance = chance
        self._settings = master.config_file.read_text()
        self._at_master = Reader(master)
        self._at_slave = Reader(slave)
        self.load = Load(master, chance)
        self.kills: Counter[str] = Counter()
        self.waits_s: dict[str, list[float]] = {event: [] for event in (*EVENTS, "kill the master")}

    def set_combination(self, combination: Combination) -> None:
        """For the next start of the master."""
        self.load.combination = combination
        added = f"flushDiskType={combination.flush}\nbrokerRole={combination.role}\n"
        self._master.config_file.write_text(self._settings + added)

    async def run(self, rounds: int) -> None:
        loading = asyncio.create_task(self.load.run())
        await self._replicated_again()
        for turn in range(rounds):
            event = EVENTS[(turn + turn // len(COMBINATIONS)) % len(EVENTS)]  # not always under the same combination
            await asyncio.sleep(self._chance.uniform(0.05, 0.2))
            await self._cause(event)
            self.waits_s[event].append(await self._replicated_again())
            following = COMBINATIONS[(turn + 1) % len(COMBINATIONS)]
            await self._kill_the_master(following, and_the_slave=event != "kill the slave")
            self.waits_s["kill the master"].append(await self._replicated_again())
        self.load.is_over = True
        await loading

    async def _replicated_again(self) -> float:
        """Wait until messages of from now on are at the slave; seconds that it took."""
        if self.load.combination.is_synchronous:
            return await self.load.acknowledged_again()
        wait_s = await self.load.acknowledged_again()  # which says nothing of the slave
        started, end = time.monotonic(), await log_end(self._master)
        while await log_end(self._slave) < end:
            assert time.monotonic() - started < 30, "the slave does not follow"
            await asyncio.sleep(0.01)
        return wait_s + time.monotonic() - started

    async def _kill_the_master(self, following: Combination, *, and_the_slave: bool) -> None:
        """And let it come back under another combination, once the promises of the one that it had are checked."""
        before = self._at_slave.another()
        alone = self._at_slave.another()
        await before.read()
        self._proxy.cut()  # first: of a process that is killed the kernel still delivers what it has sent
        # A master that answers before its slave has the message is found out by what it answers now.
        await asyncio.sleep(self._chance.choice((0, self._chance.uniform(0.02, 0.1))))
        await self._kill(self._master)
        await alone.read()
        self._at_slave.take_over(alone)
        self._check_slave_alone(alone, copied=before.found)
        acknowledged = self.load.acknowledged
        killed = self.load.combination
        if and_the_slave:
            await self._kill(self._slave)
        self.set_combination(following)
        self._proxy.mend()
        dead = [self._master, self._slave] if and_the_slave else [self._master]
        await asyncio.gather(*[self._start(broker, self._chance.uniform(0, 0.3)) for broker in dead])
        await self._at_master.read()
        lost = [unique for unique in acknowledged if not self._at_master.found[unique]]
        assert not lost, f"{killed}: {len(lost)} of {len(acknowledged)} acknowledged messages died with the process"

    async def _kill(self, broker: Broker) -> None:
        await asyncio.to_thread(broker.kill)
        self.kills["master" if broker is self._master else "slave"] += 1

    async def _start(self, broker: Broker, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await asyncio.to_thread(broker.start)

    async def _cause(self, event: str) -> None:
        master, slave = self._master, self._slave
        if event == "kill the slave":
            await self._kill(slave)
            await self._start(slave, self._chance.uniform(0, 0.3))
        elif event == "stop the master":
            master.process.pause()
            await asyncio.sleep(self._chance.uniform(0.1, 1))
            master.process.resume()
        elif event == "stop the slave":
            slave.process.pause()
            await asyncio.sleep(self._chance.choice((0.2, 0.8)))  # shorter and longer than the master waits
            slave.process.resume()
        else:
            self._proxy.cut()
            await asyncio.sleep(self._chance.uniform(0.05, 0.8))
            self._proxy.mend()

    def _check_slave_alone(self, alone: Reader, *, copied: Counter[str]) -> None:
        """Whatever was acknowledged as replicated, or was there before, can be read without the master."""
        promised = self.load.replicated
        missing = [unique for unique in promised if not self._at_slave.found[unique]]
        assert not missing, f"{len(missing)} of {len(promised)} replicated messages are not at the slave"
        gone = [unique for unique in copied if not alone.found[unique]]
        assert not gone, f"{len(gone)} of {len(copied)} messages that the slave had are gone"

    async def caught_up(self) -> int:
        deadline = time.monotonic() + 20
        while (end := await log_end(self._master)) != await log_end(self._slave):
            assert time.monotonic() < deadline, "the slave does not catch up"
            await asyncio.sleep(0.05)
        return end

    async def check_messages(self) -> int:
        """All that was acknowledged is consumed, from either; how many messages there are."""
        at_master, at_slave = Reader(self._master), Reader(self._slave)
        for reader in (at_master, at_slave, self._at_master, self._at_slave):
            await reader.read()
        for found in (at_master.found, at_slave.found, self._at_master.found, self._at_slave.found):
            assert all(count == 1 for count in found.values()), "each was sent once, and is there once"
            lost = [unique for unique in self.load.acknowledged if not found[unique]]
            assert not lost, f"{len(lost)} acknowledged messages are lost"
        assert at_master.found == at_slave.found
        return len(at_master.found)


@dataclass
class Tally:
    """What the stretches have done so far."""

    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    replicated: int = 0
    started: float = field(default_factory=time.monotonic)

    def add(self, chaos: Chaos, rounds: int) -> None:
        self.rounds += rounds
        self.kills += chaos.kills
        self.acknowledged += len(chaos.load.acknowledged)
        self.replicated += len(chaos.load.replicated)

    def __str__(self) -> str:
        killed = " and ".join(f"{count} of the {name}" for name, count in self.kills.items())
        return (
            f"{self.rounds} rounds in {time.monotonic() - self.started:.0f} s, SIGKILLs: {killed}; {self.acknowledged} "
            f"messages acknowledged, {self.replicated} of them as replicated, lost=0"
        )


async def run_chaos(master: Broker, slave: Broker, proxy: Proxy, *, rounds: int, seed: int) -> tuple[Chaos, int, int]:
    await proxy.start()
    try:
        slave_settings = slave.config_file.read_text()
        slave.config_file.write_text(slave_settings + f"haMasterAddress=127.0.0.1:{proxy.port}\n")
        chaos = Chaos(master, slave, proxy, random.Random(seed))
        chaos.set_combination(COMBINATIONS[0])
        await asyncio.to_thread(master.start)
        await asyncio.to_thread(slave.start)
        peer = Peer(*await asyncio.open_connection("127.0.0.1", master.port))
        await peer.ask(send_frame(TOPIC, 0, properties=properties_text([("UNIQ_KEY", "first")])))
        await peer.close()
        await chaos.run(rounds)
        end = await chaos.caught_up()
        return chaos, end, await chaos.check_messages()
    finally:
        await asyncio.to_thread(master.stop)
        await asyncio.to_thread(slave.stop)
        await proxy.close()


def run_stretch(home: Path, *, rounds: int, seed: int) -> tuple[Chaos, str]:
    """Some rounds with new stores, and every check at their end; what to say of it."""
    settings = {"brokerRole": "SLAVE", "brokerId": "1"}
    with running(NameServer(home / "namesrv")) as namesrv:
        address = namesrv.address
        master = Broker(home / "master", namesrv=address, config=CONFIG)
        slave = Broker(home / "slave", namesrv=address, config={**CONFIG, **settings})
        proxy = Proxy(master.port + 1)
        chaos, end, count = asyncio.run(run_chaos(master, slave, proxy, rounds=rounds, seed=seed))

    begin, copy = log_bytes(home / "slave" / "store")
    masters_begin, log = log_bytes(home / "master" / "store")
    assert copy[: end - begin] == log[begin - masters_begin : end - masters_begin]
    assert end - begin > 0
    disk = LocalDisk(threads=1)
    for name in ("master", "slave"):
        check_store(disk, home / name / "store", SIZES)
    disk.close()
    for combination in COMBINATIONS[:rounds]:
        codes = chaos.load.codes[combination]
        assert codes[DONE] > PRODUCERS * WINDOW, f"{combination}: {codes}"
        assert combination.is_synchronous or not OF_SLAVES & codes.keys(), f"nobody waits for the slave: {codes}"
        assert combination.flush == "SYNC_FLUSH" or not codes[FLUSH_DISK_TIMEOUT], f"nor for the disk: {codes}"
    lines = [f"{count} messages, {end} bytes the same; answers:"]
    lines += [f"  {combination}: {dict(codes)}" for combination, codes in chaos.load.codes.items()]
    lines += [
        f"  after {event}: replicated again within {max(waits_s):.2f} s"
        for event, waits_s in chaos.waits_s.items()
        if waits_s
    ]
    return chaos, "\n".join(lines)


@pytest.mark.system
@pytest.mark.alone
@pytest.mark.timeout(120 + 20 * ROUNDS)
def test_a_master_and_its_slave_lose_nothing_and_stay_the_same_in_any_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FROM < ROUNDS, "CHAOS_FROM are rounds of CHAOS_ROUNDS that were done before"
    tally = Tally()
    for first in range(FROM, ROUNDS, STRETCH):
        rounds = min(STRETCH, ROUNDS - first)
        home = tmp_path / f"after-{first}-rounds"
        try:
            chaos, text = run_stretch(home, rounds=rounds, seed=SEED + first)
        except BaseException as error:
            error.add_note(f"CHAOS_SEED={SEED} CHAOS_FROM={first}, after {tally}; stores: {home}")
            raise
        tally.add(chaos, rounds)
        shutil.rmtree(home)
        with capsys.disabled():
            print(f"\n{text}\n{FROM + tally.rounds} of {ROUNDS}: {tally}", flush=True)
