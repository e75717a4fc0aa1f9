"""Sends that need no decision: from received bytes into the open batch, and their answers once it is committed.

The work a message costs is done by `hot.SendReader`, which takes all such sends of a buffer in one call, and by
`hot.SendAnswers`. Here is what they need to know, and what becomes of the answers.

Rule 1: an answer leaves only when its message is stored as safely as the broker's settings and the message ask for.
Rule 2: a failed write is answered with the reason to those whose messages it could not store, and to nobody else.
Rule 3: a topic is opened for such sends only if it exists, clients may send to it, and it is in its file: nobody could
read messages of a topic that a crash takes away. When topics or the configuration change, they are opened anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.send_rules import put_status_answer, put_status_code
from skyrocketmq.broker.turn import Turn
from skyrocketmq.config import BrokerConfig
from skyrocketmq.hot import SendAnswers, SendReader, SendTopic
from skyrocketmq.hot.layout import TICKET_BINARY, TICKET_HASTY
from skyrocketmq.hot.send_reader import NO_ROOM, OTHER, UNKNOWN
from skyrocketmq.model import TopicConfig, TopicFilterType
from skyrocketmq.model.flags import MULTI_TAGS
from skyrocketmq.net import Connection
from skyrocketmq.store import Batch, MessageStore, Outcome, Refusal
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.wire.codes import VERSION_4_9_7, Language
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame

__all__ = ["OrdinarySends"]

_TICKET: Final = Struct(">iBiqq")  # as `hot.layout` draws it
_PYTHON: Final = int(Language.PYTHON)
_PUT_OK: Final = PutStatus.PUT_OK


class OrdinarySends:
    """Takes the ordinary sends of all connections of a broker.

    `find_topic` gives a topic that such sends may go to, or None.
    """

    def __init__(
        self,
        store: MessageStore,
        durability: Durability,
        turn: Turn,
        find_topic: Callable[[str], TopicConfig | None],
        *,
        store_host: bytes,
        config: BrokerConfig,
    ) -> None:
        self.stop = OTHER  # why the last `take` went no farther: see `hot.send_reader`
        self._store = store
        self._durability = durability
        self._turn = turn
        self._find_topic = find_topic
        self._store_host = store_host
        self._batch: Batch | None = None  # the one that `_waiting` belongs to
        self._waiting: list[tuple[Connection, bytes, bool]] = []  # (whose, tickets, whether there are hasty ones)
        self.apply_config(config)

    def apply_config(self, config: BrokerConfig) -> None:
        """Follow a configuration that has changed."""
        region = config.region_id.encode("utf-8", "replace")
        self._accept_from_ms = config.start_accept_send_at_ms
        # Cells that lead to units of extension files are made in the general way.
        self._is_open = self._store.extensions is None
        self._reader = SendReader(
            cluster=config.cluster_name.encode(),
            store_host=self._store_host,
            body_bytes_max=config.store.message_bytes_max,
        )
        self._fields = {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
        self._answers = SendAnswers(
            host_id=self._store_host.hex().upper().encode(),
            region=region,
            region_json=msgspec.json.encode(region.decode()),
            trace_on=b"true" if config.trace_on else b"false",
            version=VERSION_4_9_7,
        )

    def forget_topics(self, names: Iterable[str]) -> None:
        """These topics have changed."""
        for name in names:
            self._reader.topics.pop(name.encode("utf-8", "replace"), None)

    def take(self, data: bytes, at: int, connection: Connection, *, only_one: bool = False) -> int:
        """Add the ordinary sends of a buffer from `at` on; returns where it stopped, and `stop` says why."""
        batch = self._turn.begin()
        if batch.refusal is not None or not self._is_open or batch.now_ms < self._accept_from_ms:
            self.stop = OTHER
            return at
        reader = self._reader
        while True:
            at = reader.take(data, at, batch.records, connection.peer_host, only_one)
            self.stop = reader.stop
            if reader.stop == UNKNOWN and self._open_queue(reader.unknown_topic, reader.unknown_queue):
                continue
            if reader.stop == NO_ROOM and self._store.writer.make_room(batch, reader.needed) is None:
                continue
            break
        has_hasty = reader.has_hasty
        tickets = reader.take_tickets()
        if tickets:
            if batch is not self._batch:
                self._batch = batch
                batch.on_end(self._answer)
            self._waiting.append((connection, tickets, has_hasty))
        self._turn.commit_if_large(batch)
        return at

    def _open_queue(self, topic_bytes: bytes, queue_id: int) -> bool:
        """Whether ordinary sends may go to this queue."""
        name = topic_bytes.decode("utf-8", "replace")
        opened = self._reader.topics.get(topic_bytes)
        if opened is None:
            topic = self._find_topic(name)
            if topic is None:
                return False
            extra_sys_flag = MULTI_TAGS if topic.topic_filter_type is TopicFilterType.MULTI_TAG else 0
            opened = SendTopic(max(topic.read_queue_nums, topic.write_queue_nums), extra_sys_flag)
            self._reader.topics[topic_bytes] = opened
        if not 0 <= queue_id < len(opened.queues):
            return False
        opened.queues[queue_id] = self._store.queue(name, queue_id)
        return True

    # ------------------------------------------------------------------------------------------------------ answering

    def _answer(self, outcome: Outcome) -> None:
        """The batch is committed: answer those who need not wait any longer, and the others in time."""
        waiting, self._waiting = self._waiting, []
        self._batch = None
        if outcome.refusal is not None:
            waiting = [self._refuse(each, outcome, outcome.refusal) for each in waiting]
        if self._durability.is_at_once:
            self._send(waiting, _PUT_OK)
            return
        patient: list[tuple[Connection, bytes, bool]] = []
        for connection, tickets, has_hasty in waiting:
            if has_hasty:
                hasty, tickets = _split(tickets, lambda kind, _: kind & TICKET_HASTY != 0)
                self._send([(connection, hasty, True)], _PUT_OK)
            patient.append((connection, tickets, False))
        self._durability.when_safe(int(outcome.end), lambda status: self._send(patient, status))

    def _send(self, waiting: list[tuple[Connection, bytes, bool]], status: PutStatus) -> None:
        code = put_status_code(status)
        for connection, tickets, _ in waiting:
            if tickets:
                connection.send_now(self._answers.write(tickets, code, _PYTHON))

    def _refuse(
        self, waiting: tuple[Connection, bytes, bool], outcome: Outcome, refusal: Refusal
    ) -> tuple[Connection, bytes, bool]:
        """Answer those sends whose messages are not stored; returns the others."""
        connection, tickets, has_hasty = waiting
        lost, stored = _split(tickets, lambda _, log_offset: log_offset >= outcome.failed_from)
        for opaque, kind, _, _, _ in _TICKET.iter_unpack(lost):
            encoding = Encoding.BINARY if kind & TICKET_BINARY else Encoding.JSON
            request = Frame(0, opaque, encoding=encoding)
            answer = put_status_answer(request, refusal.status, refusal.remark)
            answer.ext = dict(self._fields)
            connection.send_now(encode_frame(answer))
        return connection, stored, has_hasty


def _split(tickets: bytes, is_first: Callable[[int, int], bool]) -> tuple[bytes, bytes]:
    """Tickets in two parts, by their kind and log offset."""
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for at in range(0, len(tickets), _TICKET.size):
        ticket = tickets[at : at + _TICKET.size]
        _, kind, _, _, log_offset = _TICKET.unpack(ticket)
        parts[0 if is_first(kind, log_offset) else 1].append(ticket)
    return b"".join(parts[0]), b"".join(parts[1])
