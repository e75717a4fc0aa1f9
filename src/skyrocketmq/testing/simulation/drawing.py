"""`plan(seed)`: one run drawn at random, the same for a seed for ever (as long as this file is not changed).

Each part has a generator of its own, seeded by the seed and its name. Shapes of clusters are weighted so that each
class of docs/guarantees.md is met often; faults are few in one run, so that what they break can be told.
"""

from __future__ import annotations

import random
from typing import Final

from skyrocketmq.testing.simulation.plan import (
    AdminStep,
    BrokerPlan,
    ConsumerKind,
    ConsumerPlan,
    Fault,
    FaultKind,
    Operation,
    OperationKind,
    Plan,
    SenderPlan,
    TopicPlan,
)

__all__ = ["plan"]

ROLES: Final = ("none", "ASYNC_MASTER", "SYNC_MASTER")  # "none": a master without a slave
FLUSHES: Final = ("ASYNC_FLUSH", "SYNC_FLUSH")
LONG_HANDLED_S: Final = (3.0, 12.0)  # handlers that run while offsets are stored, and members die
LONG_S: Final = (65.0, 90.0)  # longer than a lock of an orderly member
OFTEN_SAVED: Final = (("flushDelayOffsetInterval", "500"), ("flushConsumerOffsetInterval", "500"))
QUIET_S: Final = 2.0  # at the beginning: everybody finds everybody

OPERATIONS: Final[tuple[tuple[OperationKind, int], ...]] = (
    ("plain", 10),
    ("keyed", 8),
    ("batch", 3),
    ("delayed", 2),
    ("transactional", 3),
    ("one-way", 1),
)
SERVER_FAULTS: Final[tuple[tuple[FaultKind, int], ...]] = (
    ("kill", 6),
    ("power cut", 8),
    ("stop", 2),
    ("pause", 3),
    ("partition", 5),
    ("one-way cut", 4),
    ("slow link", 2),
    ("reset", 2),
    ("slow sync", 3),
    ("failed sync", 2),
    ("failed write", 2),
    ("disk full", 2),
    ("clock jump", 2),
    ("promotion", 2),
)
CLIENT_FAULTS: Final[tuple[tuple[FaultKind, int], ...]] = (
    ("kill", 4),
    ("power cut", 2),
    ("stop", 3),
    ("pause", 4),
    ("partition", 3),
    ("one-way cut", 2),
    ("clock jump", 1),
)
LASTS_S: Final[dict[str, tuple[float, float]]] = {
    "kill": (0.1, 4.0),
    "power cut": (0.5, 6.0),
    "stop": (0.1, 3.0),
    "pause": (0.5, 12.0),
    "partition": (0.5, 12.0),
    "one-way cut": (0.5, 12.0),
    "slow link": (2.0, 10.0),
    "slow sync": (2.0, 10.0),
    "failed sync": (0.5, 4.0),
    "failed write": (0.5, 4.0),
    "disk full": (1.0, 6.0),
    "promotion": (0.2, 3.0),
}
# Two troubles at once show what one alone does not: a slave that lags when its master is lost, a disk that is slow when
# the power goes, or that has failed before.
BEFOREHAND: Final[dict[str, tuple[FaultKind, ...]]] = {
    "promotion": ("partition",),
    "power cut": ("slow sync", "slow sync", "failed sync"),
}
NO_END: Final[frozenset[str]] = frozenset({"reset", "clock jump"})


def plan(seed: int) -> Plan:
    shape = _generator(seed, "shape")
    length_s = shape.uniform(20.0, 40.0)
    brokers = _brokers(seed)
    name_server_count = shape.choice((1, 1, 2))
    topics = (TopicPlan(name="plain", queues=shape.randint(1, 4)), TopicPlan(name="keyed", queues=shape.randint(1, 3)))
    senders = tuple(_sender(seed, number, length_s) for number in range(shape.choice((1, 2, 3, 5))))
    consumers = _consumers(seed, length_s)
    return Plan(
        seed=seed,
        length_s=round(length_s, 3),
        name_server_count=name_server_count,
        brokers=brokers,
        topics=topics,
        senders=senders,
        consumers=consumers,
        admin=_admin(seed, length_s),
        faults=_faults(seed, length_s, name_server_count, brokers, senders, consumers),
    )


def _generator(seed: int, name: str) -> random.Random:
    return random.Random(f"plan/{seed}/{name}")


