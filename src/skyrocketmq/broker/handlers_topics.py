"""Requests about topics: making, changing, deleting and listing them, and how full their queues are.

A change is answered once it is in the file and the name servers that answer have heard of it: whoever made a topic can
use it then.
"""

from __future__ import annotations

import logging

from skyrocketmq.broker.access_rules import ADMIN, SIGNATURE, uses
from skyrocketmq.broker.answers import change_saved, master_only, no_such_topic, refusal
from skyrocketmq.broker.clients import ConsumerTable
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets
from skyrocketmq.broker.registration import Registrar
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.broker.turns import Turns
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import QUEUE_COUNT_MAX, MessageQueue, TopicConfig, TopicFilterType
from skyrocketmq.model.names import PERM_INHERIT, PERM_PRIORITY, PERM_READ_WRITE, check_topic
from skyrocketmq.net import Connection, Request, answers
from skyrocketmq.ports import Clock
from skyrocketmq.slices import joined_in_slices
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.bodies import body_parts
from skyrocketmq.wire.bodies_admin import GroupList, QueueOffsets, TopicStats
from skyrocketmq.wire.bodies_tables import TopicConfigTable, TopicList
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.headers_admin import CreateTopicHeader, TopicHeader
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["TopicHandlers"]

logger = logging.getLogger(__name__)

PERM_MAX = PERM_READ_WRITE | PERM_INHERIT | PERM_PRIORITY


class TopicHandlers:
    """The answers, from the table of topics and from the store."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        topics_file: Saver[TopicConfigTable],
        registrar: Registrar,
        consumers: ConsumerTable[Connection],
        offsets: ConsumerOffsets,
        store: MessageStore,
        clock: Clock,
    ) -> None:
        self._config = config
        self._topics = topics
        self._topics_file = topics_file
        self._registrar = registrar
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._clock = clock
        self._turns = Turns(clock)

    # -- changes

    @answers(RequestCode.UPDATE_AND_CREATE_TOPIC, needs=ADMIN)
    async def put_topic(self, request: Request[CreateTopicHeader]) -> None:
        """Make or change a topic. Whether it is ordered is not decided here, whatever the request says."""
        header = request.header
        name = self._changeable_topic(request, "change")
        topic = TopicConfig(
            topic_name=name,
            read_queue_nums=_queue_count(request, header.read_queue_nums, "readQueueNums"),
            write_queue_nums=_queue_count(request, header.write_queue_nums, "writeQueueNums"),
            perm=_permission(request.required(header.perm, "perm")),
            topic_filter_type=_filter_type(header.topic_filter_type),
            topic_sys_flag=header.topic_sys_flag or 0,
        )
        self._topics.put(topic)
        logger.info("topic updated", extra={"topic": name, "by": request.connection.peer})
        await change_saved(self._topics_file, f"topic {name}")
        if not await self._registrar.announced():
            logger.warning("not every name server has heard of the topic yet", extra={"topic": name})

    @answers(RequestCode.DELETE_TOPIC_IN_BROKER, needs=ADMIN)
    async def delete_topic(self, request: Request[TopicHeader]) -> None:
        """Delete a topic with its queues. Deleting an unknown topic succeeds; name servers are not told.

        Groups keep their offsets: if the topic is made again, its queues go on where they ended.
        """
        name = self._changeable_topic(request, "delete")
        self._topics.delete(name)
        logger.info("topic deleted", extra={"topic": name, "by": request.connection.peer})
        await change_saved(self._topics_file, f"the end of topic {name}")
        await self._store.delete_topic_queues(name)

    def _changeable_topic(self, request: Request[CreateTopicHeader] | Request[TopicHeader], verb: str) -> str:
        master_only(self._config.current, f"{verb} a topic")
        name = request.required(request.header.topic, "topic")
        try:
            check_topic(name)
        except IllegalArgument as error:
            raise refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if self._topics.is_system_topic(name):
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"topic {name} is the broker's own and cannot be {verb}d: choose another name",
            )
        return name

    # -- lists

    @answers(RequestCode.GET_ALL_TOPIC_CONFIG, answer=TopicConfigTable, needs=ADMIN)
    async def list_topics(self, request: Request[NoFields]) -> bytes:
        """All topics, as slaves copy them and administrators read them."""
        table = TopicConfigTable(data_version=self._topics.data_version, topic_config_table=self._topics.table())
        return await joined_in_slices(body_parts(table), self._clock)

    @answers(RequestCode.GET_TOPIC_CONFIG, needs=uses("topic"))
    def show_topic(self, request: Request[TopicHeader]) -> TopicConfig:
        """One topic, as administration tools of release 5 ask for it."""
        name = request.required(request.header.topic, "topic")
        topic = self._topics.find(name)
        if topic is None:
            raise no_such_topic(name, self._config.current.broker_name)
        return topic

    @answers(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, needs=SIGNATURE)
    def list_system_topics(self, request: Request[NoFields]) -> TopicList:
        """The topics that are the broker's own."""
        return TopicList(topic_list=tuple(self._topics.system_topics()))

    @answers(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, needs=uses("topic"))
    def list_groups_of_topic(self, request: Request[TopicHeader]) -> GroupList:
        """Who consumes a topic: the groups that subscribe to it now, and those that have read it before."""
        topic = request.required(request.header.topic, "topic")
        groups = dict.fromkeys([*self._consumers.groups_on(topic), *self._offsets.groups_of(topic)])
        return GroupList(group_list=tuple(groups))

    @answers(RequestCode.GET_TOPIC_STATS_INFO, answer=TopicStats, needs=uses("topic"))
    async def topic_stats(self, request: Request[TopicHeader]) -> bytes:
        """The bounds of every queue that can be written to, and when its newest message was stored."""
        name = request.required(request.header.topic, "topic")
        topic = self._topics.find(name)
        if topic is None:
            raise no_such_topic(name, self._config.current.broker_name)
        table: dict[MessageQueue, QueueOffsets] = {}
        for queue_id in range(topic.write_queue_nums):
            table[MessageQueue(name, self._config.current.broker_name, queue_id)] = await self._bounds(name, queue_id)
            await self._turns.let_others()
        return await joined_in_slices(body_parts(TopicStats(offset_table=table)), self._clock)

    async def _bounds(self, topic: str, queue_id: int) -> QueueOffsets:
        max_offset = max(0, self._store.max_offset(topic, queue_id))
        newest_ms = await self._store.store_time(topic, queue_id, max_offset - 1) if max_offset else 0
        return QueueOffsets(
            min_offset=max(0, self._store.min_offset(topic, queue_id)),
            max_offset=max_offset,
            last_update_timestamp=max(0, newest_ms),
        )


def _queue_count(request: Request[CreateTopicHeader], count: int | None, field: str) -> int:
    count = request.required(count, field)
    if not 0 <= count <= QUEUE_COUNT_MAX:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"{field} is {count}: a topic has 0 to {QUEUE_COUNT_MAX} queues")
    return count


def _permission(perm: int) -> int:
    if not 0 <= perm <= PERM_MAX:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"perm is {perm}: add 4 for reading, 2 for writing, 1 for a template")
    return perm


def _filter_type(name: str | None) -> TopicFilterType:
    try:
        return TopicFilterType(name) if name else TopicFilterType.SINGLE_TAG
    except ValueError:
        kinds = " or ".join(kind.name for kind in TopicFilterType)
        raise refusal(ResponseCode.SYSTEM_ERROR, f"topicFilterType is {name}: it must be {kinds}") from None
