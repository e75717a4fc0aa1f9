"""Which functions of ours a request passes through, recorded by the interpreter while a broker handles it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType

import skyrocketmq
from skyrocketmq.wire.frames import Frame
from tests.broker.house import Peer

SOURCE = str(Path(skyrocketmq.__file__).parent)
TURNS = 10  # of the loop: enough for any request that does not wait


async def walk(peer: Peer, frame: Frame, *, inside: frozenset[str] = frozenset()) -> list[str]:
    """The functions, as `module:name`, in the order of their calls; those only that `inside` names, and what they call.

    The broker runs in this process, by a clock that stands still: nothing happens in it but this request.
    """
    calls: list[str] = []
    entered: list[FrameType] = []

    def profile(called: FrameType, event: str, _: object) -> None:
        code = called.f_code
        if event == "return" and entered and entered[-1] is called:
            entered.pop()
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        name = f"{Path(code.co_filename).stem}:{code.co_qualname}"
        if name in inside and not entered:
            entered.append(called)
        if (entered or not inside) and not code.co_filename.startswith(f"{SOURCE}/testing"):
            calls.append(name)

    await peer.write(frame)
    sys.setprofile(profile)
    try:
        for _ in range(TURNS):
            await asyncio.sleep(0)
    finally:
        sys.setprofile(None)
    answer = await peer.next()
    assert answer.code == 0, answer.remark
    return calls
