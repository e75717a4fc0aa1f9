"""Which names topics and groups may have, and which names are made from others.

Rule 1: a check returns nothing or raises `IllegalArgument` with the name, the rule and what would be right.
Rule 2: system topics depend on the cluster's and the broker's name; who knows them passes them in.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from skyrocketmq.errors import IllegalArgument

TOPIC_LENGTH_MAX: Final = 127  # the length field of a stored topic is a signed byte
GROUP_LENGTH_MAX: Final = 255

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"  # the template of automatically created topics
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"  # delayed messages wait here
TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SELF_TEST_TOPIC,
        BENCHMARK_TOPIC,
        OFFSET_MOVED_TOPIC,
        SCHEDULE_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        TRANSACTION_GIVEN_UP_TOPIC,
        TRACE_TOPIC,
    }
)
CLOSED_TOPICS: Final = frozenset(
    {
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        SCHEDULE_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        TRANSACTION_GIVEN_UP_TOPIC,
    }
)
"""System topics that only the broker itself writes to."""

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"  # the transaction service reads the half topic under this name
SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
"""Groups that every broker knows from its start."""

_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_ALLOWED_TEXT: Final = "letters, digits and % | _ -"


def check_topic(name: str) -> None:
    """Whether a topic may have this name at all; system topics pass."""
    _check_name(name, kind="topic", length_max=TOPIC_LENGTH_MAX)


def check_group(name: str) -> None:
    """Whether a group may have this name. Up to 120 characters its retry topic has a legal name too."""
    _check_name(name, kind="group", length_max=GROUP_LENGTH_MAX)


def check_client_group(name: str) -> None:
    """The same for a client that starts: the two default names are not for sharing."""
    check_group(name)
    if name in (DEFAULT_PRODUCER_GROUP, DEFAULT_CONSUMER_GROUP):
        raise IllegalArgument(f"the group name {name} is reserved: give the group a name of its own")


@lru_cache(maxsize=1024)
def check_send_topic(name: str) -> None:
    """Whether a client may send to this topic. Every message asks, and most ask for the same few topics."""
    check_topic(name)
    if name in CLOSED_TOPICS:
        raise IllegalArgument(f"the topic {name} is written by the broker only: send to a topic of your own")


def _check_name(name: str, *, kind: str, length_max: int) -> None:
    if not name:
        raise IllegalArgument(f"the {kind} has no name")
    if len(name) > length_max:
        raise IllegalArgument(f"the {kind} name {name[:40]}... has {len(name)} characters, at most {length_max} may be")
    if not _ALLOWED.fullmatch(name):
        wrong = "".join(sorted({char for char in name if not _ALLOWED.fullmatch(char)}))
        raise IllegalArgument(f"the {kind} name {name!r} contains {wrong!r}; allowed are {_ALLOWED_TEXT}")


def is_system_topic(name: str, also: Collection[str] = ()) -> bool:
    """Whether administrators may neither create nor delete the topic. `also`: see `local_system_topics`."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX) or name in also


def local_system_topics(*, cluster: str, broker: str) -> frozenset[str]:
    """The system topics whose names come from where the broker stands."""
    return frozenset({cluster, broker, reply_topic(cluster)})


def is_system_group(name: str) -> bool:
    """Whether the group is the servers' own: made whenever asked for, never wrapped in a namespace."""
    return name.startswith(SYSTEM_GROUP_PREFIX)


# Names made from names -----------------------------------------------------------------------------------------------


def retry_topic(group: str) -> str:
    """Where the group's messages wait for their next attempt."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where the group's messages end after the last attempt."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where replies to requests are sent."""
    return cluster + REPLY_SUFFIX


def is_retry_topic(name: str) -> bool:
    return name.startswith(RETRY_PREFIX)


def is_dlq_topic(name: str) -> bool:
    return name.startswith(DLQ_PREFIX)


def with_namespace(name: str, *, namespace: str) -> str:
    """A topic or group as it is called on the wire: `ns%name`, `%RETRY%ns%name`, `%DLQ%ns%name`. Wraps once only."""
    prefix, bare = _split_prefix(name)
    if not namespace or not name or _is_never_wrapped(name) or bare.startswith(namespace + "%"):
        return name
    return f"{prefix}{namespace}%{bare}"


def without_namespace(name: str, *, namespace: str) -> str:
    """The name as users of the namespace know it."""
    prefix, bare = _split_prefix(name)
    if not namespace or _is_never_wrapped(name) or not bare.startswith(namespace + "%"):
        return name
    return prefix + bare.removeprefix(namespace + "%")


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name


def _is_never_wrapped(name: str) -> bool:
    return is_system_topic(name) or is_system_group(name)


# Permissions of a topic ----------------------------------------------------------------------------------------------

PERM_INHERIT: Final = 0x1  # topics may be created on the model of this one
PERM_WRITE: Final = 0x2
PERM_READ: Final = 0x4
PERM_PRIORITY: Final = 0x8  # of older releases, unused
PERM_READ_WRITE: Final = PERM_READ | PERM_WRITE


def perm_text(perm: int) -> str:
    """The permission bits for people: `RW-`, `R--`, `RWX`."""
    return "".join(
        letter if perm & bit else "-" for letter, bit in (("R", PERM_READ), ("W", PERM_WRITE), ("X", PERM_INHERIT))
    )
