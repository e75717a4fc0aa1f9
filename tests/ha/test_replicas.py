"""Who waits for a slave, for how long, and what he hears."""

from __future__ import annotations

from skyrocketmq.ha import Replicas
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.testing import ManualClock


def replicas(clock: ManualClock) -> Replicas:
    return Replicas(clock=clock, timeout_ms=3000, lag_bytes_max=1000)


async def test_one_slave_is_enough_and_releases_all_that_it_has() -> None:
    told: list[tuple[int, PutStatus]] = []
    some = replicas(ManualClock())
    some.report("a", 0)
    some.report("b", 0)
    for end in (100, 200, 300):
        some.when_replicated(end, lambda status, end=end: told.append((end, status)))  # type: ignore[misc]
    some.report("b", 200)
    assert told == [(100, PutStatus.PUT_OK), (200, PutStatus.PUT_OK)]
    some.report("a", 150)
    assert len(told) == 2
    assert some.acknowledged == 200
    some.close()


async def test_a_slave_that_repeats_its_report_releases_nobody_twice() -> None:
    told: list[PutStatus] = []
    some = replicas(ManualClock())
    some.report("a", 100)
    some.when_replicated(101, told.append)
    some.report("a", 100)
    some.report("b", 100)
    assert (told, some.slaves) == ([], {"a": 100, "b": 100})
    some.report("b", 101)
    assert told == [PutStatus.PUT_OK]
    some.close()


async def test_not_one_byte_is_replicated_before_a_slave_says_so() -> None:
    told: list[PutStatus] = []
    some = replicas(ManualClock())
    some.report("a", 0)
    some.when_replicated(1, told.append)
    assert (told, some.waiting_count) == ([], 1)
    some.report("a", 1)
    assert told == [PutStatus.PUT_OK]
    some.close()


async def test_nobody_waits_where_no_slave_is_or_it_is_too_far_behind() -> None:
    told: list[PutStatus] = []
    some = replicas(ManualClock())
    some.when_replicated(100, told.append)
    assert told == [PutStatus.SLAVE_NOT_AVAILABLE]
    some.report("a", 50)
    some.when_replicated(1050, told.append)
    assert told == [PutStatus.SLAVE_NOT_AVAILABLE] * 2
    some.when_replicated(1049, told.append)
    assert some.waiting_count == 1
    some.close()
    assert told[2:] == [PutStatus.FLUSH_SLAVE_TIMEOUT]


async def test_what_a_slave_had_before_it_left_is_still_replicated() -> None:
    told: list[PutStatus] = []
    some = replicas(ManualClock())
    some.report("a", 100)
    some.leave("a")
    some.when_replicated(100, told.append)
    some.when_replicated(101, told.append)
    assert told == [PutStatus.PUT_OK, PutStatus.SLAVE_NOT_AVAILABLE]


async def test_a_sender_hears_when_its_time_is_over_and_later_ones_wait_on() -> None:
    clock = ManualClock()
    told: list[tuple[int, PutStatus]] = []
    some = replicas(clock)
    some.report("a", 0)
    some.when_replicated(100, lambda status: told.append((100, status)))
    await clock.advance(2)
    some.when_replicated(200, lambda status: told.append((200, status)))
    await clock.advance(0.999)
    assert told == []
    await clock.advance(0.001)
    assert told == [(100, PutStatus.FLUSH_SLAVE_TIMEOUT)], "after 3 s, not a moment later"
    some.leave("a")  # it may be back in time
    some.report("a", 200)
    assert told[1:] == [(200, PutStatus.PUT_OK)]
    await clock.advance(10)
    assert clock.timer_count == 0


async def test_a_shorter_time_counts_at_once_for_those_who_wait_and_those_who_come() -> None:
    told: list[PutStatus] = []
    clock = ManualClock()
    some = replicas(clock)
    some.report("a", 0)
    some.when_replicated(100, told.append)
    some.timeout_ms = 200
    some.when_replicated(200, told.append)
    await clock.advance(0.19)
    assert told == []
    await clock.advance(0.02)
    assert told == [PutStatus.FLUSH_SLAVE_TIMEOUT] * 2
    some.close()


async def test_a_longer_time_counts_for_those_who_come() -> None:
    told: list[PutStatus] = []
    clock = ManualClock()
    some = replicas(clock)
    some.report("a", 0)
    some.when_replicated(100, told.append)
    some.timeout_ms = 60_000
    some.when_replicated(200, told.append)
    await clock.advance(3.1)
    assert told == [PutStatus.FLUSH_SLAVE_TIMEOUT]
    some.report("a", 200)
    assert told == [PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.PUT_OK]
    some.close()
