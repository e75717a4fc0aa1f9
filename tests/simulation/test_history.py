from __future__ import annotations

import pytest

from skyrocketmq.testing.simulation.history import (
    HandlerBegan,
    History,
    QueueId,
    RunEnded,
    SendBegun,
    content_of,
    make_body,
    name_of,
)

QUEUE = QueueId("T", "a", 0)


def short_history(content: str = "c") -> History:
    times = iter([0.5, 1.25])
    history = History(7, lambda: next(times))
    history.add(SendBegun("m1", "T", "plain", content, node="p"))
    history.add(HandlerBegan("g", "concurrent", QUEUE, 0, "m1", content, 0, 1, node="c"))
    return history


def test_events_get_their_time_and_their_number_as_they_come() -> None:
    assert [(event.at, event.order) for event in short_history()] == [(0.5, 0), (1.25, 1)]


def test_an_event_is_noted_once() -> None:
    event = RunEnded(True, node="")
    history = History(1, lambda: 0.0)
    history.add(event)
    with pytest.raises(AssertionError, match="noted twice"):
        history.add(event)


def test_equal_runs_have_one_digest_and_others_another() -> None:
    assert short_history().digest() == short_history().digest()
    assert short_history().digest() != short_history("d").digest()


def test_a_history_is_read_as_it_was_written() -> None:
    history = short_history()
    again = History.decode(history.encode())
    assert again.events == history.events
    assert again.digest() == history.digest()
    assert [event.queue for event in again.of(HandlerBegan)] == [QUEUE]


def test_a_body_tells_its_message() -> None:
    assert name_of(make_body("p1-17", b"\x00|\xff")) == "p1-17"
    assert name_of(b"garbage") == "b'garbage'"


def test_content_is_the_body_and_the_workloads_properties() -> None:
    sent = content_of(b"m|x", {"TAGS": "t", "sim1": "a\x00b"})
    assert content_of(b"m|x", {"sim1": "a\x00b", "TAGS": "t", "MIN_OFFSET": "0"}) == sent
    assert content_of(b"m|y", {"TAGS": "t", "sim1": "a\x00b"}) != sent
    assert content_of(b"m|x", {"TAGS": "t", "sim1": "a"}) != sent
    assert content_of(b"m|x", {"TAGS": "t"}) != sent
