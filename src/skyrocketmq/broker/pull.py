"""Pulls: messages of a queue to a consumer, at once or when they come (11).

A hot module: one call a pull, whatever the number of messages. Records leave as slices of the log behind a head of the
answer, in one write, and are not copied on the way.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.access_rules import reads
from skyrocketmq.broker.answers import read_header
from skyrocketmq.broker.clients import ConsumerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters
from skyrocketmq.broker.consumer_offsets import ConsumerOffsets, is_of_another_log
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.held_pulls import HeldPull, HeldPulls
from skyrocketmq.broker.offset_moved import OffsetMovedEvents
from skyrocketmq.broker.pull_rules import PullPlan, check_pull, pull_code
from skyrocketmq.broker.replication import Replication
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.errors import broker_error
from skyrocketmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUSPEND
from skyrocketmq.model.names import TRANSACTION_GROUP
from skyrocketmq.net import Connection, answers_frames
from skyrocketmq.net.dispatch import failure_answer
from skyrocketmq.ports import Clock
from skyrocketmq.store import GetResult, GetStatus, MessageStore, Pending
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame, encode_head
from skyrocketmq.wire.headers_pull import PullMessageAnswer, PullMessageHeader

__all__ = ["PullHandler"]

BEHIND_PAUSE_MS: Final = 1000


class PullHandler:
    """Answers pulls, and holds those that found nothing."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable[Connection],
        filters: ConsumerFilters,
        offsets: ConsumerOffsets,
        store: MessageStore,
        replication: Replication,
        offset_moved: OffsetMovedEvents,
        statistics: BrokerStatistics,
        clock: Clock,
        access: AccessControl | None = None,
    ) -> None:
        self._access = access
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters
        self._offsets = offsets
        self._store = store
        self._is_slave = store.config.broker_role is BrokerRole.SLAVE
        self._replication = replication
        self._offset_moved = offset_moved
        self._statistics = statistics
        self._clock = clock
        self._is_stopping = False
        self.held = HeldPulls(clock, self._run_again)

    def stop(self) -> None:
        """Answer whoever waits, and let nobody wait from now on.

        Their answer is a failure, since one that found nothing would be asked again at once: on a connection that is
        about to close. A client that is told nothing of that waits for its time-out, half a minute with Apache's.
        """
        self._is_stopping = True
        self.held.release_all()

    @answers_frames(
        RequestCode.PULL_MESSAGE,
        header=PullMessageHeader,
        answer=(PullMessageAnswer, "records"),
        needs=reads("topic", "consumerGroup"),
    )
    def pull(self, frame: Frame, connection: Connection) -> Frame | Awaitable[Frame | None] | None:
        """Read from a queue; a pull that finds nothing may be held until something comes."""
        if frame.is_oneway:  # nobody waits for messages: what is left of it is the offset that it may commit
            header = read_header(PullMessageHeader, frame)
            self._commit_progress(header, self._check(header))
            return None
        return self._pull(frame, connection, is_first_run=True)

    def pull_at_once(self, header: PullMessageHeader) -> tuple[GetResult, int] | None:
        """What was read and the suggested broker, for a pull whose messages are in memory; else None.

        There are messages, or none that match. Raises the `BrokerError` that is the pull's answer. Nothing has changed
        then, nor for None.
        """
        plan = self._check(header)
        asked = plan.filter
        if asked is None:
            found = self._store.get_resident(
                plan.topic, plan.queue_id, plan.offset, plan.count_max, tag_codes=plan.tag_codes
            )
        elif asked.scan is None or plan.tag_codes is not None:
            return None
        else:
            found = self._store.get_filtered(
                plan.topic,
                plan.queue_id,
                plan.offset,
                plan.count_max,
                scan=asked.scan,
                matches=asked.matches,
                scan_max=asked.scan_max,
            )
        if found is None:
            return None
        self._commit_offset(header, plan)
        if found.count:
            self._statistics.pulled(plan.topic, plan.group.group_name, plan.queue_id, found.count, found.byte_count)
        return found, self._suggested_broker(plan, found)

    def _pull(
        self, frame: Frame, connection: Connection, *, is_first_run: bool
    ) -> Frame | Awaitable[Frame | None] | None:
        header = read_header(PullMessageHeader, frame)
        plan = self._check(header)
        if is_first_run:
            self._commit_progress(header, plan)
        if plan.filter is None:
            found = self._store.get_messages(
                plan.topic, plan.queue_id, plan.offset, plan.count_max, tag_codes=plan.tag_codes
            )
        else:
            found = self._store.get_messages(
                plan.topic,
                plan.queue_id,
                plan.offset,
                plan.count_max,
                tag_codes=plan.tag_codes,
                matches=plan.filter.matches,
                scan=plan.filter.scan,
                scan_max=plan.filter.scan_max,
                may_match=plan.filter.may_match,
            )
        if found is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, "the store cannot be read now: the broker is stopping")
        if isinstance(found, Pending):
            return self._answer_cold(frame, connection, header, plan, found, is_first_run)
        return self._answer(frame, connection, header, plan, found, may_hold=is_first_run)

    def _check(self, header: PullMessageHeader) -> PullPlan:
        return check_pull(
            header,
            config=self._config.current,
            topics=self._topics,
            groups=self._groups,
            consumers=self._consumers,
            filters=self._filters,
        )

    def _commit_progress(self, header: PullMessageHeader, plan: PullPlan) -> None:
        """The same, unless the consumer is beyond the end of the queue: what it has read was another log."""
        farthest = max(plan.offset, header.commit_offset or 0)
        end = self._store.max_offset(plan.topic, plan.queue_id)
        if farthest <= end or not is_of_another_log(farthest, stored=self._stored_offset(plan), queue_end=end):
            self._commit_offset(header, plan)

    def _stored_offset(self, plan: PullPlan) -> int | None:
        return self._offsets.find(group=plan.group.group_name, topic=plan.topic, queue_id=plan.queue_id)

    def _commit_offset(self, header: PullMessageHeader, plan: PullPlan) -> None:
        # Who can pull from a slave and from the master commits at the master: what comes here may be older.
        # Where the broker itself reads, only it commits.
        group = plan.group.group_name
        if (header.sys_flag or 0) & PULL_COMMIT_OFFSET and not self._is_slave and group != TRANSACTION_GROUP:
            self._offsets.commit(
                group=group,
                topic=plan.topic,
                queue_id=plan.queue_id,
                offset=header.commit_offset or 0,
            )

    async def _answer_cold(
        self,
        frame: Frame,
        connection: Connection,
        header: PullMessageHeader,
        plan: PullPlan,
        pending: Pending[GetResult],
        is_first_run: bool,
    ) -> Frame | None:
        started_s = self._clock.monotonic()
        found = await pending.finish()
        spent_ms = int((self._clock.monotonic() - started_s) * 1000)
        return self._answer(frame, connection, header, plan, found, may_hold=is_first_run, spent_ms=spent_ms)

    def _answer(
        self,
        frame: Frame,
        connection: Connection,
        header: PullMessageHeader,
        plan: PullPlan,
        found: GetResult,
        *,
        may_hold: bool,
        spent_ms: int = 0,
    ) -> Frame | None:
        code = pull_code(found.status, plan.offset)
        is_moved = code == ResponseCode.PULL_OFFSET_MOVED
        if is_moved and self._is_slave and not self._store.config.offset_check_in_slave:
            return self._answer_behind(frame, connection, header, plan, found, may_hold=may_hold)
        # Nothing arrives at a gap in a queue's files: its consumer is told at once where to go on.
        is_at_end = code == ResponseCode.PULL_NOT_FOUND and found.status is not GetStatus.OFFSET_FOUND_NULL
        if is_at_end and (header.sys_flag or 0) & PULL_SUSPEND:
            if self._is_stopping:
                raise broker_error(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping: ask again in a while")
            if may_hold and self._hold(frame, connection, header, plan):
                return None
        if found.status is GetStatus.OFFSET_OVERFLOW_BADLY:
            # Its numbers are another log's. How much it has read of this one its group has stored: it goes on there.
            # The end, where Apache's brokers send it, would step over all that has come since.
            stored = self._stored_offset(plan)
            if stored is not None and stored < found.max_offset:
                found.next_offset = max(stored, found.min_offset)
        if is_moved and not self._is_slave:
            self._offset_moved.store(plan, found.next_offset)
        answer = _answer_of(frame, code, found, suggested_id=self._suggested_broker(plan, found))
        if not found.parts:
            return answer
        self._statistics.pulled(
            plan.topic, plan.group.group_name, plan.queue_id, found.count, found.byte_count, spent_ms
        )
        connection.write([encode_head(answer, found.byte_count), *found.parts])
        return None

    def _answer_behind(
        self,
        frame: Frame,
        connection: Connection,
        header: PullMessageHeader,
        plan: PullPlan,
        found: GetResult,
        *,
        may_hold: bool,
    ) -> Frame | None:
        """A slave has no message there, which says little: it may merely be behind. The master is to be asked again.

        As long as there is no master, that would be at once and for ever: so the pull waits here for a moment.
        """
        waits = may_hold and (header.sys_flag or 0) & PULL_SUSPEND and not self._replication.is_following
        if waits and self._hold(frame, connection, header, plan, timeout_ms_max=BEHIND_PAUSE_MS):
            return None
        return _answer_of(frame, ResponseCode.PULL_RETRY_IMMEDIATELY, found, suggested_id=plan.group.broker_id)

    def _suggested_broker(self, plan: PullPlan, found: GetResult) -> int:
        if not self._config.current.slave_read_enable:
            return 0
        return plan.group.which_broker_when_consume_slowly if found.is_far_behind else plan.group.broker_id

    # ------------------------------------------------------------------------------------------------------- holding

    def _hold(
        self,
        frame: Frame,
        connection: Connection,
        header: PullMessageHeader,
        plan: PullPlan,
        *,
        timeout_ms_max: int | None = None,
    ) -> bool:
        config = self._config.current
        timeout_ms = (header.suspend_timeout_ms or 0) if config.long_polling else config.short_polling_ms
        if timeout_ms_max is not None:
            timeout_ms = min(timeout_ms, timeout_ms_max)
        timeout_ms = min(timeout_ms, config.limits.held_pull_ms_max)
        queue = self._store.queue(plan.topic, plan.queue_id)
        held = HeldPull(
            frame, connection, queue=queue, offset=plan.offset, tag_codes=plan.tag_codes, filter=plan.filter
        )
        return self.held.hold(held, timeout_s=max(0, timeout_ms) / 1000, connection_max=config.limits.held_pulls_max)

    def _run_again(self, held: HeldPull) -> None:
        """Answer a pull that was held: by now there is something for it, or its time is over."""
        frame, connection = held.frame, held.connection
        try:
            if self._access is not None:  # its account may have lost its rights since, or be gone
                self._access.check(frame, connection)
            answer = self._pull(frame, connection, is_first_run=False)
        except Exception as error:
            answer = failure_answer(frame, error)
        if isinstance(answer, Frame):
            connection.send_later(answer)
        elif answer is not None:
            connection.start_handler(_send_when_done(answer, frame, connection), name="held pull")


def _answer_of(frame: Frame, code: int, found: GetResult, *, suggested_id: int) -> Frame:
    return frame.reply(
        code,
        remark=found.status.name,
        ext={
            "suggestWhichBrokerId": str(suggested_id),
            "nextBeginOffset": str(found.next_offset),
            "minOffset": str(found.min_offset),
            "maxOffset": str(found.max_offset),
        },
    )


async def _send_when_done(work: Awaitable[Frame | None], frame: Frame, connection: Connection) -> None:
    try:
        answer = await work
    except Exception as error:
        answer = failure_answer(frame, error)
    if answer is not None:
        connection.send_later(answer)
