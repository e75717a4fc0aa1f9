"""The broker: takes messages in, keeps them in its store, gives them out.

The tables first, each pure memory: `topics`, `groups`, `consumer_offsets`, `clients`, `queue_locks`. Around them
`saving` (their files), `registration` (the name servers), `notices` (what consumers are told). Requests that administer
or ask are answered by the `handlers_*` modules; `requests` collects what they declare, and what goes through is counted
by `statistics` and `runtime_figures`.
"""

from __future__ import annotations

from skyrocketmq.broker.server import Broker

__all__ = ["Broker"]
