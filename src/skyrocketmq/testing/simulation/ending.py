"""The end of a run: everything healed and up, time for everybody to finish, and then a last look at all there is."""

from __future__ import annotations

from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.testing.simulation.actors import Actors, log_digest
from skyrocketmq.testing.simulation.history import (
    HandlerBegan,
    LogDigested,
    OffsetSeen,
    QueueEnds,
    QueueId,
    RunEnded,
    StoredSeen,
    content_of,
    name_of,
)
from skyrocketmq.testing.simulation.node import BrokerNode
from skyrocketmq.testing.simulation.world import World
from skyrocketmq.wire.records import decode_records

__all__ = ["drain", "look_at_logs", "note_offsets", "watch"]

DRAIN_S = 400.0  # brokers forget a silent client after 120 s, and members divide its queues after that
LOOK_EVERY_S = 1.0
# Brokers do not know how far broadcast members are. One that pulls from a machine that lost its power hears nothing,
# and pulls again after this.
SILENT_PULL_S = 45.0
QUIET_S = 60.0  # nothing was shown to anybody for so long: whatever is missing does not come
AFTERWARDS_S = 6.0  # what was handled last is committed
WATCH_EVERY_S = 2.0
READ_COUNT = 64
RETRY = "%RETRY%"


async def watch(world: World) -> None:
    """Look at the groups' progress and the clocks, now and then, for as long as the run takes."""
    while True:
        note_offsets(world)
        world.note_clocks()
        await world.simulation.sleep(WATCH_EVERY_S)


def note_offsets(world: World) -> None:
    for node in world.masters():
        assert node.server is not None, "a master that serves"
        for key, queues in sorted(node.server.tables.offsets.live_table().items()):
            topic, _, group = key.partition("@")
            for queue, offset in sorted(queues.items()):
                world.note(
                    OffsetSeen(
                        node=node.name, group=group, queue=QueueId(topic, node.broker_name, queue), offset=offset
                    )
                )


async def drain(world: World, actors: Actors) -> None:
    """Wait until nothing is left to do, and note how that ended."""
    sim = world.simulation
    for name in list(actors.wanted):
        await actors.start(name)
    if world.plan.faults and any(consumer.kind == "broadcast" for consumer in world.plan.consumers):
        world.expect_until(SILENT_PULL_S)
    end = sim.now + DRAIN_S
    why = "not looked at"
    while sim.now < end:
        await sim.sleep(LOOK_EVERY_S)
        for name in list(actors.wanted):
            if not sim.nodes[name].is_running:
                await actors.start(name)
        why = _unrest(world, actors)
        if not why:
            break
    if why and sim.now - _last_shown_at(world) > QUIET_S and not actors.failed_starts and not actors.crashed:
        why = ""
    await sim.sleep(AFTERWARDS_S)
    note_offsets(world)
    world.note(RunEnded(node="", settled=not why, why=why))


def _last_shown_at(world: World) -> float:
    return max((event.at for event in reversed(world.history.events) if isinstance(event, HandlerBegan)), default=0.0)


def _unrest(world: World, actors: Actors) -> str:
    """What still keeps the run from its end."""
    if actors.crashed or actors.failed_starts:
        return f"{actors.crashed or ''}{actors.failed_starts or ''}"
    sending = [name for name, sender in actors.senders.items() if not sender.is_done]
    if sending:
        return f"{', '.join(sending)} are still sending"
    if world.simulation.now < world.busy_until:
        return "something is still delayed"
    for node in world.brokers.values():
        if node.name not in actors.lost and node.server is None:
            return f"{node.name} is down"
    for node in world.masters():
        if unrest := _lagging(world, node) or _delayed(node):
            return unrest
    return _slaves_behind(world)


def _lagging(world: World, node: BrokerNode) -> str:
    assert node.server is not None, "a master that serves"
    store, offsets = node.server.store, node.server.tables.offsets
    groups = {plan.group: plan for plan in world.plan.consumers if plan.kind != "broadcast"}
    for group, plan in groups.items():
        for queue in store.queues:
            if queue.topic not in (*plan.topics, RETRY + group) or not queue.max_offset:
                continue
            done = offsets.find(group=group, topic=queue.topic, queue_id=queue.queue_id)
            if (done or 0) < queue.max_offset:
                where = QueueId(queue.topic, node.broker_name, queue.queue_id)
                return f"{group} is at {done} of {queue.max_offset} in {where}"
    return ""


def _delayed(node: BrokerNode) -> str:
    """Copies for retries among them, which clients may have sent with a delay that nobody was told of."""
    assert node.server is not None, "a master that serves"
    progress = node.server.delay.progress()
    for queue in node.server.store.queues.of_topic(SCHEDULE_TOPIC):
        level = queue.queue_id + 1
        delivered, _ = progress.get(level, (0, 0))
        if delivered < queue.max_offset:
            return f"{queue.max_offset - delivered} messages wait in delay level {level} of {node.name}"
    return ""


def _slaves_behind(world: World) -> str:
    ends = {node.broker_name: node.server.store.log.max_offset for node in world.masters() if node.server is not None}
    for node in world.brokers.values():
        if node.broker_id and node.server is not None and node.broker_name in ends:
            behind = ends[node.broker_name] - node.server.store.log.max_offset
            if behind and node.server.replication.is_following:
                return f"{node.name} lacks {behind} bytes"
    return ""


async def look_at_logs(world: World) -> None:
    """Every message of every queue at the masters, and the logs of masters and slaves over the same range."""
    for node in world.masters():
        assert node.server is not None, "a master that serves"
        for queue in sorted(node.server.store.queues, key=lambda queue: (queue.topic, queue.queue_id)):
            if queue.topic in ("plain", "keyed", "more") or queue.topic.startswith(("%RETRY%g-", "%DLQ%g-")):
                await _read_queue(world, node, queue.topic, queue.queue_id)
    for node in world.masters():
        assert node.server is not None, "a master that serves"
        log = node.server.store.log
        for slave in world.brokers.values():
            if slave is node or slave.broker_name != node.broker_name or slave.server is None:
                continue
            theirs = slave.server.store.log
            start, end = max(log.min_offset, theirs.min_offset), min(log.max_offset, theirs.max_offset)
            for each in (node, slave):
                world.note(
                    LogDigested(
                        node=each.name,
                        broker=each.broker_name,
                        role=each.role,
                        start=start,
                        end=end,
                        digest=log_digest(each.disk, start, end),
                    )
                )


async def _read_queue(world: World, node: BrokerNode, topic: str, queue_id: int) -> None:
    assert node.server is not None, "a master that serves"
    store = node.server.store
    queue = QueueId(topic, node.broker_name, queue_id)
    found = store.queues.get(topic, queue_id)
    world.note(QueueEnds(node=node.name, queue=queue, first=found.min_offset, end=found.max_offset))
    offset = int(found.min_offset)
    while offset < found.max_offset:
        read = await store.read_messages(topic, queue_id, offset, READ_COUNT)
        if read is None or read.next_offset <= offset:
            break
        offset = read.next_offset
        for message in decode_records(read.joined(), broker_name=node.broker_name):
            world.note(
                StoredSeen(
                    node=node.name,
                    queue=queue,
                    offset=message.queue_offset,
                    message=name_of(message.body),
                    content=content_of(message.body, message.properties),
                )
            )
