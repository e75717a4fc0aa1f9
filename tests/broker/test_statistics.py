"""The statistics of topics, groups and queues: what counts, and over which time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from skyrocketmq.broker import statistics
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.statistics_windows import SAMPLE_INTERVAL_S, Series
from skyrocketmq.config import BrokerRole
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.store.consume_queue import CELL
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.bodies_admin import BrokerStatsItem
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from tests.broker.desk import Desk, open_desk
from tests.broker.house import open_house
from tests.broker.requests import GROUP, TOPIC, properties_text, pull_frame, send_frame
from tests.broker.support import CLUSTER, until

VIEW = RequestCode.VIEW_BROKER_STATS_DATA


# -- one series


def test_a_window_has_the_difference_of_its_newest_and_oldest_sample() -> None:
    series = Series(0)
    for tick in range(1, 10):
        series.add(tick, tick * 10_000, tick * 100, tick * 4)
    minute = series.figures().stats_minute
    assert minute == BrokerStatsItem(sum=600, tps=10.0, average=25.0)  # seven samples are a minute


def test_hour_and_day_are_sampled_every_ten_minutes_and_every_hour() -> None:
    series = Series(0)
    for tick in range(1, 361):
        series.add(tick, tick * 10_000, tick, tick)
        figures = series.figures()
        assert figures.stats_hour is not None
        assert figures.stats_hour.sum == min(tick // 60, 6) * 60
    assert series.figures().stats_day == BrokerStatsItem(sum=360, tps=0.1, average=1.0)


def test_a_series_without_samples_is_all_zero() -> None:
    zero = BrokerStatsItem()
    figures = Series(5).figures()
    assert (figures.stats_minute, figures.stats_hour, figures.stats_day) == (zero, zero, zero)


# -- what is counted


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk() as opened:
        await opened.make_topic("orders")
        yield opened


async def pass_time(desk: Desk, samples: int = 1) -> None:
    """So many intervals go by, and the store writes its queues out meanwhile."""
    for _ in range(samples):
        await desk.clock.advance(SAMPLE_INTERVAL_S)
        desk.store.queues.write_out()
        await desk.statistics.sample()


def minute_of(statistics: BrokerStatistics, name: str, key: str) -> BrokerStatsItem:
    found = statistics.find(name, key)
    assert found is not None
    assert found.stats_minute is not None
    return found.stats_minute


async def test_messages_are_counted_by_topic_with_the_bytes_of_their_records(desk: Desk) -> None:
    desk.put("orders", 0, count=3, body=b"x" * 100)
    desk.put("orders", 1, count=2, body=b"x" * 100)
    size = desk.store.log.max_offset
    await pass_time(desk)
    assert minute_of(desk.statistics, "TOPIC_PUT_NUMS", "orders") == BrokerStatsItem(sum=5, tps=0.5, average=1.0)
    assert minute_of(desk.statistics, "TOPIC_PUT_SIZE", "orders").sum == size
    assert minute_of(desk.statistics, "BROKER_PUT_NUMS", CLUSTER).sum == 5
    desk.put("orders", 0)
    await pass_time(desk)
    assert minute_of(desk.statistics, "TOPIC_PUT_NUMS", "orders").sum == 6
    await pass_time(desk, 7)
    assert minute_of(desk.statistics, "TOPIC_PUT_NUMS", "orders").sum == 0


async def test_what_groups_are_given_is_counted_by_topic_and_group(desk: Desk) -> None:
    figures = desk.statistics
    for queue_id in (0, 1):
        figures.pulled("orders", "g", queue_id, 32, 3200, 6)
        figures.pulled("orders", "g", queue_id, 8, 800, 0)
    figures.pulled("orders", "other", 0, 1, 100)
    await pass_time(desk)
    assert minute_of(figures, "GROUP_GET_NUMS", "orders@g") == BrokerStatsItem(sum=80, tps=8.0, average=20.0)
    assert minute_of(figures, "GROUP_GET_SIZE", "orders@g").sum == 8000
    assert minute_of(figures, "GROUP_GET_LATENCY", "1@orders@g") == BrokerStatsItem(sum=6, tps=0.6, average=3.0)
    assert minute_of(figures, "BROKER_GET_NUMS", CLUSTER).sum == 81
    assert figures.group_tps(topic="orders", group="g") == pytest.approx(8.0)
    assert figures.group_tps(topic="orders", group="nobody") == 0.0


async def test_without_details_latency_is_by_group_and_queues_are_not_counted(desk: Desk) -> None:
    await desk.config.update({"enableDetailStat": "false"})
    desk.statistics.pulled("orders", "g", 0, 1, 100, 4)
    desk.statistics.pulled("orders", "g", 1, 1, 100, 2)
    desk.statistics.delivered(2, 5, 500)
    await pass_time(desk)
    assert minute_of(desk.statistics, "GROUP_GET_LATENCY", "orders@g").sum == 6
    assert desk.statistics.find("GROUP_GET_LATENCY", "0@orders@g") is None
    assert desk.statistics.find("QUEUE_GET_NUMS", f"{SCHEDULE_TOPIC}@2@SCHEDULE_CONSUMER") is None


async def test_deliveries_of_delayed_messages_can_be_left_out(desk: Desk) -> None:
    await desk.config.update({"enableScheduleMessageStats": "false"})
    desk.statistics.delivered(2, 5, 500)
    assert desk.statistics.find("GROUP_GET_NUMS", f"{SCHEDULE_TOPIC}@SCHEDULE_CONSUMER") is None


async def test_a_statistic_exists_from_its_first_count_on(desk: Desk) -> None:
    assert desk.statistics.find("GROUP_GET_NUMS", "orders@g") is None
    desk.statistics.pulled("orders", "g", 0, 3, 300)
    assert minute_of(desk.statistics, "GROUP_GET_NUMS", "orders@g").sum == 0
    await pass_time(desk)
    assert minute_of(desk.statistics, "GROUP_GET_NUMS", "orders@g").sum == 3


async def test_a_slave_counts_no_messages_as_sent_to_it() -> None:
    async with open_desk(role=BrokerRole.SLAVE, broker_id=1) as desk:
        desk.store.queue("orders", 0).put(0, CELL.pack(0, 100, 0))
        desk.store.queues.mark_dirty(desk.store.queue("orders", 0))
        await pass_time(desk)
        assert desk.statistics.find("TOPIC_PUT_NUMS", "orders") is None


# -- forgetting


async def test_what_was_quiet_for_a_day_is_forgotten_and_comes_back_with_its_next_message(desk: Desk) -> None:
    desk.statistics.pulled("orders", "gone", 0, 3, 300)
    desk.statistics.handed_back("orders", "gone")
    samples_a_day = 24 * 360
    for _ in range(samples_a_day + 2 * 360):
        desk.statistics.pulled("orders", "g", 0, 1, 100)
        await desk.statistics.sample()
    assert desk.statistics.find("GROUP_GET_NUMS", "orders@gone") is None
    assert desk.statistics.find("SNDBCK_PUT_NUMS", "orders@gone") is None
    found = desk.statistics.find("GROUP_GET_NUMS", "orders@g")
    assert found is not None
    assert found.stats_day is not None
    assert found.stats_day.sum == samples_a_day
    total = desk.statistics.find("BROKER_GET_NUMS", CLUSTER)
    assert total is not None
    assert total.stats_day == found.stats_day  # what is forgotten is not taken back
    desk.statistics.pulled("orders", "gone", 0, 3, 300)
    assert desk.statistics.find("GROUP_GET_NUMS", "orders@gone") is not None


async def test_beyond_a_number_of_keys_nothing_new_is_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "TALLIES_MAX", 2)
    for group in ("a", "b", "c", "a"):
        desk.statistics.pulled("orders", group, 0, 1, 100)
        desk.statistics.handed_back("orders", group)
    await pass_time(desk)
    assert minute_of(desk.statistics, "GROUP_GET_NUMS", "orders@a").sum == 2
    assert desk.statistics.find("GROUP_GET_NUMS", "orders@c") is None
    assert desk.statistics.find("SNDBCK_PUT_NUMS", "orders@c") is None


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_the_statistics_of_deleted_topics_and_groups_go_if_that_is_wished_for(is_deleted: bool) -> None:
    async with open_house(delete_unused_stats=is_deleted) as house:
        await house.make_topic()
        counted = house.broker.parts.statistics
        counted.pulled(TOPIC, GROUP, 0, 1, 1)
        counted.pulled("Kept", GROUP, 0, 1, 1)
        counted.pulled("Kept", "kept", 0, 1, 1)
        house.broker.tables.groups.find_or_create(GROUP)
        await house.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert (counted.find("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}") is None) == is_deleted
        await house.administer(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP})
        assert (counted.find("GROUP_GET_NUMS", f"Kept@{GROUP}") is None) == is_deleted
        assert counted.find("GROUP_GET_NUMS", "Kept@kept") is not None


# -- through a whole broker


async def test_sends_pulls_delays_and_returns_are_all_counted() -> None:
    clock = ManualClock()
    async with open_house(clock=clock) as house:
        await house.make_topic()
        await house.send_many(40)
        peer = await house.connect()
        delayed = send_frame(queue_id=1, properties=properties_text({"DELAY": "1"}))
        await peer.ok(delayed)
        for offset in (0, 32):
            await peer.ok(pull_frame(offset=offset))
        await peer.ok(pull_frame(offset=0, count=4, subscription="TagA"))
        ext: dict[str, str | None] = {"offset": "0", "group": GROUP, "delayLevel": "1", "originTopic": TOPIC}
        await peer.ok(Frame(RequestCode.CONSUMER_SEND_MSG_BACK, 1, ext=ext))
        await clock.advance(2)
        await until(lambda: house.broker.store.max_offset(TOPIC, 1) == 1)
        for _ in range(3):
            await clock.advance(10)

        async def total(name: str, key: str) -> int:
            answer = await house.administer(VIEW, {"statsName": name, "statsKey": key})
            return int(json.loads(answer.body)["statsMinute"]["sum"])

        assert await total("TOPIC_PUT_NUMS", TOPIC) == 41
        assert await total("TOPIC_PUT_NUMS", SCHEDULE_TOPIC) == 2
        assert await total("QUEUE_PUT_NUMS", f"{SCHEDULE_TOPIC}@0") == 2
        assert await total("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}") == 44
        assert await total("GROUP_GET_SIZE", f"{TOPIC}@{GROUP}") > 44 * 100
        assert await total("SNDBCK_PUT_NUMS", f"{TOPIC}@{GROUP}") == 1
        assert await total("QUEUE_GET_NUMS", f"{SCHEDULE_TOPIC}@0@SCHEDULE_CONSUMER") == 2
        assert await total("GROUP_GET_NUMS", f"{SCHEDULE_TOPIC}@SCHEDULE_CONSUMER") == 2
        assert await total("BROKER_GET_NUMS", CLUSTER) == 44


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"statsName": "TOPIC_PUT_NUMS", "statsKey": "none"}, "nothing was counted"),
        ({"statsName": "NONSENSE", "statsKey": "orders"}, "nothing was counted"),
        ({"statsName": "TOPIC_PUT_NUMS"}, "statsKey"),
    ],
)
async def test_a_statistic_that_does_not_exist_is_refused(desk: Desk, fields: dict[str, str], words: str) -> None:
    code, remark = await desk.refused(VIEW, fields)
    assert code == ResponseCode.SYSTEM_ERROR
    assert words in remark
