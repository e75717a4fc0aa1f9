"""A send as a message: its header, the checks that every send passes, and the queue that it goes to.

For sends in general and for replies, whose requests have the same headers; both tell the producer the same two things
in every answer, a refusal too.
"""

from __future__ import annotations

from skyrocketmq.broker.answers import read_header
from skyrocketmq.broker.message_writer import OutgoingMessage
from skyrocketmq.broker.send_rules import SendHeader, check_queue_id, check_required, check_send, get_topic
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.model import TopicConfig
from skyrocketmq.net import Connection
from skyrocketmq.ports import Chance, Clock, SystemChance
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Ext
from skyrocketmq.wire.headers_send import SendMessageHeader, SendMessageHeaderV2
from skyrocketmq.wire.properties import split_properties

__all__ = ["SendReader"]


class SendReader:
    """Reads sends. All methods raise the `BrokerError` that is the answer."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        topics: TopicTable,
        clock: Clock,
        chance: Chance | None = None,
    ) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock
        self._chance = chance or SystemChance()

    def header(self, frame: Frame) -> SendHeader:
        """The header, of either version."""
        if frame.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE):
            return read_header(SendMessageHeader, frame)
        return read_header(SendMessageHeaderV2, frame)

    def message(self, header: SendHeader, frame: Frame, connection: Connection) -> tuple[OutgoingMessage, TopicConfig]:
        """What is sent, and the topic that it is sent to, made if need be."""
        check_required(header)
        config = self._config.current
        name = header.topic or ""
        check_send(name, config, self._topics, now_ms=self._clock.now_ms())
        topic = get_topic(header, name, config, self._topics)
        queue_id = header.queue_id or 0
        check_queue_id(queue_id, topic, config)
        message = OutgoingMessage(
            topic=name,
            queue_id=queue_id if queue_id >= 0 else self._chance.randrange(topic.write_queue_nums),
            body=frame.body,
            properties=split_properties((header.properties or "").encode("utf-8", "replace")),
            born_ms=header.born_timestamp or 0,
            born_host=connection.peer_host,
            flag=header.flag or 0,
            sys_flag=header.sys_flag or 0,
            reconsume_times=header.reconsume_times or 0,
        )
        return message, topic

    def answer_fields(self) -> Ext:
        """What every answer tells: the family's producers read the region, and whether to trace, before the code."""
        config = self._config.current
        return {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
