"""How a slave of ours shows its master who it is, before its first report. Ours alone; see `replication` for the rest.

    slave     | -1 8 |                                                I can sign
    master    | -1 8 | 32 4 | challenge 32 |                          then sign this
    slave     | -2 8 | length 4 | JSON: accessKey, brokerName, signature |

Rule 1: Apache's master takes -1 for a slave that has not said yet where it is, and goes on waiting. So a slave may
offer to sign without knowing who its master is, and goes on without if nothing is asked.
Rule 2: a challenge is used for one connection. Who has heard a signature cannot use it again.
Rule 3: the master speaks only after the slave has offered to sign: Apache's slaves take whatever comes for the log.
"""

from __future__ import annotations

import hmac
from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.replication import PIECE_HEAD_BYTES, REPORT_BYTES, encode_piece_head, encode_report

__all__ = [
    "CHALLENGE_BYTES",
    "HELLO",
    "GreetingDecoder",
    "Introduction",
    "decode_challenge",
    "encode_challenge",
    "encode_introduction",
    "is_signed_with",
    "sign_introduction",
]

_NUMBER: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_HELLO_NUMBER: Final = -1
_INTRODUCTION_NUMBER: Final = -2
CHALLENGE_BYTES: Final = 32
INTRODUCTION_BYTES_MAX: Final = 4096
_PURPOSE: Final = b"skyrocketmq replication\0"  # so that no signature for anything else is one for this

HELLO: Final = encode_report(_HELLO_NUMBER)


class Introduction(msgspec.Struct, frozen=True, rename="camel"):
    """Who a slave says that it is."""

    access_key: str
    broker_name: str
    signature: str


def encode_challenge(challenge: bytes) -> bytes:
    assert len(challenge) == CHALLENGE_BYTES, "a challenge has a fixed size"
    return encode_piece_head(_HELLO_NUMBER, CHALLENGE_BYTES) + challenge


def decode_challenge(data: bytes) -> bytes | None:
    """The challenge in all that a master has sent so far; None if there is more to come. Raises `ProtocolError`."""
    head = encode_piece_head(_HELLO_NUMBER, CHALLENGE_BYTES)
    if data[:PIECE_HEAD_BYTES] != head[: len(data)] or len(data) > PIECE_HEAD_BYTES + CHALLENGE_BYTES:
        raise ProtocolError("the master sent something else than a challenge before it was asked for its log")
    return data[PIECE_HEAD_BYTES:] if len(data) == PIECE_HEAD_BYTES + CHALLENGE_BYTES else None


def sign_introduction(challenge: bytes, *, access_key: str, secret_key: str, broker_name: str) -> Introduction:
    return Introduction(access_key, broker_name, _signature(challenge, access_key, broker_name, secret_key))


def is_signed_with(secret_key: str, introduction: Introduction, challenge: bytes) -> bool:
    """Whether the secret was used on this challenge; takes the same time for any wrong one."""
    expected = _signature(challenge, introduction.access_key, introduction.broker_name, secret_key)
    return hmac.compare_digest(expected.encode(), introduction.signature.encode("utf-8", "replace"))


def _signature(challenge: bytes, access_key: str, broker_name: str, secret_key: str) -> str:
    names = b"".join(_LENGTH.pack(len(name)) + name for name in (access_key.encode(), broker_name.encode()))
    return hmac.digest(secret_key.encode(), _PURPOSE + challenge + names, "sha256").hex()


def encode_introduction(introduction: Introduction) -> bytes:
    body = msgspec.json.encode(introduction)
    return _NUMBER.pack(_INTRODUCTION_NUMBER) + _LENGTH.pack(len(body)) + body


class GreetingDecoder:
    """Reads what comes before a slave's first report: offers to sign, and an introduction."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> tuple[list[Introduction | None], bytes]:
        """What is said with these bytes, None for an offer; and what follows if reports have begun.

        Raises `ProtocolError`.
        """
        data = self._rest + data
        said: list[Introduction | None] = []
        at = 0
        while len(data) - at >= REPORT_BYTES:
            (number,) = _NUMBER.unpack_from(data, at)
            if number == _HELLO_NUMBER:
                said.append(None)
                at += REPORT_BYTES
                continue
            if number != _INTRODUCTION_NUMBER:
                self._rest = b""
                return said, data[at:]
            body_at = at + REPORT_BYTES + _LENGTH.size
            if len(data) < body_at:
                break
            (body_bytes,) = _LENGTH.unpack_from(data, at + REPORT_BYTES)
            if not 0 < body_bytes <= INTRODUCTION_BYTES_MAX:
                raise ProtocolError(f"a slave announces {body_bytes} bytes about itself")
            if len(data) - body_at < body_bytes:
                break
            said.append(_decode_introduction(data[body_at : body_at + body_bytes]))
            at = body_at + body_bytes
        self._rest = data[at:]
        return said, b""


def _decode_introduction(body: bytes) -> Introduction:
    try:
        return msgspec.json.decode(body, type=Introduction)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"what a slave says about itself cannot be read: {error}") from error
