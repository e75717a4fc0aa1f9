"""What goes through the broker, by topic, group and queue: the statistics that operators ask for by name and key (315).

| name | key | counts |
|---|---|---|
| TOPIC_PUT_NUMS, TOPIC_PUT_SIZE | topic | messages stored in a topic's queues, their bytes |
| GROUP_GET_NUMS, GROUP_GET_SIZE | topic@group | messages given to a group, their bytes |
| GROUP_GET_LATENCY | queueId@topic@group | milliseconds that pulls took to answer |
| SNDBCK_PUT_NUMS | topic@group | messages that a group handed back |
| BROKER_PUT_NUMS, BROKER_GET_NUMS | cluster | messages stored and given in all |
| QUEUE_PUT_NUMS, QUEUE_PUT_SIZE | topic@queueId | delayed messages stored, by level |
| QUEUE_GET_NUMS, QUEUE_GET_SIZE | topic@queueId@group | delayed messages delivered, by level |

With `enableDetailStat=false` there is nothing by queue: GROUP_GET_LATENCY is by topic@group, the QUEUE names are gone.

Rule 1: a send pays nothing. Messages are counted when the cells of their queues are written out, once a second.
Rule 2: a pull pays one look into a dict and a few additions, however many messages it gives.
Rule 3: what was quiet for a day is forgotten, and there is a limit to what is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from skyrocketmq.broker.statistics_windows import DAY, Series
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.ports import Clock
from skyrocketmq.slices import Slices
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.bodies_admin import BrokerStats

__all__ = ["SCHEDULE_CONSUMER", "BrokerStatistics"]

logger = logging.getLogger(__name__)

TALLIES_MAX: Final = 20_000  # queues that groups read; of more, no statistics are kept
SCHEDULE_CONSUMER: Final = "SCHEDULE_CONSUMER"  # the group under which deliveries of delayed messages count


class Tally:
    """What was counted for one key since the broker started."""

    __slots__ = ("byte_count", "messages", "spent_ms", "times")

    def __init__(self) -> None:
        self.messages = 0
        self.byte_count = 0
        self.times = 0  # pulls; where nobody knows better, messages
        self.spent_ms = 0

    def add(self, other: Tally) -> None:
        self.messages += other.messages
        self.byte_count += other.byte_count
        self.times += other.times
        self.spent_ms += other.spent_ms


class Reading(NamedTuple):
    name: str
    key: str
    value: int
    times: int


class BrokerStatistics:
    """The statistics of one broker. `sample` is called every `SAMPLE_INTERVAL_S`."""

    def __init__(self, config: ConfigHolder[BrokerConfig], store: MessageStore, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._tick = 0
        self._sampled_ms = self._now_ms()  # the last time
        self._is_full = False  # and that has been said
        self._has_new = False  # something was counted for the first time, and may have no series yet
        self._stored: dict[str, Tally] = {}  # by topic
        self._delayed: dict[int, Tally] = {}  # by queue of the schedule topic
        self._pulled: dict[tuple[str, str, int], Tally] = {}  # by topic, group and queue
        self._returned: dict[str, Tally] = {}  # by topic@group
        self._forgotten = Tally()  # what the pulls of forgotten keys add to the total: that never goes down
        self._series: dict[tuple[str, str], Series] = {}
        store.queues.take_stored()  # what recovery found is no news

    # ------------------------------------------------------------------------------------------------------- counting

    def pulled(self, topic: str, group: str, queue_id: int, count: int, byte_count: int, spent_ms: int = 0) -> None:
        """A group was given messages. Arguments go by position: this is called for every pull."""
        tally = self._pulled.get((topic, group, queue_id))
        if tally is None:
            if len(self._pulled) >= TALLIES_MAX:
                self._say_full()
                return
            tally = self._pulled[topic, group, queue_id] = Tally()
            self._has_new = True
        tally.messages += count
        tally.byte_count += byte_count
        tally.times += 1
        tally.spent_ms += spent_ms

    def delivered(self, queue_id: int, count: int, byte_count: int) -> None:
        """Delayed messages of a level have reached the queues that they were sent to."""
        if self._config.current.store.delay_stats:
            self.pulled(SCHEDULE_TOPIC, SCHEDULE_CONSUMER, queue_id, count, byte_count)

    def handed_back(self, topic: str, group: str) -> None:
        """A group could not handle a message that came from this topic in the first place."""
        tally = self._returned.get(key := f"{topic}@{group}")
        if tally is None:
            if len(self._returned) >= TALLIES_MAX:
                self._say_full()
                return
            tally = self._returned[key] = Tally()
            self._has_new = True
        tally.messages += 1
        tally.times += 1

    def _say_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            logger.warning("too many keys: of new ones no statistics are kept", extra={"count_max": TALLIES_MAX})

    def _collect(self) -> None:
        """Count what has been stored since the last time."""
        is_master = self._config.current.store.broker_role is not BrokerRole.SLAVE  # to it all messages came
        for queue, count, byte_count in self._store.queues.take_stored():
            if not is_master:
                continue
            self._has_new |= queue.topic not in self._stored
            tallies = [self._stored.setdefault(queue.topic, Tally())]
            if queue.topic == SCHEDULE_TOPIC:
                tallies.append(self._delayed.setdefault(queue.queue_id, Tally()))
            for tally in tallies:
                tally.messages += count
                tally.byte_count += byte_count
                tally.times += count

    # -------------------------------------------------------------------------------------------------------- reading

    def find(self, name: str, key: str) -> BrokerStats | None:
        """The figures of a statistic; None if nothing was ever counted for it."""
        if (name, key) not in self._series:
            self._collect()
            if self._has_new:
                self._make_series()
        series = self._series.get((name, key))
        return None if series is None else series.figures()

    def _make_series(self) -> None:
        """Let everything that was counted be found before its first sample."""
        now_ms = self._now_ms()
        for name, key, _, _ in self._readings():
            if (name, key) not in self._series:
                self._series[name, key] = Series(now_ms)
        self._has_new = False

    def group_tps(self, *, topic: str, group: str) -> float:
        """Messages a second that a group has got of a topic in the last minute."""
        series = self._series.get(("GROUP_GET_NUMS", f"{topic}@{group}"))
        return 0.0 if series is None else series.minute.tps

    async def sample(self) -> None:
        """Take down all values as they are."""
        self._tick += 1
        tick, now_ms = self._tick, self._now_ms()
        before_ms, self._sampled_ms = self._sampled_ms, now_ms
        slices = Slices(self._clock)
        self._collect()
        for name, key, value, times in self._readings():
            series = self._series.get((name, key))
            if series is None:
                series = self._series[name, key] = Series(before_ms)
            series.add(tick, now_ms, value, times)
            await slices.step()
        if tick % DAY.ticks == 0:
            await self._forget_quiet()

    def _now_ms(self) -> int:
        """A time that only moves forward: rates are per second that has passed, whatever is done to the clock."""
        return int(self._clock.monotonic() * 1000)

    def _readings(self) -> Iterator[Reading]:
        """All statistics as they stand. Others may come and go while these are looked at."""
        config = self._config.current
        for topic, tally in list(self._stored.items()):
            yield Reading("TOPIC_PUT_NUMS", topic, tally.messages, tally.times)
            yield Reading("TOPIC_PUT_SIZE", topic, tally.byte_count, tally.times)
        yield from self._pull_readings(config)
        for key, tally in list(self._returned.items()):
            yield Reading("SNDBCK_PUT_NUMS", key, tally.messages, tally.times)
        if config.detail_stats:
            for queue_id, tally in list(self._delayed.items()):
                key = f"{SCHEDULE_TOPIC}@{queue_id}"
                yield Reading("QUEUE_PUT_NUMS", key, tally.messages, tally.times)
                yield Reading("QUEUE_PUT_SIZE", key, tally.byte_count, tally.times)
        put_count = self._store.statistics.put_count
        yield Reading("BROKER_PUT_NUMS", config.cluster_name, put_count, put_count)

    def _pull_readings(self, config: BrokerConfig) -> Iterator[Reading]:
        by_group: dict[str, Tally] = {}
        total = Tally()
        total.add(self._forgotten)
        for (topic, group, queue_id), tally in list(self._pulled.items()):
            by_group.setdefault(f"{topic}@{group}", Tally()).add(tally)
            if topic == SCHEDULE_TOPIC:
                if config.detail_stats:
                    key = f"{topic}@{queue_id}@{group}"
                    yield Reading("QUEUE_GET_NUMS", key, tally.messages, tally.times)
                    yield Reading("QUEUE_GET_SIZE", key, tally.byte_count, tally.times)
                continue
            total.add(tally)
            if config.detail_stats:
                yield Reading("GROUP_GET_LATENCY", f"{queue_id}@{topic}@{group}", tally.spent_ms, tally.times)
        for key, tally in by_group.items():
            yield Reading("GROUP_GET_NUMS", key, tally.messages, tally.times)
            yield Reading("GROUP_GET_SIZE", key, tally.byte_count, tally.times)
            if not config.detail_stats:
                yield Reading("GROUP_GET_LATENCY", key, tally.spent_ms, tally.times)
        yield Reading("BROKER_GET_NUMS", config.cluster_name, total.messages, total.times)

    # ------------------------------------------------------------------------------------------------------ forgetting

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted."""
        self._stored.pop(topic, None)
        for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            self._series.pop((name, topic), None)
        self._forget(
            pulled=[key for key in self._pulled if key[0] == topic],
            returned=[key for key in self._returned if key.startswith(f"{topic}@")],
        )

    def forget_group(self, group: str) -> None:
        """A consumer group is deleted."""
        self._forget(
            pulled=[key for key in self._pulled if key[1] == group],
            returned=[key for key in self._returned if key.endswith(f"@{group}")],
        )

    async def _forget_quiet(self) -> None:
        """Whatever had no change for a day goes; it comes back, from zero, with its next message."""
        slices = Slices(self._clock)
        quiet: set[tuple[str, str]] = set()
        for series_key, series in list(self._series.items()):
            if series.is_quiet:
                quiet.add(series_key)
            await slices.step()
        for topic in [topic for topic in self._stored if ("TOPIC_PUT_NUMS", topic) in quiet]:
            del self._stored[topic]
            for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
                self._series.pop((name, topic), None)
        self._forget(
            pulled=[key for key in self._pulled if ("GROUP_GET_NUMS", f"{key[0]}@{key[1]}") in quiet],
            returned=[key for key in self._returned if ("SNDBCK_PUT_NUMS", key) in quiet],
        )
        self._is_full = False

    def _forget(self, *, pulled: Sequence[tuple[str, str, int]], returned: Sequence[str]) -> None:
        for pull_key in pulled:
            tally = self._pulled.pop(pull_key)
            topic, group, queue_id = pull_key
            if topic != SCHEDULE_TOPIC:
                self._forgotten.add(tally)
            # A group's queues of one topic go together, and with them what was added up over them.
            of_group = f"{topic}@{group}"
            for name, key in (
                ("GROUP_GET_LATENCY", f"{queue_id}@{of_group}"),
                ("QUEUE_GET_NUMS", f"{topic}@{queue_id}@{group}"),
                ("QUEUE_GET_SIZE", f"{topic}@{queue_id}@{group}"),
                *((name, of_group) for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "GROUP_GET_LATENCY")),
            ):
                self._series.pop((name, key), None)
        for key in returned:
            del self._returned[key]
            self._series.pop(("SNDBCK_PUT_NUMS", key), None)