def _at(draw: random.Random, length_s: float) -> float:
    return round(draw.uniform(QUIET_S, length_s), 3)


# ---------------------------------------------------------------------------------------------------------- the cluster


def _brokers(seed: int) -> tuple[BrokerPlan, ...]:
    draw = _generator(seed, "brokers")
    flush, role = draw.choice(FLUSHES), draw.choice(ROLES)
    made: list[BrokerPlan] = []
    for broker in ("a", "b")[: draw.choice((1, 1, 2))]:
        made.append(
            BrokerPlan(
                node=broker,
                broker=broker,
                broker_id=0,
                role="ASYNC_MASTER" if role == "none" else role,
                flush=flush,
                skew_ms=draw.choice((0, 0, 0, draw.randint(-2000, 2000))),
                drift=draw.choice((0.0, 0.0, 1e-4)),
                sync_s=draw.choice((0.0, 0.0, 0.02, 0.05)),
                settings=draw.choice(((), (), OFTEN_SAVED)),
            )
        )
        if role != "none":
            made.append(
                BrokerPlan(
                    node=f"{broker}-slave",
                    broker=broker,
                    broker_id=1,
                    role="SLAVE",
                    flush=draw.choice(FLUSHES),
                    skew_ms=draw.choice((0, 0, draw.randint(-2000, 2000))),
                )
            )
    return tuple(made)


# --------------------------------------------------------------------------------------------------------- the workload


def _sender(seed: int, number: int, length_s: float) -> SenderPlan:
    draw = _generator(seed, f"sender {number}")
    rate = draw.choice((2.0, 5.0, 10.0))
    kinds, weights = zip(*OPERATIONS, strict=True)
    at_s = QUIET_S + draw.random()
    operations: list[Operation] = []
    while at_s < length_s:
        name = f"s{number}.{len(operations)}"
        operations.append(_operation(draw, name, round(at_s, 3), draw.choices(kinds, weights)[0], number))
        at_s += draw.expovariate(rate)
    return SenderPlan(node=f"sender-{number}", operations=tuple(operations))


def _operation(draw: random.Random, name: str, at_s: float, kind: OperationKind, sender: int) -> Operation:
    failure_count = draw.choice((1, 1, 2, 5)) if draw.random() < 0.06 else 0
    # The pauses that grow by themselves are for those that fail once: a run should not take minutes.
    return Operation(
        name=name,
        at_s=at_s,
        kind=kind,
        topic="keyed" if kind == "keyed" else "more" if draw.random() < 0.03 else "plain",
        filling_bytes=draw.choice((0, 10, 100, 1000, 6000)),
        batch_count=draw.randint(2, 5) if kind == "batch" else 1,
        key=f"k{sender}.{draw.randint(0, 2)}" if kind == "keyed" else "",
        tag=draw.choice(("", "red", "blue")),
        delay_level=draw.choice((1, 2, 3)) if kind == "delayed" else 0,
        waits=draw.random() >= 0.05,
        decision=draw.choice(("commit", "commit", "rollback", "unknown")) if kind == "transactional" else "commit",
        checked=draw.choice(("commit", "rollback")) if kind == "transactional" else "commit",
        handled_s=round(
            draw.uniform(*LONG_HANDLED_S) if draw.random() < 0.01 else draw.choice((0, 0, 0, 0.01, 0.2)), 3
        ),
        failure_count=failure_count,
        raises=draw.random() < 0.3 and failure_count < 2,
        retry_level=1 if failure_count > 1 else draw.choice((1, 1, 2, 0)),
    )


def _consumers(seed: int, length_s: float) -> tuple[ConsumerPlan, ...]:
    draw = _generator(seed, "consumers")
    # Every kind is met within a few seeds; more of them in one run would only make it slow.
    kinds: list[ConsumerKind] = ["concurrent", "orderly"]
    kinds += draw.sample(("broadcast", "lite", "pull"), draw.choice((0, 1, 1)))
    made: list[ConsumerPlan] = []
    for kind in kinds:
        topics = ("keyed",) if kind == "orderly" else ("plain",) if kind in ("lite", "pull") else ("plain", "keyed")
        retry_count_max = draw.choice((2, 16)) if kind == "concurrent" else 16
        tag = draw.choice(("", "", "", "red")) if kind == "concurrent" else ""
        for number in range(1 if kind == "pull" else draw.randint(1, 2)):
            starts_at_s = 0.0 if number == 0 else _at(draw, length_s) * draw.choice((0, 1))
            made.append(
                ConsumerPlan(
                    node=f"{kind}-{number}",
                    group=f"g-{kind}",
                    kind=kind,
                    topics=topics,
                    starts_at_s=round(starts_at_s, 3),
                    retry_count_max=retry_count_max,
                    tag=tag,
                )
            )
    return tuple(made)


