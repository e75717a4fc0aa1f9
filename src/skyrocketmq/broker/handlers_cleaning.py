"""An operator's wishes to clean up: old log files (329), queues of what is gone (306), queues of unknown topics (316).

Deleting log files is left to the cleaner's next runs; the other two are done when the answer comes.
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocketmq.broker.access_rules import ADMIN
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.errors import StoreError
from skyrocketmq.model.names import (
    LIGHT_QUEUE_PREFIX,
    SCHEDULE_TOPIC,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from skyrocketmq.net import Request, answers
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["CleaningHandlers"]

logger = logging.getLogger(__name__)

# These may exist without an entry in the topic table.
KEPT_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC})


class CleaningHandlers:
    """The three requests."""

    def __init__(self, *, topics: TopicTable, store: MessageStore) -> None:
        self._topics = topics
        self._store = store

    @answers(RequestCode.DELETE_EXPIRED_COMMITLOG, needs=ADMIN)
    def delete_expired_files(self, request: Request[NoFields]) -> None:
        """Let the next runs of the cleaner delete old log files, whatever the hour."""
        logger.info("old files are to be deleted", extra={"by": request.connection.peer})
        self._store.cleaner.ask()

    @answers(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, needs=ADMIN)
    async def clean_expired_queues(self, request: Request[NoFields]) -> None:
        """Delete the files of queues that hold nothing but places of messages that are gone.

        A queue whose messages are all gone keeps its last file, and with it the number of its next message.
        """
        await self._store.cleaner.follow_log()

    @answers(RequestCode.CLEAN_UNUSED_TOPIC, needs=ADMIN)
    async def clean_unused_topics(self, request: Request[NoFields]) -> None:
        """Delete the queues of topics that are not in the topic table."""
        for topic in self._store.queues.topics():
            is_used = self._topics.find(topic) is not None or topic in KEPT_TOPICS
            if not is_used and not topic.startswith(LIGHT_QUEUE_PREFIX):
                extra = {"topic": topic, "by": request.connection.peer}
                logger.info("queues of an unknown topic deleted", extra=extra)
                try:
                    await self._store.delete_topic_queues(topic)
                except (StoreError, OSError) as error:
                    logger.error("queues not deleted", extra={"topic": topic, "error": str(error)})
