"""Long work in slices: others have their turn, after so much time and after so many steps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator

import pytest

from skyrocketmq.broker.saving import Saver
from skyrocketmq.ports import LocalDisk
from skyrocketmq.slices import SLICE_S, STEPS_A_SLICE, Backlog, in_slices, joined_in_slices, run_slice
from tests.store.support import memory_disk, new_message, open_store, put_ok
from tests.test_loop_watch import BusyClock


class Others:
    """Everybody else on the loop: counts the turns that they get."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._task.cancel()


def parts(clock: BusyClock, *, count: int, seconds: float) -> Iterator[bytes]:
    for number in range(count):
        clock.work(seconds)
        yield b"%d," % number


@pytest.mark.parametrize(
    ("count", "seconds", "turns"),
    [(100, SLICE_S / 10, 10), (100, SLICE_S * 2, 100), (10 * STEPS_A_SLICE, 0.0, 10), (100, 0.0, 0)],
    ids=["short parts", "long parts", "many parts that take no time", "few"],
)
async def test_others_have_their_turn_between_slices(count: int, seconds: float, turns: int) -> None:
    clock, others = BusyClock(), Others()
    whole = await joined_in_slices(parts(clock, count=count, seconds=seconds), clock)
    others.stop()
    assert whole == b"".join(b"%d," % number for number in range(count))
    assert 0.8 * turns <= others.turns <= 2 * turns + 1  # to sleep on this clock takes two turns


async def test_steps_return_their_value_and_their_errors() -> None:
    def steps(fails: bool) -> Generator[None, None, str]:
        yield
        if fails:
            raise ValueError("no")
        return "done"

    assert await in_slices(steps(fails=False), BusyClock()) == "done"
    with pytest.raises(ValueError, match="no"):
        await in_slices(steps(fails=True), BusyClock())


async def test_a_table_is_encoded_on_the_loop_with_turns_for_others_and_only_written_in_a_thread() -> None:
    """A thread that encodes holds the interpreter's lock, and with it the loop, for as long as it likes."""
    clock, disk, others = BusyClock(), LocalDisk(), Others()
    threads: dict[str, set[int]] = {"encode": set(), "write": set()}
    version = 0

    def encode(_: int) -> Iterator[bytes]:
        for part in parts(clock, count=50, seconds=SLICE_S):
            threads["encode"].add(threading.get_ident())
            yield part

    def write(data: bytes) -> None:
        threads["write"].add(threading.get_ident())

    saver = Saver(
        "table.json",
        version=lambda: version,
        snapshot=lambda: version,
        encode=encode,
        write=write,
        disk=disk,
        clock=clock,
    )
    version = 1
    await saver.save()
    others.stop()
    disk.close()
    assert threads["encode"] == {threading.get_ident()}
    assert threads["write"].isdisjoint(threads["encode"])
    assert others.turns >= 40


class TickingClock(BusyClock):
    """Every look at it takes as long as a slice."""

    def monotonic(self) -> float:
        self.work(SLICE_S)
        return super().monotonic()


async def test_new_queues_are_written_out_with_turns_for_others() -> None:
    """Each costs a directory, a file and its size."""
    async with open_store(memory_disk(), clock=TickingClock()) as store:
        for number in range(64):
            put_ok(store, new_message(topic=f"topic-{number}"))
        others = Others()
        await store._upkeep._write_out_queues()
        others.stop()
        assert others.turns >= 7
        assert not store.queues.dirty


# -------------------------------------------------------------------------------------------------------------- backlog


def steps(clock: BusyClock, done: list[str], *names: str, seconds: float = SLICE_S) -> Iterator[None]:
    for name in names:
        clock.work(seconds)
        done.append(name)
        yield


def test_a_slice_ends_with_its_time_or_with_the_work() -> None:
    clock, done = BusyClock(), list[str]()
    work = steps(clock, done, *"abcde", seconds=SLICE_S / 2)
    assert run_slice(work, clock)
    assert done == ["a", "b"]
    assert run_slice(work, clock)
    assert not run_slice(work, clock)
    assert done == ["a", "b", "c", "d", "e"]


async def test_work_that_is_short_is_done_at_once_and_longer_work_in_its_order_in_later_turns() -> None:
    clock, done = BusyClock(), list[str]()
    backlog = Backlog(clock)
    backlog.add(steps(clock, done, "a", seconds=SLICE_S / 4))
    assert (done, len(backlog)) == (["a"], 0)
    backlog.add(steps(clock, done, "b", "c", "d"))
    backlog.add(steps(clock, done, "e", seconds=0))
    assert (done, len(backlog)) == (["a", "b"], 2)
    await clock.settle()
    assert (done, len(backlog)) == (["a", "b", "c", "d", "e"], 0)


async def test_however_many_pieces_come_in_one_turn_it_does_only_a_slice_of_them() -> None:
    clock, done = BusyClock(), list[str]()
    backlog = Backlog(clock)
    for number in range(100):
        backlog.add(steps(clock, done, str(number), seconds=SLICE_S / 5))
    assert clock.monotonic() <= 2 * SLICE_S
    for _ in range(30):
        await clock.settle()
    assert done == [str(number) for number in range(100)]
    clock.work(1)
    backlog.add(steps(clock, done, "later"))
    assert done[-1] == "later", "another time it begins at once"


async def test_a_step_may_add_more_and_one_that_fails_takes_only_its_own_work_along() -> None:
    clock, done = BusyClock(), list[str]()
    backlog = Backlog(clock)

    def adding() -> Iterator[None]:
        backlog.add(steps(clock, done, "added"))
        done.append("adding")
        yield

    def failing() -> Iterator[None]:
        yield
        raise ValueError("no")

    backlog.add(adding())
    assert done == ["adding", "added"]
    clock.work(1)
    assert len(backlog) == 1, "whether it has more to do is looked at in the next slice"
    await clock.settle()
    clock.work(1)
    with pytest.raises(ValueError, match="no"):
        backlog.add(failing())
    backlog.add(steps(clock, done, "next"))
    assert done == ["adding", "added", "next"]


async def test_a_backlog_that_is_closed_does_nothing_more() -> None:
    clock, done = BusyClock(), list[str]()
    backlog = Backlog(clock)
    backlog.add(steps(clock, done, "a", "b"))
    backlog.close()
    backlog.add(steps(clock, done, "c"))
    await clock.settle()
    assert done == ["a"]
