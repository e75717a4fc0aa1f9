"""Producers and consumers, for our brokers and for Apache's.

What users see, each in a module of its name: `Producer`, `PushConsumer`, `PullConsumer`, `LitePullConsumer`, with
`Message`, `SendResult` and `ConsumeResult`; `ConsumerHealth` and `ConnectionChange` tell how a client is doing, and a
`ClientHook` stands around all that is sent and handled. `skyrocketmq.blocking` has the same for code that blocks.

The rules come first, each in a module of its own that takes values and returns values: who reads which queue
(`allocation`), where a message goes (`selectors`, `queue_choice`, `fault_table`), what travels (`outgoing`, `batches`),
what a route means (`route_rules`), what is in memory and when to fetch more (`message_cache`, `flow_control`), what is
consumed (`offset_store`), what is subscribed (`message_selector`, `subscription`).

Then what clients share: `settings`, `identity`, `name_servers`, `routes`, `heartbeats`, `broker_calls`,
`broker_requests`, put together in `instance`; `sharing` says who uses which, `life` how a client starts and ends.

A message on its way out: `producer` with `producer_life`, `auto_batch`, `compressing`, `send_window`, `sending`; in a
transaction: `transaction_producer`, `transactions`; one that asks for a reply: `requester`, `replies`,
`waiting_replies`. On its way in: `rebalance` gives a consumer its queues (`held_queue`), `pulls` and `push_pulling`
fetch, `deliveries` cuts what came into calls, `consume_concurrently` or `consume_orderly` has them handled
(`handler_calls`, `handler_threads`), `send_back` passes on what failed; `push_member` puts these together,
`lite_member` and `lite_queues` those of the lite pull consumer. What traces say about messages: `tracing`,
`trace_messages`, `trace_sending`, `trace_consuming`.
"""

from __future__ import annotations

from skyrocketmq.client.batches import split_batches
from skyrocketmq.client.connection_changes import ConnectionChange
from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.consumer_health import BrokerHealth, ConsumerHealth, QueueHealth
from skyrocketmq.client.flow_control import PullGate
from skyrocketmq.client.hooks import ClientHook, HandlerCall, SendCall
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.message_selector import MessageSelector
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.pulls import PullResult, PullStatus
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.replies import reply_message
from skyrocketmq.client.selectors import select_by_hash, select_by_machine_room, select_random
from skyrocketmq.client.send_result import SendResult, SendStatus
from skyrocketmq.client.settings import Credentials
from skyrocketmq.client.transaction_producer import TransactionProducer
from skyrocketmq.client.transactions import Transaction, TransactionResult, TransactionState

__all__ = [
    "BrokerHealth",
    "ClientHook",
    "ConnectionChange",
    "ConsumeResult",
    "ConsumerHealth",
    "Credentials",
    "HandlerCall",
    "LitePullConsumer",
    "MessageSelector",
    "Producer",
    "PullConsumer",
    "PullGate",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "QueueHealth",
    "SendCall",
    "SendResult",
    "SendStatus",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "reply_message",
    "select_by_hash",
    "select_by_machine_room",
    "select_random",
    "split_batches",
]
