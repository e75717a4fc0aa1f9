"""Which topics records may have, and where the hashes of their keys begin."""

from __future__ import annotations

import logging

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.names import check_topic
from skyrocketmq.store.key_hash import TopicKeys

__all__ = ["TopicStarts"]

logger = logging.getLogger(__name__)


class TopicStarts(dict[bytes, int | None]):
    """By the topic as a record has it: the hash of `topic#`; None for a topic that can have neither queues nor keys.

    What is looked up and not there is worked out and kept: there are as many as topics in the log.
    """

    def __init__(self) -> None:
        super().__init__()
        self.illegal: dict[str, str] = {}  # topics that have no place, and why

    def __missing__(self, name: bytes) -> int | None:
        topic = name.decode("utf-8", "replace")
        start: int | None = None
        try:
            check_topic(topic)
            start = TopicKeys(topic).start
        except IllegalArgument as error:
            self.illegal[topic] = str(error)
            logger.warning("a record has an illegal topic, it is in no queue", extra={"error": str(error)})
        self[name] = start
        return start
