"""What became of a message: in each group that consumes its topic."""

from __future__ import annotations

from skyrocketmq.admin.groups import GroupAdmin
from skyrocketmq.admin.message_values import ConsumerTrack, TrackState
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.errors import MQError
from skyrocketmq.model import ConsumeType, MessageModel, MessageView, SubscriptionData

__all__ = ["track_message"]


async def track_message(message: MessageView, *, topics: TopicAdmin, groups: GroupAdmin) -> list[ConsumerTrack]:
    """A line for each group. One that cannot be asked about is unknown, with the reason."""
    tracks: list[ConsumerTrack] = []
    for group in await topics.groups(message.topic):
        try:
            tracks.append(ConsumerTrack(group=group, state=await _state(message, group, groups)))
        except MQError as error:
            tracks.append(ConsumerTrack(group=group, state=TrackState.UNKNOWN, failure=error))
    return tracks


async def _state(message: MessageView, group: str, groups: GroupAdmin) -> TrackState:
    connections = await groups.connections(group)
    if not connections.is_online:
        return TrackState.NOT_ONLINE
    if connections.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return TrackState.PULLED
    if connections.message_model is MessageModel.BROADCASTING:
        return TrackState.BROADCAST
    progress = await groups.progress(group, topic=message.topic)
    for row in progress.queues:
        is_its_queue = row.queue.queue_id == message.queue_id and row.queue.broker_name == message.broker_name
        if is_its_queue and row.consumer_offset > message.queue_offset:
            wanted = all(_wants(one, message) for one in connections.subscriptions if one.topic == message.topic)
            return TrackState.CONSUMED if wanted else TrackState.FILTERED
    return TrackState.NOT_CONSUMED


def _wants(subscription: SubscriptionData, message: MessageView) -> bool:
    """Whether a subscription by tags lets a message through; one by SQL is not evaluated here and counts as such."""
    return not subscription.tags_set or message.tags in subscription.tags_set
