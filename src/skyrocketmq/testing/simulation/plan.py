"""What a run is made of, as plain frozen data: the cluster, who does what and when, and what goes wrong.

Everything random about a run is here, drawn up front by `drawing.plan(seed)`; so a part can be taken out, and the rest
is run again as it was. What the network and the disks draw while they run comes from generators of their own, seeded by
the plan's seed and their names.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "AdminStep",
    "BrokerPlan",
    "ConsumerPlan",
    "Fault",
    "FaultKind",
    "Operation",
    "OperationKind",
    "Plan",
    "SenderPlan",
    "TopicPlan",
]

OperationKind = Literal["plain", "one-way", "batch", "delayed", "transactional", "keyed"]
Decision = Literal["commit", "rollback", "unknown"]
ConsumerKind = Literal["concurrent", "orderly", "broadcast", "lite", "pull"]
FaultKind = Literal[
    "kill",
    "power cut",
    "stop",
    "pause",
    "partition",
    "one-way cut",
    "slow link",
    "reset",
    "slow sync",
    "failed sync",
    "failed write",
    "disk full",
    "clock jump",
    "promotion",
]


class BrokerPlan(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    broker: str  # the name that a master and its slaves share
    broker_id: int
    role: str
    flush: str
    skew_ms: int = 0
    drift: float = 0.0
    sync_s: float = 0.0  # what each sync takes longer than on a good disk
    settings: tuple[tuple[str, str], ...] = ()


class TopicPlan(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    queues: int


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One send, or one batch. `name` is that of the message; those of a batch have numbers after it."""

    name: str
    at_s: float
    kind: OperationKind
    topic: str
    filling_bytes: int = 0
    batch_count: int = 1
    key: str = ""
    tag: str = ""
    delay_level: int = 0
    waits: bool = True  # False: the answer need not wait for disk and slave
    decision: Decision = "commit"  # of a local transaction
    checked: Decision = "commit"  # what the group says when it is asked, if the decision was "unknown"
    handled_s: float = 0.0  # what a handler takes
    failure_count: int = 0  # so many times handlers fail with it, in each group
    raises: bool = False  # a failing handler raises, rather than to ask for it again
    retry_level: int = 1


class SenderPlan(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    operations: tuple[Operation, ...]


class ConsumerPlan(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    group: str
    kind: ConsumerKind
    topics: tuple[str, ...]
    starts_at_s: float = 0.0
    retry_count_max: int = 16
    tag: str = ""


class AdminStep(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float
    kind: Literal["create topic", "reset offset", "delete group"]
    topic: str = ""
    group: str = ""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """`number` stays with a fault when others are taken out. `other` is the far end, or the slave to promote."""

    number: int
    at_s: float
    kind: FaultKind
    node: str
    other: str = ""
    lasts_s: float = 0.0
    amount: float = 0.0  # seconds of a delay or a jump
    choice: int = 0  # of what a power cut leaves
    returns: bool = False  # a promotion: the old master comes back as a slave


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    length_s: float  # faults and sends are over by then
    name_server_count: int
    brokers: tuple[BrokerPlan, ...]
    topics: tuple[TopicPlan, ...]
    senders: tuple[SenderPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    admin: tuple[AdminStep, ...] = ()
    faults: tuple[Fault, ...] = ()
