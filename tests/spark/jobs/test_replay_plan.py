"""Plans of replays, and what copying has in common: values in, values out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.jobs.arguments import moment_ms, names_of, pairs_of
from skyrocketmq.spark.jobs.copying import Routes, check_target, step_rows_of, task_count
from skyrocketmq.spark.jobs.following import matching_topics
from skyrocketmq.spark.jobs.replay_plan import QueueCount, ReplayPlan, Selection

CHOSEN = Selection(("Orders",), tags=("a",))
TARGETS = Routes(["there:0", "there:1"])


def queue(number: int) -> MessageQueue:
    return MessageQueue("Orders", "here", number)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 400)), min_size=1, max_size=6),
    st.integers(1, 100),
)
def test_the_steps_are_together_what_was_found(places: list[tuple[int, int]], step_rows: int) -> None:
    counts = {queue(number): QueueCount(start, start + count, count) for number, (start, count) in enumerate(places)}
    plan = ReplayPlan.make(CHOSEN, "To", counts, name="x", targets=TARGETS, step_rows=step_rows)
    at = {one: count.start for one, count in counts.items()}
    while not plan.is_done:
        plan = ReplayPlan.from_json(json.loads(json.dumps(plan.to_json())))
        span = plan.span()
        assert dict(span.starts) == at
        assert span.count <= step_rows + len(counts)
        at = dict(span.ends)
        plan = plan.next()
    assert at == {one: count.end for one, count in counts.items()}


def test_without_a_checkpoint_there_is_one_step() -> None:
    counts = {queue(0): QueueCount(5, 5000, 4995)}
    assert ReplayPlan.make(CHOSEN, "To", counts, name="x", targets=TARGETS, step_rows=None).step_count == 1
    nothing = ReplayPlan.make(CHOSEN, "To", {}, name="x", targets=TARGETS, step_rows=10)
    assert nothing.is_done
    assert ReplayPlan.from_json(json.loads(json.dumps(nothing.to_json()))).is_done


def test_a_checkpoint_is_for_one_replay() -> None:
    plan = ReplayPlan.make(CHOSEN, "To", {}, name="x", targets=TARGETS, step_rows=10)
    read = ReplayPlan.from_json(json.loads(json.dumps(plan.to_json())))
    read.check(CHOSEN, "To")
    with pytest.raises(IllegalArgument, match="belongs to another replay: tags, to changed"):
        read.check(replace(CHOSEN, tags=("b",)), "Elsewhere")


def test_a_queue_keeps_its_route() -> None:
    routes = TARGETS.with_queues([queue(1), queue(0)])
    assert routes.chosen == {"Orders here:0": "there:0", "Orders here:1": "there:1"}
    more = routes.with_queues([queue(2), queue(0)])
    assert more.chosen == {**routes.chosen, "Orders here:2": "there:0"}


def test_a_rate_takes_as_many_tasks_as_it_needs() -> None:
    assert task_count(None, queue_count=16, parallelism=4) == 4
    assert task_count(None, queue_count=2, parallelism=4) == 2
    assert task_count(10, queue_count=16, parallelism=4) == 1
    assert task_count(15_000, queue_count=16, parallelism=4) == 3
    assert step_rows_of(1000, None) == step_rows_of(1000, 500) == 1000
    assert step_rows_of(1000, 2) == 60


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_x", "RMQ_SYS_TRACE_TOPIC", "a b", ""])
def test_topics_of_the_system_are_no_targets(topic: str) -> None:
    with pytest.raises(IllegalArgument):
        check_target(topic)


def test_a_pattern_means_users_topics() -> None:
    topics = ["Orders", "Other", "TBW102", "%RETRY%g", "%DLQ%g", "rmq_sys_x"]
    assert matching_topics(".*", topics) == ["Orders", "Other"]
    assert matching_topics("%DLQ%.*", topics) == ["%DLQ%g"]


def test_moments_are_read() -> None:
    assert moment_ms(None, option="--since") is None
    assert moment_ms("1700000000000", option="--since") == 1_700_000_000_000
    assert moment_ms("1970-01-02", option="--since") == 86_400_000
    assert moment_ms("1970-01-01T02:00:01.5+02:00", option="--since") == 1500
    with pytest.raises(IllegalArgument, match="--since 'yesterday' is no time: write"):
        moment_ms("yesterday", option="--since")


def test_names_and_pairs_are_read() -> None:
    assert names_of(" a, b,,") == ["a", "b"]
    assert names_of(None) == []
    assert pairs_of(["tls=true", "x=a=b"], option="--o") == {"tls": "true", "x": "a=b"}
    with pytest.raises(IllegalArgument, match="--o 'tls': write NAME=VALUE"):
        pairs_of(["tls"], option="--o")


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (Selection(()), "no topic is given"),
        (Selection(("A",), since_ms=5, until_ms=5), "ends before it begins"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(selection: Selection, said: str) -> None:
    with pytest.raises(IllegalArgument, match=said):
        selection.check()
