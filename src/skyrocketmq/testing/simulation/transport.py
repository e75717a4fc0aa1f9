"""One end of a simulated connection. `network` says what may happen to it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.testing.simulation.loop import Process

if TYPE_CHECKING:
    from skyrocketmq.testing.simulation.network import SimLink

__all__ = ["SimTransport"]

HICCUP_SHARE: Final = 0.01  # of what is written is late by up to HICCUP_S: what reorders connections
HICCUP_S: Final = 0.03


class SimTransport(asyncio.Transport):
    """`_sent` is what left here and has not arrived, each with the time at which it is due; None is the end."""

    def __init__(
        self,
        link: SimLink,
        process: Process | None,
        chance: random.Random,
        *,
        local: tuple[str, int],
        remote: tuple[str, int],
    ) -> None:
        super().__init__()
        self.link = link
        self.process = process
        self.context: Context | None = None if process is None else process.context
        self.peer: SimTransport
        self.protocol: Any = None
        self.is_dark = False  # its machine has lost power and knows nothing of it
        self._loop = link.net.loop
        self._chance = chance
        self._local = local
        self._remote = remote
        self._sent: deque[tuple[float, list[bytes] | None]] = deque()
        self._sent_bytes = 0
        self._written_at = -1.0
        self._due_at = 0.0
        self._is_armed = False
        self._is_closing = False
        self._is_lost = False  # the protocol has heard, or will not hear, of its end
        self._is_reading = True
        self._is_full = False
        self._high_bytes, self._low_bytes = 65536, 16384

    def begin(self, factory: Callable[[], asyncio.Protocol]) -> None:
        """In its process: there is a connection."""
        if not self._is_lost:
            self.protocol = factory()
            self.protocol.connection_made(self)
            self.peer.arm()

    # --------------------------------------------------------------------------------------------------------- sending

    def write(self, data: Any) -> None:
        if self._is_closing or self.is_dark or not len(data):
            return
        data = bytes(data)
        now = self._loop.time()
        if self._written_at == now and self._sent and self._sent[-1][1] is not None:
            self._sent[-1][1].append(data)  # written in one moment, it travels together
        else:
            self._written_at = now
            self._put(now, [data])
        self._sent_bytes += len(data)
        if self._sent_bytes > self._high_bytes and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def _put(self, now: float, item: list[bytes] | None) -> None:
        net, chance = self.link.net, self._chance
        low_s, high_s = net.latency_s
        delay_s = low_s + (high_s - low_s) * chance.random() + net.extra_s(self.link.node, self.peer.link.node)
        if chance.random() < HICCUP_SHARE:
            delay_s += HICCUP_S * chance.random()
        self._due_at = max(self._due_at, now + delay_s)
        self._sent.append((self._due_at, item))
        self.arm()

    def arm(self) -> None:
        """See to it that what is due arrives: in the process of the receiver, or in the kernel where that is gone."""
        if self._sent and not self._is_armed:
            self._is_armed = True
            context = self.link.net.context if self.peer._is_lost else self.peer.context
            self._loop.call_at(max(self._sent[0][0], self._loop.time()), self._arrive, context=context)

    def _arm_again(self) -> None:
        """The receiver's process is gone, and what it would have done with it."""
        self._is_armed = False
        self.arm()

    def _arrive(self) -> None:
        self._is_armed = False
        net, peer = self.link.net, self.peer
        if net.is_cut(self.link.node, peer.link.node) or (peer.is_dark and not peer.link.is_up):
            net.waiting[self] = None
            return
        if peer.is_dark:
            self._sent.clear()
            self._loop.call_later(self._chance.uniform(*net.latency_s), self.break_off, context=self.context)
            return
        if peer._is_lost:  # closed, or of a process that is gone: the kernel throws it away
            self._sent.clear()
            self._drained()
            return
        if not peer._is_reading or peer.protocol is None:
            return  # the peer arms it again
        parts: list[bytes] = []
        has_ended = False
        now = self._loop.time()
        while self._sent and self._sent[0][0] <= now and not has_ended:
            item = self._sent.popleft()[1]
            if item is None:
                has_ended = True
            else:
                parts += item
        if parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            self._sent_bytes -= len(data)
            if self._is_full and self._sent_bytes <= self._low_bytes:
                self._is_full = False
                self._loop.call_soon(self._resume_writing, context=self.context)
            peer.protocol.data_received(data)
        if has_ended and not peer._is_lost and not peer.protocol.eof_received():
            peer.close()
        if self._sent:
            self.arm()
        else:
            self._drained()

    def _resume_writing(self) -> None:
        if not self._is_lost:
            self.protocol.resume_writing()

    # ---------------------------------------------------------------------------------------------------------- ending

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._put(self._loop.time(), None)
            self._lose(None)

    def abort(self) -> None:
        """Ours at once; the peer hears of it as soon as the way is free."""
        if not self._is_lost:
            self._is_closing = True
            self._sent.clear()
            self._put(self._loop.time(), None)
            self._lose(None)

    def break_off(self) -> None:
        """Something between has broken the connection."""
        self._is_closing = True
        self._sent.clear()
        self._lose(ConnectionResetError("connection reset by peer"))
        self._drained()

    def orphan(self) -> None:
        """Its process is gone: the kernel ends the connection for it."""
        if not self._is_lost:
            self._is_lost = True
            self._is_closing = True
            self._put(self._loop.time(), None)
            self.peer._arm_again()

    def go_dark(self) -> None:
        self.is_dark = self._is_lost = self._is_closing = True
        self._sent.clear()
        self.link.transports.pop(self, None)
        self.peer._arm_again()

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            if self.protocol is not None:
                self._loop.call_soon(self.protocol.connection_lost, error, context=self.context)

    def _drained(self) -> None:
        if self._is_lost and not self._sent:
            self.link.transports.pop(self, None)

    # --------------------------------------------------------------------------------------------------------- reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.peer.arm()

    def is_reading(self) -> bool:
        return self._is_reading

    # --------------------------------------------------------------------------------------------------------- figures

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._remote
        return self._local if name == "sockname" else default

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = 65536 if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return self._sent_bytes

    def can_write_eof(self) -> bool:
        return False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol  # type: ignore[no-any-return]
