"""A slave's copies of its master's tables: topics, consumer offsets, delay offsets, consumer groups.

Rule 1: each is asked for by an ordinary request, one after the other, every few seconds and as soon as the master is
back. One that fails keeps no other from being copied.
Rule 2: topics and groups are replaced when their version is another. Of the offsets each group's are replaced, but for
those that were committed here and that the master does not know yet: these go to the master first (`slave_progress`).
Rule 3: how far delayed messages are delivered is written down only once the deliveries themselves are in this copy of
the log, on disk: a slave that is made a master delivers some twice rather than taking any for delivered that it lacks.
Rule 4: so it is with how far transactions are over: a slave that has half messages, but not yet their ends, asks.
Rule 5: of a group's progress the slave takes what is in its own copy. A group that is farther at the master is at the
end of the queue here, until the copy has grown: were the slave made the master now, the next message would be there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from skyrocketmq.broker.delay_offsets import FILE_NAME as DELAY_FILE_NAME
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.slave_progress import AGE_FIELD, KNOWS_AGES_FIELD, Place, ProgressTable, SlaveProgress
from skyrocketmq.broker.tables import BrokerTables
from skyrocketmq.errors import BrokerError, MQError, broker_error
from skyrocketmq.model import TopicConfig
from skyrocketmq.model.names import PERM_READ_WRITE, TRANSACTION_GROUP
from skyrocketmq.net import Client
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.slices import Slices, in_slices
from skyrocketmq.store import ConfigFile, MessageStore
from skyrocketmq.store.replica import LogCopy, NotContinuous
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    KvTable,
    SubscriptionGroupTable,
    TopicConfigTable,
)
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.headers_pull import UpdateConsumerOffsetHeader
from skyrocketmq.wire.rough import decode_in_steps

__all__ = ["SlaveTables"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT_S: Final = 3.0
PROGRESS_FILE_NAME: Final = "slaveProgress.json"
_OF_TRANSACTIONS: Final = f"@{TRANSACTION_GROUP}"

OffsetsByKey = dict[str, dict[int, int]]


class SlaveTables:
    """Copies the tables of a master. `load` first; then `sync` again and again."""

    def __init__(self, tables: BrokerTables, store: MessageStore, client: Client, *, disk: Disk, clock: Clock) -> None:
        self._tables = tables
        self._store = store
        self._client = client
        self._disk = disk
        self._clock = clock
        directory = store.config.root_path / "config"
        self._delay_file = ConfigFile(disk, directory / DELAY_FILE_NAME)
        self._delays: DelayOffsetTable | None = None  # as last written
        self._late_delays: tuple[DelayOffsetTable, int] | None = None  # to be written once the log is so long
        self._transactions: OffsetsByKey = {}  # as last taken over
        self._late_transactions: tuple[OffsetsByKey, int] | None = None  # to be taken over once the log is so long
        self._progress_path = directory / PROGRESS_FILE_NAME
        self.progress = SlaveProgress(clock)
        self._progress_saver = Saver(
            PROGRESS_FILE_NAME,
            version=lambda: self.progress.change_count,
            snapshot=self.progress.table,
            encode=lambda table: [msgspec.json.encode(table)],
            write=self._write_progress,
            disk=disk,
            clock=clock,
        )
        self._failing: set[str] = set()

    async def load(self) -> None:
        """Begin with what was committed before the last stop, and listen to what is committed from now on."""
        self.progress.restore(await self._disk.run(self._read_progress))
        self._tables.offsets.on_commit = self.progress.committed

    def _read_progress(self) -> Any:
        if not self._disk.exists(self._progress_path):
            return {}
        try:
            return msgspec.json.decode(self._disk.read(self._progress_path), type=ProgressTable, strict=False).progress
        except msgspec.DecodeError as error:
            logger.warning("progress of before is not readable, ignored", extra={"error": str(error)})
            return {}

    def _write_progress(self, data: bytes) -> None:
        self._disk.make_directories(self._progress_path.parent)
        self._disk.replace(self._progress_path, data)

    async def save(self) -> None:
        """Write what waits for the master, if that has changed. Raises `OSError`."""
        await self._progress_saver.save()

    # ----------------------------------------------------------------------------------------------------------- rounds

    async def sync(self, master: str, *, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Copy everything once; whether all went well. What fails is logged, and tried again by the next call.

        `is_wanted` is asked before each table: of a master that is no longer followed nothing is taken.
        """
        for name, copy in (
            ("topics", self._copy_topics),
            ("consumer offsets", self._copy_offsets),
            ("delay offsets", self._copy_delays),
            ("consumer groups", self._copy_groups),
        ):
            if not is_wanted():
                return False
            try:
                await copy(master)
            except (MQError, OSError, ValueError) as error:  # a figure may be none
                if name not in self._failing:  # a master that is gone is reported once
                    logger.warning("table not copied", extra={"table": name, "master": master, "error": str(error)})
                self._failing.add(name)
            else:
                self._failing.discard(name)
        return not self._failing

    async def _copy_topics(self, master: str) -> None:
        answer = await self._ask(master, RequestCode.GET_ALL_TOPIC_CONFIG)
        table = await in_slices(decode_in_steps(TopicConfigTable, "topic_config_table", answer.body), self._clock)
        if table.data_version != self._tables.topics.data_version:
            self._tables.topics.replace_all(table.topic_config_table, table.data_version)

    def make_provisional(self, topic: str, queue_id: int) -> bool:
        """See to it that a queue of which a message has come can be read, before the master was asked for its topic.

        False if it is known. What is made here has a version that no master has: the next copy replaces it.
        """
        topics = self._tables.topics
        known = topics.find(topic)
        if (known is not None and queue_id < known.read_queue_nums) or queue_id < 0 or topics.is_system_topic(topic):
            return False
        count = queue_id + 1
        if known is None:
            known = TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count, perm=PERM_READ_WRITE)
        topics.put(
            msgspec.structs.replace(known, read_queue_nums=count, write_queue_nums=max(count, known.write_queue_nums))
        )
        return True

    async def _copy_groups(self, master: str) -> None:
        answer = await self._ask(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        steps = decode_in_steps(SubscriptionGroupTable, "subscription_group_table", answer.body)
        table = await in_slices(steps, self._clock)
        if table.data_version != self._tables.groups.data_version:
            self._tables.groups.replace_all(table.subscription_group_table, table.data_version)

    # ---------------------------------------------------------------------------------------------------------- offsets

    async def _copy_offsets(self, master: str) -> None:
        answer = await self._ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)
        steps = decode_in_steps(ConsumerOffsetTable, "offset_table", answer.body)
        theirs = (await in_slices(steps, self._clock)).offset_table
        ends = {key: theirs.pop(key) for key in list(theirs) if key.endswith(_OF_TRANSACTIONS)}
        knows_ages = (answer.ext or {}).get(KNOWS_AGES_FIELD) == "true"
        for place in self.progress.places():
            key, queue_id = place
            known = theirs.get(key, {}).get(queue_id)
            settled = await self._hand_over(master, place, known, knows_ages=knows_ages)
            if settled is not None:
                theirs.setdefault(key, {})[queue_id] = settled
        offsets = self._tables.offsets
        await self._keep_within_copy(theirs)
        for key, queue_id in self.progress.places():  # committed while we asked
            topic, _, group = key.rpartition("@")
            own = offsets.find(group=group, topic=topic, queue_id=queue_id)
            if own is not None:
                theirs.setdefault(key, {})[queue_id] = own
        offsets.merge(theirs)
        await self._tables.save_offsets()
        await self.save()
        await self._copy_transactions(master, ends)

    async def _keep_within_copy(self, theirs: OffsetsByKey) -> None:
        """Rule 5. The queues' ends are looked up only where something has changed: tables are large."""
        offsets = self._tables.offsets
        slices = Slices(self._clock)
        for key, queues in theirs.items():
            await slices.step()
            topic, _, group = key.rpartition("@")
            if not offsets.has_all(group=group, topic=topic, queues=queues):
                for queue_id, offset in queues.items():
                    queues[queue_id] = min(offset, self._store.max_offset(topic, queue_id))

    async def _copy_transactions(self, master: str, ends: OffsetsByKey) -> None:
        """Take over how far transactions are over, once this copy of the log has what says so."""
        if self._late_transactions is None:
            if ends == self._transactions:
                return
            self._late_transactions = ends, await self._log_end(master)
        ends, log_end = self._late_transactions
        if self._store.log.whole_offset < log_end:
            return
        await self._store.flush()
        self._tables.offsets.merge(ends)
        self._transactions, self._late_transactions = ends, None

    async def _log_end(self, master: str) -> int:
        """Where the master's log ends now: whatever it has told so far lies before."""
        figures = decode_body(KvTable, (await self._ask(master, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        return int(figures.get("commitLogMaxOffset", "0"))

    async def _hand_over(self, master: str, place: Place, known: int | None, *, knows_ages: bool) -> int | None:
        """Give the master one offset that was committed here; returns the one that counts from now on."""
        key, queue_id = place
        topic, _, group = key.rpartition("@")
        offset = self._tables.offsets.find(group=group, topic=topic, queue_id=queue_id)
        progress = self.progress.take(place)
        if offset is None or offset == known or (not knows_ages and known != progress.before):
            return known
        ext = encode_header(
            UpdateConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
        )
        ext[AGE_FIELD] = str(self.progress.age_ms(progress))
        try:
            answer = await self._ask(master, RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        except BrokerError as error:
            logger.warning("progress refused", extra={"group": group, "topic": topic, "error": str(error)})
            return known
        except BaseException:
            self.progress.put_back(place, progress)
            raise
        settled = int((answer.ext or {}).get("offset") or offset)
        logger.info(
            "progress handed over",
            extra={"group": group, "topic": topic, "queue_id": queue_id, "offset": offset, "settled": settled},
        )
        return settled

    # ----------------------------------------------------------------------------------------------------------- delays

    async def _copy_delays(self, master: str) -> None:
        if self._late_delays is None:
            answer = await self._ask(master, RequestCode.GET_ALL_DELAY_OFFSET)
            table = decode_body(DelayOffsetTable, answer.body)
            if table == self._delays:
                return
            self._late_delays = table, await self._log_end(master)
        table, log_end = self._late_delays
        if self._store.log.whole_offset < log_end:
            return
        await self._store.flush()
        await self._disk.run(self._delay_file.save, table)
        self._delays, self._late_delays = table, None

    # ------------------------------------------------------------------------------------------------------- beginning

    async def prepare_empty(self, copy: LogCopy, master: str) -> None:
        """Make an empty copy begin where the master's log does.

        To an empty slave Apache's masters send their newest file only. A slave that has something gets all that
        follows: so the copy begins, by ordinary requests, with the first record.
        """
        figures = decode_body(KvTable, (await self._ask(master, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        begin, end = int(figures.get("commitLogMinOffset", "0")), int(figures.get("commitLogMaxOffset", "0"))
        if begin > 0 and copy.begin_at(begin):
            return
        if begin == 0 and end > 0:
            answer = await self._ask(master, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0", "anyRecord": "true"})
            if copy.is_empty:
                copy.append(0, [answer.body])
                copy.dispatch()

    async def check_record(self, offset: int, master: str) -> None:
        """Raise `NotContinuous` if the message at this place of the copy is not in the master's log, the same.

        The protocol cannot tell: a master that lost the end of its log in a power cut, and has stored other messages
        there since, would go on as if nothing had happened. Raises another `MQError` if the master could not be asked.
        """
        record = await self._store.record_at(offset)
        if record is None:
            return  # damaged here: there is nothing to compare with
        if self._client.find(master) is None:
            self._client.drop(master)  # whatever failed there before: just now it has taken a connection
        try:
            answer = await self._ask(
                master, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset), "anyRecord": "true"}
            )
        except BrokerError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:  # this one says that there is no such message
                raise
            figures = decode_body(KvTable, (await self._ask(master, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
            if offset < int(figures["commitLogMinOffset"]):
                return  # no longer kept: whether the rest follows on this copy the master judges by the offset
            if offset >= int(figures["commitLogMaxOffset"]):
                # Not left to the master to judge, who may have stored enough to fill the gap by the time it is asked.
                raise NotContinuous(
                    f"the master's log ends before the newest message of this copy, which is at {offset}: it is "
                    "another log, or has lost its end. Make this broker the master, or empty its store and restart it"
                ) from error
        else:
            if answer.body == record:
                return
        raise NotContinuous(
            f"the master's log and this copy have parted: at {offset} the master has another message, or none. "
            "Make this broker the master, or empty its store to copy the master's log anew, and restart it"
        )

    async def _ask(self, master: str, code: RequestCode, ext: dict[str, str | None] | None = None) -> Frame:
        answer = await self._client.request(master, Frame(code, ext=ext), TIMEOUT_S)
        if answer.code:
            raise broker_error(answer.code, answer.remark, address=master)
        return answer
