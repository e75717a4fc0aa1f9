"""Pulls: messages of a queue to a consumer, at once or when they come (11).

    bytes > `answer` > a request (`wire.pull_frames`) > `pull` > its plan > the store > the parts of the answer

Records leave as slices of the log after a head of the answer, and are not copied on the way.

Rule 1: there is one way for all pulls. However a request was read, `pull` answers it; one that was held comes back to
the same place.
Rule 2: a plan (`pull_rules`) is made once and kept until a table changes (`pull_plans`). Access is checked for each
request, and again when one that was held is answered: its account may have lost its rights since, or be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
from skyrocketmq.broker.pull_plans import PullPlans
from skyrocketmq.broker.pull_rules import PullPlan, check_needed, check_pull, plan_key, pull_code
from skyrocketmq.broker.replication import Replication
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.errors import FrameTooLarge, broker_error
from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUSPEND
from skyrocketmq.model.names import TRANSACTION_GROUP
from skyrocketmq.net import Connection, answers_frames
from skyrocketmq.net.causes import request_cause
from skyrocketmq.net.dispatch import SERVER_HEADER_BYTES_MAX, failure_answer
from skyrocketmq.net.outbox import Part
from skyrocketmq.ports import Clock
from skyrocketmq.store import GetResult, GetStatus, MessageStore, Pending
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import ONEWAY_BIT, RESPONSE_BIT, Frame, decode_frame, encode_frame
from skyrocketmq.wire.headers_pull import PullMessageAnswer, PullMessageHeader
from skyrocketmq.wire.pull_frames import PullRequest, pull_head, read_pull

__all__ = ["PullHandler"]

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_FOUND: Final = GetStatus.FOUND.name.encode()
LAG_PAUSE_MS: Final = 1000
COLD_COUNT_MAX: Final = 10_000  # pulls that wait for the disk: above, one more is refused


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
        watch: LoopWatch | None = None,
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
        self._watch = watch
        self._is_stopping = False
        self._cold_count = 0
        self.held = HeldPulls(clock, self._run_again)
        self.plans = PullPlans()
        for listeners in (topics.listeners, groups.listeners):
            listeners.append(self.plans.forget)
        for listeners_ in (consumers.listeners, filters.listeners):
            listeners_.append(self.plans.forget)
        config.subscribe(self.plans.forget)

    def stop(self) -> None:
        """Answer all that wait, and let none wait from now on.

        Their answer is a failure. After one that found nothing they would ask again at once, on a connection that is
        about to close. Without an answer, Apache's clients wait for their time-out, half a minute.
        """
        self._is_stopping = True
        self.held.release_all()

    # ---------------------------------------------------------------------------------------------------- requests

    def answer(
        self, data: bytes, word: int, header_at: int, body_at: int, end: int, connection: Connection
    ) -> Sequence[Part] | None:
        """The parts of the answer to a frame with the code of a pull; None if it comes later, or never.

        The offsets are those that `split_frames` found. Raises `ProtocolError` if the header cannot be read.
        """
        request = None if self._access is not None else read_pull(data, word, header_at, body_at)
        if request is not None and not request.flag & RESPONSE_BIT:
            try:
                return self.pull(request, connection)
            except Exception as error:
                return _refusal(request, error)
        if body_at - header_at > SERVER_HEADER_BYTES_MAX:
            raise FrameTooLarge(f"a header of {body_at - header_at} bytes, at most {SERVER_HEADER_BYTES_MAX} may be")
        frame = decode_frame(data, word, header_at, body_at, end)
        if frame.is_response:
            connection.resolve(frame)
            return None
        try:
            if self._access is not None:
                self._access.check(frame, connection)
            return self.pull(PullRequest.of(frame, read_header(PullMessageHeader, frame)), connection)
        except Exception as error:
            return _refusal(PullRequest.of(frame, PullMessageHeader()), error)

    @answers_frames(
        RequestCode.PULL_MESSAGE,
        header=PullMessageHeader,
        answer=(PullMessageAnswer, "records"),
        needs=reads("topic", "consumerGroup"),
    )
    def handle(self, frame: Frame, connection: Connection) -> None:
        """Read from a queue; a pull that finds nothing may be held until something comes."""
        # A dispatcher calls this, which has decoded the frame and checked access.
        parts = self.pull(PullRequest.of(frame, read_header(PullMessageHeader, frame)), connection)
        if parts is not None:
            connection.write(parts)

    def pull(self, request: PullRequest, connection: Connection) -> Sequence[Part] | None:
        """Answer a pull, now if its messages are in memory or there are none; or hold it."""
        plan = self._plan(request.header)
        if (request.header.sys_flag or 0) & PULL_COMMIT_OFFSET:
            self._commit(request.header, plan)
        if request.flag & ONEWAY_BIT:  # nobody waits for messages
            return None
        return self._read(request, connection, plan, may_hold=True)

    def _plan(self, header: PullMessageHeader) -> PullPlan:
        """What a pull may read. Raises the `BrokerError` that is its answer."""
        key = plan_key(header)
        plan = self.plans.find(key)
        if plan is not None:
            if (
                header.queue_offset is None
                or header.max_msg_nums is None
                or header.commit_offset is None
                or header.suspend_timeout_ms is None
            ):
                check_needed(header)
            return plan
        plan = self._check(header)
        if plan.is_new_group:
            self._groups.put(plan.group)
            plan = self._check(header)
        characters = len(header.subscription or "") + len(header.expression_type or "")
        self.plans.keep(key, plan, expression_chars=characters)
        return plan

    def _check(self, header: PullMessageHeader) -> PullPlan:
        return check_pull(
            header,
            config=self._config.current,
            topics=self._topics,
            groups=self._groups,
            consumers=self._consumers,
            filters=self._filters,
        )

    def _commit(self, header: PullMessageHeader, plan: PullPlan) -> None:
        """Store how far the group is, unless it is beyond the end of the queue: what it has read was another log."""
        group, offset = plan.group.group_name, header.commit_offset or 0
        # Consumers of a slave commit at the master: what comes here may be older. Where the broker reads, it alone
        # commits.
        if self._is_slave or group == TRANSACTION_GROUP:
            return
        farthest = max(header.queue_offset or 0, offset)
        end = self._store.max_offset(plan.topic, plan.queue_id)
        if farthest <= end or not is_of_another_log(farthest, stored=self._stored_offset(plan), queue_end=end):
            self._offsets.commit(group=group, topic=plan.topic, queue_id=plan.queue_id, offset=offset)

    def _stored_offset(self, plan: PullPlan) -> int | None:
        return self._offsets.find(group=plan.group.group_name, topic=plan.topic, queue_id=plan.queue_id)

    # --------------------------------------------------------------------------------------------------- answering

    def _read(
        self, request: PullRequest, connection: Connection, plan: PullPlan, *, may_hold: bool
    ) -> Sequence[Part] | None:
        header = request.header
        found = self._store.get_messages(
            plan.topic,
            plan.queue_id,
            header.queue_offset or 0,
            header.max_msg_nums or 0,
            tags=plan.tags,
            filter=plan.filter,
        )
        if found is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, "the store cannot be read now: the broker is stopping")
        if isinstance(found, Pending):
            self._start_cold(request, connection, plan, found, may_hold=may_hold)
            return None
        return self._answer(request, connection, plan, found, may_hold=may_hold)

    def _start_cold(
        self,
        request: PullRequest,
        connection: Connection,
        plan: PullPlan,
        pending: Pending[GetResult],
        *,
        may_hold: bool,
    ) -> None:
        """Go on when the disk has given what is not in memory."""
        if self._cold_count >= COLD_COUNT_MAX:
            raise broker_error(ResponseCode.SYSTEM_BUSY, f"{COLD_COUNT_MAX} pulls wait for the disk: ask again later")
        work = self._answer_cold(request, connection, plan, pending, may_hold=may_hold)
        if self._watch is not None:
            work = self._watch.steps(work, partial(request_cause, request.as_frame(), connection.peer))
        self._cold_count += 1
        connection.start_handler(work, name="pull").add_done_callback(self._cold_ended)

    def _cold_ended(self, _: object) -> None:
        self._cold_count -= 1

    async def _answer_cold(
        self,
        request: PullRequest,
        connection: Connection,
        plan: PullPlan,
        pending: Pending[GetResult],
        *,
        may_hold: bool,
    ) -> None:
        started_s = self._clock.monotonic()
        try:
            found = await pending.finish()
            spent_ms = int((self._clock.monotonic() - started_s) * 1000)
            parts = self._answer(request, connection, plan, found, may_hold=may_hold, spent_ms=spent_ms)
        except Exception as error:
            parts = _refusal(request, error)
        if parts is not None:
            connection.write(parts)

    def _answer(
        self,
        request: PullRequest,
        connection: Connection,
        plan: PullPlan,
        found: GetResult,
        *,
        may_hold: bool,
        spent_ms: int = 0,
    ) -> Sequence[Part] | None:
        if found.count:
            self._statistics.pulled(
                plan.topic, plan.group.group_name, plan.queue_id, found.count, found.byte_count, spent_ms
            )
            return [self._head(request, _SUCCESS, plan, found), *found.parts]
        offset = request.header.queue_offset or 0
        code = pull_code(found.status, offset)
        is_moved = code == ResponseCode.PULL_OFFSET_MOVED
        if is_moved and self._is_slave and not self._store.config.offset_check_in_slave:
            return self._answer_lagging(request, connection, plan, found, may_hold=may_hold)
        may_wait = (request.header.sys_flag or 0) & PULL_SUSPEND
        # Nothing arrives at a gap in a queue's files: its consumer is told at once where to go on.
        if may_wait and code == ResponseCode.PULL_NOT_FOUND and found.status is not GetStatus.OFFSET_FOUND_NULL:
            if self._is_stopping:
                raise broker_error(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping: ask again in a while")
            if may_hold:
                # What was added to the open batch was added before this pull watched the queue: nothing would wake it.
                self._store.commit_open()
                if self._store.max_offset(plan.topic, plan.queue_id) > offset:
                    return self._read(request, connection, plan, may_hold=True)
                if self._hold(request, connection, plan):
                    return None
        if found.status is GetStatus.OFFSET_OVERFLOW_BADLY:
            # Its numbers are another log's. How much it has read of this one its group has stored: it goes on there.
            # The end, where Apache's brokers send it, would step over all that has come since.
            stored = self._stored_offset(plan)
            if stored is not None and stored < found.max_offset:
                found.next_offset = max(stored, found.min_offset)
        if is_moved and not self._is_slave:
            self._offset_moved.store(plan, asked_offset=offset, new_offset=found.next_offset)
        return [self._head(request, code, plan, found)]

    def _answer_lagging(
        self, request: PullRequest, connection: Connection, plan: PullPlan, found: GetResult, *, may_hold: bool
    ) -> Sequence[Part] | None:
        """A slave has no message there, which says little: it may merely be behind. The master is to be asked again.

        As long as there is no master, that would be at once and for ever: so the pull waits here for a moment.
        """
        waits = may_hold and (request.header.sys_flag or 0) & PULL_SUSPEND and not self._replication.is_following
        if waits and self._hold(request, connection, plan, timeout_ms_max=LAG_PAUSE_MS):
            return None
        return [self._head(request, ResponseCode.PULL_RETRY_IMMEDIATELY, plan, found, plan.group.broker_id)]

    def _head(
        self,
        request: PullRequest,
        code: int,
        plan: PullPlan,
        found: GetResult,
        suggested_id: int | None = None,
    ) -> bytes:
        if suggested_id is None:
            suggested_id = 0
            if self._config.current.slave_read_enable:
                group = plan.group
                suggested_id = group.which_broker_when_consume_slowly if found.is_far_behind else group.broker_id
        return pull_head(
            request,
            code,
            _FOUND if found.count else found.status.name.encode(),
            suggested_id=suggested_id,
            next_offset=found.next_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            body_bytes=found.byte_count,
        )

    # ----------------------------------------------------------------------------------------------------- holding

    def _hold(
        self, request: PullRequest, connection: Connection, plan: PullPlan, *, timeout_ms_max: int | None = None
    ) -> bool:
        """Let a pull wait; False if it does not want to, or too many do."""
        config = self._config.current
        timeout_ms = (request.header.suspend_timeout_ms or 0) if config.long_polling else config.short_polling_ms
        if timeout_ms_max is not None:
            timeout_ms = min(timeout_ms, timeout_ms_max)
        if timeout_ms <= 0:
            return False
        queue = self._store.queue(plan.topic, plan.queue_id)
        held = HeldPull(request, connection, plan, version=self.plans.version, queue=queue)
        timeout_s = min(timeout_ms, config.limits.held_pull_ms_max) / 1000
        return self.held.hold(held, timeout_s=timeout_s, connection_max=config.limits.held_pulls_max)

    def _run_again(self, held: HeldPull) -> None:
        """Answer a pull that was held: by now there is something for it, or its time is over."""
        request, connection, plan = held.request, held.connection, held.plan
        try:
            if self._access is not None and request.frame is not None:
                self._access.check(request.frame, connection)
            if held.version != self.plans.version:
                plan = self._plan(request.header)
            parts = self._read(request, connection, plan, may_hold=False)
        except Exception as error:
            parts = _refusal(request, error)
        if parts is not None:
            connection.write(parts)


def _refusal(request: PullRequest, error: Exception) -> list[Part] | None:
    """The answer to a pull that failed; None if it wants none. What is our own fault is logged."""
    answer = failure_answer(request.as_frame(), error)
    return None if request.flag & ONEWAY_BIT else [encode_frame(answer)]
