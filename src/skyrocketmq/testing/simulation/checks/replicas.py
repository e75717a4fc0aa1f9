"""A slave has the bytes of its master, and no others."""

from __future__ import annotations

from collections.abc import Iterator

from skyrocketmq.testing.simulation.checks.evidence import Evidence
from skyrocketmq.testing.simulation.checks.promises import lost_its_memory
from skyrocketmq.testing.simulation.checks.violation import Violation
from skyrocketmq.testing.simulation.history import LogDigested

__all__ = ["slaves_are_prefixes"]


def slaves_are_prefixes(evidence: Evidence) -> Iterator[Violation]:
    """Over a range that both have, the logs of a master and its slave are equal, to the byte."""
    masters: dict[tuple[str, int, int], LogDigested] = {}
    for event in evidence.history.of(LogDigested):
        key = (event.broker, event.start, event.end)
        if event.role != "SLAVE":
            masters[key] = event
            continue
        master = masters.get(key)
        if master is not None and master.digest != event.digest and not _may_differ(evidence, event):
            text = f"[{event.start}, {event.end}) of {event.node} is not what {master.node} has there"
            yield Violation("a slave is a prefix", text, event.order, nodes=(event.node, master.node))


def _may_differ(evidence: Evidence, event: LogDigested) -> bool:
    """A slave may keep what its master lost (docs/replication.md): after a power cut or a failed sync of a master that
    answers before it syncs. It refuses to follow then, and says so."""
    for life in evidence.lives.get(event.broker, ()):
        if not life.is_master or life.ended is None or life.ended.order > event.order:
            continue
        if life.started.flush == "ASYNC_FLUSH" and lost_its_memory(evidence, life):
            return True
        if any(f.began.fault == "failed sync" and f.began.node == life.node for f in evidence.faults):
            return True
    masters = [life for life in evidence.lives.get(event.broker, ()) if life.is_master]
    return len({life.node for life in masters}) > 1