def _admin(seed: int, length_s: float) -> tuple[AdminStep, ...]:
    draw = _generator(seed, "admin")
    steps: list[AdminStep] = []
    if draw.random() < 0.3:
        steps.append(AdminStep(at_s=_at(draw, length_s), kind="create topic", topic="more"))
    if draw.random() < 0.15:
        steps.append(AdminStep(at_s=_at(draw, length_s), kind="reset offset", topic="plain", group="g-concurrent"))
    if draw.random() < 0.15:
        steps.append(AdminStep(at_s=_at(draw, length_s), kind="delete group", group="g-unused"))
    return tuple(steps)


# ----------------------------------------------------------------------------------------------------------- the faults


def _faults(
    seed: int,
    length_s: float,
    name_server_count: int,
    brokers: tuple[BrokerPlan, ...],
    senders: tuple[SenderPlan, ...],
    consumers: tuple[ConsumerPlan, ...],
) -> tuple[Fault, ...]:
    draw = _generator(seed, "faults")
    servers = [broker.node for broker in brokers]
    clients = [*(sender.node for sender in senders), *(consumer.node for consumer in consumers)]
    # Name servers keep nothing on disk that a run needs: they are troubled as clients are.
    clients += [f"namesrv-{number}" for number in range(name_server_count)]
    made = [_fault(draw, number, length_s, brokers, servers, clients) for number in range(draw.choice((0, 1, 2, 3, 4)))]
    doubled = [fault for fault in made if fault.kind in BEFOREHAND and fault.node in servers and draw.random() < 0.5]
    made += [_beforehand(draw, fault) for fault in doubled]
    return tuple(sorted(made, key=lambda fault: fault.at_s))


def _beforehand(draw: random.Random, fault: Fault) -> Fault:
    """Another trouble of the same node that begins shortly before this one, and is over soon after it began."""
    before_s = draw.uniform(0.2, 4.0)
    kind = draw.choice(BEFOREHAND[fault.kind])
    return Fault(
        number=100 + fault.number,
        at_s=round(max(fault.at_s - before_s, QUIET_S), 3),
        kind=kind,
        node=fault.node,
        other=fault.other if kind == "partition" else "",
        lasts_s=round(before_s + 0.1, 3),
        amount=round(draw.uniform(0.05, 0.5), 3) if kind == "slow sync" else 0.0,
    )


def _fault(
    draw: random.Random,
    number: int,
    length_s: float,
    brokers: tuple[BrokerPlan, ...],
    servers: list[str],
    clients: list[str],
) -> Fault:
    is_servers = draw.random() < 0.75
    kinds, weights = zip(*(SERVER_FAULTS if is_servers else CLIENT_FAULTS), strict=True)
    kind: FaultKind = draw.choices(kinds, weights)[0]
    node = draw.choice(servers if is_servers else clients)
    at_s, other = _at(draw, length_s), ""
    slaves = {broker.broker: broker.node for broker in brokers if broker.role == "SLAVE"}
    if kind == "promotion":
        broker = draw.choice([broker.broker for broker in brokers])
        kind, node, other = ("promotion", broker, slaves[broker]) if slaves else ("kill", broker, "")
    elif kind in ("partition", "one-way cut", "slow link", "reset"):
        others = [name for name in (*servers, *clients, "*") if name != node]
        other = draw.choice(others)
    lasts_s = 0.0 if kind in NO_END else round(draw.uniform(*LASTS_S[kind]), 3)
    if not is_servers and kind in ("partition", "pause") and draw.random() < 0.2:
        lasts_s = round(draw.uniform(*LONG_S), 3)
    amount = {"slow link": draw.uniform(0.02, 1.0), "slow sync": draw.uniform(0.05, 2.0)}.get(kind, 0.0)
    if kind == "clock jump":
        amount = draw.choice((-1, 1)) * draw.choice((1.5, 10.0, 130.0))
    return Fault(
        number=number,
        at_s=at_s,
        kind=kind,
        node=node,
        other=other,
        lasts_s=lasts_s,
        amount=round(amount, 3),
        choice=draw.randrange(1 << 30),
        returns=draw.random() < 0.5,
    )
