"""What a broker measures about itself, as typed figures.

A broker gives texts by name (request 28), some with several numbers in them. What is read here is what operators look
at; everything else is in `figures`. A figure that a broker does not give, or gives as something else, is None: releases
differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from skyrocketmq.admin.moments import moment_of

__all__ = ["BrokerRuntime", "Load", "read_runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What waits in front of one kind of request."""

    waiting_count: int | None
    waiting_count_max: int | None
    head_wait_ms: int | None  # how long the first of them has waited


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRuntime:
    """A broker's figures. Rates are a second, over the last 10 s."""

    version: str  # as Apache's brokers write it: V4_9_7
    booted_at: datetime | None
    put_tps: float | None
    get_tps: float | None  # messages handed to consumers
    put_count_yesterday: int | None
    get_count_yesterday: int | None
    put_count_today: int | None
    get_count_today: int | None
    send_load: Load
    pull_load: Load
    page_cache_lock_ms: int | None
    earliest_message_at: datetime | None
    log_min_offset: int | None
    log_max_offset: int | None
    log_disk_ratio: float | None  # 0 to 1
    queue_disk_ratio: float | None
    dispatch_behind_bytes: int | None  # stored, and not yet in its consume queue
    unflushed_bytes: int | None
    figures: Mapping[str, str] = field(repr=False)  # all that the broker said, in its own words


def read_runtime(figures: Mapping[str, str]) -> BrokerRuntime:
    """The figures of one answer."""
    return BrokerRuntime(
        version=figures.get("brokerVersionDesc", ""),
        booted_at=_moment(figures, "bootTimestamp"),
        put_tps=_number(figures, "putTps"),
        get_tps=_number(figures, "getTransferedTps"),
        put_count_yesterday=_between(figures, "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning"),
        get_count_yesterday=_between(figures, "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning"),
        put_count_today=_between(figures, "msgPutTotalTodayMorning", "msgPutTotalTodayNow"),
        get_count_today=_between(figures, "msgGetTotalTodayMorning", "msgGetTotalTodayNow"),
        send_load=_load(figures, "sendThreadPoolQueue"),
        pull_load=_load(figures, "pullThreadPoolQueue"),
        page_cache_lock_ms=_whole(figures, "pageCacheLockTimeMills"),
        earliest_message_at=_moment(figures, "earliestMessageTimeStamp"),
        log_min_offset=_whole(figures, "commitLogMinOffset"),
        log_max_offset=_whole(figures, "commitLogMaxOffset"),
        log_disk_ratio=_number(figures, "commitLogDiskRatio"),
        queue_disk_ratio=_number(figures, "consumeQueueDiskRatio"),
        dispatch_behind_bytes=_whole(figures, "dispatchBehindBytes"),
        unflushed_bytes=_whole(figures, "remainHowManyDataToFlush"),
        figures=dict(figures),
    )


def _load(figures: Mapping[str, str], prefix: str) -> Load:
    return Load(
        waiting_count=_whole(figures, f"{prefix}Size"),
        waiting_count_max=_whole(figures, f"{prefix}Capacity"),
        head_wait_ms=_whole(figures, f"{prefix}HeadWaitTimeMills"),
    )


def _number(figures: Mapping[str, str], name: str) -> float | None:
    """The first number of a text; rates come as three, of 10 s, a minute and ten minutes."""
    first = figures.get(name, "").split(" ", 1)[0]
    try:
        return float(first)
    except ValueError:
        return None


def _whole(figures: Mapping[str, str], name: str) -> int | None:
    digits = figures.get(name, "").split(" ", 1)[0]  # some have a unit: "0 B"
    return int(digits) if digits.removeprefix("-").isdecimal() and len(digits) <= 20 else None


def _moment(figures: Mapping[str, str], name: str) -> datetime | None:
    ms = _whole(figures, name)
    return None if ms is None else moment_of(ms)


def _between(figures: Mapping[str, str], before: str, after: str) -> int | None:
    start, end = _whole(figures, before), _whole(figures, after)
    return None if start is None or end is None else end - start
