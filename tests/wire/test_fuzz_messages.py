"""A short fuzz of the message codecs: inputs damaged in the ways that disks, networks and attackers damage them."""

from __future__ import annotations

import random

import pytest

from skyrocketmq.errors import ProtocolError
from tests.wire.fuzz_messages import TARGETS, Target

INPUTS = 300


def damaged(seed: bytes, rng: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                data[at:] = b""
            case 2:
                data[at : at + rng.randint(0, 4)] = rng.choice(
                    (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff\xff")
                )
            case 3:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                data += data[at:]
    return bytes(data)


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_damaged_input_gives_a_value_or_one_error(target: Target) -> None:
    rng = random.Random(target.name)
    for seed in target.seeds:
        target.decode(seed)  # the seeds themselves are understood
    for _ in range(INPUTS):
        data = damaged(rng.choice(target.seeds), rng)
        try:
            target.decode(data)
        except ProtocolError:
            pass
        except Exception as exc:
            raise AssertionError(f"{target.name} raised {exc!r} for {data.hex()}") from exc
