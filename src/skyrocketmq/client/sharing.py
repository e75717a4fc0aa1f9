"""Who shares a client instance with whom.

    instance = await join(member, settings, ...)      # finds one, or opens one
    ...
    await leave(member, instance)                     # the last one to leave closes it

Instances belong to one event loop: a process made by fork, which has loops of its own, never finds its parent's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from skyrocketmq.client.identity import is_automatic
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.members import ConsumerMember, ProducerMember
from skyrocketmq.client.settings import AUTOMATIC_INSTANCE, ClientSettings, Doors

__all__ = ["join_consumer", "join_producer", "leave_consumer", "leave_producer"]


@dataclass(frozen=True, slots=True)
class _Key:
    """What two clients must have in common to share."""

    loop: asyncio.AbstractEventLoop
    settings: ClientSettings
    keeps_name: bool  # broadcasting: the id must be the same after a restart
    is_stream: bool
    doors: Doors


_instances: dict[_Key, list[ClientInstance]] = {}
_user_counts: dict[ClientInstance, int] = {}


async def join_producer(producer: ProducerMember, settings: ClientSettings, *, doors: Doors) -> ClientInstance:
    """The instance that a producer uses from now on."""
    key = _Key(asyncio.get_running_loop(), settings, False, False, doors)
    instance = _find(key, producer, is_consumer=False)
    instance.add_producer(producer)
    return await _open(key, instance, producer)


async def join_consumer(
    consumer: ConsumerMember,
    settings: ClientSettings,
    *,
    keeps_name: bool,
    is_stream: bool,
    doors: Doors,
) -> ClientInstance:
    """The instance that a consumer uses from now on. `keeps_name`: the client id may not change from start to start."""
    key = _Key(asyncio.get_running_loop(), settings, keeps_name, is_stream, doors)
    instance = _find(key, consumer, is_consumer=True)
    instance.add_consumer(consumer)
    return await _open(key, instance, consumer)


async def leave_producer(producer: ProducerMember, instance: ClientInstance) -> None:
    await instance.remove_producer(producer)
    await _release(instance)


async def leave_consumer(consumer: ConsumerMember, instance: ClientInstance) -> None:
    await instance.remove_consumer(consumer)
    await _release(instance)


def _find(key: _Key, member: ProducerMember | ConsumerMember, *, is_consumer: bool) -> ClientInstance:
    _forget_dead_loops()
    candidates = _instances.setdefault(key, [])
    is_renamed = is_automatic(key.settings) and not key.keeps_name
    for instance in candidates:
        if not is_renamed or not instance.has_group(member, is_consumer=is_consumer):
            return instance
    name = None if is_renamed else key.settings.instance_name or AUTOMATIC_INSTANCE
    instance = ClientInstance(
        key.settings,
        instance_name=name,
        is_stream=key.is_stream,
        doors=key.doors,
    )
    candidates.append(instance)
    return instance


async def _open(key: _Key, instance: ClientInstance, member: ProducerMember | ConsumerMember) -> ClientInstance:
    _user_counts[instance] = _user_counts.get(instance, 0) + 1
    try:
        await instance.open()
    except BaseException:
        for members in (instance.producers, instance.consumers):
            if members.get(member.wire_group) is member:
                del members[member.wire_group]
        await _release(instance)
        raise
    return instance


async def _release(instance: ClientInstance) -> None:
    _user_counts[instance] -= 1
    if _user_counts[instance]:
        return
    # From here on nobody can find it: who comes while it closes opens another one.
    del _user_counts[instance]
    for key, candidates in list(_instances.items()):
        if instance in candidates:
            candidates.remove(instance)
            if not candidates:
                del _instances[key]
    await instance.close()


def _forget_dead_loops() -> None:
    """A loop that was closed without closing its clients has taken them with it."""
    for key in [key for key in _instances if key.loop.is_closed()]:
        for instance in _instances.pop(key):
            _user_counts.pop(instance, None)
