"""The name server: which brokers live, which topics they carry, and a few settings.

    routes.py          the tables and the rules by which they change; pure
    route_bodies.py    routes as answers, kept while they are good
    kv_config.py       the key-value settings and their file
    product_routes.py  routes of another environment, for test clusters
    handlers.py        one method a request code: a frame in, an answer out
    server.py          the service: socket, expiry scan, configuration, start and stop

Name servers know nothing of each other. A broker tells all of them everything, every 30 seconds, and a client asks any
one of them: whatever a name server forgets, it soon hears again. Only the key-value settings are kept on disk.
"""

from __future__ import annotations

from skyrocketmq.nameserver.routes import BrokerIdentity, Registration, RouteTables
from skyrocketmq.nameserver.server import NameServer

__all__ = ["BrokerIdentity", "NameServer", "Registration", "RouteTables"]
