"""RocketMQ in Python: name server, broker, clients, tools and a data pipeline.

The packages, each importing only what stands above it:

    errors, ports       one exception tree; clock, disk and link as protocols
    config, model       typed configuration; the values of the domain
    hot                 what runs for every message, compiled where that is possible
    wire, filters       bytes to values and back; tag and SQL92 filters      (pure: no socket, thread, clock or file)
    store, net          the commit log and what is derived from it; connections
    access              accounts, and whose request it is
    nameserver, broker  the two servers
    client, admin       producers and consumers; administration
    idempotence         handling each message once
    dashboard, spark    the faces
    embedded, testing   everything in one process; a broker in a test
    cli                 the `skyrocketmq` command

What applications use stands here, and is loaded when it is first asked for:

    from skyrocketmq import Message, Producer, PushConsumer, ConsumeResult

Nothing is logged anywhere unless the application sets up `logging`.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skyrocketmq.admin.admin import Admin
    from skyrocketmq.client.batches import split_batches
    from skyrocketmq.client.consume_result import ConsumeResult
    from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
    from skyrocketmq.client.message_selector import MessageSelector
    from skyrocketmq.client.producer import Producer
    from skyrocketmq.client.pull_consumer import PullConsumer
    from skyrocketmq.client.push_consumer import PushConsumer
    from skyrocketmq.client.replies import reply_message
    from skyrocketmq.client.send_result import SendResult, SendStatus
    from skyrocketmq.client.settings import Credentials
    from skyrocketmq.client.transaction_producer import TransactionProducer
    from skyrocketmq.client.transactions import Transaction, TransactionResult, TransactionState
    from skyrocketmq.model import Message, MessageQueue, MessageView

__all__ = [
    "Admin",
    "ConsumeResult",
    "Credentials",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "MessageSelector",
    "MessageView",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
    "SendStatus",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "__version__",
    "reply_message",
    "split_batches",
]

__version__ = "0.1.0"

_HOMES: Final = {
    "Admin": "skyrocketmq.admin.admin",
    "ConsumeResult": "skyrocketmq.client.consume_result",
    "Credentials": "skyrocketmq.client.settings",
    "LitePullConsumer": "skyrocketmq.client.lite_pull_consumer",
    "Message": "skyrocketmq.model",
    "MessageQueue": "skyrocketmq.model",
    "MessageSelector": "skyrocketmq.client.message_selector",
    "MessageView": "skyrocketmq.model",
    "Producer": "skyrocketmq.client.producer",
    "PullConsumer": "skyrocketmq.client.pull_consumer",
    "PushConsumer": "skyrocketmq.client.push_consumer",
    "SendResult": "skyrocketmq.client.send_result",
    "SendStatus": "skyrocketmq.client.send_result",
    "Transaction": "skyrocketmq.client.transactions",
    "TransactionProducer": "skyrocketmq.client.transaction_producer",
    "TransactionResult": "skyrocketmq.client.transactions",
    "TransactionState": "skyrocketmq.client.transactions",
    "reply_message": "skyrocketmq.client.replies",
    "split_batches": "skyrocketmq.client.batches",
}

logging.getLogger(__name__).addHandler(logging.NullHandler())


if not TYPE_CHECKING:  # a checker would believe that the module has every name

    def __getattr__(name: str) -> object:
        """Load what applications use when they use it: a broker or a tool need not load the client."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
