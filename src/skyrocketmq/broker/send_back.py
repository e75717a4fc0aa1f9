"""Messages that a consumer could not handle and hands back (36): to be tried again later, or given up.

A copy goes to the group's retry topic with a delay that grows by the attempt; after the last one, or where the consumer
says so, to the group's dead-letter topic at once. The copy keeps body, properties, birth and store host of the
original; its own properties tell where it came from.

A consumer that got no answer may ask again: while the copy waits, and at most for a minute, that makes no second one
(`hand_backs`), and a message never has two dead letters (`dead_letters`).

Apache's broker answers before the copy is durable, and marks it `WAIT=false`. The mark is kept, the answer waits:
else a power cut takes the copy, and the group, which has moved past the original, never gets the message again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.access_rules import member_of
from skyrocketmq.broker.answers import change_saved, master_only, no_such_group
from skyrocketmq.broker.dead_letters import DeadLetters
from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.hand_backs import HandBack, HandBacks
from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.broker.pull_filters import record_topic
from skyrocketmq.broker.saving import Saver
from skyrocketmq.broker.statistics import BrokerStatistics
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import broker_error
from skyrocketmq.model import SubscriptionGroupConfig
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import PERM_WRITE, is_dlq_topic
from skyrocketmq.net import Connection, Request, answers
from skyrocketmq.ports import Chance, Clock, SystemChance
from skyrocketmq.store import MessageStore, PutResult
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.wire.codes import RETRY_LIMIT_VERSION, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_send import SendBackHeader
from skyrocketmq.wire.ids import encode_offset_id

__all__ = ["SendBackHandler"]

FIRST_RETRY_LEVEL: Final = 3  # 10 s, then one level more for each attempt before
_DELAY: Final = names.DELAY.encode()
_WAIT: Final = names.WAIT.encode()
_RETRY_TOPIC: Final = names.RETRY_TOPIC.encode()
_ORIGIN_ID: Final = names.ORIGIN_MESSAGE_ID.encode()


class SendBackHandler:
    """Answers messages that come back."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        topics_file: Saver[Any],
        groups: GroupTable,
        store: MessageStore,
        writer: MessageWriter,
        statistics: BrokerStatistics,
        dead_letters: DeadLetters,
        durability: Durability,
        hand_backs: HandBacks,
        clock: Clock,
        access: AccessControl | None = None,
        chance: Chance | None = None,
    ) -> None:
        self._config = config
        self._topics = topics
        self._topics_file = topics_file
        self._groups = groups
        self._store = store
        self._writer = writer
        self._statistics = statistics
        self._dead_letters = dead_letters
        self._durability = durability
        self._clock = clock
        self._access = access
        self._known = hand_backs
        self._chance = chance or SystemChance()

    @answers(RequestCode.CONSUMER_SEND_MSG_BACK, needs=member_of("group"))
    def send_back(self, request: Request[SendBackHeader]) -> Awaitable[Frame] | None:
        """Take a message back for another try, later."""
        header = request.header
        config = self._config.current
        master_only(config, "take messages back")
        group = self._groups.find_or_create(header.group or "")
        if group is None:
            raise no_such_group(header.group or "", config)
        if not config.permission & PERM_WRITE:
            raise broker_error(
                ResponseCode.NO_PERMISSION, f"broker {config.broker_name} may not be written to now (brokerPermission)"
            )
        if group.retry_queue_nums <= 0:
            return None  # the group wants no retries: what it could not handle is dropped
        if header.offset is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, "a message that comes back needs its offset in the header")
        retry = self._topics.get_retry_topic(
            group.group_name, queue_count=group.retry_queue_nums, unit_mode=header.unit_mode
        )
        if not retry.perm & PERM_WRITE:
            raise broker_error(
                ResponseCode.NO_PERMISSION,
                f"topic {retry.topic_name} may not be written: its perm is {retry.perm}, see updateTopic",
            )
        return self._send_back(request.frame, request.connection, header, group)

    async def _send_back(
        self, frame: Frame, connection: Connection, header: SendBackHeader, group: SubscriptionGroupConfig
    ) -> Frame:
        assert header.offset is not None, "checked before"
        record = await self._store.message_at(header.offset)
        if record is None:
            raise broker_error(
                ResponseCode.SYSTEM_ERROR,
                f"there is no message at offset {header.offset} of the log of broker "
                f"{self._config.current.broker_name}: it has expired, or came from another broker",
            )
        if self._access is not None:  # whoever hands a message back will read it again
            self._access.check_message(frame, connection, record_topic(record))
        retries_max = group.retry_max_times
        if header.max_reconsume_times is not None and frame.version >= RETRY_LIMIT_VERSION:
            retries_max = header.max_reconsume_times
        message = OutgoingMessage.copy_of(record)
        assert message.store_host is not None, "a copy has the original's"
        origin_id = encode_offset_id(message.store_host, header.offset)
        self._redirect(message, group, origin_id, delay_level=header.delay_level or 0, retries_max=retries_max)
        if not self._topics_file.is_saved:
            # After a crash a topic that is in no file could not be read. The copy is seen when all is done: a consumer
            # that stops on seeing it would take the missing answer for a failure, and send a second copy.
            await change_saved(self._topics_file, f"topic {message.topic}")
        stored = await self._put(message, HandBack(group.group_name, header.offset, header.delay_level or 0))
        if stored.status is not PutStatus.PUT_OK:
            return frame.reply(ResponseCode.SYSTEM_ERROR, remark=f"{stored.status.name}: {stored.remark}")
        # The consumer goes on behind the original once it is answered: the copy must be as safe as that is by then.
        # Asked again, a consumer waits as well, for the copy that is there already.
        status = await self._durability.wait_safe(int(self._store.log.max_offset))
        if status is PutStatus.FLUSH_DISK_TIMEOUT:
            return frame.reply(ResponseCode.SYSTEM_ERROR, remark=f"{status.name}: the copy is stored, but not durable")
        self._statistics.handed_back(message.properties[_RETRY_TOPIC].decode("utf-8", "replace"), group.group_name)
        return frame.reply()

    async def _put(self, message: OutgoingMessage, hand_back: HandBack) -> PutResult:
        if is_dlq_topic(message.topic):
            return await self._dead_letters.put(message)
        now_s = self._clock.monotonic()
        known = self._known.find(hand_back, now_s=now_s)
        if known is not None:
            return known
        stored = self._writer.put(message)
        if stored.status is PutStatus.PUT_OK:
            self._known.remember(hand_back, stored, delay_s=self._delay_s(message), now_s=now_s)
        return stored

    def _delay_s(self, message: OutgoingMessage) -> float:
        levels_ms = self._store.config.delay_levels_ms
        return levels_ms[min(int(message.properties[_DELAY]), len(levels_ms)) - 1] / 1000

    def _redirect(
        self,
        message: OutgoingMessage,
        group: SubscriptionGroupConfig,
        origin_id: str,
        *,
        delay_level: int,
        retries_max: int,
    ) -> None:
        """Turn the copy into the group's next attempt, or its dead letter."""
        properties = message.properties
        properties.setdefault(_RETRY_TOPIC, message.topic.encode())
        properties.setdefault(_ORIGIN_ID, origin_id.encode())
        properties[_WAIT] = b"false"
        if delay_level < 0 or message.reconsume_times >= retries_max:
            message.topic = self._topics.get_dlq_topic(group.group_name).topic_name
            message.queue_id = 0
            properties[_DELAY] = b"0"
        else:
            retry = self._topics.get_retry_topic(group.group_name, queue_count=group.retry_queue_nums)
            message.topic = retry.topic_name
            message.queue_id = self._chance.randrange(group.retry_queue_nums)
            properties[_DELAY] = b"%d" % (delay_level or FIRST_RETRY_LEVEL + message.reconsume_times)
        message.reconsume_times += 1
        message.prepared_offset = 0
