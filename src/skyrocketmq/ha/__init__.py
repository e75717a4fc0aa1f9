"""Replication: a master's log, copied to its slaves while it grows.

Read in this order: `rules` (what is sent, and to whom it is refused; pure), `admission` (who may connect; pure),
`connection` (what both ends share), `replicas` (how far the slaves are, and which sends wait for them), `master`
(one connection a slave), `slave` (the other end of it). The bytes on the wire are `wire.replication`'s, the slave's
side of the store is `store.replica`.

Not here: topics, groups and offsets, which slaves ask their master for by ordinary requests; see
`broker.slave_tables`.
"""

from __future__ import annotations

from skyrocketmq.ha.master import MasterService
from skyrocketmq.ha.replicas import Replicas
from skyrocketmq.ha.rules import SlaveRefused
from skyrocketmq.ha.slave import SlaveService

__all__ = ["MasterService", "Replicas", "SlaveRefused", "SlaveService"]
