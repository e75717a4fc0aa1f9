"""What a request needs of its account: nothing but a signature, permissions on topics and groups, or an administrator.

| request | needs |
|---|---|
| sends, single, batch or reply | PUB on the topic; to a retry topic SUB on its group; to the reply topic nothing |
| pulls, queries, looking at queues and messages | SUB on the topic, and on the group if one is named |
| heartbeats | SUB on every group in it and on every topic that one of them subscribes to |
| offsets and locks of a group, its members and progress | SUB on the group, and on the topic if one is named |
| the bounds of queues, statistics of a topic | PUB or SUB on the topic |
| whole tables, configuration, cleaning, accounts, anything else | an administrator |
| topics where messages of all topics wait, groups of the broker's own | an administrator, and what the request needs |

Apache's brokers check less: there a batch, a message by its id, another group's offsets or the accounts themselves need
no more than any account's signature. Handlers declare what their requests need (`net.requests`) in the words of this
module; a request that nobody declares needs an administrator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from skyrocketmq.access.accounts import Account, Permission
from skyrocketmq.model.names import (
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    TRANSACTION_GIVEN_UP_TOPIC,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    is_system_group,
    reply_topic,
)
from skyrocketmq.wire.bodies import decode_request
from skyrocketmq.wire.frames import Frame

__all__ = [
    "ACCOUNTS",
    "ADMIN",
    "SIGNATURE",
    "Need",
    "Needs",
    "member_of",
    "missing_permission",
    "named_in",
    "need_of_group",
    "need_on_topic",
    "permissions",
    "publishes",
    "reads",
    "uses",
]

B = TypeVar("B")

PUB, SUB = Permission.PUB, Permission.SUB
# Delayed and half messages of every topic: who may read here could read what is denied to him there.
_MIXED_TOPICS: Final = frozenset(
    {SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC, TRANSACTION_GIVEN_UP_TOPIC}
)


class Need(NamedTuple):
    """A permission on a topic or a group. A retry topic is its group."""

    name: str
    permission: Permission
    is_group: bool = False

    @property
    def is_for_admins(self) -> bool:
        return is_system_group(self.name) if self.is_group else self.name in _MIXED_TOPICS

    def __str__(self) -> str:
        return f"{'group' if self.is_group else 'topic'} {self.name}"


# ----------------------------------------------------------------------------------------------------- to declare needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a request needs: permissions on what its fields and its body name, or an administrator.

    A request about accounts is for encrypted connections, and its sender's address does not spare the signature.
    """

    text: str  # for people
    topic: tuple[str, Permission] | None = None  # the field that names a topic
    groups: tuple[str, ...] = ()  # the fields that name groups
    in_body: tuple[type, Callable[[Any], Iterator[Need]]] | None = None  # the body's type, and what it names
    is_for_admins: bool = False
    is_about_accounts: bool = False

    def __str__(self) -> str:
        return self.text


ADMIN: Final = Needs(text="an administrator", is_for_admins=True)
ACCOUNTS: Final = Needs(text="an administrator, encrypted", is_for_admins=True, is_about_accounts=True)
# Such a request says nothing of others, or is checked where the message that it is about has been read.
SIGNATURE: Final = Needs(text="a signature")


def publishes(topic: str) -> Needs:
    """PUB on the topic that this field names."""
    return Needs(text=f"PUB on `{topic}`", topic=(topic, PUB))


def uses(topic: str) -> Needs:
    """PUB or SUB on the topic that this field names."""
    return Needs(text=f"PUB or SUB on `{topic}`", topic=(topic, PUB | SUB))


def reads(topic: str, *groups: str) -> Needs:
    """SUB on the topic, and on the groups, that these fields name."""
    text = " and ".join(f"`{field}`" for field in (topic, *groups))
    return Needs(text=f"SUB on {text}", topic=(topic, SUB), groups=groups)


def member_of(group: str) -> Needs:
    """SUB on the group that this field names."""
    return Needs(text=f"SUB on `{group}`", groups=(group,))


def named_in(body: type[B], needs: Callable[[B], Iterator[Need]]) -> Needs:
    """What a function finds in the body."""
    return Needs(text="SUB on what the body names", in_body=(body, needs))


def need_of_group(group: str | None) -> Need:
    return Need(group or "", SUB, is_group=True)


def need_on_topic(topic: str, permission: Permission) -> Need:
    """Whoever reads or writes a retry topic does so as a member of its group."""
    if topic.startswith(RETRY_PREFIX):
        return need_of_group(topic.removeprefix(RETRY_PREFIX))
    return Need(topic, permission)


# ------------------------------------------------------------------------------------------------------- to check them


def permissions(needs: Needs, frame: Frame, *, cluster: str) -> Iterator[Need]:
    """The permissions that a request needs. Raises `ProtocolError` for a broken body that would say what is needed."""
    ext = frame.ext or {}
    if needs.topic is not None:
        field, permission = needs.topic
        topic = ext.get(field)
        if topic and not (permission is PUB and topic in (TRACE_TOPIC, reply_topic(cluster))):
            yield need_on_topic(topic, permission)
    for field in needs.groups:
        group = ext.get(field)
        if group:
            yield need_of_group(group)
    if needs.in_body is not None:
        body, named = needs.in_body
        yield from named(decode_request(body, frame.body))


def missing_permission(account: Account, needs: Iterator[Need]) -> Need | None:
    """The first thing that an account lacks."""
    for need in needs:
        may_use = account.may_use_group if need.is_group else account.may_use_topic
        if not may_use(need.name, need.permission) or (need.is_for_admins and not account.is_admin):
            return need
    return None
