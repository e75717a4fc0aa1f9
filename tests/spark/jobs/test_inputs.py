"""Where jobs find messages: which topics are users' own, and times and windows as people write them."""

from __future__ import annotations

import re

import pytest

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.jobs.inputs import OWN_TOPICS, Input, window_ms_of
from skyrocketmq.spark.jobs.outputs import as_table


@pytest.mark.parametrize("topic", ["Orders", "TBW102x", "rmq", "a%RETRY%b", "BenchmarkTest2"])
def test_topics_of_users_are_read_unless_others_are_named(topic: str) -> None:
    assert re.fullmatch(OWN_TOPICS, topic)


@pytest.mark.parametrize(
    "topic", ["%RETRY%billing", "%DLQ%billing", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "RMQ_SYS_TRACE_TOPIC"]
)
def test_topics_of_the_system_are_not(topic: str) -> None:
    assert not re.fullmatch(OWN_TOPICS, topic)


def test_windows_have_a_number_and_a_unit() -> None:
    assert [window_ms_of(text) for text in ("500ms", "30s", "1m", "2 h", "1d")] == [
        *(500, 30_000, 60_000, 7_200_000, 86_400_000)
    ]
    for text in ("", "1", "m", "-1m", "1.5m", "1w", "0s"):
        with pytest.raises(IllegalArgument, match="write a number and ms, s, m, h or d"):
            window_ms_of(text)


def test_a_place_has_a_name_for_people() -> None:
    place = Input(store="/data/broker-a", since_ms=1_769_817_600_000, until_ms=1_769_904_000_000)
    assert place.name == "store /data/broker-a from 2026-01-31 00:00:00 to 2026-02-01 00:00:00"


def test_a_table_for_a_terminal_has_no_control_characters_and_no_endless_lines() -> None:
    text = as_table(["topic", "size_p50"], [["a\x1b[2J", 1234], ["b" * 100, None], ["c", 0.5]])
    assert text.splitlines()[0] == "topic" + " " * 57 + "size p50"
    assert "\x1b" not in text
    assert "1,234" in text
    assert max(map(len, text.splitlines())) == 70
