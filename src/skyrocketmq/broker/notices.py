"""Telling the members of a consumer group that one of them came or went, so that they share the queues anew at once.

Changes within `DELAY_S` make one notice: when a group of a thousand starts, each arrival concerns all that are there
already, and a notice for each would be half a million. A notice is one-way, and a member that does not read is passed
over: it looks every 20 seconds anyway. Many notices go out in slices; a group that changes again meanwhile has its next
one when these are out, so that they never pile up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from skyrocketmq.broker.clients import Member
from skyrocketmq.errors import NetError
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Timer
from skyrocketmq.slices import run_slice
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame

__all__ = ["ChangeNotices"]

logger = logging.getLogger(__name__)

DELAY_S = 0.02


class ChangeNotices:
    """Collects groups that changed, and notifies their members (code 40). `close` drops what is yet to be sent."""

    def __init__(self, members_of: Callable[[str], Iterable[Member[Connection]]], *, clock: Clock) -> None:
        self._members_of = members_of
        self._clock = clock
        self._groups: dict[str, None] = {}
        self._sending: Iterator[None] | None = None  # the rest of the notices that are on their way
        self._timer: Timer | None = None
        self._is_closed = False

    def add(self, group: str) -> None:
        """The group has changed."""
        if self._is_closed:
            return
        self._groups[group] = None
        if self._timer is None:
            self._timer = self._clock.call_later(DELAY_S, self._send)

    def close(self) -> None:
        self._is_closed = True
        self._groups.clear()
        self._sending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        self._timer = None
        if self._sending is None:
            groups, self._groups = self._groups, {}
            self._sending = self._notify_all(groups)
        if run_slice(self._sending, self._clock):
            self._timer = self._clock.call_later(0, self._send)
            return
        self._sending = None
        if self._groups:
            self._timer = self._clock.call_later(DELAY_S, self._send)

    def _notify_all(self, groups: Iterable[str]) -> Iterator[None]:
        for group in groups:
            for member in self._members_of(group):
                self._notify(group, member)
                yield

    def _notify(self, group: str, member: Member[Connection]) -> None:
        frame = Frame(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": group})
        try:
            member.connection.send_oneway(frame)
        except NetError as error:
            logger.debug("notice not sent", extra={"group": group, "client": member.client_id, "reason": str(error)})
