"""A producer's options, what it is made of while it is open, and what the client instance asks it.

`producer` is what it does: sending, requests, replies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Unpack

from skyrocketmq.client.auto_batch import AutoBatch
from skyrocketmq.client.compressing import Compressor
from skyrocketmq.client.hooks import default_hooks
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.life import ClientLife
from skyrocketmq.client.namespaces import Namespace
from skyrocketmq.client.outgoing import MESSAGE_BYTES_MAX, Compression
from skyrocketmq.client.requester import Requester
from skyrocketmq.client.send_window import IN_FLIGHT_MAX, SendWindow
from skyrocketmq.client.sending import Sender, SendOptions
from skyrocketmq.client.settings import Doors, SharedOptions, settings_from
from skyrocketmq.client.sharing import join_producer, leave_producer
from skyrocketmq.client.trace_sending import TracedSender
from skyrocketmq.client.tracing import Tracer, trace_topic_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import CompressionType
from skyrocketmq.model.names import AUTO_CREATE_TOPIC, check_client_group
from skyrocketmq.wire.compression import COMPRESS_FROM_BYTES, COMPRESS_LEVEL

__all__ = ["ProducerLife"]


class ProducerLife(ClientLife):
    """A producer that starts, is part of a client instance, and ends; `Producer` says what its options mean."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        send_timeout_s: float = 3.0,
        retry_count_max: int = 2,
        retry_unsafe: bool = False,
        avoid_slow_brokers: bool = False,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        compress_from_bytes: int = COMPRESS_FROM_BYTES,
        compression: CompressionType | str = CompressionType.ZLIB,
        compress_level: int = COMPRESS_LEVEL,
        template: str = AUTO_CREATE_TOPIC,
        template_queue_nums: int = 4,
        in_flight_max: int = IN_FLIGHT_MAX,
        trace: bool | str = False,
        auto_batch: bool = False,
        **shared: Unpack[SharedOptions],
    ) -> None:
        check_client_group(group)
        if retry_count_max < 0:
            raise IllegalArgument(f"retry_count_max = {retry_count_max} is below 0")
        super().__init__(group, kind="producer")
        self._settings = settings_from(namesrv, shared, environ=os.environ)
        self._doors = Doors.of(shared)
        self._hooks = (*default_hooks, *shared.get("hooks", ()))
        self._on_connection_change = shared.get("on_connection_change")
        self._window = SendWindow(in_flight_max)
        self._timeout_s = send_timeout_s
        self._bytes_max = message_bytes_max
        self._compressor = Compressor(
            Compression.checked(compress_from_bytes, compression, compress_level), self._doors.machine
        )
        self._options = SendOptions(
            retry_count_max=retry_count_max,
            retry_unsafe=retry_unsafe,
            avoid_slow_brokers=avoid_slow_brokers,
            template=template,
            template_queue_nums=template_queue_nums,
        )
        self._trace_topic = trace_topic_of(trace)
        self._names = Namespace(self._settings.namespace)
        self._instance: ClientInstance | None = None
        self._sender: Sender | None = None
        self._requester: Requester | None = None
        self._tracer: Tracer | None = None
        self._is_batching = auto_batch
        self._auto_batch: AutoBatch | None = None

    async def _open(self, opened: AsyncExitStack) -> None:
        """Brokers are connected to with the first message."""
        instance = await join_producer(self, self._settings, doors=self._doors)
        opened.push_async_callback(leave_producer, self, instance)
        opened.callback(instance.watch_connections(self._on_connection_change))
        self._instance = instance
        if self._trace_topic is None:
            self._sender = Sender(instance, self.wire_group, self._options)
        else:
            self._tracer = Tracer(instance, self.wire_group, kind="PRODUCE", topic=self._trace_topic)
            opened.push_async_callback(self._tracer.close)
            self._sender = TracedSender(self._tracer, self.wire_group, self._options)
        if self._is_batching:
            self._auto_batch = AutoBatch(
                instance,
                self._sender,
                timeout_s=self._timeout_s,
                bytes_max=self._bytes_max,
                compression=self._compressor.compression,
                namespace=self._names.name,
            )
        self._requester = Requester(instance, self._sender)
        opened.callback(self._requester.close)
        self._window.open()
        opened.push_async_callback(self._window.finish)
        instance.heartbeats.send_soon()

    def _closed(self) -> None:
        """Sends that are under way have failed by now."""
        self._instance = self._sender = self._requester = self._tracer = self._auto_batch = None
        self._compressor.close()

    @property
    def client_id(self) -> str:
        """Who this producer is to the brokers; known once it is started."""
        return self._started()[0].client_id

    @property
    def tracer(self) -> Tracer | None:
        """Who sends its traces, while it is open and if it makes any; says how many were dropped."""
        return self._tracer

    def _started(self) -> tuple[ClientInstance, Sender]:
        if self._instance is None or self._sender is None:
            raise self._not_started()
        return self._instance, self._sender

    # -------------------------------------------------------------------------------------- for the client instance

    @property
    def wire_group(self) -> str:
        return self._names.wrap(self.group)

    def topics(self) -> Iterable[str]:
        if self._sender is None or self._requester is None:
            return ()
        traces = self._tracer.topics if self._tracer is not None else ()
        return {*self._sender.topics, *self._requester.topics, *traces}
