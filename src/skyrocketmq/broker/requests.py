"""Every request that a broker answers, as its handlers declare it, and what each needs of its account.

A new request is declared where it is answered, and is in these tables then. A new class of handlers is made in `parts`,
and named here under the heading that its requests have in docs/formats/requests.md.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.broker.access_rules import Needs
from skyrocketmq.broker.handlers_access import AccessHandlers
from skyrocketmq.broker.handlers_cells import CellHandlers
from skyrocketmq.broker.handlers_cleaning import CleaningHandlers
from skyrocketmq.broker.handlers_clients import ClientHandlers
from skyrocketmq.broker.handlers_config import ConfigHandlers
from skyrocketmq.broker.handlers_differences import DifferenceHandlers
from skyrocketmq.broker.handlers_groups import GroupHandlers
from skyrocketmq.broker.handlers_locks import LockHandlers
from skyrocketmq.broker.handlers_offsets import OffsetHandlers
from skyrocketmq.broker.handlers_progress import ProgressHandlers
from skyrocketmq.broker.handlers_queries import QueryHandlers
from skyrocketmq.broker.handlers_relay import RelayHandlers
from skyrocketmq.broker.handlers_runtime import RuntimeHandlers
from skyrocketmq.broker.handlers_topics import TopicHandlers
from skyrocketmq.broker.handlers_transactions import TransactionHandlers
from skyrocketmq.broker.pull import PullHandler
from skyrocketmq.broker.replies import ReplyHandler
from skyrocketmq.broker.send_back import SendBackHandler
from skyrocketmq.broker.send_handler import SendHandler
from skyrocketmq.net import Declaration, declared_by

__all__ = ["HANDLERS", "NEEDS", "REQUESTS"]

HANDLERS: Final[dict[str, tuple[type, ...]]] = {
    "Messages": (SendHandler, ReplyHandler, SendBackHandler, PullHandler, QueryHandlers, TransactionHandlers),
    "Offsets and progress": (OffsetHandlers, ProgressHandlers, RelayHandlers, CellHandlers),
    "Topics, clients and groups": (TopicHandlers, ClientHandlers, LockHandlers, GroupHandlers, DifferenceHandlers),
    "Administration of a broker": (ConfigHandlers, RuntimeHandlers, CleaningHandlers, AccessHandlers),
}
REQUESTS: Final[dict[int, Declaration]] = declared_by(*(cls for classes in HANDLERS.values() for cls in classes))
NEEDS: Final = {code: declared.needs for code, declared in REQUESTS.items() if isinstance(declared.needs, Needs)}
assert NEEDS.keys() == REQUESTS.keys(), "each says who may send it"
