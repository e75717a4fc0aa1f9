"""How a broker shows who it is: to its name servers, and as a slave to its master.

With `brokerAccessKey` and `brokerSecretKey` every request that a broker sends by itself is signed, as clients sign
theirs. Without them nothing is signed, which is all that Apache's brokers can do.
"""

from __future__ import annotations

from skyrocketmq.config import BrokerConfig
from skyrocketmq.net.client import RequestHook
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.signing import sign_request

__all__ = ["request_signer"]


def request_signer(config: BrokerConfig) -> RequestHook | None:
    """What a `net.Client` of this broker calls before each request; None if the broker has no account."""
    if not config.access_key:
        return None

    def sign(address: str, frame: Frame) -> None:
        frame.ext = sign_request(
            frame.ext,
            frame.body,
            access_key=config.access_key,
            secret_key=config.secret_key,
            is_binary=frame.encoding is Encoding.BINARY,
        )

    return sign
