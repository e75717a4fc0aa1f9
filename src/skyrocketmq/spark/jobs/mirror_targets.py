"""The topics of the cluster that a mirror writes to: found there, or made."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from skyrocketmq.errors import IllegalArgument, NoRoute
from skyrocketmq.ports import pause
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.options import SinkOptions

__all__ = ["MirrorTargets", "create_topic"]

logger = logging.getLogger(__name__)

WAIT_S: Final = 0.2
WAITS_MAX: Final = 100


class MirrorTargets:
    """The topics of the other cluster: found, or made."""

    def __init__(self, here: Cluster, there: Cluster, options: Mapping[str, str], *, create: bool) -> None:
        self._here = here
        self._there = there
        self._create = create
        self.options = options
        self.created: list[str] = []

    def queues(self, topic: str) -> list[str]:
        """The queues of a topic there. Raises `NoRoute` for one that is not there and is not to be made."""
        if self._here.is_of_servers(topic):
            raise IllegalArgument(f"the topic {topic} is one of the system's own: give a topic of yours")
        own = self._here.writable_queues(topic) or self._here.queues(topic)
        try:
            queues = self._there.writable_queues(topic)
        except NoRoute as error:
            if not self._create:
                raise NoRoute(f"the target lacks topic {topic}: create it there, or let it be created") from error
            self._make(topic, max(queue.queue_id for queue in own) + 1)
            queues = self._there.writable_queues(topic)
        if not queues:
            raise NoRoute(f"topic {topic} of the target has no queue that can be written to now")
        if self._there.addresses(topic) == self._here.addresses(topic):
            raise IllegalArgument(f"source and target are the same cluster: topic {topic} would be copied onto itself")
        if len(queues) < len(own):
            logger.warning(
                "the target has fewer queues", extra={"topic": topic, "source": len(own), "target": len(queues)}
            )
        return [f"{queue.broker_name}:{queue.queue_id}" for queue in queues]

    def _make(self, topic: str, queue_count: int) -> None:
        create_topic(topic, queue_count, options=self.options)
        logger.info("topic created", extra={"topic": topic, "queues": queue_count})
        self.created.append(topic)


def create_topic(topic: str, queue_count: int, *, options: Mapping[str, str]) -> None:
    """Make a topic on all masters, and return once the name servers know it. `options` are those of the sink."""
    from skyrocketmq.blocking import Admin
    from skyrocketmq.client.settings import Credentials, SharedOptions

    parsed = SinkOptions.parse({**options, "topic": topic})
    link = parsed.link
    shared: SharedOptions = {"tls": link.tls or False}
    if link.access_key:
        shared["credentials"] = Credentials(link.access_key, link.secret_key, link.security_token)
    with Admin(namesrv=list(parsed.name_servers), timeout_s=link.timeout_s, **shared) as admin:
        admin.topics.create(topic, queues=queue_count)
    with Cluster(parsed.name_servers, link) as cluster:
        for _ in range(WAITS_MAX):
            try:
                if cluster.writable_queues(topic):
                    return
            except NoRoute:
                pass
            pause(WAIT_S)
    raise NoRoute(f"topic {topic} was created, and the name servers do not know it yet: start again in a moment")
