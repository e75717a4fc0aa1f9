"""What jobs administer: a topic that is missing where messages are to go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocketmq.errors import NoRoute
from skyrocketmq.ports import pause
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.options import SinkOptions

__all__ = ["create_topic"]

WAIT_S: Final = 0.2
WAITS_MAX: Final = 100


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
