"""Runs of plans: the same each time, complete, and free of what the checks look for where nothing goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from skyrocketmq.testing.simulation.checks import check
from skyrocketmq.testing.simulation.drawing import plan
from skyrocketmq.testing.simulation.history import (
    BrokerEnded,
    BrokerStarted,
    ConsumerStarted,
    FaultBegan,
    FaultHealed,
    HandlerBegan,
    LogDigested,
    QueueEnds,
    RunEnded,
    SendAnswered,
    SendBegun,
    StoredSeen,
)
from skyrocketmq.testing.simulation.plan import Fault, Plan
from skyrocketmq.testing.simulation.running import run

ROOT = Path(__file__).parents[2]
DIGEST = """
import sys
from skyrocketmq.testing.simulation.drawing import plan
from skyrocketmq.testing.simulation.running import run
print(run(plan(int(sys.argv[1]))).digest())
"""


def digest_in_another_process(seed: int, hash_seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", DIGEST, str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def quiet(seed: int) -> Plan:
    """A plan in which nothing goes wrong."""
    return msgspec.structs.replace(plan(seed), faults=(), admin=())


def test_plans_are_drawn_up_front_and_are_equal_for_equal_seeds() -> None:
    assert plan(11) == plan(11)
    assert plan(11) != plan(12)
    assert msgspec.json.decode(msgspec.json.encode(plan(11)), type=Plan) == plan(11)


def test_plans_know_every_class_of_cluster_every_sender_and_every_consumer() -> None:
    plans = [plan(seed) for seed in range(200)]
    assert len({(p.brokers[0].flush, p.brokers[0].role, len(p.brokers), p.name_server_count) for p in plans}) >= 16
    assert {o.kind for p in plans for s in p.senders for o in s.operations} >= {"plain", "batch", "transactional"}
    assert {c.kind for p in plans for c in p.consumers} == {"concurrent", "orderly", "broadcast", "lite", "pull"}
    assert len({f.kind for p in plans for f in p.faults}) == 14


def test_a_run_is_the_same_in_every_process_and_again_in_this_one() -> None:
    run(quiet(3))  # what ran before in a process does not matter
    assert digest_in_another_process(5, 1) == digest_in_another_process(5, 2) == run(plan(5)).digest()


@pytest.mark.parametrize("seed", [0, 3, 25])
def test_nothing_breaks_where_nothing_goes_wrong(seed: int) -> None:
    history = run(quiet(seed))
    assert [str(violation) for violation in check(history)] == []
    (end,) = history.of(RunEnded)
    assert end.settled
    begun = {event.message for event in history.of(SendBegun)}
    assert len(begun) > 20
    assert begun >= {event.message for event in history.of(SendAnswered)}
    assert begun >= {event.message for event in history.of(StoredSeen)}
    assert begun >= {event.message for event in history.of(HandlerBegan)}
    assert list(history.of(ConsumerStarted))


def faulty(seed: int, **what: object) -> Plan:
    values = {"number": 0, "at_s": 8.0, "node": "a", "lasts_s": 2.0, "choice": 7, **what}
    return msgspec.structs.replace(quiet(seed), faults=(Fault(**values),))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["kill", "power cut", "stop", "failed sync", "failed write"])
def test_a_broker_that_a_fault_ends_is_started_again(kind: str) -> None:
    history = run(faulty(0, kind=kind))
    (began,), (healed,) = history.of(FaultBegan), history.of(FaultHealed)
    assert (began.fault, began.at, healed.number) == (kind, 8.0, 0)
    ended = [event.how for event in history.of(BrokerEnded) if event.node == "a"]
    assert ended == [{"power cut": "power cut", "stop": "stopped"}.get(kind, "killed")]
    assert len([event for event in history.of(BrokerStarted) if event.node == "a"]) == 2
    assert next(history.of(RunEnded)).settled


def test_a_slave_becomes_the_master_of_a_broker_that_is_lost() -> None:
    history = run(faulty(0, kind="promotion", other="a-slave"))
    assert [(e.node, e.how) for e in history.of(BrokerEnded)] == [("a", "lost"), ("a-slave", "stopped")]
    last = list(history.of(BrokerStarted))[-1]
    assert (last.node, last.broker_id, last.role) == ("a-slave", 0, "ASYNC_MASTER")
    assert {e.node for e in history.of(StoredSeen)} == {"a-slave"}


def test_a_master_that_another_fault_starts_while_it_is_replaced_comes_back_as_a_slave() -> None:
    killed = Fault(number=0, at_s=7.9, kind="kill", node="a", lasts_s=2.0)
    replaced = Fault(number=1, at_s=8.0, kind="promotion", node="a", other="a-slave", lasts_s=4.0, returns=True)
    history = run(msgspec.structs.replace(quiet(0), faults=(killed, replaced)))
    starts = [(event.node, event.broker_id) for event in history.of(BrokerStarted) if event.broker == "a"]
    assert starts == [("a", 0), ("a-slave", 1), ("a", 1), ("a-slave", 0)]


def test_a_second_promotion_of_the_same_broker_tells_of_no_copy() -> None:
    first = Fault(number=0, at_s=8.0, kind="promotion", node="a", other="a-slave", lasts_s=1.0, returns=True)
    again = msgspec.structs.replace(first, number=1, at_s=18.0)
    history = run(msgspec.structs.replace(quiet(0), faults=(first, again)))
    promoted, restarted = [e.at for e in history.of(BrokerStarted) if (e.node, e.broker_id) == ("a-slave", 0)]
    noted = {event.at for event in history.of(QueueEnds) if not event.final}
    assert noted
    assert promoted <= min(noted) <= max(noted) < restarted


def test_where_the_queues_of_a_slave_ended_is_known_although_it_was_down_when_it_was_promoted() -> None:
    seed = quiet(0)
    late = msgspec.structs.replace(seed.senders[0].operations[0], kind="delayed", delay_level=2, at_s=7.0)
    sender = msgspec.structs.replace(seed.senders[0], operations=(late,))
    down = Fault(number=0, at_s=8.0, kind="kill", node="a-slave", lasts_s=20.0)
    lost = Fault(number=1, at_s=9.0, kind="promotion", node="a", other="a-slave", lasts_s=9.0)
    brokers = tuple(broker for broker in seed.brokers if broker.broker == "a")
    history = run(msgspec.structs.replace(seed, brokers=brokers, senders=(sender,), faults=(down, lost)))
    # As soon as it serves it delivers what was due in between: that is not of the copy.
    ends = {event.queue: event.end for event in history.of(QueueEnds) if not event.final}
    (place,) = {(event.queue, event.offset) for event in history.of(StoredSeen) if event.message == late.name}
    assert (place[1], ends[place[0]]) == (0, 0)


def test_slaves_are_compared_with_their_masters() -> None:
    history = run(quiet(0))
    assert [(e.node, e.role) for e in history.of(LogDigested)] == [("a", "ASYNC_MASTER"), ("a-slave", "SLAVE")]
    master, slave = history.of(LogDigested)
    assert (master.end, master.digest) == (slave.end, slave.digest)
    assert master.end > 10_000


def test_taking_out_a_fault_changes_nothing_before_it() -> None:
    whole = faulty(0, kind="power cut", at_s=9.0)
    with_fault, without = run(whole), run(msgspec.structs.replace(whole, faults=()))
    before = [event for event in with_fault if event.at < 9.0]
    assert len(before) > 200
    assert before == without.events[: len(before)]
    assert with_fault.digest() != without.digest()
