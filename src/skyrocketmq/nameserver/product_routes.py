"""Routes of the product environment, for a name server of a test cluster.

With `clusterTest` a name server that does not know a topic asks the name servers of the environment `productEnvName`.
Their addresses come from the address server, under that environment's name, and are asked for again every two minutes.
"""

from __future__ import annotations

import logging

from skyrocketmq.errors import MQError, NetError
from skyrocketmq.net import Client
from skyrocketmq.net.address_server import fetch_addresses
from skyrocketmq.ports import Clock, Link
from skyrocketmq.wire import headers_namesrv as headers
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import encode_header

__all__ = ["ProductRoutes"]

logger = logging.getLogger(__name__)

ADDRESSES_GOOD_S = 120.0
REQUEST_TIMEOUT_S = 3.0


class ProductRoutes:
    """Asks the product environment's name servers, one after the other, until one answers."""

    def __init__(self, address_url: str, *, client: Client, clock: Clock, link: Link) -> None:
        self._address_url = address_url
        self._client = client
        self._clock = clock
        self._link = link
        self._addresses: list[str] = []
        self._asked_at: float | None = None

    async def answer(self, frame: Frame, topic: str, *, is_standard: bool) -> Frame:
        """The product environment's answer to a route question, under the question's number."""
        header = headers.GetRouteInfoHeader(topic=topic, accept_standard_json_only=True if is_standard else None)
        tried = []
        for address in await self._known_addresses():
            question = Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=encode_header(header), version=frame.version)
            try:
                answer = await self._client.request(address, question, REQUEST_TIMEOUT_S)
            except NetError as error:
                tried.append(f"{address} ({error})")
                continue
            return frame.reply(answer.code, remark=answer.remark, body=answer.body)
        asked = ", ".join(tried) or f"none: {self._address_url} names no name server"
        remark = f"no route for topic {topic} here, and the product environment was asked in vain: {asked}"
        return frame.reply(ResponseCode.TOPIC_NOT_EXIST, remark=remark)

    async def _known_addresses(self) -> list[str]:
        now = self._clock.monotonic()
        if self._asked_at is None or now - self._asked_at >= ADDRESSES_GOOD_S:
            self._asked_at = now
            try:
                self._addresses = await fetch_addresses(self._address_url, link=self._link, clock=self._clock)
            except MQError as error:
                logger.warning("product environment unknown", extra={"url": self._address_url, "cause": str(error)})
        return list(self._addresses)
