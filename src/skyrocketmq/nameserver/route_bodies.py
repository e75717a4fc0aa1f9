"""Routes as answer bodies, kept while they are good.

Clients ask for the same routes over and over, and routes rarely change. A body is good as long as the tables'
generation stands still; then all of them are dropped together. The cache is limited by bytes: the route of a topic that
lives on a hundred brokers takes 17 KB, and no number of topics may eat the machine.
"""

from __future__ import annotations

from skyrocketmq.nameserver.routes import RouteTables
from skyrocketmq.wire.bodies_routes import encode_route

__all__ = ["RouteBodies"]

CACHE_BYTES_MAX = 8 * 1024 * 1024

_Key = tuple[str, str | None, bool]


class RouteBodies:
    """The encoded routes of some tables."""

    def __init__(self, tables: RouteTables, *, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._tables = tables
        self._cache_bytes_max = cache_bytes_max
        self._generation = tables.generation
        self._bodies: dict[_Key, bytes] = {}
        self._cached_bytes = 0

    def find(self, topic: str, *, order_conf: str | None, is_standard: bool) -> bytes | None:
        """The route of a topic in the form the client reads; `None` if there is none."""
        if self._generation != self._tables.generation:
            self._drop()
        key = (topic, order_conf, is_standard)
        body = self._bodies.get(key)
        if body is None:
            route = self._tables.find_route(topic, order_conf=order_conf)
            if route is None:
                return None
            body = encode_route(route, standard_json=is_standard)
            self._keep(key, body)
        return body

    def _keep(self, key: _Key, body: bytes) -> None:
        if self._cached_bytes + len(body) > self._cache_bytes_max:
            self._drop()
        self._bodies[key] = body
        self._cached_bytes += len(body)

    def _drop(self) -> None:
        self._bodies.clear()
        self._cached_bytes = 0
        self._generation = self._tables.generation
