"""What our servers answer beyond Apache's protocol: the numbers, and what these requests and their answers carry.

One so far: groups whose members subscribe to different things. Members of bodies are declared in alphabetical order.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from skyrocketmq.model.numbers import Int64

__all__ = [
    "DifferenceReport",
    "DifferingFilter",
    "DifferingGroup",
    "DifferingMember",
    "DifferingMode",
    "DifferingTopic",
    "OwnRequestCode",
]


class OwnRequestCode(IntEnum):
    """Far above Apache's numbers, and below what a header can hold, 32,767."""

    GET_SUBSCRIPTION_DIFFERENCES = 20_001


class DifferingFilter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the filters on a topic, and who has it; without expression: the clients that do not subscribe to it."""

    client_ids: tuple[str, ...] = ()
    expression: str | None = None
    expression_type: str | None = None


class DifferingTopic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    filters: tuple[DifferingFilter, ...] = ()
    topic: str = ""


class DifferingMode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A way to consume, as `CONSUME_PASSIVELY CLUSTERING`, and the clients that do it."""

    client_ids: tuple[str, ...] = ()
    mode: str = ""


class DifferingMember(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    client_addr: str = ""
    client_id: str = ""


class DifferingGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`is_reported`: it has lasted for the grace period, was logged and counted."""

    differs_for_ms: Int64 = msgspec.field(default=0, name="differsForMillis")
    group: str = ""
    is_reported: bool = False
    members: tuple[DifferingMember, ...] = ()
    modes: tuple[DifferingMode, ...] = ()
    topics: tuple[DifferingTopic, ...] = ()


class DifferenceReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """20001: the groups that differ now, and how many differences were reported since the broker started."""

    broker_name: str = ""
    groups: tuple[DifferingGroup, ...] = ()
    reported_total: Int64 = 0
