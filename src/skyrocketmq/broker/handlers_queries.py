"""Finding messages by key (12) and by their place in the log (33).

Rule: a place in the log is believed only if a queue points at it. A slave compares logs, which hold more than the
queues do: it says so (`anyRecord`), and where access is controlled, whoever says so has to be allowed everything.
"""

from __future__ import annotations

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.access_rules import SIGNATURE, reads
from skyrocketmq.broker.pull_filters import record_topic
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import broker_error
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.net import Request, answers
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.headers_pull import QueryMessageAnswer, QueryMessageHeader, ViewMessageHeader

__all__ = ["QueryHandlers"]


class QueryHandlers:
    """The answers, from the index and the log."""

    def __init__(
        self, *, config: ConfigHolder[BrokerConfig], store: MessageStore, access: AccessControl | None = None
    ) -> None:
        self._config = config
        self._access = access
        self._store = store

    @answers(RequestCode.QUERY_MESSAGE, answer="records", needs=reads("topic"))
    async def query_message(self, request: Request[QueryMessageHeader]) -> Frame | tuple[QueryMessageAnswer, bytes]:
        """Find messages by key."""
        header = request.header
        if header.topic is None or header.key is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, "a query needs the fields topic and key")
        store = self._config.current.store
        count_max = store.unique_query_count_max if header.is_unique_key else header.max_num or 0
        found = await self._store.query(
            header.topic,
            header.key,
            count_max=min(count_max, store.index_query_count_max),
            begin_ms=header.begin_timestamp or 0,
            end_ms=INT64_MAX if header.end_timestamp is None else header.end_timestamp,
        )
        answer = QueryMessageAnswer(
            index_last_update_timestamp=found.index_last_update_ms,
            index_last_update_log_offset=found.index_last_update_offset,
        )
        records = found.records
        if self._access is not None:  # the index knows hashes, which messages of other topics may share
            records = tuple(record for record in records if record_topic(record) == header.topic)
        if not records:
            return request.frame.reply(
                ResponseCode.QUERY_NOT_FOUND,
                remark=f"no message of topic {header.topic} with key {header.key} in that time",
                ext=encode_header(answer),
            )
        return answer, b"".join(records)

    @answers(RequestCode.VIEW_MESSAGE_BY_ID, answer="record", needs=SIGNATURE)
    async def view_message(self, request: Request[ViewMessageHeader]) -> bytes:
        """Read the message at a place in the log."""
        header, frame, connection = request.header, request.frame, request.connection
        if header.offset is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, "to view a message, its offset is needed")
        if header.any_record and (self._access is None or self._access.may_everything(frame, connection)):
            record = await self._store.record_at(header.offset)
        else:
            record = await self._store.message_at(header.offset)
        if record is None:
            raise broker_error(
                ResponseCode.SYSTEM_ERROR,
                f"there is no message at offset {header.offset} of the log of broker "
                f"{self._config.current.broker_name}: it has expired, or the id belongs to another broker",
            )
        if self._access is not None:
            self._access.check_message(frame, connection, record_topic(record))
        return bytes(record)
