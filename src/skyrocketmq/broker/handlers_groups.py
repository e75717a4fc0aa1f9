"""Requests about consumer groups: making, changing, deleting, listing them.

A change is answered once it is in the file, so that whoever asked for it may rely on it.
"""

from __future__ import annotations

import logging

from skyrocketmq.broker.access_rules import ADMIN, member_of
from skyrocketmq.broker.answers import change_saved, master_only, refusal
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.saving import Saver
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import SubscriptionGroupConfig
from skyrocketmq.model.names import check_group
from skyrocketmq.net import BodyRequest, Request, answers
from skyrocketmq.ports import Clock
from skyrocketmq.slices import joined_in_slices
from skyrocketmq.wire.bodies import body_parts
from skyrocketmq.wire.bodies_tables import SubscriptionGroupTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.headers_admin import DeleteSubscriptionGroupHeader, GroupHeader
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["GroupHandlers"]

logger = logging.getLogger(__name__)

RETRY_QUEUE_COUNT_MAX = 65_536  # as for any topic


class GroupHandlers:
    """The answers, from the table of groups."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        groups: GroupTable,
        groups_file: Saver[SubscriptionGroupTable],
        offsets: ConsumerOffsets,
        clock: Clock,
    ) -> None:
        self._config = config
        self._groups = groups
        self._groups_file = groups_file
        self._offsets = offsets
        self._clock = clock

    @answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, needs=ADMIN)
    async def put_group(self, request: BodyRequest[SubscriptionGroupConfig]) -> None:
        """Make or change a consumer group."""
        master_only(self._config.current, "change a consumer group")
        group = request.body
        try:
            check_group(group.group_name)
        except IllegalArgument as error:
            raise refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if group.retry_queue_nums > RETRY_QUEUE_COUNT_MAX:
            remark = (
                f"retryQueueNums is {group.retry_queue_nums}: a retry topic has at most {RETRY_QUEUE_COUNT_MAX} queues"
            )
            raise refusal(ResponseCode.SYSTEM_ERROR, remark)
        self._groups.put(group)
        logger.info("group updated", extra={"group": group.group_name, "by": request.connection.peer})
        await change_saved(self._groups_file, f"group {group.group_name}")

    @answers(RequestCode.DELETE_SUBSCRIPTIONGROUP, needs=ADMIN)
    async def delete_group(self, request: Request[DeleteSubscriptionGroupHeader]) -> None:
        """Delete a consumer group, with or without its offsets. Deleting an unknown group succeeds."""
        master_only(self._config.current, "delete a consumer group")
        name = request.required(request.header.group_name, "groupName")
        self._groups.delete(name)
        topics = self._offsets.forget_group(name) if request.header.remove_offset else []
        logger.info("group deleted", extra={"group": name, "offsets_of": len(topics), "by": request.connection.peer})
        await change_saved(self._groups_file, f"the end of group {name}")

    @answers(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, answer=SubscriptionGroupTable, needs=ADMIN)
    async def list_groups(self, request: Request[NoFields]) -> bytes:
        """All groups, as slaves copy them and administrators read them."""
        table = SubscriptionGroupTable(
            data_version=self._groups.data_version, subscription_group_table=self._groups.table()
        )
        return await joined_in_slices(body_parts(table), self._clock)

    @answers(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, needs=member_of("group"))
    def show_group(self, request: Request[GroupHeader]) -> SubscriptionGroupConfig:
        """One consumer group, as administration tools of release 5 ask for it. To ask is not to make it."""
        name = request.required(request.header.group, "group")
        group = self._groups.find(name)
        if group is None:
            remark = (
                f"consumer group {name} does not exist on {self._config.current.broker_name}: create it with "
                "`skyrocketmq admin updateSubGroup`, or let its consumers connect"
            )
            raise refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return group
